package kernel_test

import (
	"encoding/binary"
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

func TestReductionTakesAnyAxes(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		if isSimulated(t) {
			kernel.UseHostKernels(t, squareSumKernels(t))
		}
		needCompiler(t)
		checkReductions(t, dev)
	})
}

func checkReductions(t *testing.T, dev *cudabuf.Device) {
	values := make([]float32, 2*300*5)
	for i := range values {
		values[i] = float32(i % 97)
	}
	x := fromHost(t, dev, ndview.Float32, values, 2, 300, 5)
	k, err := kernel.NewReduction(dev, kernel.ReductionSource{Out: ndview.Float64, Neutral: "0", Reduce: "a + b", Map: "x * x + c"},
		reads("x", ndview.Float32), scalar("c", ndview.Int32))
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
		for _, operand := range []*ndview.NDBuffer{x, view(t)(view(t)(x.Transpose(2, 0, 1)).Transpose(1, 2, 0))} {
			got, err := k.Of(axes, true, operand, 1)
			own(t, got, err)
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
	none := fromHost(t, dev, ndview.Float32, []float32{}, 2, 0)
	got, err := k.Of([]int{1}, false, none, 1)
	own(t, got, err)
	assert.Equal(t, raw[float64](0, 0), elements(t, got), "no elements reduce to the neutral element")

	large := make([]float32, 1<<20)
	for i := range large {
		large[i] = 1
	}
	sum, err := k.Of(nil, false, fromHost(t, dev, ndview.Float32, large, 1<<20), 0)
	own(t, sum, err)
	assert.Equal(t, raw[float64](1<<20), elements(t, sum), "several blocks for one result")

	into := fromHost(t, dev, ndview.Float64, make([]float64, 4), 4)
	odd := view(t)(into.Index(ndview.SpanStep(ndview.Open, ndview.Open, 2)))
	require.NoError(t, k.Into(odd, []int{0, 1}, view(t)(x.Index(ndview.All, ndview.All, ndview.Span(0, 2))), 0))
	host, err := ndview.ToHost[float64](into)
	require.NoError(t, err)
	assert.NotZero(t, host[0])
	assert.Zero(t, host[1])
	assert.ErrorIs(t, k.Into(into, []int{0}, x, 0), ndview.ErrShape)
	assert.ErrorIs(t, k.Into(x, []int{0}, x, 0), ndview.ErrDType)
	_, err = k.Of([]int{3}, false, x, 0)
	assert.ErrorIs(t, err, ndview.ErrShape)
}

// squareSumKernels are the host kernels of the sum of x * x + c.
func squareSumKernels(t *testing.T) func(source string) map[string]cudabuf.HostKernel {
	form := regexp.MustCompile(`kept\[(\d+)\], kept_stride\[2\]\[\d+\], extent\[(\d+)\]`)
	return func(source string) map[string]cudabuf.HostKernel {
		found := form.FindStringSubmatch(source)
		require.NotNil(t, found)
		kept, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		gone, err := strconv.Atoi(found[2])
		require.NoError(t, err)
		read := func(l *cudabuf.HostLaunch, i int) (results, each, parts, per int64, outer, inner loopNest) {
			words := make([]int64, 4+3*kept+2*gone)
			for j, raw := 0, l.Struct(i, 8*len(words)); j < len(words); j++ {
				words[j] = int64(binary.NativeEndian.Uint64(raw[8*j:]))
			}
			return words[0], words[1], words[2], words[3], loopNest{words[4:][:kept], words[4+kept:][:2*kept]}, loopNest{words[4+3*kept:][:gone], words[4+3*kept+gone:]}
		}
		number := func(b []byte) float64 { return math.Float64frombits(binary.NativeEndian.Uint64(b)) }
		return map[string]cudabuf.HostKernel{
			"quiver_own": func(l *cudabuf.HostLaunch) {
				results, each, parts, per, outer, inner := read(l, 3)
				c := float64(int32(binary.NativeEndian.Uint32(l.Struct(1, 4))))
				for block := range results * parts {
					sum := 0.0
					first := block % parts * per
					for i := first; i < min(first+per, each); i++ {
						v := float64(float(l.Memory(l.Pointer(0)+uintptr(outer.offset(block/parts, 1)+inner.offset(i, 0)), 4)))
						sum += v*v + c
					}
					binary.NativeEndian.PutUint64(l.Memory(l.Pointer(2)+uintptr(8*block), 8), math.Float64bits(sum))
				}
			},
			"quiver_own_rest": func(l *cudabuf.HostLaunch) {
				results, _, parts, _, outer, _ := read(l, 2)
				for result := range results {
					sum := 0.0
					for i := range parts {
						sum += number(l.Memory(l.Pointer(0)+uintptr(8*(result*parts+i)), 8))
					}
					binary.NativeEndian.PutUint64(l.Memory(l.Pointer(1)+uintptr(outer.offset(result, 0)), 8), math.Float64bits(sum))
				}
			},
		}
	}
}

// loopNest is the extents and strides in the struct that a kernel takes.
type loopNest struct{ extents, strides []int64 }

func (w loopNest) offset(number int64, array int) (at int64) {
	loops := len(w.extents)
	for loop := loops - 1; loop >= 0; loop-- {
		at += number % w.extents[loop] * w.strides[array*loops+loop]
		number /= w.extents[loop]
	}
	return at
}
