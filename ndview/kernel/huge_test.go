package kernel_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

// hugeExtent is 2^32 + 262,147 elements: more than 32 bits count, and not a multiple of
// a vector.
const (
	hugeRows, hugeColumns = 65_537, 65_539
	hugeExtent            = hugeRows * hugeColumns
)

// onHugeCUDA runs a test on a GPU if tests use one and it has that much free memory.
func onHugeCUDA(t *testing.T, gib int64, test func(t *testing.T, dev *cudabuf.Device)) {
	t.Helper()
	t.Run("gpu", func(t *testing.T) {
		if !cudatest.OnGPU() {
			t.Skipf("needs %d GiB of GPU memory: set %s=cuda", gib, cudatest.Environment)
		}
		cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
			if free, _, err := dev.MemInfo(); err != nil || free < gib<<30 {
				t.Skipf("needs %d GiB of device memory, got %d free bytes (%v)", gib, free, err)
			}
			test(t, dev)
		})
	})
}

// period is the length of a pattern. It is a multiple of every element size. It divides
// no power of 2, so that a truncated index reads another value.
const period = 16 * 1048573

// pattern returns one period of random bytes.
func pattern() []byte {
	block := make([]byte, period)
	_, _ = rand.NewChaCha8([32]byte{4}).Read(block)
	return block
}

// periodic returns an array of n bytes that repeats a block.
func periodic(t *testing.T, dev arrowbuf.Device, block []byte, n int64) *ndview.NDBuffer {
	t.Helper()
	made, err := ndview.Empty(dev, ndview.Uint8, n)
	a := ndtest.Own(t, made, err)
	done, err := a.Buffer().CopyFromHost(block[:min(int64(len(block)), n)], 0)
	for ; err == nil && done < n; done *= 2 {
		var before arrowbuf.Buffer
		if before, err = a.Buffer().Slice(0, min(done, n-done)); err == nil {
			_, err = a.Buffer().CopyFromDevice(before, done)
			before.Release()
		}
	}
	require.NoError(t, err)
	return a
}

// requirePeriodic checks that a contiguous array repeats a block. It compares the first
// block on the host, and on the device the array with itself, shifted by a block.
func requirePeriodic(t *testing.T, block []byte, a *ndview.NDBuffer) {
	t.Helper()
	require.True(t, a.IsContiguous())
	n := a.NBytes()
	period := min(int64(len(block)), n)
	first, before, after := ndtest.At(t, a.Buffer(), ndview.Uint8, a.Offset(), period),
		ndtest.At(t, a.Buffer(), ndview.Uint8, a.Offset(), n-period), ndtest.At(t, a.Buffer(), ndview.Uint8, a.Offset()+period, n-period)
	ndtest.RequireBytes(t, block[:period], ndtest.Elements(t, first))
	same, err := before.Equal(after)
	require.NoError(t, err)
	if !same {
		differ, err := ndview.NotEqual.Of(before, after)
		where, err2 := ndview.ArgMax.Of(ndtest.Own(t, differ, err), ndview.ReduceOptions{})
		require.Failf(t, "bytes differ", "at %d of %d", ndtest.HostOf[int64](t, ndtest.Own(t, where, err2))[0]+period, n)
	}
}

// mapped returns n bytes, f(i) at index i.
func mapped(n int, f func(i int) byte) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// rotated returns a block rotated to begin with byte by.
func rotated(block []byte, by int64) []byte {
	n := int64(len(block))
	by = (by%n + n) % n
	return append(bytes.Clone(block[by:]), block[:by]...)
}

// reversed returns a reversed block.
func reversed(block []byte) []byte {
	return mapped(len(block), func(i int) byte { return block[len(block)-1-i] })
}

// truth returns 1 for true and 0 for false.
func truth(is bool) byte {
	if is {
		return 1
	}
	return 0
}

func TestKernelsIndexBeyond32Bits(t *testing.T) {
	block := pattern()
	onHugeCUDA(t, 10, func(t *testing.T, dev *cudabuf.Device) {
		needNVRTC(t)
		a := periodic(t, dev, block, hugeExtent)
		mix, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{Code: "r = x ^ (y << 1)"}, writes("r", ndview.Uint8), reads("x", ndview.Uint8), reads("y", ndview.Uint8))
		require.NoError(t, err)
		made, err := ndview.Empty(dev, ndview.Uint8, hugeExtent-1)
		out := ndtest.Own(t, made, err)
		x, y := ndtest.View(t)(a.Index(ndview.Span(0, -1))), ndtest.View(t)(a.Index(ndview.Span(1, ndview.Open)))
		require.NoError(t, mix.Run(out, x, y))
		requirePeriodic(t, mapped(period, func(i int) byte { return block[i] ^ block[(i+1)%period]<<1 }), out)

		back := ndview.SpanStep(ndview.Open, ndview.Open, -1)
		require.NoError(t, mix.Run(ndtest.View(t)(out.Index(back)), y, x))
		want := mapped(period, func(i int) byte { return block[(i+1)%period] ^ block[i]<<1 })
		requirePeriodic(t, rotated(reversed(want), -(hugeExtent-1)%period), out)

		counts, err := kernel.NewReduction(dev, kernel.ReductionSource{Out: ndview.Uint64, Neutral: "0", Reduce: "a + b", Map: "x == 77"}, reads("x", ndview.Uint8))
		require.NoError(t, err)
		count := func(bytes []byte) (n uint64) {
			for _, b := range bytes {
				n += uint64(truth(b == 77))
			}
			return n
		}
		all, err := counts.Of(nil, false, a)
		require.Equal(t, []uint64{hugeExtent/period*count(block) + count(block[:hugeExtent%period])}, ndtest.HostOf[uint64](t, ndtest.Own(t, all, err)))

		// Rows of a period, of which the last lie beyond 2^32.
		const rows = hugeExtent / period
		matrix, err := ndtest.View(t)(a.Index(ndview.Span(0, rows*period))).Reshape(rows, period)
		ndtest.Own(t, matrix, err)
		each, err := counts.Of([]int{1}, false, matrix)
		require.Equal(t, slices.Repeat([]uint64{count(block)}, rows), ndtest.HostOf[uint64](t, ndtest.Own(t, each, err)))
		columns, err := counts.Of([]int{0}, false, matrix)
		for i, n := range ndtest.HostOf[uint64](t, ndtest.Own(t, columns, err)) {
			if n != rows*uint64(truth(block[i] == 77)) {
				require.Failf(t, "a wrong count", "column %d: %d", i, n)
			}
		}
	})
}
