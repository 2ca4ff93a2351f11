package ndview

import (
	"fmt"

	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
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
	if c.compute == ew.Float64 && x.dtype.integer() && y.dtype.integer() {
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
	side := scalar.scalar.beyond(scalar.dtype)
	if side == 0 {
		return
	}
	less := side > 0 // array < scalar
	is := op == ew.NotEqual || less && (op == ew.Less || op == ew.LessEqual) || !less && (op == ew.Greater || op == ew.GreaterEqual)
	*scalar = *array
	if c.op = ew.NotEqual; is {
		c.op = ew.Equal
	}
}

func (t DType) integer() bool { return t.kind == KindInt || t.kind == KindUint }

// scalars writes the scalars as what is computed in.
func (c *call) scalars(common DType) error {
	for i := range c.n {
		in := &c.in[i]
		if in.array != nil {
			continue
		}
		t := common
		if c.op >= ew.MixedEqual && c.op <= ew.MixedGreaterEqual {
			t = in.dtype
		}
		var err error
		if in.bits, err = in.scalar.bits(t); err != nil {
			return fmt.Errorf("%s: operand %d: %w", c.name, i+1, err)
		}
	}
	return nil
}
