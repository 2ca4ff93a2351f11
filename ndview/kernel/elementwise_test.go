package kernel_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

func TestElementwiseTakesEveryLayout(t *testing.T) {
	args := []kernel.Arg{writes("res", ndview.Float32), reads("a", ndview.Float32), scalar("s", ndview.Float32), reads("b", ndview.Float32)}
	source := kernel.ElementwiseSource{Code: "res[i] = a[i] * s + b", Host: func(res, a []float32, s float32, b []float32) {
		for i := range res {
			res[i] = a[i]*s + b[i]
		}
	}}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		k, err := kernel.NewElementwise(dev, source, args...)
		require.NoError(t, err)
		values := make([]float32, 24)
		for i := range values {
			values[i] = float32(i)
		}
		a := ndtest.FromHost(t, dev, ndview.Float32, values, 2, 3, 4)
		for name, b := range map[string]*ndview.NDBuffer{
			"same":      ndtest.FromHost(t, dev, ndview.Float32, values, 2, 3, 4),
			"row":       ndtest.FromHost(t, dev, ndview.Float32, values[:4], 4),
			"column":    ndtest.FromHost(t, dev, ndview.Float32, values[:3], 3, 1),
			"plane":     ndtest.FromHost(t, dev, ndview.Float32, values[:2], 2, 1, 1),
			"single":    ndtest.FromHost(t, dev, ndview.Float32, values[5:6]),
			"turned":    ndtest.View(t)(ndtest.FromHost(t, dev, ndview.Float32, values, 4, 3, 2).Transpose()),
			"backwards": ndtest.View(t)(a.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1), ndview.All, ndview.SpanStep(ndview.Open, ndview.Open, -1))),
		} {
			out := ndtest.FromHost(t, dev, ndview.Float32, make([]float32, 24), 4, 3, 2)
			for _, res := range []*ndview.NDBuffer{ndtest.View(t)(out.Transpose()), ndtest.FromHost(t, dev, ndview.Float32, make([]float32, 24), 2, 3, 4)} {
				require.NoError(t, k.Run(res, a, 10, b))
				stretched := ndtest.View(t)(b.BroadcastTo(2, 3, 4))
				want := floatsOf(t, stretched)
				for i := range want {
					want[i] += values[i] * 10
				}
				assert.Equal(t, want, floatsOf(t, res), name)
			}
		}
		none := ndtest.FromHost(t, dev, ndview.Float32, []float32{}, 0, 3, 4)
		require.NoError(t, k.Run(none, none, 1, ndtest.FromHost(t, dev, ndview.Float32, make([]float32, 4), 4)), "no elements, no launch")
		zero := ndtest.FromHost(t, dev, ndview.Float32, []float32{1})
		require.NoError(t, k.Run(zero, zero, 2.5, zero), "an array without axes, in place")
		assert.Equal(t, []float32{3.5}, floatsOf(t, zero))
	})
}

func TestElementwiseReadsBeforeItWrites(t *testing.T) {
	args := []kernel.Arg{{Name: "a", DType: ndview.Float32, Read: true, Write: true}, reads("b", ndview.Float32)}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		k, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{Code: "a += b", Host: addTo}, args...)
		require.NoError(t, err)
		a := ndtest.FromHost(t, dev, ndview.Float32, []float32{1, 2, 3, 4, 5}, 5)
		require.NoError(t, k.Run(ndtest.View(t)(a.Slice(0, 1, 5)), ndtest.View(t)(a.Slice(0, 0, 4))))
		assert.Equal(t, []float32{1, 3, 5, 7, 9}, floatsOf(t, a))
		require.NoError(t, k.Run(a, a))
		assert.Equal(t, []float32{2, 6, 10, 14, 18}, floatsOf(t, a))
		require.NoError(t, k.Run(a, ndtest.View(t)(a.Slice(0, 1, 2))))
		assert.Equal(t, []float32{8, 12, 16, 20, 24}, floatsOf(t, a))
	})
}

