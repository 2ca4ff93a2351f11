package ndview_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var unaryOperations = byName(
	ndview.Negative, ndview.Positive, ndview.Absolute, ndview.Sign, ndview.Square, ndview.Reciprocal,
	ndview.Conjugate, ndview.Invert, ndview.LogicalNot, ndview.IsNaN, ndview.IsInf, ndview.IsFinite, ndview.Signbit,
	ndview.Sqrt, ndview.Floor, ndview.Ceil, ndview.Trunc, ndview.Rint)

var binaryOperations = byName(
	ndview.Add, ndview.Subtract, ndview.Multiply, ndview.Divide, ndview.FloorDivide, ndview.Remainder, ndview.Fmod,
	ndview.Maximum, ndview.Minimum, ndview.Fmax, ndview.Fmin, ndview.BitwiseAnd, ndview.BitwiseOr, ndview.BitwiseXor,
	ndview.LeftShift, ndview.RightShift, ndview.Equal, ndview.NotEqual, ndview.Less, ndview.LessEqual, ndview.Greater,
	ndview.GreaterEqual, ndview.LogicalAnd, ndview.LogicalOr, ndview.LogicalXor)

func byName[O fmt.Stringer](operations ...O) map[string]O {
	m := map[string]O{}
	for _, o := range operations {
		m[o.String()] = o
	}
	return m
}

var dtypesByName = byName(ndview.Bool, ndview.Int8, ndview.Uint8, ndview.Int16, ndview.Uint16, ndview.Int32, ndview.Uint32,
	ndview.Int64, ndview.Uint64, ndview.Float16, ndview.BFloat16, ndview.Float32, ndview.Float64, ndview.Complex64, ndview.Complex128)

// goldenUfuncs is testdata/golden/ufuncs.json, which ufuncs.py describes.
type goldenUfuncs struct {
	Values map[string]string
	Cases  [][]string
}

func readGolden(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile("testdata/golden/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, into))
}

func decode64(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return data
}

func TestOperationsMatchNumPy(t *testing.T) {
	var golden goldenUfuncs
	readGolden(t, "ufuncs.json", &golden)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		// operand returns the values of a type, with trailing axes of extent 1.
		operand := func(t *testing.T, dtype string, axes int) *ndview.NDBuffer {
			data, d := decode64(t, golden.Values[dtype]), dtypesByName[dtype]
			shape := []int64{int64(len(data)) / d.Size()}
			for len(shape) < axes {
				shape = append(shape, 1)
			}
			return ndtest.At(t, ndtest.Upload(t, dev, data), d, 0, shape...)
		}
		for _, c := range golden.Cases {
			name, types := c[0], c[1:2]
			_, isBinary := binaryOperations[name]
			if isBinary {
				types = c[1:3]
			}
			t.Run(fmt.Sprint(name, types), func(t *testing.T) {
				var got *ndview.NDBuffer
				var err error
				if isBinary {
					got, err = binaryOperations[name].Of(operand(t, types[0], 2), operand(t, types[1], 1))
				} else {
					got, err = unaryOperations[name].Of(operand(t, types[0], 1))
				}
				want := c[1+len(types):]
				if len(want) == 0 {
					require.ErrorIs(t, err, ndview.ErrDType)
					return
				}
				ndtest.Own(t, got, err)
				require.Equal(t, want[0], got.DType().String())
				requireSame(t, got.DType(), decode64(t, want[1]), ndtest.Elements(t, got), ulps(name, got.DType()))
			})
		}
	})
}

// ulps returns the allowed difference from NumPy's results, whose complex products and
// quotients depend on the machine.
func ulps(name string, dtype ndview.DType) float64 {
	switch {
	case dtype.Kind() == ndview.KindComplex && (name == "multiply" || name == "divide" || name == "square" || name == "reciprocal" || name == "sqrt" || name == "sign"):
		return 4
	case name == "maximum", name == "minimum", name == "fmax", name == "fmin":
		return 0.5 // zeros of either sign
	}
	return 0
}

