package kernel_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

func TestInvalidArgumentsAreRejected(t *testing.T) {
	dev := cudatest.NewDevice(t)
	unused := func() {} // arguments are checked before the host function
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
		_, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{Code: "a", Host: unused}, args...)
		assert.ErrorContains(t, err, message)
	}
	add := kernel.NewHostReduction(0, func(a, b float32) float32 { return a + b }, nil)
	sum := kernel.ReductionSource{Out: ndview.Float32, Neutral: "0", Reduce: "a + b", Host: add}
	for message, args := range map[string][]kernel.Arg{
		"argument x is written":                   {writes("x", ndview.Int8)},
		"no argument is an array":                 {scalar("x", ndview.Int8)},
		"Map is empty, but there are 2 arguments": {reads("x", ndview.Int8), reads("y", ndview.Int8)},
	} {
		_, err := kernel.NewReduction(dev, sum, args...)
		assert.ErrorContains(t, err, message)
	}
	for message, wrong := range map[string]kernel.ReductionSource{
		"Neutral or Reduce is empty":             {Out: ndview.Float32, Reduce: "a", Host: add},
		`NewReduction "": Neutral or Reduce`:     {Out: ndview.Float32, Neutral: "0", Host: add},
		"the result: C++ has no type for V2":     {Out: ndview.Bytes(2), Neutral: "0", Reduce: "a", Host: add},
		"C++ has no type for the zero DType":     {Neutral: "0", Reduce: "a", Host: add},
		"Host: the result: got Go type float32":  {Out: ndview.Int32, Neutral: "0", Reduce: "a", Host: add},
		"Host: reduce is nil":                    {Out: ndview.Int32, Neutral: "0", Reduce: "a", Host: kernel.NewHostReduction[int32](0, nil, nil)},
		"NewHostReduction has not made":          {Out: ndview.Int32, Neutral: "0", Reduce: "a", Host: &kernel.HostReduction{}},
		"Host's mapped is nil":                   {Out: ndview.Float32, Neutral: "0", Reduce: "a", Host: add},
		"Host: mapped is nil, but there are 2 a": {Out: ndview.Float32, Neutral: "0", Reduce: "a", Map: "x", Host: add},
	} {
		args := []kernel.Arg{reads("x", ndview.Int8)}
		if wrong.Map != "" {
			args = append(args, reads("y", ndview.Int8))
		}
		_, err := kernel.NewReduction(dev, wrong, args...)
		assert.ErrorContains(t, err, message)
	}
}

func TestDevicesWithoutCompilerNeedHostFunctions(t *testing.T) {
	for _, dev := range []arrowbuf.Device{arrowbuf.CPU(), cudatest.NewDevice(t)} {
		_, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{Code: "a = 1"}, writes("a", ndview.Int8))
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		assert.ErrorContains(t, err, `kernel.NewElementwise "a = 1": `+dev.String()+" runs no compiled kernels, and Host is nil")
		_, err = kernel.NewReduction(dev, kernel.ReductionSource{Out: ndview.Int8, Neutral: "0", Reduce: "a + b"}, reads("a", ndview.Int8))
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		assert.ErrorContains(t, err, `kernel.NewReduction "a + b"`)
	}
}

func TestHostFunctionsOfWrongTypeAreRejected(t *testing.T) {
	args := []kernel.Arg{writes("res", ndview.Float32), reads("a", ndview.Float16), scalar("s", ndview.Int8)}
	for message, host := range map[string]any{
		"got int, want a function":                               1,
		"got func(), want a function that is not nil":            (func())(nil),
		"got func(), want 3 parameters and no results":           func() {},
		"want 3 parameters and no results":                       func(_, _ []float32, _ int8) error { return nil },
		"argument a is float32, want a slice":                    func([]float32, float32, int8) {},
		"argument a: got Go type uint16, want float32":           func([]float32, []uint16, int8) {},
		"argument s: got Go type []int8, want int8 for int8":     func(_, _ []float32, _ []int8) {},
		"argument res: got Go type float64, want float32 for fl": func([]float64, []float32, int8) {},
	} {
		_, err := kernel.NewElementwise(arrowbuf.CPU(), kernel.ElementwiseSource{Code: "res = a", Host: host}, args...)
		assert.ErrorContains(t, err, message)
	}
}

