package ndview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/internal/launch"
	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
)

// timeRule is the operation on int64s that computes with times, and the kind of its
// result: 'M' for a datetime, 'm' for a timedelta, 'q' for an int64, '?' for a bool.
type timeRule struct {
	op     ew.Op
	result byte
}

// timeRules are the rules of each operation by the kinds of its operands: those above,
// and 'i' for an integer or bool. No operation takes times and floats together, and none
// of times returns floats.
var timeRules = map[ew.Op]map[string]timeRule{
	ew.Add: {
		"Mm": {ew.TimeAdd, 'M'}, "mM": {ew.TimeAdd, 'M'}, "mm": {ew.TimeAdd, 'm'},
		"Mi": {ew.TimeAdd, 'M'}, "iM": {ew.TimeAdd, 'M'}, "mi": {ew.TimeAdd, 'm'}, "im": {ew.TimeAdd, 'm'},
	},
	ew.Subtract: {
		"MM": {ew.TimeSubtract, 'm'}, "Mm": {ew.TimeSubtract, 'M'}, "mm": {ew.TimeSubtract, 'm'},
		"Mi": {ew.TimeSubtract, 'M'}, "mi": {ew.TimeSubtract, 'm'}, "im": {ew.TimeSubtract, 'm'},
	},
	ew.Multiply: {
		"mi": {ew.TimeMultiply, 'm'}, "im": {ew.TimeMultiply, 'm'},
	},
	ew.Divide: {"mi": {ew.TimeDivide, 'm'}},
	// NumPy rounds towards zero here too, if the divisor is a number.
	ew.FloorDivide:  {"mi": {ew.TimeDivide, 'm'}, "mm": {ew.TimeQuotient, 'q'}},
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
	ew.IsInf:        {"M": {ew.NotEqual, '?'}, "m": {ew.NotEqual, '?'}}, // of itself: false
	ew.IsFinite:     {"M": {ew.TimeIsFinite, '?'}, "m": {ew.TimeIsFinite, '?'}},
}

// resolveTimes resolves operations of times. Operands are converted to their common unit.
func (c *computation) resolveTimes(inputs *operands) error {
	kinds, unit, err := c.timeKinds(inputs)
	if err != nil {
		return err
	}
	rule, ok := timeRules[c.operation.op][kinds]
	if !ok && !c.divides() && strings.Contains(kinds, "m") { // an integer counts as a timedelta
		rule, ok = timeRules[c.operation.op][strings.ReplaceAll(kinds, "i", "m")]
	}
	if !ok {
		return fmt.Errorf("operands of %s: %w", inputs.String(), ErrDType)
	}
	c.op, c.compute, c.kernel = rule.op, ew.Int64, ew.Int64
	c.family = familyOf(c.op, c.compute)
	switch rule.result {
	case 'M':
		c.result = Datetime64(unit.Unit(), unit.Step())
	case 'm':
		c.result = Timedelta64(unit.Unit(), unit.Step())
	case 'q':
		c.result = Int64
	default:
		c.result = Bool
	}
	for i := range c.n {
		if err := c.convertToUnit(inputs, i, unit); err != nil {
			return fmt.Errorf("operand %d: %w", i+1, err)
		}
	}
	if c.operation.op == ew.IsInf {
		c.from[1], c.n = 0, 2
	}
	return nil
}

// timeKinds returns the operands' kinds for timeRules, '-' for other types, and the
// common type of the times, whose unit is that of the computation.
func (o *operation) timeKinds(in *operands) (kinds string, unit DType, err error) {
	var letters [3]byte
	for i := range in.n {
		x := &in.in[i]
		if x.dtype = x.scalar.Natural(); x.array != nil {
			x.dtype = x.array.dtype
		}
		switch {
		case x.dtype.Kind() == KindDatetime:
			letters[i] = 'M'
		case x.dtype.Kind() == KindTimedelta:
			letters[i] = 'm'
		case o.takesBesideTimes(x.dtype):
			letters[i] = 'i'
			continue
		default:
			letters[i] = '-'
			continue
		}
		if unit.Kind() == 0 || unit == x.dtype {
			unit = x.dtype
		} else if unit, err = Promote(unit, x.dtype); err != nil {
			return "", unit, fmt.Errorf("operands of %s: %w", in.String(), err)
		}
	}
	return string(letters[:in.n]), unit, nil
}

func (o *operation) divides() bool {
	return o.op == ew.Divide || o.op == ew.FloorDivide || o.op == ew.Remainder
}

// takesBesideTimes reports whether NumPy takes numbers of a type beside timedeltas. It
// does not divide timedeltas by bools, and does not compare them with uint64.
func (o *operation) takesBesideTimes(t DType) bool {
	switch {
	case t.Kind() == KindBool:
		return !o.divides()
	case t == Uint64:
		return o.op == ew.Add || o.op == ew.Subtract || o.op == ew.Multiply || o.divides()
	}
	return t.IsInteger()
}

// convertToUnit plans the conversion of an input to a unit of time if it is a time, and
// encodes it if it is a scalar.
func (c *computation) convertToUnit(inputs *operands, i int, unit DType) error {
	x := &inputs.in[i]
	to := Int64
	switch x.dtype.Kind() {
	case KindDatetime:
		to = Datetime64(unit.Unit(), unit.Step())
	case KindTimedelta:
		to = Timedelta64(unit.Unit(), unit.Step())
	}
	switch {
	case x.dtype.IsTime() && !CanCast(x.dtype, to, CastSameKind): // a month has no fixed number of days
		return fmt.Errorf("%s as %s: %w", x.dtype, to, ErrDType)
	case x.array == nil:
		raw, err := x.scalar.Bytes(to)
		if err != nil {
			return err
		}
		copy(launch.StructBytes(&c.scalars[i]), raw)
	case to != Int64 && x.array.dtype != to:
		c.convert[i] = to
	}
	return nil
}

// convertTimes replaces arrays by copies in the units that resolve decided. The caller
// releases the copies, also after an error. If the result has no elements, no element is
// read, and values beyond the new unit are no error. A single time, which is for all
// elements, is always converted, as in NumPy.
func (c *computation) convertTimes(a *arrays) (copies arrays, err error) {
	noElements := slices.ContainsFunc(a[:], func(x *NDBuffer) bool { return x != nil && x.size == 0 })
	for i := range c.n {
		x, to := a[1+i], c.convert[i]
		if to == (DType{}) {
			continue
		}
		if noElements && unitsDiffer(x.dtype, to) && x.size != 1 {
			x, err = x.viewAs(to)
		} else {
			x, err = x.asType(to, OrderK, CastUnsafe)
		}
		if err != nil {
			return copies, fmt.Errorf("operand %d: %w", i+1, err)
		}
		a[1+i], copies[1+i] = x, x
	}
	return copies, nil
}