// requireSame compares elements. All NaNs are equal, and floats may differ by a number of
// units in the last place. If that is between 0 and 1, only the signs of zeros may differ.
func requireSame(t *testing.T, dtype ndview.DType, want, got []byte, ulps float64) {
	t.Helper()
	switch dtype {
	case ndview.Float16:
		sameFloats(t, halves(want), halves(got), ulps*0x1p-10, ulps == 0)
	case ndview.BFloat16:
		sameFloats(t, bfloats(want), bfloats(got), ulps*0x1p-7, ulps == 0)
	case ndview.Float32, ndview.Complex64:
		sameFloats(t, as64(slice[float32](want)), as64(slice[float32](got)), ulps*0x1p-23, ulps == 0)
	case ndview.Float64, ndview.Complex128:
		sameFloats(t, slice[float64](want), slice[float64](got), ulps*0x1p-52, ulps == 0)
	default:
		ndtest.RequireBytes(t, want, got)
	}
}

func sameFloats(t *testing.T, want, got []float64, relative float64, signs bool) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		g := got[i]
		same := w == g && (!signs || math.Signbit(w) == math.Signbit(g)) || w != w && g != g
		if !same && math.Abs(w-g) > relative*math.Abs(w) || w-g != w-g && !same {
			assert.Failf(t, "elements differ", "at %d of %d: want %v, got %v", i, len(want), w, g)
		}
	}
}

func slice[T any](b []byte) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(one)))
}

func as64(v []float32) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

func bfloats(b []byte) []float64 {
	var out []float64
	for _, h := range slice[uint16](b) {
		out = append(out, float64(math.Float32frombits(uint32(h)<<16)))
	}
	return out
}

func halves(b []byte) []float64 {
	var out []float64
	for _, h := range slice[uint16](b) {
		sign, exp, frac := 1-2*float64(h>>15), int(h>>10&31), float64(h&0x3ff)
		v := math.Ldexp(1+frac/1024, exp-15)
		switch {
		case exp == 0:
			v = math.Ldexp(frac/1024, -14)
		case exp == 31 && frac == 0:
			v = math.Inf(1)
		case exp == 31:
			v = math.NaN()
		}
		out = append(out, math.Copysign(v, sign))
	}
	return out
}

var functions = byName(ndview.Exp, ndview.Exp2, ndview.Expm1, ndview.Log, ndview.Log2, ndview.Log10, ndview.Log1p,
	ndview.Sin, ndview.Cos, ndview.Tan, ndview.Arcsin, ndview.Arccos, ndview.Arctan, ndview.Sinh, ndview.Cosh, ndview.Tanh,
	ndview.Arcsinh, ndview.Arccosh, ndview.Arctanh, ndview.Sqrt, ndview.Cbrt)

var binaryFunctions = byName(ndview.Arctan2, ndview.Hypot, ndview.Power, ndview.Copysign, ndview.Nextafter)

// goldenFunctions is testdata/golden/functions.json, which functions.py describes.
type goldenFunctions struct{ Functions, Choices [][]string }

// errorBounds are the bounds of docs/ufuncs.md in units of the last place. Those of other
// functions are 2.
var errorBounds = map[string]float64{
	"sqrt": 0.5, "copysign": 0, "nextafter": 0, "tan": 4, "sinh": 3, "cosh": 3, "arcsin": 4, "arctan2": 3, "power": 9, "arcsinh": 4,
	"arccosh": 4, "arctanh": 4, "log1p": 3, "hypot": 3,
}

