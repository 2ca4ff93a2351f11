package text

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// textKinds is the set of the kinds of values that a column of text has.
type textKinds uint16

const (
	kindIsInteger textKinds = 1 << iota
	kindIsFloat
	kindIsBool
	kindIsDate
	kindIsTime     // a time without zone
	kindIsZoned    // a time with a zone
	kindIsPrecise  // a time with nanoseconds
	kindIsOther    // text
	kindIsJSONText // a text of JSON
	kindIsObject
	kindIsList
)

// isNullText reports whether a value is missing, unless its column is text.
func isNullText(text string) bool {
	switch text {
	case "", "NA", "N/A", "NULL", "null":
		return true
	}
	return false
}

var isoTime = regexp.MustCompile(`^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?)?$`)

// kindsOf returns the kind of a value of CSV.
func kindsOf(text string) textKinds {
	switch text {
	case "true", "false", "True", "False", "TRUE", "FALSE":
		return kindIsBool
	}
	if len(text) > 32 || hasLeadingZero(text) {
		return kindIsOther
	}
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return kindIsInteger
	}
	if isDigits(strings.TrimLeft(text, "+-")) {
		return kindIsOther // a float64 would round it
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return kindIsFloat
	}
	return timeKinds(text)
}

// timeKinds returns the kind of a text that may be a date or a time of ISO 8601.
func timeKinds(text string) textKinds {
	if len(text) < 10 || text[4] != '-' {
		return kindIsOther
	}
	parts := isoTime.FindStringSubmatch(text)
	if parts == nil {
		return kindIsOther
	}
	if parts[1] == "" {
		if _, err := time.Parse(time.DateOnly, text); err != nil {
			return kindIsOther
		}
		return kindIsDate
	}
	kinds := kindIsTime
	if parts[4] != "" {
		kinds = kindIsZoned
	}
	if len(parts[3]) > len(".123456") {
		kinds |= kindIsPrecise
	}
	unit := arrow.Microsecond
	if kinds&kindIsPrecise != 0 {
		unit = arrow.Nanosecond
	}
	if _, err := arrow.TimestampFromString(text, unit); err != nil {
		return kindIsOther
	}
	return kinds
}

// hasLeadingZero reports whether a number would lose its zeros, as postal codes would.
func hasLeadingZero(text string) bool {
	text = strings.TrimLeft(text, "+-")
	return len(text) > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9'
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// csvType returns the type that has all values of a column.
func (k textKinds) csvType() arrow.DataType {
	const times = kindIsTime | kindIsPrecise
	switch {
	case k == kindIsInteger:
		return arrow.PrimitiveTypes.Int64
	case k != 0 && k&^(kindIsInteger|kindIsFloat) == 0:
		return arrow.PrimitiveTypes.Float64
	case k == kindIsBool:
		return arrow.FixedWidthTypes.Boolean
	case k == kindIsDate:
		return arrow.FixedWidthTypes.Date32
	case k&kindIsTime != 0 && k&^(times|kindIsDate) == 0:
		return &arrow.TimestampType{Unit: k.unit()}
	case k&kindIsZoned != 0 && k&^(kindIsZoned|kindIsPrecise) == 0:
		return &arrow.TimestampType{Unit: k.unit(), TimeZone: "UTC"}
	default:
		return arrow.BinaryTypes.String
	}
}

func (k textKinds) unit() arrow.TimeUnit {
	if k&kindIsPrecise != 0 {
		return arrow.Nanosecond
	}
	return arrow.Microsecond
}

var namedTypes = map[string]arrow.DataType{
	"text": arrow.BinaryTypes.String, "string": arrow.BinaryTypes.String, "utf8": arrow.BinaryTypes.String, "large_string": arrow.BinaryTypes.LargeString,
	"bool": arrow.FixedWidthTypes.Boolean,
	"int8": arrow.PrimitiveTypes.Int8, "int16": arrow.PrimitiveTypes.Int16, "int32": arrow.PrimitiveTypes.Int32, "int64": arrow.PrimitiveTypes.Int64,
	"uint8": arrow.PrimitiveTypes.Uint8, "uint16": arrow.PrimitiveTypes.Uint16, "uint32": arrow.PrimitiveTypes.Uint32, "uint64": arrow.PrimitiveTypes.Uint64,
	"float32": arrow.PrimitiveTypes.Float32, "float64": arrow.PrimitiveTypes.Float64,
	"date":      arrow.FixedWidthTypes.Date32,
	"timestamp": &arrow.TimestampType{Unit: arrow.Microsecond}, "timestamp[s]": &arrow.TimestampType{Unit: arrow.Second},
	"timestamp[ms]": &arrow.TimestampType{Unit: arrow.Millisecond}, "timestamp[us]": &arrow.TimestampType{Unit: arrow.Microsecond},
	"timestamp[ns]": &arrow.TimestampType{Unit: arrow.Nanosecond}, "timestamp[us UTC]": arrow.FixedWidthTypes.Timestamp_us,
	"timestamp[ns UTC]": arrow.FixedWidthTypes.Timestamp_ns,
}

var decimalType = regexp.MustCompile(`^decimal\((\d+) (-?\d+)\)$`)

// parseTypes parses the types of columns, such as "id:int64,price:decimal(10 2)". The
// last colon of an item ends the name.
func parseTypes(text string) (map[string]arrow.DataType, error) {
	types := map[string]arrow.DataType{}
	if text == "" {
		return types, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		colon := strings.LastIndexByte(item, ':')
		if colon < 1 {
			return nil, fmt.Errorf("types: %q, expected NAME:TYPE", item)
		}
		name, kind := item[:colon], item[colon+1:]
		t := namedTypes[kind]
		if parts := decimalType.FindStringSubmatch(kind); parts != nil {
			precision, _ := strconv.Atoi(parts[1])
			scale, _ := strconv.Atoi(parts[2])
			if d, err := arrow.NewDecimalType(arrow.DECIMAL128, int32(precision), int32(scale)); err == nil {
				t = d
			}
		}
		if t == nil {
			return nil, fmt.Errorf("types: %q of column %q, expected text, bool, int8-int64, uint8-uint64, float32, float64, date, timestamp, timestamp[s|ms|us|ns], timestamp[us|ns UTC] or decimal(PRECISION SCALE)", kind, name)
		}
		types[name] = t
	}
	return types, nil
}
