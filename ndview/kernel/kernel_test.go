package kernel_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

func TestInvalidArgumentsAreRejected(t *testing.T) {
	dev := cudatest.NewDevice(t)
	for message, args := range map[string][]kernel.Arg{
		"neither read nor written":                   {{Name: "a", DType: ndview.Int8}},
		"a scalar and an array":                      {{Name: "a", DType: ndview.Int8, Scalar: true, Read: true}},
		"want a C identifier":                        {writes("1a", ndview.Int8)},
		"which is a keyword of C++":                  {writes("float", ndview.Int8)},
		"does not begin with quiver_":                {writes("quiver_a", ndview.Int8)},
		`two arguments are named "a"`:                {writes("a", ndview.Int8), reads("a", ndview.Int8)},
		"argument a: C++ has no type for V3":         {writes("a", ndview.Bytes(3))},
		`NewElementwise "a": no argument is written`: {reads("a", ndview.Int8)},
	} {
		_, err := kernel.NewElementwise(dev, "a", "", args...)
		assert.ErrorContains(t, err, message)
	}
	sum := kernel.ReductionSource{Out: ndview.Float32, Neutral: "0", Reduce: "a + b"}
	for message, args := range map[string][]kernel.Arg{
		"argument x is written":                   {writes("x", ndview.Int8)},
		"no argument is an array":                 {scalar("x", ndview.Int8)},
		"Map is empty, but there are 2 arguments": {reads("x", ndview.Int8), reads("y", ndview.Int8)},
	} {
		_, err := kernel.NewReduction(dev, sum, args...)
		assert.ErrorContains(t, err, message)
	}
	for _, wrong := range []kernel.ReductionSource{{Out: ndview.Float32, Reduce: "a"}, {Out: ndview.Float32, Neutral: "0"}, {Out: ndview.Bytes(2), Neutral: "0", Reduce: "a"}} {
		_, err := kernel.NewReduction(dev, wrong, reads("x", ndview.Int8))
		assert.Error(t, err)
	}
}

func TestCPUDeviceReturnsErrDevice(t *testing.T) {
	_, err := kernel.NewElementwise(arrowbuf.CPU(), "a = 1", "", writes("a", ndview.Int8))
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	assert.ErrorContains(t, err, "needs a CUDA device and NVRTC")
	_, err = kernel.NewReduction(arrowbuf.CPU(), kernel.ReductionSource{}, reads("a", ndview.Int8))
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
}

func TestSourcesOfEveryFormCompile(t *testing.T) {
	needNVRTC(t)
	dev := cudatest.NewDevice(t)
	dtypes := []ndview.DType{ndview.Bool, ndview.Int8, ndview.Int16, ndview.Int32, ndview.Int64, ndview.Uint8, ndview.Uint16, ndview.Uint32, ndview.Uint64,
		ndview.Float16, ndview.BFloat16, ndview.Float32, ndview.Float64, ndview.Complex64, ndview.Complex128, ndview.Datetime64(ndview.Second, 1), ndview.Timedelta64(ndview.Day, 1)}
	for i, dtype := range dtypes {
		k, err := kernel.NewElementwise(dev, "res_t twice = more(a) + s; res = twice; b = b + a", "template <class T> __device__ T more(T x) { return x + x; }",
			writes("res", dtype), reads("a", dtype), scalar("s", dtype), kernel.Arg{Name: "b", DType: dtype, Read: true, Write: true})
		require.NoError(t, err)
		size := dtype.Size()
		forms := []string{
			k.SourceOf([]int64{24}, []int64{size, size, size}, [][]int64{{size}, {0}, {-size}}, true),
			k.SourceOf([]int64{2, 3, 4}, []int64{size, size, size}, [][]int64{{1, 2, 3}, {0, 0, 0}, {4, 5, 6}}, i%2 == 0),
		}
		r, err := kernel.NewReduction(dev, kernel.ReductionSource{Out: dtype, Neutral: "acc()", Reduce: "a + b", Map: "x[i] + y", Preamble: accOf(dtype)},
			reads("x", dtype), scalar("y", dtype))
		require.NoError(t, err)
		forms = append(forms, r.SourceOf([]int64{2, 3}, [][]int64{{1, 2}, {3, 4}}, []int64{7}, [][]int64{{size}}, []int64{size}, i%2 == 1))
		if i%4 != 0 && testing.Short() {
			forms = forms[1:2]
		}
		for _, source := range forms {
			assert.NoError(t, kernel.CompileSource(source), "%s:\n%s", dtype, source)
		}
	}
	k, err := kernel.NewElementwise(dev, "#define TWICE(x) ((x) + (x))\nres = TWICE(2); // four", "", writes("res", ndview.Int8))
	require.NoError(t, err)
	assert.NoError(t, kernel.CompileSource(k.SourceOf([]int64{1}, []int64{1}, [][]int64{{1}}, true)))
	r, err := kernel.NewReduction(dev, kernel.ReductionSource{Out: ndview.Int64, Neutral: "0 // none", Reduce: "a + b // both", Map: "x // each"}, reads("x", ndview.Int8))
	require.NoError(t, err)
	assert.NoError(t, kernel.CompileSource(r.SourceOf([]int64{2}, [][]int64{{1}, {3}}, []int64{7}, [][]int64{{1}}, []int64{1}, true)))

	k, err = kernel.NewElementwise(dev, "res = 1;\nres = nothing", "", writes("res", ndview.Int8))
	require.NoError(t, err)
	err = kernel.CompileSource(k.SourceOf([]int64{1}, []int64{1}, [][]int64{{1}}, true))
	var failed *nvrtc.Error
	require.True(t, errors.As(err, &failed))
	assert.Contains(t, failed.Log, `"nothing" is undefined`)
	assert.Contains(t, failed.Log, "code(2)")
}

// accOf returns the C++ of a neutral element of the variables' type.
func accOf(dtype ndview.DType) string {
	switch dtype {
	case ndview.Complex64:
		return "static __device__ quiver_complex<float> acc() { return {0, 0}; }"
	case ndview.Complex128:
		return "static __device__ quiver_complex<double> acc() { return {0, 0}; }"
	default:
		return "static __device__ int acc() { return 0; }"
	}
}