func TestFunctionErrorsAreWithinBounds(t *testing.T) {
	var golden goldenFunctions
	readGolden(t, "functions.json", &golden)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range golden.Functions {
			name, dtype := c[0], dtypesByName[c[1]]
			data := decode64(t, c[2])
			n := int64(len(data)) / dtype.Size()
			x := ndtest.At(t, ndtest.Upload(t, dev, data), dtype, 0, n)
			var got *ndview.NDBuffer
			var err error
			if len(c) == 5 {
				got, err = binaryFunctions[name].Of(x, ndtest.At(t, ndtest.Upload(t, dev, decode64(t, c[4])), dtype, 0, n))
			} else {
				got, err = functions[name].Of(x)
			}
			ndtest.Own(t, got, err)
			require.Equal(t, dtype, got.DType(), name)
			bound, ok := errorBounds[name]
			if !ok {
				bound = 2
			}
			requireClose(t, fmt.Sprint(name, " of ", dtype), dtype, slice[float64](decode64(t, c[3])), ndtest.Elements(t, got), bound)
		}
	})
}

func TestInverseFunctionsTakeNoComplexNumbers(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range []ndview.DType{ndview.Complex64, ndview.Complex128} {
			z := ndtest.At(t, ndtest.Upload(t, dev, make([]byte, 32)), dtype, 0, 2)
			for _, op := range []ndview.Unary{ndview.Arcsin, ndview.Arccos, ndview.Arctan, ndview.Arcsinh, ndview.Arccosh, ndview.Arctanh} {
				_, err := op.Of(z)
				assert.ErrorIs(t, err, ndview.ErrDType, "%s of %s", op, dtype)
				assert.ErrorContains(t, err, "ndview.A"+op.String()[1:]+": operands of "+dtype.String())
			}
		}
	})
}

// Vectors contain both numbers small enough for a fast range reduction and larger ones.
func TestSineErrorsAreWithinBoundsForMixedMagnitudes(t *testing.T) {
	var x []float32
	for k := range 400 {
		x = append(x, float32(float64(k*k)*math.Pi/2), -float32(k)/16, math.Float32frombits(0x47800000+uint32(k-200)), float32(k)*1e30)
	}
	x = append(x, float32(negativeZero), 105615, 1e-40, float32(math.Inf(-1)), float32(nan))
	expected := map[string]func(float64) float64{"sin": math.Sin, "cos": math.Cos}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for name, truth := range expected {
			var want []float64
			for _, v := range x {
				want = append(want, truth(float64(v)))
			}
			got, err := byName(ndview.Sin, ndview.Cos)[name].Of(ndtest.FromHost(t, dev, ndview.Float32, x, int64(len(x))))
			ndtest.Own(t, got, err)
			requireClose(t, name, ndview.Float32, want, ndtest.Elements(t, got), 2)
			if first := slice[float32](ndtest.Elements(t, got))[len(x)-5]; name == "sin" {
				assert.True(t, math.Signbit(float64(first)), "of a negative zero")
			}
		}
	})
}

// requireClose compares results with the exact values, up to a number of units in the
// last place.
func requireClose(t *testing.T, message string, dtype ndview.DType, want []float64, got []byte, ulps float64) {
	t.Helper()
	var values []float64
	mantissa, least := 52, -1074
	switch dtype {
	case ndview.Float16:
		values, mantissa, least = halves(got), 10, -24
	case ndview.BFloat16:
		values, mantissa, least = bfloats(got), 7, -133
	case ndview.Float32, ndview.Complex64:
		values, mantissa, least = as64(slice[float32](got)), 23, -149
	default:
		values = slice[float64](got)
	}
	parts := 1
	if dtype.Kind() == ndview.KindComplex {
		parts, ulps = 2, 64 // units of the number, not of each part
	}
	require.Len(t, values, len(want), message)
	for i, w := range want {
		size := math.Abs(w)
		if parts == 2 {
			size = math.Hypot(want[i&^1], want[i|1])
		}
		_, e := math.Frexp(size)
		unit := math.Ldexp(1, max(e-1-mantissa, least))
		g := values[i]
		switch {
		case w != w && g != g, w == g:
		case math.IsInf(g, 0) && math.Abs(w) >= math.Ldexp(2-math.Ldexp(1, -mantissa-1), -least-mantissa-1+1-1) && !math.IsInf(w, -int(math.Copysign(1, g))):
		case math.IsInf(w, 0) || math.IsInf(g, 0) || !(math.Abs(w-g) <= (ulps+0.5)*unit):
			assert.Failf(t, "the error exceeds the bound", "%s, element %d: want %v, got %v, which is off by %v units", message, i, w, g, math.Abs(w-g)/unit)
		}
	}
}

