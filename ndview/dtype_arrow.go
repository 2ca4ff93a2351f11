package ndview

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// arrowTypes are the Arrow types that hold what a type without parameters does.
var arrowTypes = map[DType]arrow.DataType{
	Bool: arrow.FixedWidthTypes.Boolean,
	Int8: arrow.PrimitiveTypes.Int8, Int16: arrow.PrimitiveTypes.Int16, Int32: arrow.PrimitiveTypes.Int32, Int64: arrow.PrimitiveTypes.Int64,
	Uint8: arrow.PrimitiveTypes.Uint8, Uint16: arrow.PrimitiveTypes.Uint16, Uint32: arrow.PrimitiveTypes.Uint32, Uint64: arrow.PrimitiveTypes.Uint64,
	Float16: arrow.FixedWidthTypes.Float16, Float32: arrow.PrimitiveTypes.Float32, Float64: arrow.PrimitiveTypes.Float64,
}

// fromArrowTypes are these the other way round, and the types that are integers
// with a meaning.
var fromArrowTypes = func() map[arrow.Type]DType {
	types := map[arrow.Type]DType{
		arrow.DATE32: Int32, arrow.TIME32: Int32, arrow.DECIMAL32: Int32,
		arrow.TIME64: Int64, arrow.DECIMAL64: Int64,
	}
	for dtype, t := range arrowTypes {
		types[t.ID()] = dtype
	}
	return types
}()

var arrowUnits = map[TimeUnit]arrow.TimeUnit{
	Second: arrow.Second, Millisecond: arrow.Millisecond, Microsecond: arrow.Microsecond, Nanosecond: arrow.Nanosecond,
}

// Arrow is the Arrow type whose values are elements of this type: for datetime64
// and timedelta64 of whole seconds, milliseconds, microseconds and nanoseconds
// timestamp without a time zone and duration, for fixed bytes
// fixed_size_binary. What Arrow lacks is ErrDType: bfloat16, complex numbers,
// other units of time, and records, whose columns Arrow keeps apart. (Arrow's
// booleans are bits, the elements of Bool bytes; ToArrow converts.)
func (t DType) Arrow() (arrow.DataType, error) {
	unit, whole := arrowUnits[t.unit]
	switch {
	case t.kind == KindDatetime && whole && t.step == 1:
		return &arrow.TimestampType{Unit: unit}, nil
	case t.kind == KindTimedelta && whole && t.step == 1:
		return &arrow.DurationType{Unit: unit}, nil
	case t.kind == KindBytes:
		return &arrow.FixedSizeBinaryType{ByteWidth: int(t.size)}, nil
	}
	if of, ok := arrowTypes[t]; ok {
		return of, nil
	}
	return nil, fmt.Errorf("%s as an Arrow type: %w", t, ErrDType)
}

// ParseArrow is the type of the elements of an Arrow column: the way back from
// [DType.Arrow]. Beside that date64 is datetime64[ms], as the zone of a
// timestamp is not kept; date32, time32, time64 and decimals of 32 and 64 bits
// are the integers that they hold, and an extension type is what it is stored
// as. Any other type is ErrDType.
func ParseArrow(t arrow.DataType) (DType, error) {
	switch t := t.(type) {
	case arrow.ExtensionType:
		return ParseArrow(t.StorageType())
	case *arrow.TimestampType:
		return Datetime64(TimeUnit(t.Unit.String()), 1), nil
	case *arrow.DurationType:
		return Timedelta64(TimeUnit(t.Unit.String()), 1), nil
	case *arrow.Date64Type:
		return Datetime64(Millisecond, 1), nil
	case *arrow.FixedSizeBinaryType:
		if t.ByteWidth > 0 {
			return Bytes(int32(t.ByteWidth)), nil
		}
	case nil:
		return DType{}, fmt.Errorf("no Arrow type: %w", ErrDType)
	}
	dtype, ok := fromArrowTypes[t.ID()]
	if !ok {
		return DType{}, fmt.Errorf("Arrow type %s: %w", t, ErrDType)
	}
	return dtype, nil
}
