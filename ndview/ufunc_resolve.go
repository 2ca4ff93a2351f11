package ndview

import (
	"fmt"

	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// signature says what an operation does with operands whose common type is of a
// kind.
type signature struct{ bool, int, float, complex way }

// way is how an operation does elements of a kind: in which type, and by which
// operation, if not its own.
type way struct {
	in toType
	op ew.Op
}

type toType byte

const (
	toNone    toType = iota // there is no such operation
	toOwn                   // as they are, a bool as a byte of 0 or 1
	toInt8                  // of bools
	toFloat                 // the smallest float that holds each operand
	toFloat64               //
	toSelf                  // as they are, each compared with itself
)

var (
	refused   = way{}
	own       = way{in: toOwn}
	asInt8    = way{in: toInt8}
	asFloat   = way{in: toFloat}
	asFloat64 = way{in: toFloat64}
	always    = way{toSelf, ew.Equal}
	never     = way{toSelf, ew.NotEqual}

	numbers            = signature{refused, own, own, own}
	integers           = signature{own, own, refused, refused}
	floats             = signature{asFloat, asFloat, own, refused}
	floatsAndComplexes = signature{asFloat, asFloat, own, own}
	wholes             = signature{as(ew.Positive), as(ew.Positive), own, refused}
	everything         = signature{own, own, own, own}
)

// as does elements as they are, by another operation.
func as(op ew.Op) way { return way{toOwn, op} }

func (s signature) bools(op ew.Op) signature { s.bool = as(op); return s }

func (s *signature) of(k Kind) way {
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
	return refused
}

// resolve decides by the operands' types what the call computes in, and the type
// of the result.
func (c *call) resolve() error {
	if c.operation == nil {
		return errNoOperation
	}
	if c.operation.op == ew.Where {
		return c.resolveChoice()
	}
	if c.ofTimes() {
		return c.resolveTimes()
	}
	common, err := c.common(false)
	if err != nil {
		return err
	}
	way := c.signature.of(common.Kind())
	c.op = c.operation.op
	if way.op != 0 {
		c.op = way.op
	}
	switch way.in {
	case toNone:
		return fmt.Errorf("%s of %s: %w", c.name, c.operands(), ErrDType)
	case toInt8:
		common = Int8
	case toFloat:
		if common, err = c.common(true); err != nil {
			return err
		}
	case toFloat64:
		common = Float64
	case toSelf:
		c.in[1], c.n = c.in[0], 2
	}
	c.result = common
	if common.Kind() == KindBool {
		common = Uint8
	}
	c.compute, _ = common.Code()
	if c.op == ew.Nextafter && c.compute.Half() { // where the next float32 rounds to the same
		c.op = ew.NextafterFloat16
		if c.compute == ew.BFloat16 {
			c.op = ew.NextafterBFloat16
		}
	}
	if c.op.Boolean() {
		c.result = Bool
		c.exactly()
	} else if c.op.Real() && common.Kind() == KindComplex {
		c.result = Float32
		if c.compute == ew.Complex128 {
			c.result = Float64
		}
	}
	c.family, c.kernel = c.chooseFamily(), c.compute
	if c.family == familyMath && c.compute.Half() {
		c.kernel = ew.Float32
	}
	if c.op == ew.Clip {
		if err := c.in[1].clamp(c.in[1].dtype, false); err != nil {
			return err
		}
		if err := c.in[2].clamp(c.in[2].dtype, true); err != nil {
			return err
		}
	}
	return c.scalars(common)
}

// common is the type that the operands have together, with float each as the
// smallest float that holds it.
func (c *call) common(float bool) (DType, error) {
	var types [3]DType
	n, weak := 0, false
	for i := c.typed; i < c.n; i++ {
		in := &c.in[i]
		if in.array != nil {
			in.dtype = in.array.dtype
		} else if in.dtype = in.scalar.Natural(); in.scalar.IsWeak() {
			weak = true
			continue
		}
		types[n], n = in.dtype, n+1
	}
	strong, err := c.promoted(types[:n])
	if err != nil || !weak && !float {
		return strong, err
	}
	n = 0
	for i := c.typed; i < c.n; i++ {
		in := &c.in[i]
		if in.array == nil && in.scalar.IsWeak() && strong.Kind() != 0 {
			if in.dtype, err = in.scalar.DType(strong); err != nil {
				return DType{}, fmt.Errorf("%s: operand %d: %w", c.name, i+1, err)
			}
		}
		t := in.dtype
		if float {
			t = floatOf(t)
		}
		types[n], n = t, n+1
	}
	return c.promoted(types[:n])
}

// promoted is the common type of operands, the zero DType where there are none.
func (c *call) promoted(types []DType) (DType, error) {
	for i := 1; i < len(types); i++ {
		if types[i] == types[0] {
			continue
		}
		common, err := Promote(types...)
		if err != nil {
			err = fmt.Errorf("%s of %s: %w", c.name, c.operands(), err)
		}
		return common, err
	}
	if len(types) == 0 {
		return DType{}, nil
	}
	return types[0], nil
}

// float is the smallest float that holds the integers of the type.
func floatOf(t DType) DType {
	switch {
	case t.Kind() != KindBool && t.Kind() != KindInt && t.Kind() != KindUint:
		return t
	case t.Size() == 1:
		return Float16
	case t.Size() == 2:
		return Float32
	}
	return Float64
}

// operands are their types, for a message.
func (c *call) operands() string {
	s := ""
	for i := range c.n {
		if i > 0 {
			s += ", "
		}
		if a := c.in[i].array; a != nil {
			s += a.dtype.String()
		} else {
			s += "the scalar " + c.in[i].scalar.String()
		}
	}
	return s
}

// mirrored is the comparison of the operands the other way round.
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

// exactly makes comparisons right whose operands have no common type that holds
// both: of an int64 with a uint64, and of integers with a number beyond them.
func (c *call) exactly() {
	if c.op < ew.Equal || c.op > ew.GreaterEqual || c.n < 2 {
		return
	}
	x, y := &c.in[0], &c.in[1]
	if c.compute == ew.Float64 && x.dtype.IsInteger() && y.dtype.IsInteger() {
		if y.dtype.Kind() == KindInt {
			*x, *y = *y, *x
			c.op = mirrored(c.op)
		}
		c.op += ew.MixedEqual - ew.Equal
		c.compute = ew.Uint64
		return
	}
	if x.array == nil {
		c.beyond(x, y, mirrored(c.op))
	} else if y.array == nil {
		c.beyond(y, x, c.op)
	}
}

// beyond answers a comparison of an array with a number that is beyond its type,
// where the answer is the same for all elements.
func (c *call) beyond(scalar, array *input, op ew.Op) {
	below, above := outsideOf(scalar.scalar, scalar.dtype)
	if !below && !above {
		return
	}
	less := above // than the scalar is the array
	is := op == ew.NotEqual || less && (op == ew.Less || op == ew.LessEqual) ||
		!less && (op == ew.Greater || op == ew.GreaterEqual)
	*scalar = *array
	if c.op = ew.NotEqual; is {
		c.op = ew.Equal
	}
}

// beyond tells whether a weak integer is less or more than a type of integers
// holds.
func outsideOf(s Scalar, t DType) (below, above bool) {
	if !s.IsWeak() || !s.Natural().IsInteger() || !t.IsInteger() {
		return false, false
	}
	if _, err := s.Bytes(t); err == nil {
		return false, false
	}
	v, ok := s.Value().(int64)
	return ok && v < 0, !ok || v >= 0
}

// scalars writes the scalars as what is computed in.
func (c *call) scalars(common DType) error {
	for i := range c.n {
		in := &c.in[i]
		if in.array != nil {
			continue
		}
		t := common
		switch {
		case i < c.typed:
			t = Bool
		case c.op >= ew.MixedEqual && c.op <= ew.MixedGreaterEqual:
			t = widestInteger(in.dtype) // of either sign
		}
		value, err := c.truth(in)
		var raw []byte
		if err == nil {
			raw, err = value.Bytes(t)
		}
		if err != nil {
			return fmt.Errorf("%s: operand %d: %w", c.name, i+1, err)
		}
		if c.op == ew.Power && i == 1 && t.Kind() == KindInt && int8(raw[t.Size()-1]) < 0 {
			return fmt.Errorf("power of %s: an integer to a negative power: %w", c.operands(), ErrRange)
		}
		copy(launch.StructOf(&in.bits), raw)
	}
	return nil
}

// truth is the scalar of an operand, or whether it is true where nothing else about it
// counts: the type may not hold it, or have it be 0.
func (c *call) truth(in *input) (Scalar, error) {
	if c.op < ew.LogicalAnd || c.op > ew.LogicalXor {
		return in.scalar, nil
	}
	raw, err := in.scalar.Bytes(Bool)
	if err != nil {
		return Scalar{}, err
	}
	return NewScalar(Bool, raw)
}

// clamp makes the end of a type of integers of a bound of a clip that is beyond it
// and so limits nothing: a low one below the type, or a high one above.
func (in *input) clamp(t DType, high bool) (err error) {
	if in.array != nil {
		return nil
	}
	if below, above := outsideOf(in.scalar, t); below && !high || above && high {
		in.scalar, err = extreme(t, high)
	}
	return err
}

// extreme is the least or the greatest integer of a type.
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
