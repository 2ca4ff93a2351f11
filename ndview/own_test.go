package ndview_test

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/ndview"
)

func reads(name string, dtype ndview.DType) ndview.KernelArg {
	return ndview.KernelArg{Name: name, DType: dtype, Read: true}
}

func writes(name string, dtype ndview.DType) ndview.KernelArg {
	return ndview.KernelArg{Name: name, DType: dtype, Write: true}
}

func scalar(name string, dtype ndview.DType) ndview.KernelArg {
	return ndview.KernelArg{Name: name, DType: dtype, Scalar: true}
}

// needNVRTC finds the compiler that `make kernels` installs, or skips the test.
func needNVRTC(t *testing.T) {
	t.Helper()
	if _, _, err := nvrtc.Version(); err == nil {
		return
	}
	installed, err := filepath.Glob("../.tools/cuda/lib/python*/site-packages/nvidia/*/lib/libnvrtc.so.1[0-9]")
	require.NoError(t, err)
	if len(installed) == 0 {
		require.False(t, cudatest.OnGPU(), "tests on a GPU need NVRTC")
		t.Skip("needs NVRTC: `make kernels` installs it")
	}
	path, err := filepath.Abs(installed[0])
	require.NoError(t, err)
	require.NoError(t, os.Setenv(nvrtc.Override, path)) // for the rest of the process, which opens it once
}

// onOwnKernels runs a test on CUDA devices; on the soft one a twin does the work:
// f gets the bytes of an element of each array, and the scalars'.
func onOwnKernels(t *testing.T, args []ndview.KernelArg, f func(elements [][]byte), test func(t *testing.T, dev *cudabuf.Device)) {
	t.Helper()
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		if strings.Contains(t.Name(), "/soft") {
			ndview.UseTwins(t, func(source string) map[string]cudabuf.HostKernel {
				loops, err := strconv.Atoi(regexp.MustCompile(`n, extent\[(\d+)\]`).FindStringSubmatch(source)[1])
				require.NoError(t, err)
				return map[string]cudabuf.HostKernel{"quiver_own": func(l *cudabuf.HostLaunch) { elementwiseTwin(l, args, loops, f) }}
			})
		}
		test(t, dev)
	})
}

func elementwiseTwin(l *cudabuf.HostLaunch, args []ndview.KernelArg, loops int, f func(elements [][]byte)) {
	arrays := 0
	for _, arg := range args {
		if !arg.Scalar {
			arrays++
		}
	}
	words := make([]int64, 1+loops+arrays*loops)
	for i, raw := 0, l.Struct(len(args), 8*len(words)); i < len(words); i++ {
		words[i] = int64(binary.NativeEndian.Uint64(raw[8*i:]))
	}
	extents, strides := words[1:1+loops], words[1+loops:]
	for number := range words[0] {
		elements := make([][]byte, len(args))
		array := 0
		for i, arg := range args {
			if arg.Scalar {
				elements[i] = l.Struct(i, int(arg.DType.Size()))
				continue
			}
			at, rest := int64(0), number
			for loop := loops - 1; loop >= 0; loop-- {
				at += rest % extents[loop] * strides[array*loops+loop]
				rest /= extents[loop]
			}
			elements[i] = l.Memory(l.Pointer(i)+uintptr(at), arg.DType.Size())
			array++
		}
		f(elements)
	}
}

func float(b []byte) float32 { return math.Float32frombits(binary.NativeEndian.Uint32(b)) }

func setFloat(b []byte, v float32) { binary.NativeEndian.PutUint32(b, math.Float32bits(v)) }

func floatsOf(t *testing.T, a *ndview.NDBuffer) []float32 {
	t.Helper()
	values, err := ndview.ToHost[float32](a)
	require.NoError(t, err)
	return values
}

