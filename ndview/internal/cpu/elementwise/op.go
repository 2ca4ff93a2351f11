// Package elementwise computes results element by element on the host. It implements
// ndview's elementwise operations on the CPU device, and is the host implementation of
// their kernels.
//
// An operation has a loop for each type that it computes in, over contiguous elements.
// Operands with other strides or types, and scalars, are first converted to contiguous
// blocks that fit the first-level cache.
package elementwise

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// Op is an operation; 0 is none. The values must match enum Op of
// kernels/elementwise/ops.cuh.
type Op int32

// The operations, with the semantics of the NumPy functions of the same names.
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
	// On times: int64 values, of which the smallest is NaT.
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
	// On times.
	TimeEqual
	TimeNotEqual
	TimeLess
	TimeLessEqual
	TimeGreater
	TimeGreaterEqual
	TimeIsNaN
	TimeIsFinite

	TimeDivide   // by an integer, rounded towards zero
	TimeQuotient // two times, rounded down to an integer
	TimeRemainder
	FloorDivide
	Remainder
	Fmod
	Power
	Arctan2
	Hypot
	Nextafter
	NextafterFloat16 // float32 operands that hold float16 values
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

// The types, under names that are used beside operations.
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

// computeType returns the type whose loops compute for t.
func computeType(t Type) Type {
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

// Loop computes n contiguous elements. at has the addresses of the result and of the
// operands. The result may be at the address of an operand.
type Loop func(at *[4]unsafe.Pointer, n int)

// loops are indexed by operation and by the type that it computes in.
var loops = func() [ops][Types]Loop {
	l := goLoops()
	addAssembly(&l)
	return l
}()

func goLoops() (l [ops][Types]Loop) {
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

// binary and unary return slices of equal lengths, so that the compiler can eliminate
// bounds checks.
func binary[T, R any](at *[4]unsafe.Pointer, n int) (out []R, x, y []T) {
	return unsafe.Slice((*R)(at[0]), n), unsafe.Slice((*T)(at[1]), n), unsafe.Slice((*T)(at[2]), n)
}

func unary[T, R any](at *[4]unsafe.Pointer, n int) (out []R, x []T) {
	return unsafe.Slice((*R)(at[0]), n), unsafe.Slice((*T)(at[1]), n)
}

// Result returns the type of the result of a loop that computes in t.
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

// Real reports whether the result for complex operands is real.
func (op Op) Real() bool { return op == Absolute || op == Real || op == Imag || op == Angle }

// Operand returns the type of operand i of a loop that computes in t.
func (op Op) Operand(i int, t Type) Type {
	switch {
	case op == Where && i == 0:
		return Bool
	case op >= MixedEqual && op <= MixedGreaterEqual && i == 0:
		return Int64
	}
	return t
}

// Boolean reports whether the result is a bool for each element.
func (op Op) Boolean() bool { return op >= Equal && op <= TimeIsFinite }
