package ndview

import (
	"fmt"
	"slices"
	"strings"

	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// ofTimes tells whether an operand is a datetime or a timedelta.
func (c *call) ofTimes() bool {
	for i := range c.n {
		if c.in[i].kind() == KindDatetime || c.in[i].kind() == KindTimedelta {
			return true
		}
	}
	return false
}

func (in *input) kind() Kind {
	if in.array != nil {
		return in.array.dtype.Kind()
	}
	return in.scalar.Natural().Kind()
}

// timeOp is what an operation does with a pair of kinds: 'M' is a datetime, 'm' a
// timedelta, 'i' an integer or bool, 'd' a float, and 'q' as a result an int64, '?' a
// bool. What takes or gives floats is computed by way of them.
type timeOp struct {
	op     ew.Op
	result byte
}

// timeOps are what operations do with times, by the kinds of the operands.
var timeOps = map[ew.Op]map[string]timeOp{
	ew.Add: {
		"Mm": {ew.TimeAdd, 'M'}, "mM": {ew.TimeAdd, 'M'}, "mm": {ew.TimeAdd, 'm'},
		"Mi": {ew.TimeAdd, 'M'}, "iM": {ew.TimeAdd, 'M'}, "mi": {ew.TimeAdd, 'm'}, "im": {ew.TimeAdd, 'm'},
	},
	ew.Subtract: {
		"MM": {ew.TimeSubtract, 'm'}, "Mm": {ew.TimeSubtract, 'M'}, "mm": {ew.TimeSubtract, 'm'},
		"Mi": {ew.TimeSubtract, 'M'}, "mi": {ew.TimeSubtract, 'm'}, "im": {ew.TimeSubtract, 'm'},
	},
	ew.Multiply: {
		"mi": {ew.TimeMultiply, 'm'}, "im": {ew.TimeMultiply, 'm'}, "md": {ew.Multiply, 'm'}, "dm": {ew.Multiply, 'm'},
	},
	ew.Divide: {"mi": {ew.TimeDivide, 'm'}, "md": {ew.Divide, 'm'}, "mm": {ew.Divide, 'd'}},
	// By a number NumPy rounds towards zero here too.
	ew.FloorDivide:  {"mi": {ew.TimeDivide, 'm'}, "md": {ew.Divide, 'm'}, "mm": {ew.TimeQuotient, 'q'}},
	ew.Remainder:    {"mm": {ew.TimeRemainder, 'm'}},
	ew.Maximum:      {"MM": {ew.TimeMaximum, 'M'}, "mm": {ew.TimeMaximum, 'm'}},
	ew.Minimum:      {"MM": {ew.TimeMinimum, 'M'}, "mm": {ew.TimeMinimum, 'm'}},
	ew.Fmax:         {"MM": {ew.TimeFmax, 'M'}, "mm": {ew.TimeFmax, 'm'}},
	ew.Fmin:         {"MM": {ew.TimeFmin, 'M'}, "mm": {ew.TimeFmin, 'm'}},
	ew.Equal:        {"MM": {ew.TimeEqual, '?'}, "mm": {ew.TimeEqual, '?'}},
	ew.NotEqual:     {"MM": {ew.TimeNotEqual, '?'}, "mm": {ew.TimeNotEqual, '?'}},
	ew.Less:         {"MM": {ew.TimeLess, '?'}, "mm": {ew.TimeLess, '?'}},
	ew.LessEqual:    {"MM": {ew.TimeLessEqual, '?'}, "mm": {ew.TimeLessEqual, '?'}},
	ew.Greater:      {"MM": {ew.TimeGreater, '?'}, "mm": {ew.TimeGreater, '?'}},
	ew.GreaterEqual: {"MM": {ew.TimeGreaterEqual, '?'}, "mm": {ew.TimeGreaterEqual, '?'}},
	ew.Negative:     {"m": {ew.TimeNegative, 'm'}},
	ew.Absolute:     {"m": {ew.TimeAbsolute, 'm'}},
	ew.Positive:     {"m": {ew.Positive, 'm'}},
	ew.IsNaN:        {"M": {ew.TimeIsNaN, '?'}, "m": {ew.TimeIsNaN, '?'}},
	ew.IsInf:        {"M": {ew.NotEqual, '?'}, "m": {ew.NotEqual, '?'}}, // from itself none is
	ew.IsFinite:     {"M": {ew.TimeIsFinite, '?'}, "m": {ew.TimeIsFinite, '?'}},
}

// resolveTimes is resolve for times: they are brought to their common unit.
func (c *call) resolveTimes() error {
	kinds := make([]byte, c.n)
	var unit DType
	for i := range c.n {
		in := &c.in[i]
		if in.dtype = in.scalar.Natural(); in.array != nil {
			in.dtype = in.array.dtype
		}
		switch {
		case in.dtype.Kind() == KindDatetime:
			kinds[i] = 'M'
		case in.dtype.Kind() == KindTimedelta:
			kinds[i] = 'm'
		case c.operation.countsTimes(in.dtype):
			kinds[i] = 'i'
			continue
		case in.dtype.IsFloat():
			kinds[i] = 'd'
			continue
		default:
			kinds[i] = '-'
			continue
		}
		switch {
		case unit.Kind() == 0:
			unit = in.dtype
		case unit != in.dtype:
			common, err := Promote(unit, in.dtype)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", c.name, c.operands(), err)
			}
			unit = common
		}
	}
	do, ok := timeOps[c.operation.op][string(kinds)]
	if !ok && !c.operation.divides() && slices.Contains(kinds, 'm') { // an integer counts as a timedelta
		do, ok = timeOps[c.operation.op][strings.ReplaceAll(string(kinds), "i", "m")]
	}
	if !ok {
		return fmt.Errorf("%s of %s: %w", c.name, c.operands(), ErrDType)
	}
	c.op, c.compute, c.kernel = do.op, ew.Int64, ew.Int64
	c.family = c.chooseFamily()
	switch do.result {
	case 'M':
		c.result = Datetime64(unit.Unit(), unit.Step())
	case 'm':
		c.result = Timedelta64(unit.Unit(), unit.Step())
	case 'q':
		c.result = Int64
	case 'd':
		c.result = Float64
	default:
		c.result = Bool
	}
	if c.byFloats = do.op == ew.Multiply || do.op == ew.Divide; c.byFloats {
		c.unit = Timedelta64(unit.Unit(), unit.Step())
		return nil
	}
	for i := range c.n {
		if err := c.inUnit(i, unit); err != nil {
			return fmt.Errorf("%s: operand %d: %w", c.name, i+1, err)
		}
	}
	if c.operation.op == ew.IsInf {
		c.in[1], c.n = c.in[0], 2
	}
	return nil
}

