package ndview

import (
	"fmt"
	"strings"

	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
)

// Unary is an operation on the elements of one array, such as [Sqrt], with the
// results of NumPy's function of that name.
type Unary struct{ operation *operation }

// Binary is an operation on the elements of two arrays, such as [Add], with the
// results of NumPy's function of that name.
//
// Operands are arrays or values that [ScalarOf] takes; at least one is an *NDBuffer.
// Shapes broadcast, and types are promoted as by NumPy 2. A Go bool, int, float64 or
// complex128 takes the type of the array beside it if that is of its kind. Every other
// Go number counts as an array of its type would.
type Binary struct{ operation *operation }

// Of returns a new array in C order, on the device of x.
func (u Unary) Of(x *NDBuffer) (*NDBuffer, error) {
	in, err := u.operation.parseOne(x)
	if err != nil {
		return nil, err
	}
	return u.operation.newResult(&in)
}

// Into computes into out, which has the shape of x or one to which x broadcasts. The
// result casts to the type of out within its kind ([CastSameKind]). out may share memory
// with x. On a CUDA device the work is enqueued on the default stream.
func (u Unary) Into(out, x *NDBuffer) error {
	in, err := u.operation.parseOne(x)
	if err != nil {
		return err
	}
	return u.operation.computeInto(out, &in)
}

// Of returns a new array in C order, of the shape to which x and y broadcast, on their
// device.
func (b Binary) Of(x, y any) (*NDBuffer, error) {
	in, err := b.operation.parse(x, y)
	if err != nil {
		return nil, err
	}
	return b.operation.newResult(&in)
}

// Into computes into out, to whose shape x and y broadcast. The result casts to the type
// of out within its kind ([CastSameKind]). out may share memory with x and y: all
// elements are read before any is written. On a CUDA device the work is enqueued on the
// default stream.
func (b Binary) Into(out *NDBuffer, x, y any) error {
	in, err := b.operation.parse(x, y)
	if err != nil {
		return err
	}
	return b.operation.computeInto(out, &in)
}

// operation is a name and an elementwise operation. The signature says how it treats
// each kind of types.
type operation struct {
	name string
	op   ew.Op
	signature
}

var errNoOperation = fmt.Errorf("zero Unary or Binary: %w", ErrNil)

// String returns NumPy's name of the operation, or "" for the zero Unary.
func (u Unary) String() string { return u.operation.String() }

// String returns NumPy's name of the operation, or "" for the zero Binary.
func (b Binary) String() string { return b.operation.String() }

func (o *operation) String() string {
	if o == nil {
		return ""
	}
	return o.name
}

