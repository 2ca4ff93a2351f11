// Package elementwise computes results element by element: what ndview's
// operations do on the CPU device, and what stands in for their kernels on the
// soft device.
//
// An operation has a loop for each type that it computes in, over elements
// without gaps. Everything else, other strides, other types, scalars, is brought
// into that form a block at a time, in memory that stays in the first cache.
package elementwise

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// Op is an operation, or none, which is 0. The kernels know it by the same
// number (ops.cuh).
type Op int32

// The operations, as NumPy defines those of their names.
const (
	_ Op = iota
	Add
	Subtract
	Multiply
	Divide
	Maximum
	Minimum
	Fmax
	Fmin
	And
	Or
	Xor
	LeftShift
	RightShift
	Copysign
	Positive
	Negative
	Absolute
	Sign
	Square
	Invert
	Reciprocal
	Sqrt
	Floor
	Ceil
	Trunc
	Rint
	// Of times, int64s of which the smallest is NaT.
	TimeAdd
	TimeSubtract
	TimeMultiply // by an integer
	TimeMaximum
	TimeMinimum
	TimeFmax
	TimeFmin
	TimeNegative
	TimeAbsolute

	Equal
	NotEqual
	Less
	LessEqual
	Greater
	GreaterEqual
	LogicalAnd
	LogicalOr
	LogicalXor
	LogicalNot
	IsNaN
	IsInf
	IsFinite
	Signbit
	// Comparisons of an int64 with a uint64.
	MixedEqual
	MixedNotEqual
	MixedLess
	MixedLessEqual
	MixedGreater
	MixedGreaterEqual
	// Of times.
	TimeEqual
	TimeNotEqual
	TimeLess
	TimeLessEqual
	TimeGreater
	TimeGreaterEqual
	TimeIsNaN
	TimeIsFinite

	TimeDivide   // by an integer, rounded towards zero
	TimeQuotient // of two times, rounded down: an integer
	TimeRemainder
	FloorDivide
	Remainder
	Fmod
	Power
	Arctan2
	Hypot
	Nextafter
	NextafterFloat16 // of floats that are float16s
	NextafterBFloat16
	Cbrt
	Exp
	Exp2
	Expm1
	Log
	Log2
	Log10
	Log1p
	Sin
	Cos
	Tan
	Arcsin
	Arccos
	Arctan
	Sinh
	Cosh
	Tanh
	Arcsinh
	Arccosh
	Arctanh

	Conjugate
	Real
	Imag
	Angle
	Where
	Clip
	ops
)

// Type is the type of elements.
type Type = cpu.Type

// The types, by the names that fit beside operations.
const (
	Bool       = cpu.Bool
	Int8       = cpu.Int8
	Uint8      = cpu.Uint8
	Int16      = cpu.Int16
	Uint16     = cpu.Uint16
	Int32      = cpu.Int32
	Uint32     = cpu.Uint32
	Int64      = cpu.Int64
	Uint64     = cpu.Uint64
	Float16    = cpu.Float16
	BFloat16   = cpu.BFloat16
	Float32    = cpu.Float32
	Float64    = cpu.Float64
	Complex64  = cpu.Complex64
	Complex128 = cpu.Complex128
	Types      = cpu.Types
)

// computes is the type whose loops compute for t.
func computes(t Type) Type {
	if t.Half() {
		return Float32
	}
	return t
}

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type float interface{ float32 | float64 }

type ordinary interface{ integer | float }

type complexes interface{ complex64 | complex128 }

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
