package element

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

const natJSON = `"NaT"`

// DefaultFill returns the fill value of arrays that set none: zero, false, the empty
// string, or NaT ("not a time").
func (t Type) DefaultFill() []byte {
	fill := make([]byte, t.Size())
	if t.isTime() {
		binary.LittleEndian.PutUint64(fill, 1<<63)
	}
	return fill
}

// CheckFill returns an error unless fill is one element of the type: Size bytes in the
// layout of an NDBuffer, or a byte string of any length.
func (t Type) CheckFill(fill []byte) error {
	if !t.IsVLen() && int64(len(fill)) != t.Size() {
		return fmt.Errorf("fill value of %s has %d bytes, want %d", t, len(fill), t.Size())
	}
	if t == String && !utf8.Valid(fill) {
		return fmt.Errorf("fill value %q is not UTF-8", fill)
	}
	return nil
}

// ParseFill parses the fill_value member of metadata into one element (Zarr core 3.1,
// "Fill value").
func (t Type) ParseFill(raw json.RawMessage) ([]byte, error) {
	fill, err := t.parseFill(raw)
	if err != nil {
		return nil, fmt.Errorf("fill_value %s of %s: %w", metajson.Excerpt(raw), t, err)
	}
	return fill, nil
}

func (t Type) parseFill(raw json.RawMessage) ([]byte, error) {
	switch t.vlen {
	case vlenUTF8:
		var s *string
		if err := json.Unmarshal(raw, &s); err != nil || s == nil {
			return nil, fmt.Errorf("expected a string")
		}
		return []byte(*s), nil
	case vlenBytes:
		return parseByteString(raw)
	}
	size := int(t.Size())
	switch t.dtype.Kind() {
	case ndview.KindBool:
		switch metajson.TrimFraction(string(raw)) {
		case "true", "1":
			return []byte{1}, nil
		case "false", "0":
			return []byte{0}, nil
		}
		return nil, fmt.Errorf("expected true or false")
	case ndview.KindDatetime, ndview.KindTimedelta:
		if string(raw) == natJSON {
			return t.DefaultFill(), nil
		}
		return parseInt(raw, size)
	case ndview.KindInt:
		return parseInt(raw, size)
	case ndview.KindUint:
		n, err := strconv.ParseUint(integerText(raw), 10, size*8)
		if err != nil {
			return nil, fmt.Errorf("expected an integer of %d bits, not negative", size*8)
		}
		return encodeLittleEndian(n, size), nil
	case ndview.KindFloat, ndview.KindBFloat:
		return t.floatFormat().parse(raw)
	case ndview.KindComplex:
		return t.parseComplex(raw)
	default:
		return parseRawBits(raw, size)
	}
}

// integerText returns the text of an integer. Some writers store 0.0 or "0".
func integerText(raw json.RawMessage) string {
	text := string(raw)
	if inner, ok := unquote(raw); ok {
		text = inner
	}
	return metajson.TrimFraction(text)
}