func TestWhereAndClipMatchNumPy(t *testing.T) {
	var golden goldenFunctions
	readGolden(t, "functions.json", &golden)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range golden.Choices {
			types := [3]ndview.DType{ndview.Bool, dtypesByName[c[1]], dtypesByName[c[2]]}
			if c[0] == "clip" {
				types[0] = types[1]
			}
			var in [3]*ndview.NDBuffer
			for i := range in {
				in[i] = ndtest.At(t, ndtest.Upload(t, dev, decode64(t, c[3+i])), types[i], 0, 5)
			}
			var got *ndview.NDBuffer
			var err error
			if c[0] == "where" {
				got, err = ndview.Where(in[0], in[1], in[2])
			} else {
				got, err = ndview.Clip(in[0], in[1], in[2])
			}
			ndtest.Own(t, got, err)
			require.Equal(t, c[6], got.DType().String(), c)
			requireSame(t, got.DType(), decode64(t, c[7]), ndtest.Elements(t, got), 0)
			out, err := ndview.Zeros(dev, got.DType(), 5)
			ndtest.Own(t, out, err)
			if c[0] == "where" {
				err = ndview.WhereInto(out, in[0], in[1], in[2])
			} else {
				err = ndview.ClipInto(out, in[0], in[1], in[2])
			}
			require.NoError(t, err, c)
			requireSame(t, got.DType(), decode64(t, c[7]), ndtest.Elements(t, out), 0)
		}
	})
}

func TestWhereAndClipWriteInPlace(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		x := ndtest.FromHost(t, dev, ndview.Int16, []int16{-7, 0, 7, 300}, 4)
		require.NoError(t, ndview.ClipInto(x, x, -5, 200))
		assert.Equal(t, []int16{-5, 0, 7, 200}, ndtest.HostOf[int16](t, x))
		require.NoError(t, ndview.WhereInto(x, ndtest.FromHost(t, dev, ndview.Bool, []bool{true, false, true, false}, 4), x, 9))
		assert.Equal(t, []int16{-5, 9, 7, 9}, ndtest.HostOf[int16](t, x))
		narrow := ndtest.FromHost(t, dev, ndview.Int8, []int8{1, 2, 3, 4}, 4)
		floats := ndtest.FromHost(t, dev, ndview.Float32, []float32{7, 8, 9, 10}, 4)
		require.ErrorIs(t, ndview.ClipInto(narrow, floats, 0, 5), ndview.ErrDType)
		require.ErrorIs(t, ndview.WhereInto(ndtest.FromHost(t, dev, ndview.Int16, []int16{1}, 1), true, x, x), ndview.ErrShape)
		assert.Equal(t, []int8{1, 2, 3, 4}, ndtest.HostOf[int8](t, narrow), "an error writes nothing")
	})
}

func TestClipAcceptsBoundsBeyondTheType(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		x := ndtest.FromHost(t, dev, ndview.Uint8, []uint8{0, 7, 255}, 3)
		for _, c := range []struct {
			low, high any
			want      []byte
		}{{-1, 300, []byte{0, 7, 255}}, {3, nil, []byte{3, 7, 255}}, {nil, 8, []byte{0, 7, 8}}, {nil, nil, []byte{0, 7, 255}}, {5, 3, []byte{3, 3, 3}},
			{-300, nil, []byte{0, 7, 255}}, {nil, 300, []byte{0, 7, 255}}} {
			got, err := ndview.Clip(x, c.low, c.high)
			ndtest.Own(t, got, err)
			assert.Equal(t, c.want, ndtest.Elements(t, got), "%v %v", c.low, c.high)
		}
		_, err := ndview.Clip(x, 300, nil)
		assert.ErrorIs(t, err, ndview.ErrRange, "no element is as large as the bound")
	})
}

