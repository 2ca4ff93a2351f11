package element

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// floatFormat is a binary floating-point format: sign, exponent and mantissa from the
// highest bit down.
type floatFormat struct {
	name     string
	bits     int
	mantissa int // bits
	bias     int // of the exponent
	special  specialValues
}

// specialValues are the encodings of a format that are not finite numbers.
type specialValues uint8

const (
	ieee         specialValues = iota // the largest exponent is Infinity and NaN
	onlyNaN                           // "fn": all ones are NaN; no Infinity
	negativeZero                      // "fnuz": negative zero is NaN; no Infinity
	noSpecial                         // every encoding is a number
	exponentOnly                      // "e8m0fnu": no sign and no mantissa; all ones are NaN
)

var (
	binary16 = &floatFormat{"float16", 16, 10, 15, ieee}
	bfloat16 = &floatFormat{"bfloat16", 16, 7, 127, ieee}
	binary32 = &floatFormat{"float32", 32, 23, 127, ieee}
	binary64 = &floatFormat{"float64", 64, 52, 1023, ieee}

	float4E2M1FN      = &floatFormat{"float4_e2m1fn", 4, 1, 1, noSpecial}
	float6E2M3FN      = &floatFormat{"float6_e2m3fn", 6, 3, 1, noSpecial}
	float6E3M2FN      = &floatFormat{"float6_e3m2fn", 6, 2, 3, noSpecial}
	float8E3M4        = &floatFormat{"float8_e3m4", 8, 4, 3, ieee}
	float8E4M3        = &floatFormat{"float8_e4m3", 8, 3, 7, ieee}
	float8E4M3FN      = &floatFormat{"float8_e4m3fn", 8, 3, 7, onlyNaN}
	float8E4M3B11FNUZ = &floatFormat{"float8_e4m3b11fnuz", 8, 3, 11, negativeZero}
	float8E4M3FNUZ    = &floatFormat{"float8_e4m3fnuz", 8, 3, 8, negativeZero}
	float8E5M2        = &floatFormat{"float8_e5m2", 8, 2, 15, ieee}
	float8E5M2FNUZ    = &floatFormat{"float8_e5m2fnuz", 8, 2, 16, negativeZero}
	float8E8M0FNU     = &floatFormat{"float8_e8m0fnu", 8, 0, 127, exponentOnly}
)

// partTypes are the dtypes of the parts of complex types that have no dtype.
var partTypes = map[*floatFormat]ndview.DType{
	binary16: ndview.Float16, bfloat16: ndview.BFloat16,
	float4E2M1FN: ndview.Uint8, float6E2M3FN: ndview.Uint8, float6E3M2FN: ndview.Uint8,
	float8E3M4: ndview.Uint8, float8E4M3: ndview.Uint8, float8E4M3FN: ndview.Uint8, float8E4M3B11FNUZ: ndview.Uint8,
	float8E4M3FNUZ: ndview.Uint8, float8E5M2: ndview.Uint8, float8E5M2FNUZ: ndview.Uint8, float8E8M0FNU: ndview.Uint8,
}

// floatFormat returns the format of a float or of the parts of a complex number, or nil
// for other types.
func (t Type) floatFormat() *floatFormat {
	switch {
	case t.form != nil:
		return t.form.float
	case t.dtype.Kind() == ndview.KindBFloat:
		return bfloat16
	case t.dtype == ndview.Float16:
		return binary16
	case t.dtype == ndview.Float32, t.dtype == ndview.Complex64:
		return binary32
	case t.dtype == ndview.Float64, t.dtype == ndview.Complex128:
		return binary64
	}
	return nil
}

// size returns the number of bytes that store an element.
func (f *floatFormat) size() int { return (f.bits + 7) / 8 }

func (f *floatFormat) sign() uint64 {
	if f.special == exponentOnly {
		return 0
	}
	return 1 << (f.bits - 1)
}

// exponentMask returns the bits of the exponent, those of Infinity in ieee formats.
func (f *floatFormat) exponentMask() uint64 {
	return (f.sign() - 1) &^ (1<<f.mantissa - 1)
}

