package elementwise

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// specialValues are values that need special treatment in some loops.
var specialValues = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -2.5, math.Inf(1), math.Inf(-1), math.NaN(),
	math.MaxFloat32, -math.MaxFloat32, 0x1p-149, -0x1p-149, 88, 89, -87, -104, 65535, 65537, 1e9}

// randomElements returns n elements of a type.
func randomElements(rng *rand.Rand, t Type, n int) []byte {
	b := make([]byte, n*int(t.Size()))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	value := func() float64 {
		switch rng.IntN(4) {
		case 0:
			return specialValues[rng.IntN(len(specialValues))]
		case 1:
			return float64(rng.IntN(200) - 100)
		}
		return rng.NormFloat64() * 50
	}
	switch t {
	case Float32, Complex64:
		for i := range len(b) / 4 {
			*(*float32)(unsafe.Pointer(&b[i*4])) = float32(value())
		}
	case Float64, Complex128:
		for i := range len(b) / 8 {
			*(*float64)(unsafe.Pointer(&b[i*8])) = value()
		}
	case Bool:
		for i := range b {
			b[i] &= 1
		}
	}
	return b
}

func TestAssemblyMatchesGoLoops(t *testing.T) {
	slow := goLoops()
	rng := rand.New(rand.NewPCG(1, 2))
	for op := Add; op < ops; op++ {
		for compute := range Types {
			loop, want := loops[op][compute], slow[op][compute]
			if loop == nil || reflect.ValueOf(loop).Pointer() == reflect.ValueOf(want).Pointer() {
				continue
			}
			for n := 1; n <= 100; n++ {
				var at, atWant [4]unsafe.Pointer
				for i := range op.Inputs() {
					in := randomElements(rng, op.Operand(i, compute), n)
					at[1+i], atWant[1+i] = unsafe.Pointer(&in[0]), unsafe.Pointer(&in[0])
				}
				result := op.Result(compute)
				got, expected := make([]byte, n*int(result.Size())), make([]byte, n*int(result.Size()))
				at[0], atWant[0] = unsafe.Pointer(&got[0]), unsafe.Pointer(&expected[0])
				loop(&at, n)
				want(&atWant, n)
				requireClose(t, fmt.Sprintf("operation %d of type %d, %d elements", op, compute, n), op, result, expected, got)
			}
		}
	}
}

// requireClose requires equal bits, except that any two NaNs are equal and that
// functions may differ by two ulps.
func requireClose(t *testing.T, about string, op Op, result Type, want, got []byte) {
	t.Helper()
	if bytes.Equal(want, got) {
		return
	}
	size := int(result.Size())
	if result >= Complex64 {
		size /= 2
	}
	for i := 0; i < len(want); i += size {
		a, b := float64(*(*uint8)(unsafe.Pointer(&want[i]))), float64(*(*uint8)(unsafe.Pointer(&got[i])))
		switch result {
		case Float32, Complex64:
			a, b = float64(*(*float32)(unsafe.Pointer(&want[i]))), float64(*(*float32)(unsafe.Pointer(&got[i])))
		case Float64, Complex128:
			a, b = *(*float64)(unsafe.Pointer(&want[i])), *(*float64)(unsafe.Pointer(&got[i]))
		}
		near := (op == Exp || op == Sin || op == Cos) && math.Abs(a-b) <= 2*ulp(a)
		if !near && !(a != a && b != b) && !bytes.Equal(want[i:i+size], got[i:i+size]) {
			require.Failf(t, "results differ", "%s: element %d: want %v, got %v", about, i/size, a, b)
		}
	}
}

// ulp returns the unit in the last place of v as a float32.
func ulp(v float64) float64 {
	_, e := math.Frexp(v)
	return math.Ldexp(1, max(e-24, -149))
}

func TestFloat32FunctionsAreWithinTwoUlps(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const n = 1 << 12
	x, y := make([]float32, n), make([]float32, n)
	for _, f := range []struct {
		op    Op
		truth func(float64) float64
	}{{Exp, math.Exp}, {Sin, math.Sin}, {Cos, math.Cos}} {
		worst := 0.0
		for bits := uint64(0); bits < 1<<32; {
			for i := range x {
				x[i] = math.Float32frombits(uint32(bits))
				bits += 1009
			}
			loops[f.op][Float32](&[4]unsafe.Pointer{unsafe.Pointer(&y[0]), unsafe.Pointer(&x[0])}, n)
			for i, v := range x {
				want, got := f.truth(float64(v)), float64(y[i])
				switch {
				case want != want || got != got:
					require.Equal(t, want != want, got != got, "%d of %v", f.op, v)
				case math.IsInf(float64(float32(want)), 0) || math.IsInf(got, 0):
					require.Equal(t, float64(float32(want)), got, "%d of %v", f.op, v)
				default:
					worst = max(worst, math.Abs(want-got)/ulp(want))
				}
			}
		}
		assert.Less(t, worst, 2.0, "operation %d", f.op)
		t.Logf("operation %d is off by at most %.2f ulps", f.op, worst)
	}
}

// BenchmarkAssembly runs each loop in assembly, alone and in Go, on elements that fit the
// first-level cache. Names of sub-benchmarks are operation, type of computation, asm or go.
func BenchmarkAssembly(b *testing.B) {
	const n = 1 << 10
	operations := constantNames(b, "op.go", "_ Op = iota", "\tops\n", "")
	types := constantNames(b, "../cpu.go", "Bool Type = iota", "\tTypes ", "")
	portable := goLoops()
	rng := rand.New(rand.NewPCG(1, 2))
	for op := Add; op < ops; op++ {
		for compute := range Types {
			loop, slow := loops[op][compute], portable[op][compute]
			if loop == nil || reflect.ValueOf(loop).Pointer() == reflect.ValueOf(slow).Pointer() {
				continue
			}
			var at [4]unsafe.Pointer
			bytes := n * op.Result(compute).Size()
			for i := range op.Inputs() {
				t := op.Operand(i, compute)
				in := make([]byte, n*int(t.Size()))
				for k := range n {
					putSmall(in[k*int(t.Size()):], t, rng.IntN(100)+1)
				}
				at[1+i] = unsafe.Pointer(&in[0])
				bytes += int64(len(in))
			}
			out := make([]byte, n*16)
			at[0] = unsafe.Pointer(&out[0])
			name := operations[op-1]
			if compute > Bool {
				name += "/" + types[compute-1]
			}
			for _, side := range []struct {
				name string
				loop Loop
			}{{"asm", loop}, {"go", slow}} {
				b.Run(name+"/"+side.name, func(b *testing.B) {
					b.SetBytes(bytes)
					for b.Loop() {
						side.loop(&at, n)
					}
				})
			}
		}
	}
}

// putSmall writes a small positive number of type t; a bool is whether it is odd.
func putSmall(to []byte, t Type, v int) {
	p := unsafe.Pointer(&to[0])
	switch {
	case t == Bool:
		to[0] = byte(v & 1)
	case t == Float32:
		*(*float32)(p) = float32(v)
	case t == Float64:
		*(*float64)(p) = float64(v)
	case t == Complex64:
		*(*complex64)(p) = complex(float32(v), 1)
	case t == Complex128:
		*(*complex128)(p) = complex(float64(v), 1)
	default:
		to[0] = byte(v)
	}
}