func TestClipLimitsTimesAndComplexNumbers(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		const nat = math.MinInt64
		days := ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Day, 1), []int64{-5, 0, 5, nat}, 4)
		low := ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Hour, 1), []int64{-30}, 1)
		got, err := ndview.Clip(days, low, time.Unix(86400, 0))
		ndtest.Own(t, got, err)
		assert.Equal(t, ndview.Datetime64(ndview.Nanosecond, 1), got.DType())
		const hour = int64(3600e9)
		assert.Equal(t, []int64{-30 * hour, 0, 24 * hour, nat}, slice[int64](ndtest.Elements(t, got)))
		require.NoError(t, ndview.ClipInto(days, days, nil, low))
		assert.Equal(t, []int64{-5, -2, -2, nat}, slice[int64](ndtest.Elements(t, days)), "rounded towards the past")
		z := ndtest.FromHost(t, dev, ndview.Complex64, []complex64{1 + 5i, 2 - 1i, 9}, 3)
		got, err = ndview.Clip(z, 2, 3+1i)
		ndtest.Own(t, got, err)
		assert.Equal(t, []complex64{2, 2, 3 + 1i}, slice[complex64](ndtest.Elements(t, got)))
	})
}

func TestWhereMovesElementsOfAnyKind(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		condition := ndtest.FromHost(t, dev, ndview.Float32, []float32{0, 0.5}, 2)
		for _, dtype := range []ndview.DType{ndview.Datetime64(ndview.Second, 1), ndview.Bytes(2), ndview.Bytes(16)} {
			x := ndtest.At(t, ndtest.Upload(t, dev, poisoned(int(dtype.Size())*2)), dtype, 0, 2)
			y := ndtest.At(t, ndtest.Upload(t, dev, make([]byte, dtype.Size()*2)), dtype, 0, 2)
			got, err := ndview.Where(condition, x, y)
			ndtest.Own(t, got, err)
			assert.Equal(t, dtype, got.DType())
			assert.Equal(t, append(make([]byte, dtype.Size()), poisoned(int(dtype.Size()))...), ndtest.Elements(t, got))
		}
		_, err := ndview.Where(condition, ndtest.At(t, ndtest.Upload(t, dev, make([]byte, 6)), ndview.Bytes(3), 0, 2), 1)
		assert.ErrorIs(t, err, ndview.ErrDType)
	})
}

func TestWhereAcceptsConditionsOfAnyLayout(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		all := ndtest.FromHost(t, dev, ndview.Bool, []bool{true, false, false, true, true, false}, 6)
		condition, err := all.Index(ndview.SpanStep(ndview.Open, ndview.Open, -2)) // 0 1 0
		ndtest.Own(t, condition, err)
		bools, err := all.Index(ndview.SpanStep(ndview.Open, ndview.Open, 2)) // 1 0 1
		ndtest.Own(t, bools, err)
		numbers := ndtest.FromHost(t, dev, ndview.Int16, []int16{5, 6, 7}, 3)
		for _, c := range []struct {
			x, y any
			want []byte
		}{
			{bools, false, ndtest.Raw(false, false, false)}, {true, bools, ndtest.Raw(true, true, true)}, {bools, condition, ndtest.Raw(false, false, false)},
			{numbers, int16(9), ndtest.Raw[int16](9, 6, 9)}, {numbers, 0.5, ndtest.Raw(0.5, 6, 0.5)},
		} {
			got, err := ndview.Where(condition, c.x, c.y)
			ndtest.Own(t, got, err)
			assert.Equal(t, c.want, ndtest.Elements(t, got), "%v %v", c.x, c.y)
		}
	})
}

