package cdevice

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// primitives are the format strings of types without parameters.
var primitives = map[string]arrow.DataType{
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

// primitiveFormats maps the fingerprint of a type to its format string.
var primitiveFormats = func() map[string]string {
	formats := map[string]string{}
	for format, t := range primitives {
		formats[t.Fingerprint()] = format
	}
	return formats
}()

// units are the letters of time units, in the order of arrow.TimeUnit.
const units = "smun" // seconds to nanoseconds

// formatOf returns the format string of a type, and the flags that belong to it. The
// type must not be an extension type. The format string of a dictionary type is that
// of its indices.
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
		if format, ok := primitiveFormats[dtype.Fingerprint()]; ok {
			return format, 0, nil
		}
	}
	return "", 0, fmt.Errorf("type %s has no format string: %w", dtype, arrow.ErrNotImplemented)
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

// parseFormat returns the type of a format string with the flags and children of its
// schema.
func parseFormat(format string, flags int64, children []arrow.Field) (arrow.DataType, error) {
	kind, parameter, parameters := strings.Cut(format, ":")
	if want := childCount(kind); want >= 0 && len(children) != want {
		return nil, invalidf("format %q: got %d children, want %d", format, len(children), want)
	}
	if !parameters {
		return parseUnparameterized(format, flags, children)
	}
	switch kind {
	case "w":
		width, err := parseCount(parameter, 0)
		return &arrow.FixedSizeBinaryType{ByteWidth: width}, err
	case "d":
		return parseDecimal(parameter)
	case "tss", "tsm", "tsu", "tsn":
		unit := arrow.TimeUnit(strings.IndexByte(units, kind[2]))
		return &arrow.TimestampType{Unit: unit, TimeZone: parameter}, nil
	case "+w":
		n, err := parseCount(parameter, 1) // arrow-go has no lists of size 0
		if err != nil {
			return nil, err
		}
		return arrow.FixedSizeListOfField(int32(n), children[0]), nil
	case "+ud":
		return parseUnion(arrow.DenseMode, parameter, children)
	case "+us":
		return parseUnion(arrow.SparseMode, parameter, children)
	}
	return nil, invalidf("unknown format %q", format)
}

// childCount returns the number of children of a kind of type, or -1 if it may be
// any.
func childCount(kind string) int {
	switch kind {
	case "+l", "+L", "+vl", "+vL", "+w", "+m":
		return 1
	case "+r":
		return 2
	case "+s", "+ud", "+us":
		return -1
	default:
		return 0
	}
}

func parseUnparameterized(format string, flags int64, children []arrow.Field) (arrow.DataType, error) {
	switch format {
	case "+l":
		return arrow.ListOfField(children[0]), nil
	case "+L":
		return arrow.LargeListOfField(children[0]), nil
	case "+vl":
		return arrow.ListViewOfField(children[0]), nil
	case "+vL":
		return arrow.LargeListViewOfField(children[0]), nil
	case "+s":
		return arrow.StructOf(children...), nil
	case "+m":
		return parseMap(flags, children[0])
	case "+r":
		t := arrow.RunEndEncodedOf(children[0].Type, children[1].Type)
		if !t.ValidRunEndsType(t.RunEnds()) {
			return nil, invalidf("run ends of type %s", t.RunEnds())
		}
		t.ValueNullable = children[1].Nullable
		return t, nil
	}
	if t, ok := primitives[format]; ok {
		return t, nil
	}
	return nil, invalidf("unknown format %q", format)
}

func parseMap(flags int64, entries arrow.Field) (arrow.DataType, error) {
	pair, ok := entries.Type.(*arrow.StructType)
	if !ok || pair.NumFields() != 2 {
		return nil, invalidf("entries of a map: got %s, want a struct of key and value", entries.Type)
	}
	key := pair.Field(0)
	key.Nullable = false // some producers set the flag, but keys are never null
	t := arrow.MapOfFields(key, pair.Field(1))
	t.KeysSorted = flags&flagSorted != 0
	return t, nil
}

func parseDecimal(parameter string) (arrow.DataType, error) {
	parts := strings.Split(parameter, ",")
	if len(parts) == 2 {
		parts = append(parts, "128")
	}
	if len(parts) != 3 {
		return nil, invalidf("decimal: got %q, want precision, scale and width", parameter)
	}
	var numbers [3]int32
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil {
			return nil, invalidf("decimal of %q: %v", parameter, err)
		}
		numbers[i] = int32(n)
	}
	id, ok := map[int32]arrow.Type{32: arrow.DECIMAL32, 64: arrow.DECIMAL64, 128: arrow.DECIMAL128, 256: arrow.DECIMAL256}[numbers[2]]
	if !ok {
		return nil, invalidf("decimal of %d bits, want 32, 64, 128 or 256", numbers[2])
	}
	return arrow.NewDecimalType(id, numbers[0], numbers[1])
}

func parseUnion(mode arrow.UnionMode, parameter string, children []arrow.Field) (arrow.DataType, error) {
	var codes []arrow.UnionTypeCode
	seen := map[arrow.UnionTypeCode]bool{}
	if parameter != "" {
		for part := range strings.SplitSeq(parameter, ",") {
			n, err := strconv.ParseInt(part, 10, 8)
			code := arrow.UnionTypeCode(n)
			if err != nil || n < 0 || seen[code] {
				return nil, invalidf("type ids of a union: got %q, want distinct numbers from 0 to 127", parameter)
			}
			codes, seen[code] = append(codes, code), true
		}
	}
	if len(codes) != len(children) {
		return nil, invalidf("union: got %d children and %d type ids", len(children), len(codes))
	}
	return arrow.UnionOf(mode, children, codes), nil
}

func parseCount(parameter string, least int) (int, error) {
	n, err := strconv.Atoi(parameter)
	if err != nil || n < least || n > math.MaxInt32 {
		return 0, invalidf("size: got %q, want %d to %d", parameter, least, math.MaxInt32)
	}
	return n, nil
}
