// Package elementwise computes results element by element: what ndview's
// operations do on the CPU device, and what stands in for their kernels on the
// soft device.
//
// An operation has a loop for each type that it computes in, over elements
// without gaps. Everything else, other strides, other types, scalars, is brought
// into that form a block at a time, in memory that stays in the first cache.
package elementwise

import "github.com/quiver-gpu/quiver/ndview/internal/cpu"

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
