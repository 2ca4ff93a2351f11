package kernel_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

func TestReductionTakesAnyAxes(t *testing.T) { onDevices(t, checkReductions) }

// squareSum is the sum of x * x + c.
func squareSum() kernel.ReductionSource {
	return kernel.ReductionSource{Out: ndview.Float64, Neutral: "0", Reduce: "a + b", Map: "x * x + c",
		Host: kernel.NewHostReduction(0, func(a, b float64) float64 { return a + b }, func(out []float64, x []float32, c int32) {
			for i := range out {
				out[i] = float64(x[i]*x[i] + float32(c))
			}
		})}
}

func checkReductions(t *testing.T, dev arrowbuf.Device) {
	values := make([]float32, 2*300*5)
	for i := range values {
		values[i] = float32(i % 97)
	}
	x := ndtest.FromHost(t, dev, ndview.Float32, values, 2, 300, 5)
	k, err := kernel.NewReduction(dev, squareSum(), reads("x", ndview.Float32), scalar("c", ndview.Int32))
	require.NoError(t, err)
	for mask := range 8 {
		var axes []int
		for axis := range 3 {
			if mask>>axis&1 != 0 {
				axes = append(axes, axis)
			}
		}
		if axes == nil {
			axes = []int{}
		}
		for _, operand := range []*ndview.NDBuffer{x, ndtest.View(t)(ndtest.View(t)(x.Transpose(2, 0, 1)).Transpose(1, 2, 0))} {
			got, err := k.Of(axes, true, operand, 1)
			ndtest.Own(t, got, err)
			want := make([]float64, got.Size())
			shape := got.Shape()
			for i, v := range values {
				at := []int64{int64(i / 1500), int64(i / 5 % 300), int64(i % 5)}
				place := int64(0)
				for axis, n := range shape {
					place = place*n + at[axis]%n
				}
				want[place] += float64(v)*float64(v) + 1
			}
			values, err := ndview.ToHost[float64](got)
			require.NoError(t, err)
			assert.Equal(t, want, values, "%v", axes)
		}
	}
	none := ndtest.FromHost(t, dev, ndview.Float32, []float32{}, 2, 0)
	got, err := k.Of([]int{1}, false, none, 1)
	ndtest.Own(t, got, err)
	assert.Equal(t, ndtest.Raw[float64](0, 0), ndtest.Elements(t, got), "no elements reduce to the neutral element")

	large := make([]float32, 1<<20)
	for i := range large {
		large[i] = 1
	}
	sum, err := k.Of(nil, false, ndtest.FromHost(t, dev, ndview.Float32, large, 1<<20), 0)
	ndtest.Own(t, sum, err)
	assert.Equal(t, ndtest.Raw[float64](1<<20), ndtest.Elements(t, sum), "several blocks for one result")

	into := ndtest.FromHost(t, dev, ndview.Float64, make([]float64, 4), 4)
	odd := ndtest.View(t)(into.Index(ndview.SpanStep(ndview.Open, ndview.Open, 2)))
	require.NoError(t, k.Into(odd, []int{0, 1}, ndtest.View(t)(x.Index(ndview.All, ndview.All, ndview.Span(0, 2))), 0))
	host, err := ndview.ToHost[float64](into)
	require.NoError(t, err)
	assert.NotZero(t, host[0])
	assert.Zero(t, host[1])
	assert.ErrorIs(t, k.Into(into, []int{0}, x, 0), ndview.ErrShape)
	assert.ErrorIs(t, k.Into(x, []int{0}, x, 0), ndview.ErrDType)
	_, err = k.Of([]int{3}, false, x, 0)
	assert.ErrorIs(t, err, ndview.ErrShape)
}