func TestElementwiseWalksOperandsOfEveryLayout(t *testing.T) {
	args := []ndview.KernelArg{writes("res", ndview.Float32), reads("a", ndview.Float32), scalar("s", ndview.Float32), reads("b", ndview.Float32)}
	onOwnKernels(t, args, func(e [][]byte) { setFloat(e[0], float(e[1])*float(e[2])+float(e[3])) }, func(t *testing.T, dev *cudabuf.Device) {
		needCompiler(t)
		k, err := ndview.NewElementwise(dev, "res[i] = a[i] * s + b", "", args...)
		require.NoError(t, err)
		values := make([]float32, 24)
		for i := range values {
			values[i] = float32(i)
		}
		a := fromHost(t, dev, ndview.Float32, values, 2, 3, 4)
		for name, b := range map[string]*ndview.NDBuffer{
			"same":      fromHost(t, dev, ndview.Float32, values, 2, 3, 4),
			"row":       fromHost(t, dev, ndview.Float32, values[:4], 4),
			"column":    fromHost(t, dev, ndview.Float32, values[:3], 3, 1),
			"plane":     fromHost(t, dev, ndview.Float32, values[:2], 2, 1, 1),
			"single":    fromHost(t, dev, ndview.Float32, values[5:6]),
			"turned":    view(t)(fromHost(t, dev, ndview.Float32, values, 4, 3, 2).Transpose()),
			"backwards": view(t)(a.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1), ndview.All, ndview.SpanStep(ndview.Open, ndview.Open, -1))),
		} {
			out := fromHost(t, dev, ndview.Float32, make([]float32, 24), 4, 3, 2)
			for _, res := range []*ndview.NDBuffer{view(t)(out.Transpose()), fromHost(t, dev, ndview.Float32, make([]float32, 24), 2, 3, 4)} {
				require.NoError(t, k.Run(res, a, 10, b))
				stretched := view(t)(b.BroadcastTo(2, 3, 4))
				want := floatsOf(t, stretched)
				for i := range want {
					want[i] += values[i] * 10
				}
				assert.Equal(t, want, floatsOf(t, res), name)
			}
		}
		none := fromHost(t, dev, ndview.Float32, []float32{}, 0, 3, 4)
		require.NoError(t, k.Run(none, none, 1, a2(t, dev)), "nothing is launched for no elements")
		zero := fromHost(t, dev, ndview.Float32, []float32{1})
		require.NoError(t, k.Run(zero, zero, 2.5, zero), "an array without axes, in place")
		assert.Equal(t, []float32{3.5}, floatsOf(t, zero))
	})
}

func a2(t *testing.T, dev arrowbuf.Device) *ndview.NDBuffer {
	return fromHost(t, dev, ndview.Float32, make([]float32, 4), 4)
}

// view owns the result of a method that makes a view.
func view(t *testing.T) func(a *ndview.NDBuffer, err error) *ndview.NDBuffer {
	return func(a *ndview.NDBuffer, err error) *ndview.NDBuffer {
		t.Helper()
		return own(t, a, err)
	}
}

// needCompiler skips a test on a GPU without NVRTC; twins need none.
func needCompiler(t *testing.T) {
	t.Helper()
	if !strings.Contains(t.Name(), "/soft") {
		needNVRTC(t)
	}
}

func TestElementwiseReadsBeforeItWrites(t *testing.T) {
	args := []ndview.KernelArg{{Name: "a", DType: ndview.Float32, Read: true, Write: true}, reads("b", ndview.Float32)}
	onOwnKernels(t, args, func(e [][]byte) { setFloat(e[0], float(e[0])+float(e[1])) }, func(t *testing.T, dev *cudabuf.Device) {
		needCompiler(t)
		k, err := ndview.NewElementwise(dev, "a += b", "", args...)
		require.NoError(t, err)
		a := fromHost(t, dev, ndview.Float32, []float32{1, 2, 3, 4, 5}, 5)
		require.NoError(t, k.Run(view(t)(a.Slice(0, 1, 5)), view(t)(a.Slice(0, 0, 4))))
		assert.Equal(t, []float32{1, 3, 5, 7, 9}, floatsOf(t, a))
		require.NoError(t, k.Run(a, a))
		assert.Equal(t, []float32{2, 6, 10, 14, 18}, floatsOf(t, a))
		require.NoError(t, k.Run(a, view(t)(a.Slice(0, 1, 2))))
		assert.Equal(t, []float32{8, 12, 16, 20, 24}, floatsOf(t, a))
	})
}

