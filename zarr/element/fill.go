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

const nat = `"NaT"`

// DefaultFill is the fill value of arrays that set none: zero, false, the empty
// string, or "not a time".
func (t Type) DefaultFill() []byte {
	fill := make([]byte, t.Size())
	if t.isTime() {
		binary.LittleEndian.PutUint64(fill, 1<<63)
	}
	return fill
}

// CheckFill answers an error unless fill is one element of the type: Size bytes
// as an NDBuffer holds them, or a byte string.
func (t Type) CheckFill(fill []byte) error {
	if !t.IsVLen() && int64(len(fill)) != t.Size() {
		return fmt.Errorf("fill value of %d bytes for %s, whose elements take %d", len(fill), t, t.Size())
	}
	if t == String && !utf8.Valid(fill) {
		return fmt.Errorf("fill value %q is not UTF-8", fill)
	}
	return nil
}

// ParseFill reads the fill_value of metadata into one element.
func (t Type) ParseFill(raw json.RawMessage) ([]byte, error) {
	fill, err := t.parseFill(raw)
	if err != nil {
		return nil, fmt.Errorf("fill_value %s of %s: %w", metajson.Excerpt(raw), t, err)
	}
	return fill, nil
}

func (t Type) parseFill(raw json.RawMessage) ([]byte, error) {
	switch t.vlen {
	case text:
		var s *string
		if err := json.Unmarshal(raw, &s); err != nil || s == nil {
			return nil, fmt.Errorf("expected a string")
		}
		return []byte(*s), nil
	case blob:
		return parseByteString(raw)
	}
	size := int(t.Size())
	switch t.dtype.Kind() {
	case ndview.KindBool:
		switch string(raw) {
		case "true":
			return []byte{1}, nil
		case "false":
			return []byte{0}, nil
		}
		return nil, fmt.Errorf("expected true or false")
	case ndview.KindDatetime, ndview.KindTimedelta:
		if string(raw) == nat {
			return t.DefaultFill(), nil
		}
		return parseInt(raw, size)
	case ndview.KindInt:
		return parseInt(raw, size)
	case ndview.KindUint:
		n, err := strconv.ParseUint(string(raw), 10, size*8)
		if err != nil {
			return nil, fmt.Errorf("expected an integer of %d bits, not negative", size*8)
		}
		return little(n, size), nil
	case ndview.KindFloat, ndview.KindBFloat:
		return t.format().parse(raw)
	case ndview.KindComplex:
		return t.parseComplex(raw)
	default:
		return parseRawBits(raw, size)
	}
}

func parseInt(raw json.RawMessage, size int) ([]byte, error) {
	n, err := strconv.ParseInt(string(raw), 10, size*8)
	if err != nil {
		return nil, fmt.Errorf("expected an integer of %d bits", size*8)
	}
	return little(uint64(n), size), nil
}

func (t Type) parseComplex(raw json.RawMessage) ([]byte, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil || len(parts) != 2 {
		return nil, fmt.Errorf("expected [real, imaginary]")
	}
	var fill []byte
	for _, part := range parts {
		f, err := t.format().parse(part)
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

// parseRawBits takes base64 too, which is what tensorstore writes.
func parseRawBits(raw json.RawMessage, size int) ([]byte, error) {
	b, err := parseByteString(raw)
	if err == nil && len(b) != size {
		return nil, fmt.Errorf("expected a list of %d bytes, got %d", size, len(b))
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
			return nil, fmt.Errorf("byte %d is %d, not 0 to 255", i, n)
		}
		b[i] = byte(n)
	}
	return b, nil
}

// FormatFill writes one element as the fill_value of metadata.
func (t Type) FormatFill(fill []byte) (json.RawMessage, error) {
	if err := t.CheckFill(fill); err != nil {
		return nil, err
	}
	switch t.vlen {
	case text:
		return metajson.Compact(string(fill))
	case blob:
		// zarr-python reads no other form.
		return json.Marshal(base64.StdEncoding.EncodeToString(fill))
	}
	switch t.dtype.Kind() {
	case ndview.KindBool:
		return strconv.AppendBool(nil, fill[0] != 0), nil
	case ndview.KindDatetime, ndview.KindTimedelta:
		if bytes.Equal(fill, t.DefaultFill()) {
			return json.RawMessage(nat), nil
		}
		return strconv.AppendInt(nil, signed(fill), 10), nil
	case ndview.KindInt:
		return strconv.AppendInt(nil, signed(fill), 10), nil
	case ndview.KindUint:
		return strconv.AppendUint(nil, unsigned(fill), 10), nil
	case ndview.KindFloat, ndview.KindBFloat:
		return t.format().write(fill), nil
	case ndview.KindComplex:
		half := len(fill) / 2
		return fmt.Appendf(nil, "[%s,%s]", t.format().write(fill[:half]), t.format().write(fill[half:])), nil
	default:
		list := make([]uint16, len(fill)) // a list of numbers, where []byte would be base64
		for i, b := range fill {
			list[i] = uint16(b)
		}
		return json.Marshal(list)
	}
}

// little is the low size bytes of n as the host holds them.
func little(n uint64, size int) []byte {
	return binary.LittleEndian.AppendUint64(nil, n)[:size]
}

func unsigned(b []byte) uint64 {
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:])
}

