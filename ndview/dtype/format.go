package dtype

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Format returns one element, t.Size() bytes in the host's byte order, as text for
// people. Numbers are as Go prints them, and 16-bit floats have as many digits as they
// need. Datetimes are in ISO 8601, timedeltas a count and a unit, and not-a-time is NaT.
// Bytes are in hexadecimal, and records {name: value, ...}.
func (t DType) Format(raw []byte) string {
	switch t.kind {
	case KindBool:
		return strconv.FormatBool(raw[0] != 0)
	case KindInt, KindUint:
		return fmt.Sprint(t.integer(raw))
	case KindFloat, KindBFloat:
		return t.formatFloat(raw)
	case KindComplex:
		if t.size == 8 {
			return strconv.FormatComplex(complex128(load[complex64](raw)), 'g', -1, 64)
		}
		return strconv.FormatComplex(load[complex128](raw), 'g', -1, 128)
	case KindDatetime, KindTimedelta:
		return t.formatTime(load[int64](raw))
	case KindRecord:
		fields := make([]string, len(t.record.fields))
		for i, f := range t.record.fields {
			fields[i] = f.Name + ": " + f.formatValue(raw[f.Offset:][:f.Size()])
		}
		return "{" + strings.Join(fields, ", ") + "}"
	default:
		return fmt.Sprintf("%#x", raw)
	}
}

// formatValue returns a field of one record as text; a subarray becomes nested lists.
func (f Field) formatValue(raw []byte) string {
	if len(f.Shape) == 0 {
		return f.DType.Format(raw)
	}
	inner := Field{DType: f.DType, Shape: f.Shape[1:]}
	size := f.DType.Size() * layout.Product(inner.Shape)
	items := make([]string, f.Shape[0])
	for i := range items {
		items[i] = inner.formatValue(raw[int64(i)*size:][:size])
	}
	return "[" + strings.Join(items, " ") + "]"
}

// integer returns the value of an integer as an int64 or a uint64.
func (t DType) integer(raw []byte) any {
	switch t {
	case Int8:
		return int64(load[int8](raw))
	case Int16:
		return int64(load[int16](raw))
	case Int32:
		return int64(load[int32](raw))
	case Int64:
		return load[int64](raw)
	case Uint8:
		return uint64(raw[0])
	case Uint16:
		return uint64(load[uint16](raw))
	case Uint32:
		return uint64(load[uint32](raw))
	default:
		return load[uint64](raw)
	}
}

// formatFloat prints as many digits as the type's precision has.
func (t DType) formatFloat(raw []byte) string {
	switch {
	case t.kind == KindBFloat: // 8 bits of precision: 4 digits distinguish neighbours
		return strconv.FormatFloat(float64(half.BFloat16ToFloat32(load[uint16](raw))), 'g', 4, 32)
	case t.size == 2: // 11 bits of precision
		return strconv.FormatFloat(float64(half.Float16ToFloat32(load[uint16](raw))), 'g', 5, 32)
	case t.size == 4:
		return strconv.FormatFloat(float64(load[float32](raw)), 'g', -1, 32)
	default:
		return strconv.FormatFloat(load[float64](raw), 'g', -1, 64)
	}
}

// decimalDigits is the number of decimal places of seconds of the units below the
// minute.
var decimalDigits = map[TimeUnit]int{Second: 0, Millisecond: 3, Microsecond: 6, Nanosecond: 9, Picosecond: 12, Femtosecond: 15, Attosecond: 18}

// secondsPer is the length in seconds of the units from a minute to a week.
var secondsPer = map[TimeUnit]int64{Minute: 60, Hour: 3600, Day: 86400, Week: 7 * 86400}

// formatTime returns a timedelta as its count and unit, and a datetime in ISO 8601. A
// datetime without a unit, or outside the years that package time supports, is
// returned as its count and unit.
func (t DType) formatTime(count int64) string {
	if count == math.MinInt64 {
		return "NaT"
	}
	plain := strconv.FormatInt(count, 10) + " " + strings.Trim(t.unitSuffix(), "[]")
	if t.kind == KindTimedelta || t.unit == Generic {
		return strings.TrimRight(plain, " ")
	}
	high, low := bits.Mul64(uint64(max(count, -count)), uint64(t.step))
	if high != 0 || low > math.MaxInt64 {
		return plain
	}
	count *= int64(t.step)
	const farthest = 1 << 37 * 365 // seconds: about 1.6 million years
	switch digits, ok := decimalDigits[t.unit]; {
	case t.unit == Year || t.unit == Month:
		year, month := 1970+count, int64(0)
		if t.unit == Month {
			year, month = 1970+floorDiv(count, 12), count-12*floorDiv(count, 12)
		}
		if year < -999_999 || year > 999_999 {
			return plain
		}
		text := fmt.Sprintf("%04d", max(year, -year))
		if year < 0 {
			text = "-" + text
		}
		if t.unit == Month {
			text += fmt.Sprintf("-%02d", month+1)
		}
		return text
	case ok:
		perSecond := int64(math.Pow10(digits))
		seconds := floorDiv(count, perSecond)
		if seconds < -farthest || seconds > farthest {
			return plain
		}
		text := time.Unix(seconds, 0).UTC().Format("2006-01-02T15:04:05")
		if digits > 0 {
			text += fmt.Sprintf(".%0*d", digits, count-seconds*perSecond)
		}
		return text
	default:
		per := secondsPer[t.unit]
		if count < -farthest/per || count > farthest/per {
			return plain
		}
		form := map[TimeUnit]string{Minute: "2006-01-02T15:04", Hour: "2006-01-02T15"}[t.unit]
		if form == "" {
			form = "2006-01-02"
		}
		return time.Unix(count*per, 0).UTC().Format(form)
	}
}

// floorDiv returns a/b rounded down, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// load reads a value at any alignment.
func load[T any](raw []byte) T {
	var v T
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)), raw)
	return v
}