func TestElementwiseChecksItsOperands(t *testing.T) {
	args := []ndview.KernelArg{writes("res", ndview.Float32), reads("a", ndview.Float32), scalar("s", ndview.Int8)}
	dev := cudatest.NewDevice(t)
	k, err := ndview.NewElementwise(dev, "res = a", "", args...)
	require.NoError(t, err)
	f := func(shape ...int64) *ndview.NDBuffer {
		a, err := ndview.Empty(dev, ndview.Float32, shape...)
		return own(t, a, err)
	}
	res, a := f(2, 3), f(2, 3)
	fixed := view(t)(a.ReadOnly())
	bytes := upload(t, dev, make([]byte, 64))
	odd := at(t, bytes, ndview.Float32, 1, 2, 3)
	for _, tt := range []struct {
		name  string
		given []any
		want  error
		about string
	}{
		{"too few", []any{res, a}, nil, "2 operands for the 3 arguments"},
		{"too many", []any{res, a, 1, 2}, nil, "4 operands for the 3 arguments"},
		{"another dtype", []any{res, at(t, bytes, ndview.Int32, 0, 2, 3), 1}, ndview.ErrDType, "argument a: an array of int32 for one of float32"},
		{"a number for an array", []any{res, 1, 1}, ndview.ErrDType, "argument a: int"},
		{"an array for a number", []any{res, a, a}, ndview.ErrDType, "argument s"},
		{"a number too large", []any{res, a, 128}, nil, "argument s"},
		{"a fraction", []any{res, a, "text"}, nil, "argument s"},
		{"another device", []any{res, fromHost(t, arrowbuf.CPU(), ndview.Float32, make([]float32, 6), 2, 3), 1}, arrowbuf.ErrDevice, "argument a"},
		{"a read-only result", []any{fixed, a, 1}, ndview.ErrReadOnly, "argument res"},
		{"odd addresses", []any{res, odd, 1}, ndview.ErrShape, "not multiples of 4"},
		{"shapes that do not fit", []any{res, f(4), 1}, ndview.ErrShape, "broadcast"},
		{"a result that would be stretched", []any{f(1, 3), a, 1}, ndview.ErrShape, "argument res of shape [1 3] is written with elements of shape [2 3]"},
		{"a result whose elements share memory", []any{stretched(t, f(3)), a, 1}, ndview.ErrShape, "its elements share memory"},
		{"nil", []any{res, a, nil}, nil, "argument s"},
		{"no array", []any{res, (*ndview.NDBuffer)(nil), 1}, ndview.ErrDType, "argument a"},
	} {
		err := k.Run(tt.given...)
		require.Error(t, err, tt.name)
		if tt.want != nil {
			assert.ErrorIs(t, err, tt.want, tt.name)
		}
		assert.ErrorContains(t, err, tt.about, tt.name)
		assert.ErrorContains(t, err, `elementwise kernel "res = a"`, tt.name)
	}
	two, err := ndview.NewElementwise(dev, "x = a; y = a", "", writes("x", ndview.Float32), writes("y", ndview.Float32), reads("a", ndview.Float32))
	require.NoError(t, err)
	err = two.Run(res, res, a)
	assert.ErrorIs(t, err, ndview.ErrShape)
	assert.ErrorContains(t, err, "arguments x and y are written, and share memory")
}

// stretched is two rows of the same memory that may be written to.
func stretched(t *testing.T, row *ndview.NDBuffer) *ndview.NDBuffer {
	a, err := ndview.FromBuffer(row.Buffer(), row.DType(), 0, []int64{2, 3}, []int64{0, 4})
	return own(t, a, err)
}