func (o *operation) divides() bool {
	return o.op == ew.Divide || o.op == ew.FloorDivide || o.op == ew.Remainder
}

// countsTimes tells whether NumPy takes numbers of a type beside timedeltas: it
// divides none by bools, and compares none with uint64.
func (o *operation) countsTimes(t DType) bool {
	switch {
	case t.Kind() == KindBool:
		return !o.divides()
	case t == Uint64:
		return o.op == ew.Add || o.op == ew.Subtract || o.op == ew.Multiply || o.divides()
	}
	return t.IsInteger()
}

// inUnit brings operand i to a unit of time, if it is a time, and of the same kind.
func (c *call) inUnit(i int, unit DType) error {
	in := &c.in[i]
	to := Int64
	switch in.dtype.Kind() {
	case KindDatetime:
		to = Datetime64(unit.Unit(), unit.Step())
	case KindTimedelta:
		to = Timedelta64(unit.Unit(), unit.Step())
	}
	switch {
	case in.dtype.IsTime() && !CanCast(in.dtype, to, CastSameKind): // months are not so many days
		return fmt.Errorf("%s as %s: %w", in.dtype, to, ErrDType)
	case in.array == nil:
		raw, err := in.scalar.Bytes(to)
		if err != nil {
			return err
		}
		copy(launch.StructOf(&in.bits), raw)
	case to != Int64 && in.array.dtype != to:
		return c.toTimes(i, to)
	}
	return nil
}

// toTimes makes operand i a copy in a unit of time. Where nothing is computed its
// elements are not read, and may be times that the unit does not count; but one
// time, which is for all elements, is converted before, as NumPy has it.
func (c *call) toTimes(i int, to DType) (err error) {
	in := &c.in[i]
	if unitsDiffer(in.array.dtype, to) && in.array.Size() != 1 && c.computesNothing() {
		in.array, err = in.array.View(to)
	} else {
		in.array, err = in.array.AsType(to, OrderK, CastUnsafe)
	}
	c.made[i] = in.array
	return err
}

// computesNothing tells whether the result has no elements, if operands broadcast.
func (c *call) computesNothing() bool {
	for i := range c.n {
		if a := c.in[i].array; a != nil && a.Size() == 0 {
			return true
		}
	}
	return c.out != nil && c.out.Size() == 0
}