// nan returns the canonical NaN, or false if the format has none.
func (f *floatFormat) nan() (uint64, bool) {
	switch f.special {
	case ieee:
		return f.exponentMask() | 1<<(f.mantissa-1), true
	case onlyNaN:
		return f.sign() - 1, true
	case negativeZero:
		return f.sign(), true
	case exponentOnly:
		return 0xff, true
	default:
		return 0, false
	}
}

func (f *floatFormat) infinity() (uint64, bool) { return f.exponentMask(), f.special == ieee }

// maxFinite returns the encoding of the largest number.
func (f *floatFormat) maxFinite() uint64 {
	switch f.special {
	case ieee:
		return f.exponentMask() - 1
	case onlyNaN:
		return f.sign() - 2
	case exponentOnly:
		return 0xfe
	default:
		return f.sign() - 1
	}
}

func (f *floatFormat) isNaN(bits uint64) bool {
	switch f.special {
	case ieee:
		return bits&(f.sign()-1) > f.exponentMask()
	case onlyNaN:
		return bits&(f.sign()-1) == f.sign()-1
	case negativeZero:
		return bits == f.sign()
	case exponentOnly:
		return bits == 0xff
	default:
		return false
	}
}

// parse parses a number, "NaN", "Infinity", "-Infinity", or the bits in hexadecimal,
// highest first (Zarr core 3.1, "Fill value").
func (f *floatFormat) parse(raw json.RawMessage) ([]byte, error) {
	text, quoted := unquote(raw)
	if !quoted {
		return f.parseNumber(string(raw))
	}
	text = strings.TrimSpace(text)
	switch strings.ToLower(text) { // some writers store the words of Python or NumPy
	case "nan", "-nan", "+nan":
		return f.encodeSpecial(math.NaN())
	case "infinity", "inf", "+infinity", "+inf":
		return f.encodeSpecial(math.Inf(1))
	case "-infinity", "-inf":
		return f.encodeSpecial(math.Inf(-1))
	}
	if digits, ok := strings.CutPrefix(text, "0x"); ok {
		bits, err := strconv.ParseUint(digits, 16, f.bits)
		if err != nil || len(digits) != f.size()*2 {
			return nil, fmt.Errorf(`expected "0x" and %d hexadecimal digits of %d bits`, f.size()*2, f.bits)
		}
		return encodeLittleEndian(bits, f.size()), nil
	}
	fill, err := f.parseNumber(strings.TrimPrefix(text, "+")) // some writers store numbers as strings
	if err != nil {
		return nil, fmt.Errorf(`expected a number, "NaN", "Infinity", "-Infinity" or "0x" and %d hexadecimal digits`, f.size()*2)
	}
	return fill, nil
}

// encodeSpecial encodes NaN or an infinity, if the format has it.
func (f *floatFormat) encodeSpecial(x float64) ([]byte, error) {
	bits, ok := f.fromFloat64(x)
	if inf, has := f.infinity(); !ok || math.IsInf(x, 0) && (!has || bits&^f.sign() != inf) {
		return nil, fmt.Errorf("%s has no %v", f.name, x)
	}
	return encodeLittleEndian(bits, f.size()), nil
}

func (f *floatFormat) parseNumber(number string) ([]byte, error) {
	if x, ok := metajson.NonFinite(number); ok {
		return f.encodeSpecial(x)
	}
	width := 64
	if f == binary32 { // avoids rounding twice
		width = 32
	}
	x, err := strconv.ParseFloat(number, width)
	if err != nil && !errors.Is(err, strconv.ErrRange) || !json.Valid([]byte(number)) {
		return nil, errors.New("expected a number")
	}
	if x == 0 && f.special == exponentOnly { // tensorstore writes the smallest number as 0.0
		return []byte{0}, nil
	}
	bits, ok := f.fromFloat64(x) // out of range rounds to an infinity
	if !ok || f.isNaN(bits) || f.special != ieee && math.Abs(x) > f.limit() {
		return nil, fmt.Errorf("out of range: expected a number of %s", f.name)
	}
	return encodeLittleEndian(bits, f.size()), nil
}

// limit returns the largest number that a format without Infinity rounds instead of
// rejecting.
func (f *floatFormat) limit() float64 { return f.toFloat64(f.maxFinite()) }

