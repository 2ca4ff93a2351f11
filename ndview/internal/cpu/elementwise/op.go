// Package elementwise computes results element by element: what ndview's
// operations do on the CPU device, and what stands in for their kernels on the
// soft device.
//
// An operation has a loop for each type that it computes in, over elements
// without gaps. Everything else, other strides, other types, scalars, is brought
// into that form a block at a time, in memory that stays in the first cache.
package elementwise

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
type Type uint8

// The types. The kernels know them by the same numbers (element.cuh).
const (
	Bool Type = iota
	Int8
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Float16
	BFloat16
	Float32
	Float64
	Complex64
	Complex128
	Types
)

var sizes = [Types]uint8{1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16}

// Size is the bytes of an element.
func (t Type) Size() int64 { return int64(sizes[t]) }

// Half tells whether t is a float of 16 bits.
func (t Type) Half() bool { return t == Float16 || t == BFloat16 }

// work is the type whose loops compute for t.
func (t Type) work() Type {
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