func signed(b []byte) int64 {
	shift := 64 - 8*len(b)
	return int64(unsigned(b)<<shift) >> shift
}

// floatFormat is a binary floating-point format: sign, exponent and mantissa
// from the highest bit down, as IEEE 754 lays out its interchange formats.
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

// format is the format of a float, or of the parts of a complex number.
func (t Type) format() floatFormat {
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

// parse reads a number, "NaN", "Infinity", "-Infinity", or the bits in
// hexadecimal, highest first (Zarr core, "Fill value list").
func (f floatFormat) parse(raw json.RawMessage) ([]byte, error) {
	var name string
	if json.Unmarshal(raw, &name) != nil || len(raw) == 0 || raw[0] != '"' {
		return f.parseNumber(string(raw))
	}
	switch name {
	case "NaN":
		return little(f.nan(), f.size), nil
	case "Infinity":
		return little(f.infinity(), f.size), nil
	case "-Infinity":
		return little(f.infinity()|f.sign(), f.size), nil
	}
	digits, ok := strings.CutPrefix(name, "0x")
	bits, err := strconv.ParseUint(digits, 16, f.size*8)
	if !ok || err != nil || len(digits) != f.size*2 {
		return nil, fmt.Errorf(`expected a number, "NaN", "Infinity", "-Infinity" or "0x" and %d hexadecimal digits`, f.size*2)
	}
	return little(bits, f.size), nil
}

func (f floatFormat) parseNumber(number string) ([]byte, error) {
	width := 64
	if f == binary32 { // rounds once, straight from decimal
		width = 32
	}
	x, err := strconv.ParseFloat(number, width)
	if err != nil && !errors.Is(err, strconv.ErrRange) || !json.Valid([]byte(number)) {
		return nil, errors.New("expected a number")
	}
	return little(f.fromFloat64(x), f.size), nil // beyond the range an infinity, as rounding has it
}

// write is the shortest text that reads back to the same bits.
func (f floatFormat) write(fill []byte) []byte {
	bits := unsigned(fill)
	switch bits {
	case f.nan():
		return []byte(`"NaN"`)
	case f.infinity():
		return []byte(`"Infinity"`)
	case f.infinity() | f.sign():
		return []byte(`"-Infinity"`)
	}
	if bits&f.infinity() == f.infinity() { // a NaN with other bits
		return fmt.Appendf(nil, `"0x%0*x"`, f.size*2, bits)
	}
	width := 64
	if f.size < 8 {
		width = 32
	}
	text := strconv.AppendFloat(nil, f.toFloat64(bits), 'g', -1, width)
	if !strings.ContainsAny(string(text), ".e") {
		text = append(text, ".0"...) // keeps -0.0 a float for readers that type numbers
	}
	return text
}

// fromFloat64 rounds to the nearest, ties to even.
func (f floatFormat) fromFloat64(x float64) uint64 {
	if f == binary64 {
		return math.Float64bits(x)
	}
	var sign uint64
	if math.Signbit(x) {
		sign, x = f.sign(), -x
	}
	if x == 0 {
		return sign
	}
	bias := 1<<(f.exponentBits()-1) - 1
	_, exponent := math.Frexp(x) // x = m * 2^exponent, m in [0.5, 1)
	exponent = max(exponent-1, 1-bias)
	// Whole units of the last mantissa bit, of which the hidden bit is one
	// too: adding them to the exponent carries over as IEEE 754 wants.
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
