package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
)

// Unary is an operation on the elements of one array, such as [Sqrt], with the
// results of NumPy's function of that name.
type Unary struct{ *operation }

// Binary is an operation on the elements of two arrays, such as [Add], with the
// results of NumPy's function of that name.
//
// Operands are arrays or what [ScalarOf] takes: at least one is an *NDBuffer.
// Shapes broadcast, and types are promoted as by NumPy 2: a Go bool,
// int, float64 or complex128 takes the type of the array beside it where that is
// of its kind, every other Go number counts as an array of its type would.
type Binary struct{ *operation }

var errNoOperation = fmt.Errorf("no operation, but the zero Unary or Binary: %w", ErrDType)

// operation is what an operation is made of. What depends on the types is in
// signature.
type operation struct {
	name string
	op   elementwise.Op
	signature
}

// String is NumPy's name of the operation.
func (o *operation) String() string { return o.name }

// Of computes a new array, in C order, on the device of x.
func (u Unary) Of(x *NDBuffer) (*NDBuffer, error) {
	c := call{operation: u.operation, n: 1}
	c.in[0].array = x
	return c.of()
}

// Into computes into out, which has the shape of x or one that x broadcasts to,
// and a type to which the result casts within its kind ([CastSameKind]), and may
// share memory with x. On a CUDA device the work is queued on the default stream.
func (u Unary) Into(out, x *NDBuffer) error {
	c := call{operation: u.operation, n: 1, out: out}
	c.in[0].array = x
	return c.into()
}

// Of computes a new array, in C order, of the shape that x and y broadcast to,
// on their device.
func (b Binary) Of(x, y any) (*NDBuffer, error) {
	c := call{operation: b.operation, n: 2}
	if err := c.take(x, y); err != nil {
		return nil, err
	}
	return c.of()
}

// Into computes into out, to whose shape x and y broadcast. Its type is one to
// which the result casts within its kind ([CastSameKind]); it may share memory
// with x and y, whose elements count as they were before. On a CUDA device the
// work is queued on the default stream.
func (b Binary) Into(out *NDBuffer, x, y any) error {
	c := call{operation: b.operation, n: 2, out: out}
	if err := c.take(x, y); err != nil {
		return err
	}
	return c.into()
}

// take tells arrays from scalars.
func (c *call) take(operands ...any) error {
	if c.operation == nil {
		return errNoOperation
	}
	arrays := 0
	for i, v := range operands {
		if a, ok := v.(*NDBuffer); ok && a != nil {
			c.in[i].array = a
			arrays++
			continue
		}
		s, err := ScalarOf(v)
		if err != nil {
			return fmt.Errorf("%s: operand %d: %w", c.name, i+1, err)
		}
		c.in[i].scalar = s
	}
	if arrays == 0 {
		return fmt.Errorf("%s of scalars alone, one operand must be an array: %w", c.name, ErrDType)
	}
	return nil
}

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

var (
	whereOperation = &operation{"where", ew.Where, everything}
	clipOperation  = &operation{"clip", ew.Clip, numbers.bools(ew.Clip)}
	clipBelow      = &operation{"clip", ew.Maximum, Maximum.signature}
	clipAbove      = &operation{"clip", ew.Minimum, Minimum.signature}
	clipNowhere    = &operation{"clip", ew.Positive, numbers.bools(ew.Positive)}
)

// Where takes elements from x where the condition is true, from y where not, as
// numpy.where: the operands are arrays or scalars that broadcast and promote as
// those of a [Binary] do. A condition of another type than bool is true where it
// is not 0. Arrays of one type may be of any with 1, 2, 4, 8 or 16 bytes an
// element. The result is new, in C order.
func Where(condition, x, y any) (*NDBuffer, error) {
	c, done, err := whereCall(condition, x, y)
	if err != nil {
		return nil, err
	}
	defer done()
	return c.of()
}

// WhereInto is [Where] into out, as [Binary.Into].
func WhereInto(out *NDBuffer, condition, x, y any) error {
	c, done, err := whereCall(condition, x, y)
	if err != nil {
		return err
	}
	defer done()
	c.out = out
	return c.into()
}

