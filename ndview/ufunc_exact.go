package ndview

import (
	"fmt"

	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

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
	if c.compute == ew.Float64 && x.dtype.isInteger() && y.dtype.isInteger() {
		if y.dtype.kind == KindInt {
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
	below, above := scalar.scalar.beyond(scalar.dtype)
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
func (s Scalar) beyond(t DType) (below, above bool) {
	if !s.weak || !s.dtype.isInteger() || !t.isInteger() {
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
			t = in.dtype.widest() // of either sign
		}
		value, err := c.truth(in)
		var raw []byte
		if err == nil {
			raw, err = value.Bytes(t)
		}
		if err != nil {
			return fmt.Errorf("%s: operand %d: %w", c.name, i+1, err)
		}
		if c.op == ew.Power && i == 1 && t.kind == KindInt && int8(raw[t.size-1]) < 0 {
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
	return Scalar{dtype: Bool, raw: string(raw)}, err
}

// clamp makes the end of a type of integers of a bound of a clip that is beyond it
// and so limits nothing: a low one below the type, or a high one above.
func (in *input) clamp(t DType, high bool) {
	if in.array != nil {
		return
	}
	if below, above := in.scalar.beyond(t); below && !high || above && high {
		in.scalar = extreme(t, high)
	}
}

// extreme is the least or the greatest integer of a type.
func extreme(t DType, greatest bool) Scalar {
	raw := make([]byte, t.size)
	if greatest {
		for i := range raw {
			raw[i] = 0xff
		}
	}
	if t.kind == KindInt {
		raw[t.size-1] ^= 0x80
	}
	return Scalar{t, false, string(raw)}
}