func TestArgumentsOfOwnKernelsAreChecked(t *testing.T) {
	dev := cudatest.NewDevice(t)
	for about, args := range map[string][]ndview.KernelArg{
		"neither read nor written":          {{Name: "a", DType: ndview.Int8}},
		"a scalar and an array":             {{Name: "a", DType: ndview.Int8, Scalar: true, Read: true}},
		"want a name of C":                  {writes("1a", ndview.Int8)},
		"which is a word of C++":            {writes("float", ndview.Int8)},
		"does not begin with quiver_":       {writes("quiver_a", ndview.Int8)},
		`two arguments are named "a"`:       {writes("a", ndview.Int8), reads("a", ndview.Int8)},
		"argument a: C has no V3":           {writes("a", ndview.Bytes(3))},
		`elementwise kernel "a" writes not`: {reads("a", ndview.Int8)},
	} {
		_, err := ndview.NewElementwise(dev, "a", "", args...)
		assert.ErrorContains(t, err, about)
	}
	sum := ndview.ReductionSource{Out: ndview.Float32, Neutral: "0", Reduce: "a + b"}
	for about, args := range map[string][]ndview.KernelArg{
		"argument x is written":       {writes("x", ndview.Int8)},
		"no argument is an array":     {scalar("x", ndview.Int8)},
		"no expression of what is re": {reads("x", ndview.Int8), reads("y", ndview.Int8)},
	} {
		_, err := ndview.NewReductionKernel(dev, sum, args...)
		assert.ErrorContains(t, err, about)
	}
	for _, wrong := range []ndview.ReductionSource{{Out: ndview.Float32, Reduce: "a"}, {Out: ndview.Float32, Neutral: "0"}, {Out: ndview.Bytes(2), Neutral: "0", Reduce: "a"}} {
		_, err := ndview.NewReductionKernel(dev, wrong, reads("x", ndview.Int8))
		assert.Error(t, err)
	}
}

func TestTheCPUSaysThatItCannotRunSource(t *testing.T) {
	_, err := ndview.NewElementwise(arrowbuf.CPU(), "a = 1", "", writes("a", ndview.Int8))
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	assert.ErrorContains(t, err, "needs a CUDA device and NVRTC")
	_, err = ndview.NewReductionKernel(arrowbuf.CPU(), ndview.ReductionSource{}, reads("a", ndview.Int8))
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
}