func TestPowerRejectsNegativeScalarExponentsOfIntegers(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		x := ndtest.FromHost(t, dev, ndview.Int32, []int32{1, -1, 2, 0}, 4)
		_, err := ndview.Power.Of(x, -2)
		assert.ErrorIs(t, err, ndview.ErrRange)
		got, err := ndview.Power.Of(x, ndtest.FromHost(t, dev, ndview.Int32, []int32{-3, -3, -3, -3}, 4))
		ndtest.Own(t, got, err)
		assert.Equal(t, ndtest.Raw[int32](1, -1, 0, 0), ndtest.Elements(t, got), "only the device knows the elements of an array")
	})
}

func TestRealImagAndAngleOfNumbers(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		z := ndtest.FromHost(t, dev, ndview.Complex64, []complex64{1 + 2i, -3i, -1}, 3)
		for op, want := range map[ndview.Unary][]float32{
			ndview.Real: {1, 0, -1}, ndview.Imag: {2, -3, 0}, ndview.Angle: {float32(math.Atan(2)), -math.Pi / 2, math.Pi},
			ndview.Absolute: {float32(math.Sqrt(5)), 3, 1},
		} {
			got, err := op.Of(z)
			ndtest.Own(t, got, err)
			assert.Equal(t, ndview.Float32, got.DType())
			assert.InDeltaSlice(t, want, slice[float32](ndtest.Elements(t, got)), 1e-6, op.String())
		}
		x := ndtest.FromHost(t, dev, ndview.Int16, []int16{-4, 5}, 2)
		for op, want := range map[ndview.Unary][]byte{ndview.Real: ndtest.Raw[int16](-4, 5), ndview.Imag: ndtest.Raw[int16](0, 0), ndview.Angle: ndtest.Raw[float32](math.Pi, 0)} {
			got, err := op.Of(x)
			ndtest.Own(t, got, err)
			assert.Equal(t, want, ndtest.Elements(t, got), op.String())
		}
	})
}

// Powers with integer exponents are exact if the type represents them, as in NumPy.
func TestWholePowersAreExact(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		wholePowers[float32](t, dev, ndview.Float32, 24, 90)
		wholePowers[float64](t, dev, ndview.Float64, 53, 900)
	})
}

// wholePowers checks powers that have at most bitsOfT bits and exponents of at most most.
func wholePowers[T float32 | float64](t *testing.T, dev arrowbuf.Device, dtype ndview.DType, bitsOfT, most int) {
	var x, y, want []T
	for odd := 1; odd < 200; odd += 2 {
		for _, up := range []int{0, 1, 7, 24, -3, -20} {
			for n := -12; n <= 33; n++ {
				size := max(n, -n)
				if size*bits.Len(uint(odd)) > bitsOfT || size*max(up, -up) > most-bitsOfT || n < 0 && odd > 1 {
					continue
				}
				power := 1.0
				for range size {
					power *= float64(odd)
				}
				for _, sign := range []float64{1, -1} {
					x, y = append(x, T(sign*math.Ldexp(float64(odd), up))), append(y, T(n))
					want = append(want, T(math.Pow(sign, float64(n))*math.Ldexp(power, n*up)))
				}
			}
		}
	}
	require.Greater(t, len(x), 1000)
	a, b := ndtest.FromHost(t, dev, dtype, x, int64(len(x))), ndtest.FromHost(t, dev, dtype, y, int64(len(y)))
	r, err := ndview.Power.Of(a, b)
	r = ndtest.Own(t, r, err)
	got, err := ndview.ToHost[T](r)
	require.NoError(t, err)
	for i := range got {
		if got[i] != want[i] {
			assert.Equal(t, want[i], got[i], "%s: %v to the %v", dtype, x[i], y[i])
		}
	}
}
