package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/internal/launch"
	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
)

// signature is the rule of an operation for each kind of common type.
type signature struct{ bool, int, float, complex rule }

// rule says in which type an operation computes elements of a kind, and by which
// operation, if not its own.
type rule struct {
	in computeIn
	op ew.Op
}

type computeIn byte

const (
	inNone          computeIn = iota // the operation does not take the kind
	inOwn                            // in their type, bools as bytes of 0 or 1
	inInt8                           // of bools
	inSmallestFloat                  // in the smallest float that represents each operand
	inFloat64
	withItself // a comparison of each element with itself
)

var (
	unsupported = rule{}
	asIs        = rule{in: inOwn}
	asInt8      = rule{in: inInt8}
	asFloat     = rule{in: inSmallestFloat}
	asFloat64   = rule{in: inFloat64}
	always      = rule{withItself, ew.Equal}
	never       = rule{withItself, ew.NotEqual}

	numbers            = signature{unsupported, asIs, asIs, asIs}
	integers           = signature{asIs, asIs, unsupported, unsupported}
	floats             = signature{asFloat, asFloat, asIs, unsupported}
	floatsAndComplexes = signature{asFloat, asFloat, asIs, asIs}
	rounding           = signature{via(ew.Positive), via(ew.Positive), asIs, unsupported}
	allNumbers         = signature{asIs, asIs, asIs, asIs}
)

// via computes elements in their own type by another operation.
func via(op ew.Op) rule { return rule{inOwn, op} }

// withBool returns the signature with bools computed by another operation.
func (s signature) withBool(op ew.Op) signature { s.bool = via(op); return s }

func (s *signature) of(k Kind) rule {
	switch k {
	case KindBool:
		return s.bool
	case KindInt, KindUint:
		return s.int
	case KindFloat, KindBFloat:
		return s.float
	case KindComplex:
		return s.complex
	}
	return unsupported
}

// computation is an operation resolved for the types of its operands. It is a value on
// the caller's stack: a small operation on a GPU must cost little more than its launch.
type computation struct {
	*operation
	op      ew.Op
	compute ew.Type // the type in which elements are computed
	result  DType
	family  family
	kernel  ew.Type // the type of the kernel that computes
	vector  int64   // elements of that type per 16 bytes
	moves   bool    // elements are moved unchanged, as integers of their size

	// The inputs of op, which may be operands in another order, or one operand twice.
	n       int
	from    [3]uint8     // the operand of each input
	scalars [3][2]uint64 // each scalar input, as what is computed in
	convert [3]DType     // the type to which an array of times is converted first, if not zero
}

// resolve decides by the operands' types and scalars what an operation computes. It
// changes nothing and allocates no device memory.
func resolve(o *operation, in *operands) (c computation, err error) {
	if o == nil {
		return c, errNoOperation
	}
	inputs := *in
	c.operation, c.n, c.from = o, in.n, [3]uint8{0, 1, 2}
	switch {
	case o.op == ew.Where:
		err = c.resolveWhere(&inputs)
	case in.hasTimes():
		err = c.resolveTimes(&inputs)
	default:
		err = c.resolveNumbers(&inputs)
	}
	if err == nil {
		c.vector = vectorOf(c.op, c.kernel)
	}
	return c, err
}

func (c *computation) resolveNumbers(inputs *operands) error {
	common, err := c.promote(inputs, 0, false)
	if err != nil {
		return err
	}
	rule := c.signature.of(common.Kind())
	c.op = c.operation.op
	if rule.op != 0 {
		c.op = rule.op
	}
	switch rule.in {
	case inNone:
		return fmt.Errorf("operands of %s: %w", inputs.String(), ErrDType)
	case inInt8:
		common = Int8
	case inSmallestFloat:
		if common, err = c.promote(inputs, 0, true); err != nil {
			return err
		}
	case inFloat64:
		common = Float64
	case withItself:
		inputs.in[1], c.from[1], c.n = inputs.in[0], 0, 2
	}
	c.result = common
	if common.Kind() == KindBool {
		common = Uint8
	}
	c.compute, _ = common.Code()
	if c.op == ew.Nextafter && c.compute.Half() { // the next float32 may round to the same half
		c.op = ew.NextafterFloat16
		if c.compute == ew.BFloat16 {
			c.op = ew.NextafterBFloat16
		}
	}
	if c.op.Boolean() {
		c.result = Bool
		c.compareExactly(inputs)
	} else if c.op.Real() && common.Kind() == KindComplex {
		c.result = Float32
		if c.compute == ew.Complex128 {
			c.result = Float64
		}
	}
	c.family, c.kernel = familyOf(c.op, c.compute), c.compute
	if c.family == familyMath && c.compute.Half() {
		c.kernel = ew.Float32
	}
	if c.op == ew.Clip {
		for i := 1; i <= 2; i++ {
			if err := inputs.in[i].clampScalar(inputs.in[i].dtype, i == 2); err != nil {
				return err
			}
		}
	}
	return c.encodeScalars(inputs, common)
}