// format returns the shortest text that parses to the same bits.
func (f *floatFormat) format(fill []byte) []byte {
	bits := decodeUnsigned(fill)
	if nan, ok := f.nan(); ok && bits == nan {
		return []byte(`"NaN"`)
	}
	if inf, ok := f.infinity(); ok && bits == inf {
		return []byte(`"Infinity"`)
	} else if ok && bits == inf|f.sign() {
		return []byte(`"-Infinity"`)
	}
	if f.isNaN(bits) { // a NaN with a payload
		return fmt.Appendf(nil, `"0x%0*x"`, f.size()*2, bits)
	}
	width := 64
	if f.bits < 64 {
		width = 32
	}
	text := strconv.AppendFloat(nil, f.toFloat64(bits), 'g', -1, width)
	if !strings.ContainsAny(string(text), ".e") {
		text = append(text, ".0"...) // keeps -0.0 a float for readers that distinguish integers
	}
	return text
}

// fromFloat64 rounds to nearest, ties to even, as ml_dtypes does. Numbers beyond the
// range become Infinity, or NaN, or the largest number, whichever the format has first.
// It returns false for a NaN that the format lacks.
func (f *floatFormat) fromFloat64(x float64) (uint64, bool) {
	nan, hasNaN := f.nan()
	negative := math.Signbit(x)
	var sign uint64
	if negative {
		sign, x = f.sign(), -x
	}
	switch {
	case x != x && f.special == negativeZero:
		return nan, true
	case x != x:
		return nan | sign, hasNaN
	case f == binary64:
		return math.Float64bits(x) | sign, true
	case f.special == exponentOnly:
		return f.fromPositive(x, negative), true
	}
	bits := f.maxFinite() + 1
	if !math.IsInf(x, 0) { // Go does not define its conversion to an integer
		bits = f.round(x)
	}
	if bits > f.maxFinite() {
		switch f.special {
		case ieee:
			bits = f.exponentMask()
		case noSpecial:
			bits = f.maxFinite()
		default:
			bits = nan
		}
	}
	if f.special == negativeZero && (bits == 0 || bits == nan) {
		return bits, true
	}
	return bits | sign, true
}

// round returns the encoding of a number that is not negative, without a limit to the
// exponent.
func (f *floatFormat) round(x float64) uint64 {
	if x == 0 {
		return 0
	}
	_, exponent := math.Frexp(x) // x = m * 2^exponent, m in [0.5, 1)
	exponent = max(exponent-1, 1-f.bias)
	// units counts multiples of the last mantissa bit and includes the hidden bit.
	// Adding it to the exponent field carries correctly.
	units := math.RoundToEven(math.Ldexp(x, f.mantissa-exponent))
	return uint64(exponent+f.bias-1)<<f.mantissa + uint64(units)
}

// fromPositive encodes a power of two. Others round to the nearer power, and halves
// up; zero, negative numbers and Infinity become NaN.
func (f *floatFormat) fromPositive(x float64, negative bool) uint64 {
	nan, _ := f.nan()
	if negative || x == 0 || math.IsInf(x, 0) {
		return nan
	}
	m, exponent := math.Frexp(x)
	exponent += f.bias - 1
	if m >= 0.75 {
		exponent++
	}
	if exponent > int(f.maxFinite()) {
		return nan
	}
	return uint64(max(exponent, 0))
}

func (f *floatFormat) toFloat64(bits uint64) float64 {
	switch {
	case f == binary64:
		return math.Float64frombits(bits)
	case f.isNaN(bits):
		return math.NaN()
	case f.special == exponentOnly:
		return math.Ldexp(1, int(bits)-f.bias)
	}
	magnitude := bits & (f.sign() - 1)
	x := math.Inf(1)
	if inf, ok := f.infinity(); !ok || magnitude != inf {
		exponent, mantissa := int(magnitude>>f.mantissa), magnitude&(1<<f.mantissa-1)
		if exponent > 0 {
			mantissa |= 1 << f.mantissa
		} else {
			exponent = 1
		}
		x = math.Ldexp(float64(mantissa), exponent-f.bias-f.mantissa)
	}
	if bits&f.sign() != 0 {
		x = -x
	}
	return x
}