func TestSourcesOfEveryFormCompile(t *testing.T) {
	needNVRTC(t)
	dev := cudatest.NewDevice(t)
	dtypes := []ndview.DType{ndview.Bool, ndview.Int8, ndview.Int16, ndview.Int32, ndview.Int64, ndview.Uint8, ndview.Uint16, ndview.Uint32, ndview.Uint64,
		ndview.Float16, ndview.BFloat16, ndview.Float32, ndview.Float64, ndview.Complex64, ndview.Complex128, ndview.Datetime64(ndview.Second, 1), ndview.Timedelta64(ndview.Day, 1)}
	for i, dtype := range dtypes {
		k, err := ndview.NewElementwise(dev, "res_t twice = more(a) + s; res = twice; b = b + a", "template <class T> __device__ T more(T x) { return x + x; }",
			writes("res", dtype), reads("a", dtype), scalar("s", dtype), ndview.KernelArg{Name: "b", DType: dtype, Read: true, Write: true})
		require.NoError(t, err)
		size := dtype.Size()
		forms := []string{
			k.SourceOf([]int64{24}, []int64{size, size, size}, [][]int64{{size}, {0}, {-size}}, true),
			k.SourceOf([]int64{2, 3, 4}, []int64{size, size, size}, [][]int64{{1, 2, 3}, {0, 0, 0}, {4, 5, 6}}, i%2 == 0),
		}
		r, err := ndview.NewReductionKernel(dev, ndview.ReductionSource{Out: dtype, Neutral: "acc()", Reduce: "a + b", Map: "x[i] + y", Preamble: accOf(dtype)},
			reads("x", dtype), scalar("y", dtype))
		require.NoError(t, err)
		forms = append(forms, r.SourceOf([]int64{2, 3}, [][]int64{{1, 2}, {3, 4}}, []int64{7}, [][]int64{{size}}, []int64{size}, i%2 == 1))
		if i%4 != 0 && testing.Short() {
			forms = forms[1:2]
		}
		for _, source := range forms {
			assert.NoError(t, ndview.CompileSource(source), "%s:\n%s", dtype, source)
		}
	}
	k, err := ndview.NewElementwise(dev, "#define TWICE(x) ((x) + (x))\nres = TWICE(2); // four", "", writes("res", ndview.Int8))
	require.NoError(t, err)
	assert.NoError(t, ndview.CompileSource(k.SourceOf([]int64{1}, []int64{1}, [][]int64{{1}}, true)))
	r, err := ndview.NewReductionKernel(dev, ndview.ReductionSource{Out: ndview.Int64, Neutral: "0 // none", Reduce: "a + b // both", Map: "x // each"}, reads("x", ndview.Int8))
	require.NoError(t, err)
	assert.NoError(t, ndview.CompileSource(r.SourceOf([]int64{2}, [][]int64{{1}, {3}}, []int64{7}, [][]int64{{1}}, []int64{1}, true)))

	k, err = ndview.NewElementwise(dev, "res = 1;\nres = nothing", "", writes("res", ndview.Int8))
	require.NoError(t, err)
	err = ndview.CompileSource(k.SourceOf([]int64{1}, []int64{1}, [][]int64{{1}}, true))
	var failed *nvrtc.Error
	require.True(t, errors.As(err, &failed))
	assert.Contains(t, failed.Log, `"nothing" is undefined`)
	assert.Contains(t, failed.Log, "code(2)")
}

// accOf defines a neutral element of the variables' type.
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

// The examples of libgpuarray's collapse, and of pygpu's check_args: shapes and
// byte strides before and after. Where pygpu keeps axes in their order, ours are
// sorted, which joins no fewer of them.
func TestOperandsOfOwnKernelsAreWalkedInTheFewestLoops(t *testing.T) {
	args := []ndview.KernelArg{writes("x", ndview.Float32), reads("y", ndview.Float32)}
	var loops []int64
	dev := cudatest.NewDevice(t)
	ndview.UseTwins(t, func(source string) map[string]cudabuf.HostKernel {
		n, err := strconv.Atoi(regexp.MustCompile(`n, extent\[(\d+)\]`).FindStringSubmatch(source)[1])
		require.NoError(t, err)
		return map[string]cudabuf.HostKernel{"quiver_own": func(l *cudabuf.HostLaunch) {
			raw := l.Struct(2, 8*(1+3*n))
			loops = nil
			for i := 1; i < 1+3*n; i++ {
				loops = append(loops, int64(binary.NativeEndian.Uint64(raw[8*i:])))
			}
		}}
	})
	k, err := ndview.NewElementwise(dev, "x = y", "", args...)
	require.NoError(t, err)
	buf, other := upload(t, dev, make([]byte, 16<<10)), upload(t, dev, make([]byte, 16<<10))
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
			return own(t, a, err)
		}
		require.NoError(t, k.Run(array(buf, tt.x), array(other, tt.y)))
		require.NoError(t, dev.Synchronize())
		assert.Equal(t, tt.want, loops, "%v %v %v", tt.shape, tt.x, tt.y)
	}
}