// resolveWhere resolves a choice. Its first input is the condition.
func (c *computation) resolveWhere(inputs *operands) (err error) {
	if c.result, err = c.promote(inputs, 1, false); err != nil {
		return err
	}
	c.op, c.family, c.moves = c.operation.op, familyWhere, true
	for i := 1; i < c.n; i++ {
		x := &inputs.in[i]
		if x.array == nil {
			continue
		}
		if c.result.IsTime() && x.dtype != c.result {
			c.convert[i], x.dtype = c.result, c.result
		}
		c.moves = c.moves && x.dtype == c.result
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
			return fmt.Errorf("where of %s: %w", inputs.String(), ErrDType)
		}
	}
	c.kernel = c.compute
	return c.encodeScalars(inputs, c.result)
}

// promote returns the common type of the operands from the first on, and sets each
// one's dtype. With toFloat each counts as the smallest float that represents it.
func (o *operation) promote(in *operands, first int, toFloat bool) (DType, error) {
	var types [3]DType
	n, weak := 0, false
	for i := first; i < in.n; i++ {
		x := &in.in[i]
		if x.array != nil {
			x.dtype = x.array.dtype
		} else if x.dtype = x.scalar.Natural(); x.scalar.IsWeak() {
			weak = true
			continue
		}
		types[n], n = x.dtype, n+1
	}
	strong, err := o.commonType(in, types[:n])
	if err != nil || !weak && !toFloat {
		return strong, err
	}
	n = 0
	for i := first; i < in.n; i++ {
		x := &in.in[i]
		if x.array == nil && x.scalar.IsWeak() && strong.Kind() != 0 {
			if x.dtype, err = x.scalar.DType(strong); err != nil {
				return DType{}, fmt.Errorf("operand %d: %w", i+1, err)
			}
		}
		t := x.dtype
		if toFloat {
			t = smallestFloat(t)
		}
		types[n], n = t, n+1
	}
	return o.commonType(in, types[:n])
}

// commonType promotes types, and returns the zero DType for no types.
func (o *operation) commonType(in *operands, types []DType) (DType, error) {
	if len(types) == 0 {
		return DType{}, nil
	}
	for _, t := range types[1:] {
		if t == types[0] {
			continue
		}
		common, err := Promote(types...)
		if err != nil {
			err = fmt.Errorf("operands of %s: %w", in.String(), err)
		}
		return common, err
	}
	return types[0], nil
}

// smallestFloat returns the smallest float that represents a type of integers or bools,
// and any other type unchanged.
func smallestFloat(t DType) DType {
	switch {
	case !isIntegerOrBool(t):
		return t
	case t.Size() == 1:
		return Float16
	case t.Size() == 2:
		return Float32
	}
	return Float64
}

// mirrored returns the comparison with exchanged operands.
func mirrored(op ew.Op) ew.Op {
	switch op {
	case ew.Less:
		return ew.Greater
	case ew.LessEqual:
		return ew.GreaterEqual
	case ew.Greater:
		return ew.Less
	case ew.GreaterEqual:
		return ew.LessEqual
	}
	return op
}

