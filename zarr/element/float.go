package element

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
)

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
