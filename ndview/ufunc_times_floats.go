package ndview

import (
	"encoding/binary"
	"math"

	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
)

// throughFloats computes what takes or gives floats beside times, as NumPy does:
// counts become float64, NaT a NaN, and a float is cut off to a count, NaT where
// there is none. No kernel does so in one pass.
func (c *call) throughFloats() (*NDBuffer, error) {
	var operands [2]any
	for i := range operands {
		in := &c.in[i]
		var err error
		switch {
		case in.kind() == KindTimedelta:
			operands[i], err = in.asFloat(c.unit)
		case in.array != nil:
			operands[i], err = in.array, in.array.hold()
		default:
			operands[i] = in.scalar
		}
		if err != nil {
			return nil, err
		}
		if a, ok := operands[i].(*NDBuffer); ok {
			defer a.Release()
		}
	}
	op := Divide
	if c.op == ew.Multiply {
		op = Multiply
	}
	floats, err := op.Of(operands[0], operands[1])
	if err != nil || c.result == Float64 {
		return floats, err
	}
	defer floats.Release()
	return floats.AsType(c.result, OrderC, CastUnsafe)
}

func (c *call) floatsInto() error {
	result, err := c.throughFloats()
	if err != nil {
		return err
	}
	defer result.Release()
	return Positive.Into(c.out, result)
}

// asFloat is a timedelta as float64, in the given unit, with a reference for the
// caller where it is an array.
func (in *input) asFloat(unit DType) (any, error) {
	if in.array == nil {
		raw, err := in.scalar.Bytes(unit)
		if err != nil {
			return nil, err
		}
		count := int64(binary.NativeEndian.Uint64(raw))
		if count == math.MinInt64 {
			return NewScalar(Float64, math.NaN())
		}
		return NewScalar(Float64, float64(count))
	}
	counts, err := in.array.AsType(unit, OrderK, CastUnsafe)
	if err != nil {
		return nil, err
	}
	defer counts.Release()
	none, err := IsNaN.Of(counts)
	if err != nil {
		return nil, err
	}
	defer none.Release()
	floats, err := counts.AsType(Float64, OrderK, CastUnsafe)
	if err != nil {
		return nil, err
	}
	if err := WhereInto(floats, none, math.NaN(), floats); err != nil {
		floats.Release()
		return nil, err
	}
	return floats, nil
}