// unquote returns the value of a JSON string, or false for other values.
func unquote(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

func parseInt(raw json.RawMessage, size int) ([]byte, error) {
	n, err := strconv.ParseInt(integerText(raw), 10, size*8)
	if err != nil {
		return nil, fmt.Errorf("expected an integer of %d bits", size*8)
	}
	return encodeLittleEndian(uint64(n), size), nil
}

func (t Type) parseComplex(raw json.RawMessage) ([]byte, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil || len(parts) != 2 {
		return nil, fmt.Errorf("expected [real, imaginary]")
	}
	var fill []byte
	for _, part := range parts {
		f, err := t.floatFormat().parse(part)
		if err != nil {
			return nil, err
		}
		fill = append(fill, f...)
	}
	return fill, nil
}

func parseByteString(raw json.RawMessage) ([]byte, error) {
	var s *string
	if json.Unmarshal(raw, &s) == nil && s != nil {
		b, err := base64.StdEncoding.Strict().DecodeString(*s)
		if err != nil {
			return nil, fmt.Errorf("expected base64: %w", err)
		}
		return b, nil
	}
	return parseByteList(raw)
}

// parseRawBits also accepts base64, which tensorstore writes.
func parseRawBits(raw json.RawMessage, size int) ([]byte, error) {
	b, err := parseByteString(raw)
	if err == nil && len(b) != size {
		return nil, fmt.Errorf("got %d bytes, want a list of %d bytes", len(b), size)
	}
	return b, err
}

func parseByteList(raw json.RawMessage) ([]byte, error) {
	var list []int64
	if err := metajson.Decode("bytes", raw, &list); err != nil {
		return nil, fmt.Errorf("expected a list of bytes, each 0 to 255")
	}
	b := make([]byte, len(list))
	for i, n := range list {
		if n < 0 || n > 255 {
			return nil, fmt.Errorf("byte %d is %d, want 0 to 255", i, n)
		}
		b[i] = byte(n)
	}
	return b, nil
}

// FormatFill formats one element as the fill_value member of metadata.
func (t Type) FormatFill(fill []byte) (json.RawMessage, error) {
	if err := t.CheckFill(fill); err != nil {
		return nil, err
	}
	switch t.vlen {
	case vlenUTF8:
		return metajson.MarshalLine(string(fill))
	case vlenBytes:
		// zarr-python accepts only this form.
		return json.Marshal(base64.StdEncoding.EncodeToString(fill))
	}
	switch t.dtype.Kind() {
	case ndview.KindBool:
		return strconv.AppendBool(nil, fill[0] != 0), nil
	case ndview.KindDatetime, ndview.KindTimedelta:
		if bytes.Equal(fill, t.DefaultFill()) {
			return json.RawMessage(natJSON), nil
		}
		return strconv.AppendInt(nil, decodeSigned(fill), 10), nil
	case ndview.KindInt:
		return strconv.AppendInt(nil, decodeSigned(fill), 10), nil
	case ndview.KindUint:
		return strconv.AppendUint(nil, decodeUnsigned(fill), 10), nil
	case ndview.KindFloat, ndview.KindBFloat:
		return t.floatFormat().format(fill), nil
	case ndview.KindComplex:
		half := len(fill) / 2
		return fmt.Appendf(nil, "[%s,%s]", t.floatFormat().format(fill[:half]), t.floatFormat().format(fill[half:])), nil
	default:
		list := make([]uint16, len(fill)) // encoding/json writes []byte as base64
		for i, b := range fill {
			list[i] = uint16(b)
		}
		return json.Marshal(list)
	}
}

// encodeLittleEndian returns the low size bytes of n.
func encodeLittleEndian(n uint64, size int) []byte {
	return binary.LittleEndian.AppendUint64(nil, n)[:size]
}

func decodeUnsigned(b []byte) uint64 {
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:])
}

func decodeSigned(b []byte) int64 {
	shift := 64 - 8*len(b)
	return int64(decodeUnsigned(b)<<shift) >> shift
}

// floatFormat is an IEEE 754 interchange format: sign, exponent and mantissa from the
// highest bit down.
type floatFormat struct {
	size     int // bytes
	mantissa int // bits
}

var (
	binary16 = floatFormat{2, 10}
	bfloat16 = floatFormat{2, 7}
	binary32 = floatFormat{4, 23}
	binary64 = floatFormat{8, 52}
)

// floatFormat returns the format of a float or of the parts of a complex number.
func (t Type) floatFormat() floatFormat {
	switch {
	case t.dtype.Kind() == ndview.KindBFloat:
		return bfloat16
	case t.dtype == ndview.Float16:
		return binary16
	case t.dtype == ndview.Float32, t.dtype == ndview.Complex64:
		return binary32
	default:
		return binary64
	}
}

func (f floatFormat) exponentBits() int { return f.size*8 - 1 - f.mantissa }
func (f floatFormat) sign() uint64      { return 1 << (f.size*8 - 1) }
func (f floatFormat) infinity() uint64  { return (1<<f.exponentBits() - 1) << f.mantissa }
func (f floatFormat) nan() uint64       { return f.infinity() | 1<<(f.mantissa-1) }