// goName returns the name of the operation's variable, for errors: "FloorDivide".
func (o *operation) goName() string {
	if name, ok := irregularNames[o.name]; ok {
		return name
	}
	name := ""
	for word := range strings.SplitSeq(o.name, "_") {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// irregularNames are the Go names of operations whose name in NumPy does not separate
// words.
var irregularNames = map[string]string{"isnan": "IsNaN", "isinf": "IsInf", "isfinite": "IsFinite"}

// parseOne returns the operand of a Unary.
func (o *operation) parseOne(x *NDBuffer) (in operands, err error) {
	switch {
	case o == nil:
		return in, named("Unary", errNoOperation)
	case x == nil:
		return in, named(o.goName(), ErrNil)
	}
	in.n = 1
	in.in[0].array = x
	return in, nil
}

// operands are the arguments of an operation.
type operands struct {
	n  int
	in [3]operand
}

// operand is an array or a scalar.
type operand struct {
	array  *NDBuffer // nil for a scalar
	scalar Scalar
	dtype  DType // of the array, or as what the scalar counts; resolve sets it
}

// kind returns the kind of the array's type, or of the scalar's own.
func (x *operand) kind() Kind {
	if x.array != nil {
		return x.array.dtype.Kind()
	}
	return x.scalar.Natural().Kind()
}

// has reports whether an operand is of a kind.
func (in *operands) has(kind Kind) bool {
	for i := range in.n {
		if in.in[i].kind() == kind {
			return true
		}
	}
	return false
}

func (in *operands) hasTimes() bool { return in.has(KindDatetime) || in.has(KindTimedelta) }

// String lists the operands' types, for messages. Callers pass the string to fmt, since
// passing the operands would move them to the heap.
func (in *operands) String() string {
	s := ""
	for i := range in.n {
		if i > 0 {
			s += ", "
		}
		if a := in.in[i].array; a != nil {
			s += a.dtype.String()
		} else {
			s += "the scalar " + in.in[i].scalar.String()
		}
	}
	return s
}

// parse returns the operands of values, of which at least one must be an array.
func (o *operation) parse(values ...any) (in operands, err error) {
	if o == nil {
		return in, named("Binary", errNoOperation)
	}
	in.n = len(values)
	arrays := 0
	for i, v := range values {
		if a, ok := v.(*NDBuffer); ok && a != nil {
			in.in[i].array = a
			arrays++
		} else if ok || v == nil {
			return in, named(o.goName(), fmt.Errorf("operand %d: %w", i+1, ErrNil))
		} else if in.in[i].scalar, err = ScalarOf(v); err != nil {
			return in, named(o.goName(), fmt.Errorf("operand %d: %w", i+1, err))
		}
	}
	if arrays == 0 {
		return in, named(o.goName(), fmt.Errorf("all operands are scalars, want at least one array: %w", ErrDType))
	}
	return in, nil
}

// newResult returns the result as a new array in C order.
func (o *operation) newResult(in *operands) (*NDBuffer, error) {
	out, err := o.computeInScope(in, in.scope())
	if err != nil {
		return nil, named(o.goName(), err)
	}
	return out, nil
}

// computeInScope is compute for an array of a scope, or of none if s is nil. In a scope
// it retains the operands, because another goroutine may release the scope meanwhile.
func (o *operation) computeInScope(in *operands, s *Scope) (*NDBuffer, error) {
	if s == nil {
		return o.compute(in)
	}
	retained := arrays{nil, in.in[0].array, in.in[1].array, in.in[2].array}
	if err := retained.retain(); err != nil {
		return nil, err
	}
	defer retained.release()
	out, err := o.compute(in)
	if err != nil {
		return nil, err
	}
	return s.take(out)
}

// compute is newResult for an array that belongs to no scope.
func (o *operation) compute(in *operands) (*NDBuffer, error) {
	c, err := resolve(o, in)
	if err != nil {
		return nil, err
	}
	out, err := c.newOut(in)
	if err != nil {
		return nil, err
	}
	if err := c.run(out, in); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// scope returns the scope of a result.
func (in *operands) scope() *Scope {
	return ScopeOf(in.in[0].array, in.in[1].array, in.in[2].array)
}

// computeInto computes into out.
func (o *operation) computeInto(out *NDBuffer, in *operands) error {
	if out == nil {
		return named(o.goName(), fmt.Errorf("result: %w", ErrNil))
	}
	c, err := resolve(o, in)
	if err == nil {
		err = c.run(out, in)
	}
	if err != nil {
		return named(o.goName(), err)
	}
	return nil
}

func unaryOp(name string, op ew.Op, s signature) Unary {
	return Unary{&operation{name, op, s}}
}

func binaryOp(name string, op ew.Op, s signature) Binary {
	return Binary{&operation{name, op, s}}
}

// Arithmetic. Integers wrap around, and an integer divided by zero is 0. An array of
// integers to a negative power is the true result rounded towards zero, for which
// NumPy returns an error.
var (
	Add         = binaryOp("add", ew.Add, numbers.withBool(ew.Or))
	Subtract    = binaryOp("subtract", ew.Subtract, numbers)
	Multiply    = binaryOp("multiply", ew.Multiply, numbers.withBool(ew.And))
	Divide      = binaryOp("divide", ew.Divide, signature{asFloat64, asFloat64, asIs, asIs})
	FloorDivide = binaryOp("floor_divide", ew.FloorDivide, signature{asInt8, asIs, asIs, unsupported})
	Remainder   = binaryOp("remainder", ew.Remainder, signature{asInt8, asIs, asIs, unsupported})
	Fmod        = binaryOp("fmod", ew.Fmod, signature{asInt8, asIs, asIs, unsupported})
	Power       = binaryOp("power", ew.Power, signature{asInt8, asIs, asIs, asIs})

	// Maximum and Minimum are NaN if an operand is NaN, Fmax and Fmin if both are.
	Maximum = binaryOp("maximum", ew.Maximum, numbers.withBool(ew.Or))
	Minimum = binaryOp("minimum", ew.Minimum, numbers.withBool(ew.And))
	Fmax    = binaryOp("fmax", ew.Fmax, numbers.withBool(ew.Or))
	Fmin    = binaryOp("fmin", ew.Fmin, numbers.withBool(ew.And))

	Positive   = unaryOp("positive", ew.Positive, numbers)
	Negative   = unaryOp("negative", ew.Negative, numbers)
	Absolute   = unaryOp("absolute", ew.Absolute, numbers.withBool(ew.Positive))
	Sign       = unaryOp("sign", ew.Sign, numbers)
	Square     = unaryOp("square", ew.Square, signature{asInt8, asIs, asIs, asIs})
	Reciprocal = unaryOp("reciprocal", ew.Reciprocal, signature{asInt8, asIs, asIs, asIs})
	Conjugate  = unaryOp("conjugate", ew.Conjugate, signature{rule{inInt8, ew.Positive}, via(ew.Positive), via(ew.Positive), asIs})
)

// Bits. A shift by a negative count, or by at least the bits of the type, shifts all
// bits out.
var (
	BitwiseAnd = binaryOp("bitwise_and", ew.And, integers)
	BitwiseOr  = binaryOp("bitwise_or", ew.Or, integers)
	BitwiseXor = binaryOp("bitwise_xor", ew.Xor, integers)
	LeftShift  = binaryOp("left_shift", ew.LeftShift, signature{asInt8, asIs, unsupported, unsupported})
	RightShift = binaryOp("right_shift", ew.RightShift, signature{asInt8, asIs, unsupported, unsupported})
	Invert     = unaryOp("invert", ew.Invert, integers.withBool(ew.LogicalNot))
)

// Comparisons and logic, whose result is a bool. Integers compare exactly, also those
// of an array with a Go int.
var (
	Equal        = binaryOp("equal", ew.Equal, allNumbers)
	NotEqual     = binaryOp("not_equal", ew.NotEqual, allNumbers)
	Less         = binaryOp("less", ew.Less, allNumbers)
	LessEqual    = binaryOp("less_equal", ew.LessEqual, allNumbers)
	Greater      = binaryOp("greater", ew.Greater, allNumbers)
	GreaterEqual = binaryOp("greater_equal", ew.GreaterEqual, allNumbers)
	LogicalAnd   = binaryOp("logical_and", ew.LogicalAnd, allNumbers)
	LogicalOr    = binaryOp("logical_or", ew.LogicalOr, allNumbers)
	LogicalXor   = binaryOp("logical_xor", ew.LogicalXor, allNumbers)
	LogicalNot   = unaryOp("logical_not", ew.LogicalNot, allNumbers)
	IsNaN        = unaryOp("isnan", ew.IsNaN, signature{never, never, asIs, asIs})
	IsInf        = unaryOp("isinf", ew.IsInf, signature{never, never, asIs, asIs})
	IsFinite     = unaryOp("isfinite", ew.IsFinite, signature{always, always, asIs, asIs})
	Signbit      = unaryOp("signbit", ew.Signbit, floats)
)

// Roots and whole numbers.
var (
	Sqrt  = unaryOp("sqrt", ew.Sqrt, floatsAndComplexes)
	Cbrt  = unaryOp("cbrt", ew.Cbrt, floats)
	Floor = unaryOp("floor", ew.Floor, rounding)
	Ceil  = unaryOp("ceil", ew.Ceil, rounding)
	Trunc = unaryOp("trunc", ew.Trunc, rounding)
	Rint  = unaryOp("rint", ew.Rint, signature{asFloat, asFloat, asIs, asIs})
)

// Exponentials and logarithms. Error bounds are in docs/ufuncs.md.
var (
	Exp   = unaryOp("exp", ew.Exp, floatsAndComplexes)
	Exp2  = unaryOp("exp2", ew.Exp2, floatsAndComplexes)
	Expm1 = unaryOp("expm1", ew.Expm1, floatsAndComplexes)
	Log   = unaryOp("log", ew.Log, floatsAndComplexes)
	Log2  = unaryOp("log2", ew.Log2, floatsAndComplexes)
	Log10 = unaryOp("log10", ew.Log10, floatsAndComplexes)
	Log1p = unaryOp("log1p", ew.Log1p, floatsAndComplexes)
)

// Trigonometry, in radians. The inverse functions take no complex numbers. Error bounds
// are in docs/ufuncs.md.
var (
	Sin     = unaryOp("sin", ew.Sin, floatsAndComplexes)
	Cos     = unaryOp("cos", ew.Cos, floatsAndComplexes)
	Tan     = unaryOp("tan", ew.Tan, floatsAndComplexes)
	Arcsin  = unaryOp("arcsin", ew.Arcsin, floats)
	Arccos  = unaryOp("arccos", ew.Arccos, floats)
	Arctan  = unaryOp("arctan", ew.Arctan, floats)
	Sinh    = unaryOp("sinh", ew.Sinh, floatsAndComplexes)
	Cosh    = unaryOp("cosh", ew.Cosh, floatsAndComplexes)
	Tanh    = unaryOp("tanh", ew.Tanh, floatsAndComplexes)
	Arcsinh = unaryOp("arcsinh", ew.Arcsinh, floats)
	Arccosh = unaryOp("arccosh", ew.Arccosh, floats)
	Arctanh = unaryOp("arctanh", ew.Arctanh, floats)

	Arctan2   = binaryOp("arctan2", ew.Arctan2, floats)
	Hypot     = binaryOp("hypot", ew.Hypot, floats)
	Copysign  = binaryOp("copysign", ew.Copysign, floats)
	Nextafter = binaryOp("nextafter", ew.Nextafter, floats)
)

// Parts of complex numbers, which are reals of half the size. The real part of another
// number is the number itself, its imaginary part 0, and its angle 0 or π by its sign.
// Angle is in radians.
var (
	Real  = unaryOp("real", ew.Real, signature{via(ew.Positive), via(ew.Positive), via(ew.Positive), asIs})
	Imag  = unaryOp("imag", ew.Imag, allNumbers)
	Angle = unaryOp("angle", ew.Angle, signature{asFloat, asFloat, asIs, asIs})
)

var (
	whereOperation    = &operation{"where", ew.Where, allNumbers}
	clipOperation     = &operation{"clip", ew.Clip, numbers.withBool(ew.Clip)}
	clipLowOperation  = &operation{"clip", ew.Maximum, Maximum.operation.signature}
	clipHighOperation = &operation{"clip", ew.Minimum, Minimum.operation.signature}
	clipNoneOperation = &operation{"clip", ew.Positive, numbers.withBool(ew.Positive)}
)

// Where returns a new array in C order, as numpy.where does. It has the elements of x
// where the condition is true, and those of y elsewhere. The operands are arrays or scalars that
// broadcast and promote as those of a [Binary] do. A condition of another type than bool
// is true where it is not 0. Arrays of one common type may have any type with 1, 2, 4, 8
// or 16 bytes per element.
func Where(condition, x, y any) (_ *NDBuffer, err error) {
	defer nameError("Where", &err)
	in, release, err := parseWhere(condition, x, y)
	if err != nil {
		return nil, err
	}
	defer release()
	return whereOperation.computeInScope(&in, scopeOfValues(condition, x, y))
}

// WhereInto is [Where] into out, as [Binary.Into].
func WhereInto(out *NDBuffer, condition, x, y any) (err error) {
	defer nameError("WhereInto", &err)
	in, release, err := parseWhere(condition, x, y)
	if err != nil {
		return err
	}
	defer release()
	return whereOperation.computeInto(out, &in)
}

// parseWhere returns the operands of where, the condition as bools. Unless there is an
// error, the caller must call release after the operation.
func parseWhere(condition, x, y any) (in operands, release func(), err error) {
	release = func() {}
	if a, ok := condition.(*NDBuffer); ok && a != nil && a.dtype != Bool {
		truth, err := a.truth()
		if err != nil {
			return in, nil, fmt.Errorf("the condition: %w", err)
		}
		condition, release = truth, truth.Release
	}
	if in, err = whereOperation.parse(condition, x, y); err != nil {
		release()
	}
	return in, release, err
}

// truth returns an array of bools that are true where elements are not 0; NaT is not 0.
func (a *NDBuffer) truth() (*NDBuffer, error) {
	if !a.dtype.IsTime() {
		return notZero(a)
	}
	counts, err := a.viewAs(Int64)
	if err != nil {
		return nil, err
	}
	defer counts.Release()
	return notZero(counts)
}

// notZero returns an array of bools, which belongs to no scope.
func notZero(a *NDBuffer) (*NDBuffer, error) {
	in, err := NotEqual.operation.parse(a, 0)
	if err != nil {
		return nil, err
	}
	return NotEqual.operation.compute(&in)
}

// Clip returns a new array in C order with the elements of a limited to [low, high], as
// numpy.clip. The bounds are arrays or scalars that broadcast and promote as those of a
// [Binary] do, or nil for no bound. A Go integer beyond the type limits nothing if it is
// a low bound below the type or a high bound above it. The result is NaN or NaT wherever
// an operand is.
func Clip(a *NDBuffer, low, high any) (_ *NDBuffer, err error) {
	defer nameError("Clip", &err)
	if a == nil {
		return nil, ErrNil
	}
	o, in, release, err := parseClip(a, low, high)
	if err != nil {
		return nil, err
	}
	defer release()
	return o.computeInScope(&in, scopeOfValues(a, low, high))
}

// ClipInto is [Clip] into out, as [Binary.Into].
func ClipInto(out, a *NDBuffer, low, high any) (err error) {
	defer nameError("ClipInto", &err)
	if err := checkNil(out, a); err != nil {
		return err
	}
	o, in, release, err := parseClip(a, low, high)
	if err != nil {
		return err
	}
	defer release()
	return o.computeInto(out, &in)
}

// parseClip returns the operation that clips, and its operands. No kernel limits times
// or complex numbers on both sides, so these are limited to low first. Unless there is
// an error, the caller must call release after the operation.
func parseClip(a *NDBuffer, low, high any) (o *operation, in operands, release func(), err error) {
	release = func() {}
	switch {
	case low == nil && high == nil:
		in, err = clipNoneOperation.parse(a)
		return clipNoneOperation, in, release, err
	case high == nil:
		in, err = parseBound(clipLowOperation, a, low)
		return clipLowOperation, in, release, err
	case low == nil:
		in, err = parseBound(clipHighOperation, a, high)
		return clipHighOperation, in, release, err
	}
	in, err = clipOperation.parse(a, low, high)
	if err != nil || !in.hasTimes() && !in.has(KindComplex) {
		return clipOperation, in, release, err
	}
	atLeast, err := clipLow(a, low, &in)
	if err != nil {
		return nil, in, nil, err
	}
	if in, err = parseBound(clipHighOperation, atLeast, high); err != nil {
		atLeast.Release()
		return nil, in, nil, err
	}
	return clipHighOperation, in, atLeast.Release, nil
}

// clipLow returns a limited to low. Complex numbers get the common type of all three
// operands of the clip first.
func clipLow(a *NDBuffer, low any, in *operands) (*NDBuffer, error) {
	if !in.hasTimes() {
		common, err := clipOperation.promote(in, 0, false)
		if err != nil {
			return nil, err
		}
		if a, err = a.asType(common, OrderK, CastUnsafe); err != nil {
			return nil, err
		}
		defer a.Release()
	}
	bound, err := parseBound(clipLowOperation, a, low)
	if err != nil {
		return nil, err
	}
	return clipLowOperation.compute(&bound)
}

// parseBound returns the operands of a clip on one side.
func parseBound(side *operation, a *NDBuffer, bound any) (in operands, err error) {
	if in, err = side.parse(a, bound); err == nil && a != nil {
		err = in.in[1].clampScalar(a.dtype, side == clipHighOperation)
	}
	return in, err
}
