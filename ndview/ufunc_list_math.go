package ndview

import ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"

// Exponentials and logarithms. How exact they are is in docs/ufuncs.md.
var (
	Exp   = unaryOp("exp", ew.Exp, floatsAndComplexes)
	Exp2  = unaryOp("exp2", ew.Exp2, floatsAndComplexes)
	Expm1 = unaryOp("expm1", ew.Expm1, floatsAndComplexes)
	Log   = unaryOp("log", ew.Log, floatsAndComplexes)
	Log2  = unaryOp("log2", ew.Log2, floatsAndComplexes)
	Log10 = unaryOp("log10", ew.Log10, floatsAndComplexes)
	Log1p = unaryOp("log1p", ew.Log1p, floatsAndComplexes)
)

// Trigonometry, in radians. How exact it is is in docs/ufuncs.md.
var (
	Sin     = unaryOp("sin", ew.Sin, floatsAndComplexes)
	Cos     = unaryOp("cos", ew.Cos, floatsAndComplexes)
	Tan     = unaryOp("tan", ew.Tan, floatsAndComplexes)
	Arcsin  = unaryOp("arcsin", ew.Arcsin, floatsAndComplexes)
	Arccos  = unaryOp("arccos", ew.Arccos, floatsAndComplexes)
	Arctan  = unaryOp("arctan", ew.Arctan, floatsAndComplexes)
	Sinh    = unaryOp("sinh", ew.Sinh, floatsAndComplexes)
	Cosh    = unaryOp("cosh", ew.Cosh, floatsAndComplexes)
	Tanh    = unaryOp("tanh", ew.Tanh, floatsAndComplexes)
	Arcsinh = unaryOp("arcsinh", ew.Arcsinh, floatsAndComplexes)
	Arccosh = unaryOp("arccosh", ew.Arccosh, floatsAndComplexes)
	Arctanh = unaryOp("arctanh", ew.Arctanh, floatsAndComplexes)

	Arctan2   = binaryOp("arctan2", ew.Arctan2, floats)
	Hypot     = binaryOp("hypot", ew.Hypot, floats)
	Copysign  = binaryOp("copysign", ew.Copysign, floats)
	Nextafter = binaryOp("nextafter", ew.Nextafter, floats)
)

// Parts of complex numbers, which are reals of half the size. Of other numbers
// the real part is the number itself, the imaginary one 0, and the angle that of
// the sign. Angle is in radians.
var (
	Real  = unaryOp("real", ew.Real, signature{as(ew.Positive), as(ew.Positive), as(ew.Positive), own})
	Imag  = unaryOp("imag", ew.Imag, everything)
	Angle = unaryOp("angle", ew.Angle, signature{asFloat, asFloat, own, own})
)