func TestOwnKernelsComputeOnAGPU(t *testing.T) {
	if !cudatest.OnGPU() {
		t.Skip("compiled kernels need a GPU")
	}
	needNVRTC(t)
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		if strings.Contains(t.Name(), "/soft") {
			t.Skip("it runs no images")
		}
		half := fromHost(t, dev, ndview.Float16, []uint16{0x3c00, 0x4000, 0x0001, 0x7bff}, 4)
		res, err := ndview.Empty(dev, ndview.Float16, 4)
		own(t, res, err)
		k, err := ndview.NewElementwise(dev, "res = a * s", "", writes("res", ndview.Float16), reads("a", ndview.Float16), scalar("s", ndview.Float16))
		require.NoError(t, err)
		require.NoError(t, k.Run(res, half, 3))
		assert.Equal(t, raw[uint16](0x4200, 0x4600, 0x0003, 0x7c00), elements(t, res))

		wide := fromHost(t, dev, ndview.Int8, []int8{-1, 2, 3}, 3)
		out, err := ndview.Empty(dev, ndview.Bool, 3)
		own(t, out, err)
		compare, err := ndview.NewElementwise(dev, "res = a < limit", "", writes("res", ndview.Bool), reads("a", ndview.Int8), scalar("limit", ndview.Bool))
		require.NoError(t, err)
		require.NoError(t, compare.Run(out, wide, true))
		assert.Equal(t, raw(true, false, false), elements(t, out))

		broken, err := ndview.NewElementwise(dev, "res = nothing", "", writes("res", ndview.Bool))
		require.NoError(t, err)
		var failed *nvrtc.Error
		require.True(t, errors.As(broken.Run(out), &failed))
	})
}

// squares is the twin of the reduction of the test below, of x * x + c.
func squares(t *testing.T) func(source string) map[string]cudabuf.HostKernel {
	form := regexp.MustCompile(`kept\[(\d+)\], kept_stride\[2\]\[\d+\], extent\[(\d+)\]`)
	return func(source string) map[string]cudabuf.HostKernel {
		found := form.FindStringSubmatch(source)
		require.NotNil(t, found)
		kept, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		gone, err := strconv.Atoi(found[2])
		require.NoError(t, err)
		read := func(l *cudabuf.HostLaunch, i int) (results, each, parts, per int64, outer, inner ownLoops) {
			words := make([]int64, 4+3*kept+2*gone)
			for j, raw := 0, l.Struct(i, 8*len(words)); j < len(words); j++ {
				words[j] = int64(binary.NativeEndian.Uint64(raw[8*j:]))
			}
			return words[0], words[1], words[2], words[3], ownLoops{words[4:][:kept], words[4+kept:][:2*kept]}, ownLoops{words[4+3*kept:][:gone], words[4+3*kept+gone:]}
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
						v := float64(float(l.Memory(l.Pointer(0)+uintptr(outer.place(block/parts, 1)+inner.place(i, 0)), 4)))
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
					binary.NativeEndian.PutUint64(l.Memory(l.Pointer(1)+uintptr(outer.place(result, 0)), 8), math.Float64bits(sum))
				}
			},
		}
	}
}

// ownLoops is loops over arrays, as the structs of kernels from source have them.
type ownLoops struct{ extents, strides []int64 }

func (w ownLoops) place(number int64, array int) (at int64) {
	loops := len(w.extents)
	for loop := loops - 1; loop >= 0; loop-- {
		at += number % w.extents[loop] * w.strides[array*loops+loop]
		number /= w.extents[loop]
	}
	return at
}

func TestOwnReductionsTakeAnyAxes(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		if strings.Contains(t.Name(), "/soft") {
			ndview.UseTwins(t, squares(t))
		}
		needCompiler(t)
		testReductions(t, dev)
	})
}

func testReductions(t *testing.T, dev *cudabuf.Device) {
	values := make([]float32, 2*300*5)
	for i := range values {
		values[i] = float32(i % 97)
	}
	x := fromHost(t, dev, ndview.Float32, values, 2, 300, 5)
	k, err := ndview.NewReductionKernel(dev, ndview.ReductionSource{Out: ndview.Float64, Neutral: "0", Reduce: "a + b", Map: "x * x + c"},
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
	assert.Equal(t, raw[float64](0, 0), elements(t, got), "nothing is the neutral element")

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
