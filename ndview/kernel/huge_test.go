package kernel_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

func TestKernelsIndexBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	ndtest.OnHugeCUDA(t, 10, func(t *testing.T, dev *cudabuf.Device) {
		needNVRTC(t)
		a := ndtest.Periodic(t, dev, block, ndtest.HugeExtent)
		mix, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{Code: "r = x ^ (y << 1)"}, writes("r", ndview.Uint8), reads("x", ndview.Uint8), reads("y", ndview.Uint8))
		require.NoError(t, err)
		made, err := ndview.Empty(dev, ndview.Uint8, ndtest.HugeExtent-1)
		out := ndtest.Own(t, made, err)
		x, y := ndtest.View(t)(a.Index(ndview.Span(0, -1))), ndtest.View(t)(a.Index(ndview.Span(1, ndview.Open)))
		require.NoError(t, mix.Run(out, x, y))
		ndtest.RequirePeriodic(t, ndtest.Mapped(ndtest.Period, func(i int) byte { return block[i] ^ block[(i+1)%ndtest.Period]<<1 }), out)

		back := ndview.SpanStep(ndview.Open, ndview.Open, -1)
		require.NoError(t, mix.Run(ndtest.View(t)(out.Index(back)), y, x))
		want := ndtest.Mapped(ndtest.Period, func(i int) byte { return block[(i+1)%ndtest.Period] ^ block[i]<<1 })
		ndtest.RequirePeriodic(t, ndtest.Rotated(ndtest.Reversed(want), -(ndtest.HugeExtent-1)%ndtest.Period), out)

		counts, err := kernel.NewReduction(dev, kernel.ReductionSource{Out: ndview.Uint64, Neutral: "0", Reduce: "a + b", Map: "x == 77"}, reads("x", ndview.Uint8))
		require.NoError(t, err)
		count := func(bytes []byte) (n uint64) {
			for _, b := range bytes {
				n += uint64(ndtest.Truth(b == 77))
			}
			return n
		}
		all, err := counts.Of(nil, false, a)
		require.Equal(t, []uint64{ndtest.HugeExtent/ndtest.Period*count(block) + count(block[:ndtest.HugeExtent%ndtest.Period])}, ndtest.HostOf[uint64](t, ndtest.Own(t, all, err)))

		// Rows of a period, of which the last lie beyond 2^32.
		const rows = ndtest.HugeExtent / ndtest.Period
		matrix, err := ndtest.View(t)(a.Index(ndview.Span(0, rows*ndtest.Period))).Reshape(rows, ndtest.Period)
		ndtest.Own(t, matrix, err)
		each, err := counts.Of([]int{1}, false, matrix)
		require.Equal(t, slices.Repeat([]uint64{count(block)}, rows), ndtest.HostOf[uint64](t, ndtest.Own(t, each, err)))
		columns, err := counts.Of([]int{0}, false, matrix)
		for i, n := range ndtest.HostOf[uint64](t, ndtest.Own(t, columns, err)) {
			if n != rows*uint64(ndtest.Truth(block[i] == 77)) {
				require.Failf(t, "a wrong count", "column %d: %d", i, n)
			}
		}
	})
}