// parse parses a number, "NaN", "Infinity", "-Infinity", or the bits in hexadecimal,
// highest first (Zarr core 3.1, "Fill value").
func (f floatFormat) parse(raw json.RawMessage) ([]byte, error) {
	name, quoted := unquote(raw)
	if !quoted {
		return f.parseNumber(string(raw))
	}
	switch name {
	case "NaN":
		return encodeLittleEndian(f.nan(), f.size), nil
	case "Infinity":
		return encodeLittleEndian(f.infinity(), f.size), nil
	case "-Infinity":
		return encodeLittleEndian(f.infinity()|f.sign(), f.size), nil
	}
	if fill, err := f.parseNumber(name); err == nil { // some writers store numbers as strings
		return fill, nil
	}
	digits, ok := strings.CutPrefix(name, "0x")
	bits, err := strconv.ParseUint(digits, 16, f.size*8)
	if !ok || err != nil || len(digits) != f.size*2 {
		return nil, fmt.Errorf(`expected a number, "NaN", "Infinity", "-Infinity" or "0x" and %d hexadecimal digits`, f.size*2)
	}
	return encodeLittleEndian(bits, f.size), nil
}

func (f floatFormat) parseNumber(number string) ([]byte, error) {
	if x, ok := metajson.NonFinite(number); ok && math.IsNaN(x) {
		return encodeLittleEndian(f.nan(), f.size), nil
	}
	width := 64
	if f == binary32 { // avoids rounding twice
		width = 32
	}
	x, err := strconv.ParseFloat(number, width)
	if err != nil && !errors.Is(err, strconv.ErrRange) || !json.Valid([]byte(number)) {
		return nil, errors.New("expected a number")
	}
	return encodeLittleEndian(f.fromFloat64(x), f.size), nil // out of range rounds to an infinity
}

// format returns the shortest text that parses to the same bits.
func (f floatFormat) format(fill []byte) []byte {
	bits := decodeUnsigned(fill)
	switch bits {
	case f.nan():
		return []byte(`"NaN"`)
	case f.infinity():
		return []byte(`"Infinity"`)
	case f.infinity() | f.sign():
		return []byte(`"-Infinity"`)
	}
	if bits&f.infinity() == f.infinity() { // a NaN with a payload
		return fmt.Appendf(nil, `"0x%0*x"`, f.size*2, bits)
	}
	width := 64
	if f.size < 8 {
		width = 32
	}
	text := strconv.AppendFloat(nil, f.toFloat64(bits), 'g', -1, width)
	if !strings.ContainsAny(string(text), ".e") {
		text = append(text, ".0"...) // keeps -0.0 a float for readers that distinguish integers
	}
	return text
}

// fromFloat64 rounds to nearest, ties to even.
func (f floatFormat) fromFloat64(x float64) uint64 {
	if f == binary64 {
		return math.Float64bits(x)
	}
	var sign uint64
	if math.Signbit(x) {
		sign, x = f.sign(), -x
	}
	switch {
	case x == 0:
		return sign
	case math.IsInf(x, 0): // Go does not define its conversion to an integer
		return sign | f.infinity()
	}
	bias := 1<<(f.exponentBits()-1) - 1
	_, exponent := math.Frexp(x) // x = m * 2^exponent, m in [0.5, 1)
	exponent = max(exponent-1, 1-bias)
	// units counts multiples of the last mantissa bit and includes the hidden bit.
	// Adding it to the exponent field carries correctly.
	units := math.RoundToEven(math.Ldexp(x, f.mantissa-exponent))
	bits := uint64(exponent+bias-1)<<f.mantissa + uint64(units)
	return sign | min(bits, f.infinity())
}

func (f floatFormat) toFloat64(bits uint64) float64 {
	if f == binary64 {
		return math.Float64frombits(bits)
	}
	bias := 1<<(f.exponentBits()-1) - 1
	exponent := int(bits&f.infinity()) >> f.mantissa
	mantissa := bits & (1<<f.mantissa - 1)
	if exponent > 0 {
		mantissa |= 1 << f.mantissa
	} else {
		exponent = 1
	}
	x := math.Ldexp(float64(mantissa), exponent-bias-f.mantissa)
	if bits&f.sign() != 0 {
		x = math.Copysign(x, -1)
	}
	return x
}
