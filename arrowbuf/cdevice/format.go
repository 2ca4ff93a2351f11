package cdevice

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// simple are the formats of types without parameters.
var simple = map[string]arrow.DataType{
	"n": arrow.Null,
	"b": arrow.FixedWidthTypes.Boolean,
	"c": arrow.PrimitiveTypes.Int8, "C": arrow.PrimitiveTypes.Uint8,
	"s": arrow.PrimitiveTypes.Int16, "S": arrow.PrimitiveTypes.Uint16,
	"i": arrow.PrimitiveTypes.Int32, "I": arrow.PrimitiveTypes.Uint32,
	"l": arrow.PrimitiveTypes.Int64, "L": arrow.PrimitiveTypes.Uint64,
	"e": arrow.FixedWidthTypes.Float16, "f": arrow.PrimitiveTypes.Float32, "g": arrow.PrimitiveTypes.Float64,
	"z": arrow.BinaryTypes.Binary, "Z": arrow.BinaryTypes.LargeBinary, "vz": arrow.BinaryTypes.BinaryView,
	"u": arrow.BinaryTypes.String, "U": arrow.BinaryTypes.LargeString, "vu": arrow.BinaryTypes.StringView,
	"tdD": arrow.FixedWidthTypes.Date32, "tdm": arrow.FixedWidthTypes.Date64,
	"tts": arrow.FixedWidthTypes.Time32s, "ttm": arrow.FixedWidthTypes.Time32ms,
	"ttu": arrow.FixedWidthTypes.Time64us, "ttn": arrow.FixedWidthTypes.Time64ns,
	"tDs": arrow.FixedWidthTypes.Duration_s, "tDm": arrow.FixedWidthTypes.Duration_ms,
	"tDu": arrow.FixedWidthTypes.Duration_us, "tDn": arrow.FixedWidthTypes.Duration_ns,
	"tiM": arrow.FixedWidthTypes.MonthInterval, "tiD": arrow.FixedWidthTypes.DayTimeInterval,
	"tin": arrow.FixedWidthTypes.MonthDayNanoInterval,
}

// simpleFormats is the other direction, by what a type calls itself.
var simpleFormats = func() map[string]string {
	formats := map[string]string{}
	for format, t := range simple {
		formats[t.Fingerprint()] = format
	}
	return formats
}()

// units are the letters of units of time.
const units = "smun" // in the order of arrow.TimeUnit, from seconds to nanoseconds

// formatOf is the format of a type, which is no extension type, and the flags
// that belong to it. That of a dictionary is its indices'.
func formatOf(dtype arrow.DataType) (format string, flags int64, err error) {
	switch t := dtype.(type) {
	case *arrow.FixedSizeBinaryType:
		return fmt.Sprintf("w:%d", t.ByteWidth), 0, nil
	case *arrow.Decimal128Type:
		return fmt.Sprintf("d:%d,%d", t.Precision, t.Scale), 0, nil
	case arrow.DecimalType:
		return fmt.Sprintf("d:%d,%d,%d", t.GetPrecision(), t.GetScale(), t.BitWidth()), 0, nil
	case *arrow.TimestampType:
		if int(t.Unit) >= 0 && int(t.Unit) < len(units) {
			return "ts" + units[t.Unit:t.Unit+1] + ":" + t.TimeZone, 0, nil
		}
	case *arrow.ListType:
		return "+l", 0, nil
	case *arrow.LargeListType:
		return "+L", 0, nil
	case *arrow.ListViewType:
		return "+vl", 0, nil
	case *arrow.LargeListViewType:
		return "+vL", 0, nil
	case *arrow.FixedSizeListType:
		return fmt.Sprintf("+w:%d", t.Len()), 0, nil
	case *arrow.StructType:
		return "+s", 0, nil
	case *arrow.MapType:
		if t.KeysSorted {
			flags = flagSorted
		}
		return "+m", flags, nil
	case arrow.UnionType:
		return unionFormat(t), 0, nil
	case *arrow.RunEndEncodedType:
		return "+r", 0, nil
	case *arrow.DictionaryType:
		if t.Ordered {
			flags = flagOrdered
		}
		format, _, err := formatOf(t.IndexType)
		return format, flags, err
	default:
		if format, ok := simpleFormats[dtype.Fingerprint()]; ok {
			return format, 0, nil
		}
	}
	return "", 0, fmt.Errorf("the C data interface has no type %s: %w", dtype, arrow.ErrNotImplemented)
}

func unionFormat(t arrow.UnionType) string {
	codes := make([]string, len(t.TypeCodes()))
	for i, code := range t.TypeCodes() {
		codes[i] = strconv.Itoa(int(code))
	}
	mode := "+ud:"
	if t.Mode() == arrow.SparseMode {
		mode = "+us:"
	}
	return mode + strings.Join(codes, ",")
}

// fieldsOf are the children of a type.
func fieldsOf(dtype arrow.DataType) []arrow.Field {
	if t, ok := dtype.(arrow.NestedType); ok {
		return t.Fields()
	}
	return nil
}

// storageOf is the type whose layout an array has.
func storageOf(dtype arrow.DataType) arrow.DataType {
	for {
		t, ok := dtype.(arrow.ExtensionType)
		if !ok {
			return dtype
		}
		dtype = t.StorageType()
	}
}
