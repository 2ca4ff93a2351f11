package columns

import (
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/ndview"
)

// arithmeticPlan is the types of an operation.
type arithmeticPlan struct {
	result  arrow.DataType
	compute ndview.DType
	factors [2]int64 // by which operands are multiplied first
}

// isNumber reports whether a type is an integer or a float.
func isNumber(t arrow.DataType) bool {
	return t != nil && (arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()))
}

// planArithmetic returns the types of an operation of two operands, and gives weak
// literals their type. The rules are those of Arrow's arithmetic functions.
func planArithmetic(op ndview.Binary, in []value) (arithmeticPlan, error) {
	if err := typeLiterals(in); err != nil {
		return arithmeticPlan{}, err
	}
	x, y := in[0], in[1]
	if isNumber(x.dtype) && isNumber(y.dtype) {
		t := commonNumber(x.dtype, y.dtype)
		compute, _ := numberType(t)
		return arithmeticPlan{t, compute, [2]int64{1, 1}}, nil
	}
	p, ok, err := planTimes(op, x.dtype, y.dtype)
	if err == nil && !ok {
		err = fmt.Errorf("operands are %s and %s: %w", x.label, y.label, arrow.ErrNotImplemented)
	}
	return p, err
}

// planTimes returns the types of an operation with times. ok is false if Arrow has no
// such operation.
func planTimes(op ndview.Binary, x, y arrow.DataType) (p arithmeticPlan, ok bool, err error) {
	xt, yt := timeOf(x), timeOf(y)
	p = arithmeticPlan{compute: ndview.Int64, factors: [2]int64{1, 1}}
	switch op {
	case ndview.Multiply:
		if xt.kind == arrow.DURATION && arrow.IsInteger(y.ID()) {
			p.result = x
			return p, true, nil
		}
		p.result = y
		return p, yt.kind == arrow.DURATION && arrow.IsInteger(x.ID()), nil
	case ndview.Divide:
		if xt.kind == arrow.DURATION && yt.kind == arrow.DURATION {
			unit := max(xt.unit, yt.unit)
			return arithmeticPlan{arrow.PrimitiveTypes.Float64, ndview.Float64, [2]int64{xt.factor(unit), yt.factor(unit)}}, true, nil
		}
		p.result = x
		return p, xt.kind == arrow.DURATION && arrow.IsInteger(y.ID()), nil
	}
	subtract := op == ndview.Subtract
	switch {
	case xt.kind == 0 || yt.kind == 0:
		return p, false, nil
	case xt.kind == arrow.DATE32 && xt.kind == yt.kind && subtract:
		if x.ID() != y.ID() {
			return p, false, nil
		}
		p.result = arrow.FixedWidthTypes.Duration_ms
		if x.ID() == arrow.DATE32 {
			p.result, p.factors = arrow.FixedWidthTypes.Duration_s, [2]int64{86400, 86400}
		}
		return p, true, nil
	case xt.kind == arrow.DATE32 || yt.kind == arrow.DATE32:
		return p, false, nil
	}
	unit := max(xt.unit, yt.unit) // arrow.Second is 0, and finer units follow
	p.factors = [2]int64{xt.factor(unit), yt.factor(unit)}
	switch {
	case xt.kind == arrow.DURATION && yt.kind == arrow.DURATION:
		p.result = &arrow.DurationType{Unit: unit}
	case xt.kind == yt.kind && subtract:
		p.result = &arrow.DurationType{Unit: unit}
		return p, true, xt.checkZone(yt)
	case yt.kind == arrow.DURATION:
		p.result = xt.withUnit(unit)
	case xt.kind == arrow.DURATION && !subtract:
		p.result = yt.withUnit(unit)
	default:
		return p, false, nil
	}
	if p.result.ID() == arrow.TIME32 {
		p.compute = ndview.Int32
	}
	return p, true, nil
}

// timeType is what arithmetic needs of a type of times. Kind is arrow.DATE32 for dates,
// arrow.TIME32 for times of day, and 0 if the type has no times.
type timeType struct {
	kind arrow.Type
	unit arrow.TimeUnit
	zone string
}

func timeOf(t arrow.DataType) timeType {
	switch t := t.(type) {
	case *arrow.Date32Type:
		return timeType{kind: arrow.DATE32}
	case *arrow.Date64Type:
		return timeType{kind: arrow.DATE32, unit: arrow.Millisecond}
	case *arrow.Time32Type:
		return timeType{kind: arrow.TIME32, unit: t.Unit}
	case *arrow.Time64Type:
		return timeType{kind: arrow.TIME32, unit: t.Unit}
	case *arrow.TimestampType:
		return timeType{arrow.TIMESTAMP, t.Unit, t.TimeZone}
	case *arrow.DurationType:
		return timeType{kind: arrow.DURATION, unit: t.Unit}
	}
	return timeType{}
}