func TestElementwiseRejectsInvalidOperands(t *testing.T) {
	args := []kernel.Arg{writes("res", ndview.Float32), reads("a", ndview.Float32), scalar("s", ndview.Int8)}
	dev := cudatest.NewDevice(t)
	k, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{Code: "res = a", Host: func(res, a []float32, _ int8) { copy(res, a) }}, args...)
	require.NoError(t, err)
	f := func(shape ...int64) *ndview.NDBuffer {
		a, err := ndview.Empty(dev, ndview.Float32, shape...)
		return ndtest.Own(t, a, err)
	}
	res, a := f(2, 3), f(2, 3)
	fixed := ndtest.View(t)(a.ReadOnly())
	bytes := ndtest.Upload(t, dev, make([]byte, 64))
	odd := ndtest.At(t, bytes, ndview.Float32, 1, 2, 3)
	for _, tt := range []struct {
		name    string
		given   []any
		want    error
		message string
	}{
		{"too few", []any{res, a}, nil, "got 2 operands, want 3"},
		{"too many", []any{res, a, 1, 2}, nil, "got 4 operands, want 3"},
		{"another dtype", []any{res, ndtest.At(t, bytes, ndview.Int32, 0, 2, 3), 1}, ndview.ErrDType, "argument a: got an array of int32, want float32"},
		{"a number for an array", []any{res, 1, 1}, ndview.ErrDType, "argument a: got int, want an array"},
		{"an array for a number", []any{res, a, a}, ndview.ErrDType, "argument s"},
		{"a number too large", []any{res, a, 128}, nil, "argument s"},
		{"a fraction", []any{res, a, "text"}, nil, "argument s"},
		{"another device", []any{res, ndtest.FromHost(t, arrowbuf.CPU(), ndview.Float32, make([]float32, 6), 2, 3), 1}, arrowbuf.ErrDevice, "argument a"},
		{"a read-only result", []any{fixed, a, 1}, ndview.ErrReadOnly, "argument res"},
		{"odd addresses", []any{res, odd, 1}, ndview.ErrShape, "not multiples of 4"},
		{"shapes that do not fit", []any{res, f(4), 1}, ndview.ErrShape, "broadcast"},
		{"a result that would be stretched", []any{f(1, 3), a, 1}, ndview.ErrShape, "argument res is written: got shape [1 3], want [2 3]"},
		{"a result whose elements share memory", []any{stretched(t, f(3)), a, 1}, ndview.ErrShape, "its elements share memory"},
		{"nil", []any{res, a, nil}, nil, "argument s"},
		{"no array", []any{res, (*ndview.NDBuffer)(nil), 1}, ndview.ErrDType, "argument a"},
	} {
		err := k.Run(tt.given...)
		require.Error(t, err, tt.name)
		if tt.want != nil {
			assert.ErrorIs(t, err, tt.want, tt.name)
		}
		assert.ErrorContains(t, err, tt.message, tt.name)
		assert.ErrorContains(t, err, `kernel.Elementwise.Run "res = a"`, tt.name)
	}
	two, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{Code: "x = a; y = a", Host: func(x, y, a []float32) { copy(x, a); copy(y, a) }},
		writes("x", ndview.Float32), writes("y", ndview.Float32), reads("a", ndview.Float32))
	require.NoError(t, err)
	err = two.Run(res, res, a)
	assert.ErrorIs(t, err, ndview.ErrShape)
	assert.ErrorContains(t, err, "arguments x and y are written, but share memory")
}

// addTo is a += b.
func addTo(a, b []float32) {
	for i := range a {
		a[i] += b[i]
	}
}

// stretched returns a writeable array of two rows that share their memory.
func stretched(t *testing.T, row *ndview.NDBuffer) *ndview.NDBuffer {
	a, err := ndview.FromBuffer(row.Buffer(), row.DType(), 0, []int64{2, 3}, []int64{0, 4})
	return ndtest.Own(t, a, err)
}