func TestPanicsOfHostFunctionsAreErrors(t *testing.T) {
	k, err := kernel.NewElementwise(arrowbuf.CPU(), kernel.ElementwiseSource{Code: "a = 1 / a", Host: func(a []int32) { a[0] = 1 / a[0] }},
		kernel.Arg{Name: "a", DType: ndview.Int32, Read: true, Write: true})
	require.NoError(t, err)
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, make([]int32, 100_000), 100_000)
	assert.ErrorContains(t, k.Run(a), `"a = 1 / a": the host function panicked: runtime error: integer divide by zero`)
}

// Another process that makes the same kernel finds its image on disk.
func TestImagesAreCachedOnDisk(t *testing.T) {
	needNVRTC(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	k, err := kernel.ElementwiseOf(kernel.ElementwiseSource{Code: "res = 7"}, writes("res", ndview.Int16))
	require.NoError(t, err)
	source := k.SourceOf([]int64{3}, []int64{2}, [][]int64{{2}}, true)
	first, err := kernel.CompileForDevice(source, 9, 0)
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "quiver", "kernels", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	written, err := os.Stat(files[0])
	require.NoError(t, err)
	again, err := kernel.CompileForDevice(source, 9, 0)
	require.NoError(t, err)
	assert.Equal(t, first, again)
	still, err := os.Stat(files[0])
	require.NoError(t, err)
	assert.True(t, os.SameFile(written, still), "the file is not written again")
	_, err = kernel.CompileForDevice(source, 8, 0)
	require.NoError(t, err)
	files, err = filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "quiver", "kernels", "*"))
	require.NoError(t, err)
	assert.Len(t, files, 2, "another GPU has another image")
}

func TestSourcesOfEveryFormCompile(t *testing.T) {
	needNVRTC(t)
	dtypes := []ndview.DType{ndview.Bool, ndview.Int8, ndview.Int16, ndview.Int32, ndview.Int64, ndview.Uint8, ndview.Uint16, ndview.Uint32, ndview.Uint64,
		ndview.Float16, ndview.BFloat16, ndview.Float32, ndview.Float64, ndview.Complex64, ndview.Complex128, ndview.Datetime64(ndview.Second, 1), ndview.Timedelta64(ndview.Day, 1)}
	for i, dtype := range dtypes {
		k, err := kernel.ElementwiseOf(kernel.ElementwiseSource{Code: "res_t twice = more(a) + s; res = twice; b = b + a",
			Preamble: "template <class T> __device__ T more(T x) { return x + x; }"},
			writes("res", dtype), reads("a", dtype), scalar("s", dtype), kernel.Arg{Name: "b", DType: dtype, Read: true, Write: true})
		require.NoError(t, err)
		size := dtype.Size()
		forms := []string{
			k.SourceOf([]int64{24}, []int64{size, size, size}, [][]int64{{size}, {0}, {-size}}, true),
			k.SourceOf([]int64{2, 3, 4}, []int64{size, size, size}, [][]int64{{1, 2, 3}, {0, 0, 0}, {4, 5, 6}}, i%2 == 0),
		}
		r, err := kernel.ReductionOf(kernel.ReductionSource{Out: dtype, Neutral: "acc()", Reduce: "a + b", Map: "x[i] + y", Preamble: accOf(dtype)},
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
	k, err := kernel.ElementwiseOf(kernel.ElementwiseSource{Code: "#define TWICE(x) ((x) + (x))\nres = TWICE(2); // four"}, writes("res", ndview.Int8))
	require.NoError(t, err)
	assert.NoError(t, kernel.CompileSource(k.SourceOf([]int64{1}, []int64{1}, [][]int64{{1}}, true)))
	r, err := kernel.ReductionOf(kernel.ReductionSource{Out: ndview.Int64, Neutral: "0 // none", Reduce: "a + b // both", Map: "x // each"}, reads("x", ndview.Int8))
	require.NoError(t, err)
	assert.NoError(t, kernel.CompileSource(r.SourceOf([]int64{2}, [][]int64{{1}, {3}}, []int64{7}, [][]int64{{1}}, []int64{1}, true)))

	k, err = kernel.ElementwiseOf(kernel.ElementwiseSource{Code: "res = 1;\nres = nothing"}, writes("res", ndview.Int8))
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