// factor returns how many of a finer unit one unit has.
func (t timeType) factor(finer arrow.TimeUnit) int64 {
	factor := int64(1)
	for u := t.unit; u < finer; u++ {
		factor *= 1000
	}
	return factor
}

// withUnit returns the Arrow type of a timestamp or time of day in a unit.
func (t timeType) withUnit(unit arrow.TimeUnit) arrow.DataType {
	switch {
	case t.kind == arrow.TIMESTAMP:
		return &arrow.TimestampType{Unit: unit, TimeZone: t.zone}
	case unit <= arrow.Millisecond:
		return &arrow.Time32Type{Unit: unit}
	}
	return &arrow.Time64Type{Unit: unit}
}

func (t timeType) checkZone(other timeType) error {
	if (t.zone == "") != (other.zone == "") {
		return fmt.Errorf("timestamps with and without a time zone: %w", arrow.ErrInvalid)
	}
	return nil
}

// commonNumber returns Arrow's common type of two types of numbers.
func commonNumber(x, y arrow.DataType) arrow.DataType {
	if arrow.TypeEqual(x, y) {
		return x
	}
	for _, t := range []arrow.DataType{arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float32, arrow.FixedWidthTypes.Float16} {
		if x.ID() == t.ID() || y.ID() == t.ID() {
			return t
		}
	}
	var signed, unsigned int // bits
	for _, t := range []arrow.DataType{x, y} {
		bits := t.(arrow.FixedWidthDataType).BitWidth()
		if arrow.IsUnsignedInteger(t.ID()) {
			unsigned = max(unsigned, bits)
		} else {
			signed = max(signed, bits)
		}
	}
	if signed == 0 {
		return map[int]arrow.DataType{8: arrow.PrimitiveTypes.Uint8, 16: arrow.PrimitiveTypes.Uint16,
			32: arrow.PrimitiveTypes.Uint32, 64: arrow.PrimitiveTypes.Uint64}[unsigned]
	}
	if signed <= unsigned {
		signed = min(2*unsigned, 64)
	}
	return map[int]arrow.DataType{8: arrow.PrimitiveTypes.Int8, 16: arrow.PrimitiveTypes.Int16,
		32: arrow.PrimitiveTypes.Int32, 64: arrow.PrimitiveTypes.Int64}[signed]
}

// typeLiterals gives weak literals the type that the other of two operands implies.
func typeLiterals(in []value) (err error) {
	for i := range in {
		if in[i].weak != nil {
			in[i], err = typeLiteral(in[i], in[1-i].dtype)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func typeLiteral(v value, beside arrow.DataType) (value, error) {
	switch v.weak.(type) {
	case time.Time, time.Duration:
		return typeTime(v, beside)
	case bool:
		v.dtype = arrow.FixedWidthTypes.Boolean
	case float64:
		if v.dtype = arrow.PrimitiveTypes.Float64; beside != nil && arrow.IsFloating(beside.ID()) {
			v.dtype = beside
		}
	case int, uint:
		if v.dtype = arrow.PrimitiveTypes.Int64; isNumber(beside) {
			v.dtype = beside
		}
	}
	return v, nil
}

// typeTime gives a time.Time or time.Duration the unit of the times beside it.
func typeTime(v value, beside arrow.DataType) (value, error) {
	t := timeOf(beside)
	if t.kind == 0 || t.kind == arrow.DATE32 {
		t.unit = arrow.Nanosecond
	}
	perSecond := timeType{unit: arrow.Second}.factor(t.unit)
	each := int64(time.Second) / perSecond
	var count, rest int64
	switch x := v.weak.(type) {
	case time.Time:
		v.dtype = &arrow.TimestampType{Unit: t.unit, TimeZone: t.zone}
		nanos := int64(x.Nanosecond())
		count, rest = x.Unix()*perSecond+nanos/each, nanos%each
		if x.Unix() != (count-nanos/each)/perSecond {
			return v, fmt.Errorf("%s as %s: %w", v.label, v.dtype, ndview.ErrRange)
		}
	case time.Duration:
		v.dtype = &arrow.DurationType{Unit: t.unit}
		count, rest = int64(x)/each, int64(x)%each
	}
	if rest != 0 {
		return v, fmt.Errorf("%s is no whole number of %s: %w", v.label, t.unit, ndview.ErrRange)
	}
	v.weak, v.literal = nil, arrowBytes([]int64{count})
	return v, nil
}
