package elementwise

import "unsafe"

// Loop computes n elements without gaps, at the addresses of the result and of
// the operands. The result may lie where an operand does.
type Loop func(at *[4]unsafe.Pointer, n int)

// loops are those of each operation and the type that it computes in.
var loops = func() [ops][Types]Loop {
	l := loopsOfGo()
	addVectors(&l)
	return l
}()

func loopsOfGo() (l [ops][Types]Loop) {
	addIntegers[int8](&l, Int8)
	addIntegers[uint8](&l, Uint8)
	addIntegers[int16](&l, Int16)
	addIntegers[uint16](&l, Uint16)
	addIntegers[int32](&l, Int32)
	addIntegers[uint32](&l, Uint32)
	addIntegers[int64](&l, Int64)
	addIntegers[uint64](&l, Uint64)
	addFloats[float32](&l, Float32)
	addFloats[float64](&l, Float64)
	addComplexes[complex64, float32](&l, Complex64)
	addComplexes[complex128, float64](&l, Complex128)
	addMixed(&l)
	addTimes(&l)
	addChoices(&l)
	return l
}

// binary and unary are slices of a loop's elements, of which the compiler knows
// that they are as long as each other.
func binary[T, R any](at *[4]unsafe.Pointer, n int) (out []R, x, y []T) {
	return unsafe.Slice((*R)(at[0]), n), unsafe.Slice((*T)(at[1]), n), unsafe.Slice((*T)(at[2]), n)
}

func unary[T, R any](at *[4]unsafe.Pointer, n int) (out []R, x []T) {
	return unsafe.Slice((*R)(at[0]), n), unsafe.Slice((*T)(at[1]), n)
}

// result and operand are the types of a loop's elements that computes in t.
func (op Op) Result(t Type) Type {
	switch {
	case op.Boolean():
		return Bool
	case t == Complex64 && op.Real():
		return Float32
	case t == Complex128 && op.Real():
		return Float64
	}
	return t
}

func (op Op) Real() bool { return op == Absolute || op == Real || op == Imag || op == Angle }

func (op Op) Operand(i int, t Type) Type {
	switch {
	case op == Where && i == 0:
		return Bool
	case op >= MixedEqual && op <= MixedGreaterEqual && i == 0:
		return Int64
	}
	return t
}

// Boolean tells whether the result is a bool for each element.
func (op Op) Boolean() bool { return op >= Equal && op <= TimeIsFinite }