// compareExactly corrects comparisons whose common type does not represent both inputs:
// of int64 with uint64, and of integers with a Go integer beyond their type.
func (c *computation) compareExactly(inputs *operands) {
	if c.op < ew.Equal || c.op > ew.GreaterEqual || c.n < 2 {
		return
	}
	x, y := &inputs.in[0], &inputs.in[1]
	switch {
	case c.compute == ew.Float64 && x.dtype.IsInteger() && y.dtype.IsInteger():
		if y.dtype.Kind() == KindInt { // the kernels want it first
			*x, *y = *y, *x
			c.from[0], c.from[1] = c.from[1], c.from[0]
			c.op = mirrored(c.op)
		}
		c.op += ew.MixedEqual - ew.Equal
		c.compute = ew.Uint64
	case x.array == nil:
		c.compareBeyond(inputs, 0, mirrored(c.op))
	case y.array == nil:
		c.compareBeyond(inputs, 1, c.op)
	}
}

// compareBeyond replaces the comparison of an array with a scalar beyond its type, which
// has the same result for all elements. op is that of the array with the scalar.
func (c *computation) compareBeyond(inputs *operands, scalar int, op ew.Op) {
	below, above := beyondType(inputs.in[scalar].scalar, inputs.in[scalar].dtype)
	if !below && !above {
		return
	}
	inputs.in[scalar], c.from[scalar] = inputs.in[1-scalar], c.from[1-scalar]
	c.op = ew.NotEqual // of each element with itself: false
	switch {
	case op == ew.NotEqual, above && (op == ew.Less || op == ew.LessEqual), below && (op == ew.Greater || op == ew.GreaterEqual):
		c.op = ew.Equal
	}
}

// beyondType reports whether a weak integer is below or above the range of a type of
// integers.
func beyondType(s Scalar, t DType) (below, above bool) {
	if !s.IsWeak() || !s.Natural().IsInteger() || !t.IsInteger() {
		return false, false
	}
	if _, err := s.Bytes(t); err == nil {
		return false, false
	}
	v, ok := s.Value().(int64)
	return ok && v < 0, !ok || v >= 0
}

// encodeScalars encodes the scalar inputs in the type that is computed in.
func (c *computation) encodeScalars(inputs *operands, common DType) error {
	for i := range c.n {
		x := &inputs.in[i]
		if x.array != nil {
			continue
		}
		t := common
		switch {
		case c.op == ew.Where && i == 0:
			t = Bool
		case c.op >= ew.MixedEqual && c.op <= ew.MixedGreaterEqual:
			t = widestInteger(x.dtype) // each has its own signedness
		}
		raw, err := c.encodeScalar(x.scalar, t)
		if err != nil {
			return fmt.Errorf("operand %d: %w", i+1, err)
		}
		if c.op == ew.Power && i == 1 && t.Kind() == KindInt && int8(raw[t.Size()-1]) < 0 {
			return fmt.Errorf("power of %s: an integer to a negative power: %w", inputs.String(), ErrRange)
		}
		copy(launch.StructBytes(&c.scalars[i]), raw)
	}
	return nil
}

// encodeScalar returns the bytes of a scalar as t. Logical operations only need whether
// it is true: t may not represent it, or round it to 0.
func (c *computation) encodeScalar(s Scalar, t DType) ([]byte, error) {
	if c.op < ew.LogicalAnd || c.op > ew.LogicalXor {
		return s.Bytes(t)
	}
	raw, err := s.Bytes(Bool)
	if err != nil {
		return nil, err
	}
	truth, err := NewScalar(Bool, raw)
	if err != nil {
		return nil, err
	}
	return truth.Bytes(t)
}

// clampScalar replaces a bound of a clip that limits nothing. A low bound below a type of
// integers becomes its least integer, and a high bound above it its greatest.
func (x *operand) clampScalar(t DType, high bool) (err error) {
	if x.array != nil {
		return nil
	}
	if below, above := beyondType(x.scalar, t); below && !high || above && high {
		x.scalar, err = extreme(t, high)
	}
	return err
}

// extreme returns the least or the greatest integer of a type.
func extreme(t DType, greatest bool) (Scalar, error) {
	raw := make([]byte, t.Size())
	if greatest {
		for i := range raw {
			raw[i] = 0xff
		}
	}
	if t.Kind() == KindInt {
		raw[t.Size()-1] ^= 0x80
	}
	return NewScalar(t, raw)
}