func whereCall(condition, x, y any) (c call, done func(), err error) {
	c, done = call{operation: whereOperation, n: 3, typed: 1}, func() {}
	if a, ok := condition.(*NDBuffer); ok && a != nil && a.dtype != Bool {
		truth, err := a.truth()
		if err != nil {
			return c, done, fmt.Errorf("where: the condition: %w", err)
		}
		condition, done = truth, truth.Release
	}
	if err = c.take(condition, x, y); err != nil {
		done()
	}
	return c, done, err
}

// truth is where elements are not 0, as a NaT is not.
func (a *NDBuffer) truth() (*NDBuffer, error) {
	if !a.dtype.IsTime() {
		return NotEqual.Of(a, 0)
	}
	counts, err := a.View(Int64)
	if err != nil {
		return nil, err
	}
	defer counts.Release()
	return NotEqual.Of(counts, 0)
}

// resolveChoice decides the types of where.
func (c *call) resolveChoice() (err error) {
	if c.result, err = c.common(false); err != nil {
		return err
	}
	c.op, c.family = c.operation.op, familyWhere
	for i := c.typed; i < c.n && c.result.IsTime(); i++ {
		in := &c.in[i]
		if in.array == nil || in.dtype == c.result {
			continue
		}
		if err := c.toTimes(i, c.result); err != nil {
			return fmt.Errorf("where: operand %d: %w", i+1, err)
		}
		in.dtype = c.result
	}
	c.moves = true
	for i := 1; i < 3; i++ {
		c.moves = c.moves && (c.in[i].array == nil || c.in[i].dtype == c.result)
	}
	if c.compute, _ = c.result.Code(); c.moves || c.compute < ew.Float16 {
		switch c.result.Size() {
		case 1:
			c.compute = ew.Uint8
		case 2:
			c.compute = ew.Uint16
		case 4:
			c.compute = ew.Uint32
		case 8:
			c.compute = ew.Uint64
		case 16:
			c.compute = ew.Complex128
		default:
			return fmt.Errorf("where of %s: %w", c.operands(), ErrDType)
		}
	}
	c.kernel = c.compute
	return c.scalars(c.result)
}

// Clip limits the elements of an array to [low, high], as numpy.clip: the bounds
// are arrays or scalars that broadcast and promote as those of a [Binary] do, or
// nil for none; an integer that the type does not hold limits nothing where it is
// a low one below the type or a high one above. A NaN or NaT in any operand gives
// one. The result is new, in C order.
func Clip(a *NDBuffer, low, high any) (*NDBuffer, error) {
	c, done, err := clipCall(a, low, high)
	if err != nil {
		return nil, err
	}
	defer done()
	return c.of()
}

// ClipInto is [Clip] into out, as [Binary.Into].
func ClipInto(out, a *NDBuffer, low, high any) error {
	c, done, err := clipCall(a, low, high)
	if err != nil {
		return err
	}
	defer done()
	c.out = out
	return c.into()
}

func clipCall(a *NDBuffer, low, high any) (c call, done func(), err error) {
	done = func() {}
	switch {
	case low == nil && high == nil:
		c = call{operation: clipNowhere, n: 1}
		err = c.take(a)
	case high == nil:
		c, err = boundCall(clipBelow, a, low)
	case low == nil:
		c, err = boundCall(clipAbove, a, high)
	default:
		c = call{operation: clipOperation, n: 3}
		if err = c.take(a, low, high); err != nil || !c.ofTimes() && !c.ofComplexes() {
			break
		}
		if !c.ofTimes() { // complex numbers from the first step on
			common, err := c.common(false)
			if err != nil {
				return c, done, err
			}
			if a, err = a.AsType(common, OrderK, CastUnsafe); err != nil {
				return c, done, err
			}
			defer a.Release()
		}
		if c, err = boundCall(clipBelow, a, low); err != nil {
			break
		}
		above, err := c.of()
		if err != nil {
			return c, done, err
		}
		c, err = boundCall(clipAbove, above, high)
		return c, above.Release, err
	}
	return c, done, err
}

// boundCall limits an array on one side.
func boundCall(side *operation, a *NDBuffer, bound any) (call, error) {
	c := call{operation: side, n: 2}
	if err := c.take(a, bound); err != nil {
		return c, err
	}
	if a != nil {
		return c, c.in[1].clamp(a.dtype, side == clipAbove)
	}
	return c, nil
}

func (c *call) ofComplexes() bool {
	for i := range c.n {
		if c.in[i].kind() == KindComplex {
			return true
		}
	}
	return false
}