// The cases are libgpuarray's for collapse and pygpu's for check_args. pygpu keeps axes
// in their order; sorting them, as here, merges at least as many.
func TestElementwiseCollapsesAxes(t *testing.T) {
	args := []kernel.Arg{writes("x", ndview.Float32), reads("y", ndview.Float32)}
	dev := cudatest.NewDevice(t)
	k, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{Code: "x = y", Host: func(x, y []float32) { copy(x, y) }}, args...)
	require.NoError(t, err)
	buf, other := ndtest.Upload(t, dev, make([]byte, 16<<10)), ndtest.Upload(t, dev, make([]byte, 16<<10))
	for _, tt := range []struct {
		shape, x, y []int64
		want        []int64 // extents, strides of x, strides of y
	}{
		{[]int64{2, 3, 4}, []int64{48, 16, 4}, []int64{0, 0, 0}, []int64{24, 4, 0}},
		{[]int64{2, 3, 4}, []int64{48, 16, 4}, []int64{0, 16, 4}, []int64{2, 12, 48, 4, 0, 4}},
		{[]int64{3, 4}, []int64{16, 4}, []int64{-16, -4}, []int64{12, 4, -4}},
		{[]int64{3, 4}, []int64{-16, -4}, []int64{16, 4}, []int64{12, 4, -4}},
		{[]int64{50, 1, 20}, []int64{80, 80, 4}, []int64{80, 0, 4}, []int64{1000, 4, 4}},
		{[]int64{50, 1, 20}, []int64{168, 4, 8}, []int64{80, 4, 4}, []int64{50, 20, 168, 8, 80, 4}},
		{[]int64{1, 1}, []int64{4, 4}, []int64{4, 4}, []int64{1, 0, 0}},
		{[]int64{4, 3}, []int64{4, 16}, []int64{4, 16}, []int64{12, 4, 4}},
	} {
		array := func(buf arrowbuf.Buffer, strides []int64) *ndview.NDBuffer {
			offset := int64(0)
			for i, s := range strides {
				offset -= min(s, 0) * (tt.shape[i] - 1)
			}
			a, err := ndview.FromBuffer(buf, ndview.Float32, offset, tt.shape, strides)
			return ndtest.Own(t, a, err)
		}
		extents, strides, err := k.LoopsOf(array(buf, tt.x), array(other, tt.y))
		require.NoError(t, err)
		assert.Equal(t, tt.want, slices.Concat(append([][]int64{extents}, strides...)...), "%v %v %v", tt.shape, tt.x, tt.y)
	}
}

func TestCompilerErrorsNameTheCallersLine(t *testing.T) {
	if !cudatest.OnGPU() {
		t.Skip("compiled kernels need a GPU")
	}
	needNVRTC(t)
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		if dev.RunsHostKernels() {
			t.Skip("the simulated device compiles nothing")
		}
		broken, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{Code: "\nres = nothing"}, writes("res", ndview.Bool))
		require.NoError(t, err)
		out := ndtest.FromHost(t, dev, ndview.Bool, []bool{true})
		err = broken.Run(out)
		var failed *nvrtc.Error
		require.True(t, errors.As(err, &failed))
		assert.Contains(t, failed.Log, "code(2)")
		assert.Equal(t, ndtest.Raw(true), ndtest.Elements(t, out))
	})
}

// Rows EW8 and X18: the width of an index follows from the extent in bytes.
func TestElementwiseIndexesBytesBeyond32Bits(t *testing.T) {
	args := []kernel.Arg{writes("res", ndview.Uint8), reads("a", ndview.Uint8)}
	source := kernel.ElementwiseSource{Code: "res = a + 1", Host: func(res, a []uint8) {
		for i := range res {
			res[i] = a[i] + 1
		}
	}}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		if !dev.RunsHostKernels() {
			needNVRTC(t)
		} else {
			large, err := cudatest.Start(t, cudatest.Config{MemoryBytes: 8 << 30}).Device(0)
			require.NoError(t, err)
			dev = large
		}
		k, err := kernel.NewElementwise(dev, source, args...)
		require.NoError(t, err)
		const far = 5 << 30
		buf, err := dev.Alloc(far + 1)
		ndtest.Own(t, buf, err)
		ends, err := ndview.FromBuffer(buf, ndview.Uint8, 0, []int64{2}, []int64{far})
		ndtest.Own(t, ends, err)
		for i, v := range []byte{7, 8} {
			_, err := buf.CopyFromHost([]byte{v}, int64(i)*far)
			require.NoError(t, err)
		}
		out := ndtest.FromHost(t, dev, ndview.Uint8, []uint8{0, 0}, 2)
		require.NoError(t, k.Run(out, ends))
		assert.Equal(t, []byte{8, 9}, ndtest.Elements(t, out))
		require.NoError(t, k.Run(ends, out))
		got := make([]byte, 1)
		_, err = buf.CopyToHost(got, far)
		require.NoError(t, err)
		assert.Equal(t, []byte{10}, got)
	})
}
