package ndview_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
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

// goldenUfuncs is testdata/golden/ufuncs.json: see the script beside it.
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

func TestOperationsAreNumPys(t *testing.T) {
	var golden goldenUfuncs
	readGolden(t, "ufuncs.json", &golden)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		// operand is the values of a type, with axes of extent 1 behind.
		operand := func(t *testing.T, dtype string, axes int) *ndview.NDBuffer {
			data, d := decode64(t, golden.Values[dtype]), dtypesByName[dtype]
			shape := []int64{int64(len(data)) / d.Size()}
			for len(shape) < axes {
				shape = append(shape, 1)
			}
			return at(t, upload(t, dev, data), d, 0, shape...)
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
				own(t, got, err)
				require.Equal(t, want[0], got.DType().String())
				requireSame(t, got.DType(), decode64(t, want[1]), elements(t, got), ulps(name, got.DType()))
			})
		}
	})
}

// ulps is how far results may be from NumPy's: complex products and quotients
// there depend on the machine.
func ulps(name string, dtype ndview.DType) float64 {
	switch {
	case dtype.Kind() == ndview.KindComplex && (name == "multiply" || name == "divide" || name == "square" || name == "reciprocal" || name == "sqrt" || name == "sign"):
		return 4
	case name == "maximum", name == "minimum", name == "fmax", name == "fmin":
		return 0.5 // zeros of either sign
	}
	return 0
}

// requireSame compares elements: NaNs are all the same, and floats may differ by
// so many units in the last place; by less than 1, only zeros may.
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
		requireBytes(t, want, got)
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
