package ndview

import ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"

func unaryOp(name string, op ew.Op, s signature) Unary {
	return Unary{&operation{name, op, s}}
}

func binaryOp(name string, op ew.Op, s signature) Binary {
	return Binary{&operation{name, op, s}}
}

// Arithmetic. Integers wrap around; an integer divided by zero is 0, and one to
// a negative power is the true result rounded towards zero, where NumPy has an
// error.
var (
	Add         = binaryOp("add", ew.Add, numbers.bools(ew.Or))
	Subtract    = binaryOp("subtract", ew.Subtract, numbers)
	Multiply    = binaryOp("multiply", ew.Multiply, numbers.bools(ew.And))
	Divide      = binaryOp("divide", ew.Divide, signature{asFloat64, asFloat64, own, own})
	FloorDivide = binaryOp("floor_divide", ew.FloorDivide, signature{asInt8, own, own, refused})
	Remainder   = binaryOp("remainder", ew.Remainder, signature{asInt8, own, own, refused})
	Fmod        = binaryOp("fmod", ew.Fmod, signature{asInt8, own, own, refused})
	Power       = binaryOp("power", ew.Power, signature{asInt8, own, own, own})

	// Maximum and Minimum are NaN where an operand is, Fmax and Fmin where both
	// are.
	Maximum = binaryOp("maximum", ew.Maximum, numbers.bools(ew.Or))
	Minimum = binaryOp("minimum", ew.Minimum, numbers.bools(ew.And))
	Fmax    = binaryOp("fmax", ew.Fmax, numbers.bools(ew.Or))
	Fmin    = binaryOp("fmin", ew.Fmin, numbers.bools(ew.And))

	Positive   = unaryOp("positive", ew.Positive, numbers)
	Negative   = unaryOp("negative", ew.Negative, numbers)
	Absolute   = unaryOp("absolute", ew.Absolute, numbers.bools(ew.Positive))
	Sign       = unaryOp("sign", ew.Sign, numbers)
	Square     = unaryOp("square", ew.Square, signature{asInt8, own, own, own})
	Reciprocal = unaryOp("reciprocal", ew.Reciprocal, signature{asInt8, own, own, own})
	Conjugate  = unaryOp("conjugate", ew.Conjugate, signature{way{toInt8, ew.Positive}, as(ew.Positive), as(ew.Positive), own})
)

// Bits. A shift by a count that is negative, or not below the bits of the type,
// shifts everything out.
var (
	BitwiseAnd = binaryOp("bitwise_and", ew.And, integers)
	BitwiseOr  = binaryOp("bitwise_or", ew.Or, integers)
	BitwiseXor = binaryOp("bitwise_xor", ew.Xor, integers)
	LeftShift  = binaryOp("left_shift", ew.LeftShift, signature{asInt8, own, refused, refused})
	RightShift = binaryOp("right_shift", ew.RightShift, signature{asInt8, own, refused, refused})
	Invert     = unaryOp("invert", ew.Invert, integers.bools(ew.LogicalNot))
)

// Comparisons and logic, whose result is a bool. Integers compare exactly, those
// of an array with a Go int too.
var (
	Equal        = binaryOp("equal", ew.Equal, everything)
	NotEqual     = binaryOp("not_equal", ew.NotEqual, everything)
	Less         = binaryOp("less", ew.Less, everything)
	LessEqual    = binaryOp("less_equal", ew.LessEqual, everything)
	Greater      = binaryOp("greater", ew.Greater, everything)
	GreaterEqual = binaryOp("greater_equal", ew.GreaterEqual, everything)
	LogicalAnd   = binaryOp("logical_and", ew.LogicalAnd, everything)
	LogicalOr    = binaryOp("logical_or", ew.LogicalOr, everything)
	LogicalXor   = binaryOp("logical_xor", ew.LogicalXor, everything)
	LogicalNot   = unaryOp("logical_not", ew.LogicalNot, everything)
	IsNaN        = unaryOp("isnan", ew.IsNaN, signature{never, never, own, own})
	IsInf        = unaryOp("isinf", ew.IsInf, signature{never, never, own, own})
	IsFinite     = unaryOp("isfinite", ew.IsFinite, signature{always, always, own, own})
	Signbit      = unaryOp("signbit", ew.Signbit, floats)
)

// Roots and whole numbers.
var (
	Sqrt  = unaryOp("sqrt", ew.Sqrt, floatsAndComplexes)
	Cbrt  = unaryOp("cbrt", ew.Cbrt, floats)
	Floor = unaryOp("floor", ew.Floor, wholes)
	Ceil  = unaryOp("ceil", ew.Ceil, wholes)
	Trunc = unaryOp("trunc", ew.Trunc, wholes)
	Rint  = unaryOp("rint", ew.Rint, signature{asFloat, asFloat, own, own})
)
