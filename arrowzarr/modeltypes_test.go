package arrowzarr_test

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// zarrType is the data type that values of an Arrow type must have in Zarr,
// times with their unit. It panics for types that have none.
func zarrType(t arrow.DataType) string {
	unit := func(u arrow.TimeUnit) string { return u.String() }
	switch t := t.(type) {
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		return "string"
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.BinaryViewType:
		return "bytes"
	case *arrow.NullType, *arrow.BooleanType:
		return "bool"
	case *arrow.FixedSizeBinaryType:
		return "uint8"
	case *arrow.Date32Type:
		return "datetime64[D]"
	case *arrow.Date64Type:
		return "datetime64[ms]"
	case *arrow.TimestampType:
		return fmt.Sprintf("datetime64[%s]", unit(t.Unit))
	case *arrow.Time32Type:
		return fmt.Sprintf("timedelta64[%s]", unit(t.Unit))
	case *arrow.Time64Type:
		return fmt.Sprintf("timedelta64[%s]", unit(t.Unit))
	case *arrow.DurationType:
		return fmt.Sprintf("timedelta64[%s]", unit(t.Unit))
	case *arrow.Decimal32Type:
		return "int32"
	case *arrow.Decimal64Type:
		return "int64"
	case *arrow.Decimal128Type, *arrow.Decimal256Type:
		return "uint64"
	case *arrow.FixedSizeListType:
		return zarrType(t.Elem())
	case arrow.ExtensionType:
		return zarrType(t.StorageType())
	}
	names := map[arrow.Type]string{
		arrow.INT8: "int8", arrow.INT16: "int16", arrow.INT32: "int32", arrow.INT64: "int64",
		arrow.UINT8: "uint8", arrow.UINT16: "uint16", arrow.UINT32: "uint32", arrow.UINT64: "uint64",
		arrow.FLOAT16: "float16", arrow.FLOAT32: "float32", arrow.FLOAT64: "float64",
	}
	if name, ok := names[t.ID()]; ok {
		return name
	}
	panic(fmt.Sprintf("no expectation for %s", t))
}

// rowShape is the axes behind the first.
func rowShape(t arrow.DataType) []int64 {
	switch t := t.(type) {
	case *arrow.FixedSizeBinaryType:
		return []int64{int64(t.ByteWidth)}
	case *arrow.Decimal128Type:
		return []int64{2}
	case *arrow.Decimal256Type:
		return []int64{4}
	case *arrow.FixedSizeListType:
		return append([]int64{int64(t.Len())}, rowShape(t.Elem())...)
	case arrow.ExtensionType:
		return rowShape(t.StorageType())
	}
	return nil
}

// elementSize is the number of bytes of an element in Zarr.
func elementSize(t arrow.DataType) int {
	switch zarrType(t) {
	case "bool", "int8", "uint8":
		return 1
	case "int16", "uint16", "float16":
		return 2
	case "int32", "uint32", "float32":
		return 4
	default:
		return 8
	}
}
