package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Rounding is how [CastValue] rounds values that the encoded type lacks.
type Rounding string

// The rounding modes.
const (
	NearestEven     Rounding = "nearest-even" // ties to even; the default
	TowardsZero     Rounding = "towards-zero"
	TowardsPositive Rounding = "towards-positive"
	TowardsNegative Rounding = "towards-negative"
	NearestAway     Rounding = "nearest-away" // ties away from zero
)

// OutOfRange is what [CastValue] does with rounded values beyond the range of the
// encoded type.
type OutOfRange string

// The ways to treat values that are out of range.
const (
	RangeError OutOfRange = ""      // an error; the default
	RangeClamp OutOfRange = "clamp" // the nearest integer; an infinity, if floats have it
	RangeWrap  OutOfRange = "wrap"  // modulo 2^n for integers of n bits
)

// CastValue converts elements to another type by value (zarr-extensions, "cast_value").
// Types are integers, floats, and times, which are the integers that count their units. A
// NaN or an infinity cannot become an integer, except by a scalar map. NaT is the NaN of
// times. Times do not become times of other units. Decoding converts by the same rules.
type CastValue struct {
	// Type is the type of encoded elements.
	Type element.Type
	// Rounding is NearestEven if empty.
	Rounding   Rounding
	OutOfRange OutOfRange
	// ScalarMap maps single values before these rules apply. It may be nil.
	ScalarMap *ScalarMap
}

// ScalarMap maps values, which are fill values in JSON, when encoding and decoding. The
// first entry that equals a value counts; a NaN equals any NaN.
type ScalarMap struct {
	Encode [][2]json.RawMessage
	Decode [][2]json.RawMessage
}

// Name returns "cast_value".
func (CastValue) Name() string { return "cast_value" }

// Configuration returns the type, and other fields that are set.
func (c CastValue) Configuration() any {
	m := metajson.Members{{Key: "data_type", Value: c.Type}}
	if c.Rounding != "" {
		m = append(m, metajson.Member{Key: "rounding", Value: c.Rounding})
	}
	if c.OutOfRange != RangeError {
		m = append(m, metajson.Member{Key: "out_of_range", Value: c.OutOfRange})
	}
	if c.ScalarMap != nil {
		maps := metajson.Members{}
		if c.ScalarMap.Encode != nil {
			maps = append(maps, metajson.Member{Key: "encode", Value: c.ScalarMap.Encode})
		}
		if c.ScalarMap.Decode != nil {
			maps = append(maps, metajson.Member{Key: "decode", Value: c.ScalarMap.Decode})
		}
		m = append(m, metajson.Member{Key: "scalar_map", Value: maps})
	}
	return m
}

func parseCastValue(config *metajson.Object) (Codec, error) {
	var c CastValue
	raw, ok := config.Take("data_type")
	if !ok {
		return nil, errors.New(`key "data_type" is missing`)
	}
	if err := c.Type.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	if _, err := config.DecodeOptional("rounding", &c.Rounding); err != nil {
		return nil, err
	}
	if _, err := config.DecodeOptional("out_of_range", &c.OutOfRange); err != nil {
		return nil, err
	}
	if c.OutOfRange == "error" { // a name of drafts
		c.OutOfRange = RangeError
	}
	if raw, ok := config.Take("scalar_map"); ok {
		maps, err := metajson.ParseObject("scalar_map", raw)
		if err != nil {
			return nil, err
		}
		c.ScalarMap = new(ScalarMap)
		for _, m := range []struct {
			key string
			dst *[][2]json.RawMessage
		}{{"encode", &c.ScalarMap.Encode}, {"decode", &c.ScalarMap.Decode}} {
			if err := parseScalarMap(maps, m.key, m.dst); err != nil {
				return nil, err
			}
		}
		if err := maps.CheckEmpty(); err != nil {
			return nil, err
		}
	}
	return c, c.check()
}

// parseScalarMap requires pairs: encoding/json would fill or cut other lists.
func parseScalarMap(maps *metajson.Object, key string, dst *[][2]json.RawMessage) error {
	var pairs [][]json.RawMessage
	given, err := maps.DecodeOptional(key, &pairs)
	if err != nil || !given {
		return err
	}
	*dst = make([][2]json.RawMessage, len(pairs))
	for i, pair := range pairs {
		if len(pair) != 2 {
			return fmt.Errorf("scalar_map: entry %d of %q has %d values, want 2", i, key, len(pair))
		}
		(*dst)[i] = [2]json.RawMessage(pair)
	}
	return nil
}

func (c CastValue) check() error {
	to, ok := castableNumber(c.Type)
	if !ok {
		return fmt.Errorf("cast_value: type %s: %w", c.Type, errors.ErrUnsupported)
	}
	if !slices.Contains([]Rounding{"", NearestEven, TowardsZero, TowardsPositive, TowardsNegative, NearestAway}, c.Rounding) {
		return fmt.Errorf("cast_value: unknown rounding %q", c.Rounding)
	}
	if !slices.Contains([]OutOfRange{RangeError, RangeClamp, RangeWrap}, c.OutOfRange) {
		return fmt.Errorf("cast_value: unknown out_of_range %q", c.OutOfRange)
	}
	if c.OutOfRange == RangeWrap && (to.floating || to.time) {
		return fmt.Errorf("cast_value: out_of_range %q for %s, want integers", c.OutOfRange, c.Type)
	}
	return nil
}

// Transform returns the transform of chunks of integers, floats or times.
func (c CastValue) Transform(in ChunkSpec) (Transform, error) {
	if err := c.check(); err != nil {
		return Transform{}, err
	}
	from, ok := castableNumber(in.Type)
	to, _ := castableNumber(c.Type)
	if !ok || from.time && to.time && in.Type != c.Type {
		return Transform{}, fmt.Errorf("cannot cast %s to %s: %w", in.Type, c.Type, errors.ErrUnsupported)
	}
	maps := c.ScalarMap
	if maps == nil {
		maps = new(ScalarMap)
	}
	encode, err := c.caster(to, from, maps.Encode)
	if err != nil {
		return Transform{}, fmt.Errorf("scalar_map encode: %w", err)
	}
	decode, err := c.caster(from, to, maps.Decode)
	if err != nil {
		return Transform{}, fmt.Errorf("scalar_map decode: %w", err)
	}
	out := in
	out.Type, out.Fill = c.Type, make([]byte, to.size)
	if err := encode(out.Fill, in.Fill); err != nil {
		return Transform{}, fmt.Errorf("fill value: %w", err)
	}
	t := Transform{Out: out, Encode: encode, Decode: decode}
	back := make([]byte, from.size)
	if err := decode(back, out.Fill); err != nil {
		t.fillErr = fmt.Errorf("encoded fill value: %w", err)
	} else if !from.equal(back, 0, in.Fill) {
		t.fillErr = fmt.Errorf("fill value %x decodes to %x", in.Fill, back)
	}
	return t, nil
}

// equal reports whether element i of raw has the value of one, or both are NaN.
func (n number) equal(raw []byte, i int, one []byte) bool {
	if !n.floating {
		return n.int(raw, i) == n.int(one, 0)
	}
	x, y := n.float(raw, i), n.float(one, 0)
	return x == y || x != x && y != y
}

// caster returns a function that converts elements.
func (c CastValue) caster(to, from number, pairs [][2]json.RawMessage) (func(dst, src []byte) error, error) {
	type entry struct{ in, out []byte }
	entries := make([]entry, len(pairs))
	for i, pair := range pairs {
		in, err := parseScalar(from.of, pair[0])
		if err != nil {
			return nil, err
		}
		out, err := parseScalar(to.of, pair[1])
		if err != nil {
			return nil, err
		}
		entries[i] = entry{in, out}
	}
	return func(dst, src []byte) error {
	elements:
		for i := range from.count(src) {
			for _, e := range entries {
				if from.equal(src, i, e.in) {
					copy(dst[i*to.size:], e.out)
					continue elements
				}
			}
			if err := c.cast(dst, to, src, from, i); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		return nil
	}, nil
}

// parseScalar also accepts "+Infinity", which occurs in scalar maps.
func parseScalar(of element.Type, raw json.RawMessage) ([]byte, error) {
	if string(raw) == `"+Infinity"` {
		raw = json.RawMessage(`"Infinity"`)
	}
	return of.ParseFill(raw)
}

// cast converts one element.
func (c CastValue) cast(dst []byte, to number, src []byte, from number, i int) error {
	switch {
	case from.time && from.int(src, i) == nat:
		return c.castNaN(dst, to, i)
	case !from.floating && !to.floating:
		return c.castInt(dst, to, from.int(src, i), from, i)
	case !from.floating:
		x := from.int(src, i)
		negative, magnitude := from.signed && x < 0, uint64(x)
		if negative {
			magnitude = -magnitude
		}
		if to.small != nil {
			return c.storeSmall(dst, to, i, roundToOdd(magnitude, negative))
		}
		return c.storeFloat(dst, to, i, roundInt(magnitude, negative, to.precision(), c.Rounding))
	case to.small != nil:
		return c.storeSmall(dst, to, i, from.float(src, i))
	case to.floating:
		x := from.float(src, i)
		if x != x || math.IsInf(x, 0) {
			to.putFloat(dst, i, x)
			return nil
		}
		return c.storeFloat(dst, to, i, to.roundTo(x, c.Rounding))
	}
	x := from.float(src, i)
	if x != x {
		return c.castNaN(dst, to, i)
	}
	if math.IsInf(x, 0) {
		return fmt.Errorf("%g as %s: %w", x, to.of, errRange)
	}
	return c.castIntegral(dst, to, roundIntegral(x, c.Rounding), i)
}

// castNaN stores NaN, or NaT.
func (c CastValue) castNaN(dst []byte, to number, i int) error {
	switch {
	case to.time:
		to.putInt(dst, i, nat)
		return nil
	case to.small != nil:
		return c.storeSmall(dst, to, i, math.NaN())
	case to.floating:
		to.putFloat(dst, i, math.NaN())
		return nil
	default:
		return fmt.Errorf("NaN as %s: %w", to.of, errRange)
	}
}

// storeSmall stores a number as a float of at most 8 bits.
func (c CastValue) storeSmall(dst []byte, to number, i int, x float64) error {
	if !to.small.put(dst, i, x, c.Rounding, c.OutOfRange == RangeClamp) {
		return fmt.Errorf("%g: %w %s", x, errRange, to.of)
	}
	return nil
}

// storeFloat stores a rounded number, which is infinite if it is out of range.
func (c CastValue) storeFloat(dst []byte, to number, i int, x float64) error {
	if math.IsInf(to.round(x), 0) && c.OutOfRange != RangeClamp {
		return fmt.Errorf("%w %s", errRange, to.of)
	}
	to.putFloat(dst, i, x)
	return nil
}

func (c CastValue) castInt(dst []byte, to number, x int64, from number, i int) error {
	low, high := to.limits()
	below := from.signed && x < 0 && (!to.signed || x < low)
	above := (!from.signed || x >= 0) && uint64(x) > high
	switch {
	case !below && !above || c.OutOfRange == RangeWrap:
		to.putInt(dst, i, x)
	case c.OutOfRange != RangeClamp:
		return fmt.Errorf("%d: %w %s", x, errRange, to.of)
	case below:
		to.putInt(dst, i, low)
	default:
		to.putInt(dst, i, int64(high))
	}
	return nil
}

// castIntegral stores an integral float.
func (c CastValue) castIntegral(dst []byte, to number, x float64, i int) error {
	low, high := to.limits()
	switch {
	case to.contains(x) && !(to.time && x == nat):
		to.putInt(dst, i, to.fromFloat(x))
	case c.OutOfRange == RangeWrap:
		// Mod is exact, and 2^n divides 2^64.
		x = math.Mod(x, 1<<64)
		if x < 0 {
			to.putInt(dst, i, -int64(uint64(-x)))
		} else {
			to.putInt(dst, i, int64(uint64(x)))
		}
	case c.OutOfRange != RangeClamp:
		return fmt.Errorf("%g: %w %s", x, errRange, to.of)
	case x < 0:
		to.putInt(dst, i, low)
	default:
		to.putInt(dst, i, int64(high))
	}
	return nil
}

// limits returns the smallest and the largest integer of a type.
func (n number) limits() (low int64, high uint64) {
	if n.time {
		return nat + 1, math.MaxInt64
	}
	if n.signed {
		return -1 << (n.bits - 1), 1<<(n.bits-1) - 1
	}
	return 0, math.MaxUint64 >> (64 - n.bits)
}

// precision returns the number of bits of the mantissa of a float type, with the hidden
// bit.
func (n number) precision() int {
	switch n.of.String() {
	case "float16":
		return 11
	case "bfloat16":
		return 8
	case "float32":
		return 24
	default:
		return 53
	}
}

// overflow returns the power of two above all numbers of a float type. Numbers between
// the largest one and overflow are rounded by the mode.
func (n number) overflow() float64 {
	switch n.of.String() {
	case "float16":
		return 1 << 16
	case "float64":
		return math.Inf(1)
	default:
		return 1 << 128
	}
}

// roundIntegral rounds to an integer.
func roundIntegral(x float64, mode Rounding) float64 {
	switch mode {
	case TowardsZero:
		return math.Trunc(x)
	case TowardsPositive:
		return math.Ceil(x)
	case TowardsNegative:
		return math.Floor(x)
	case NearestAway:
		return math.Round(x)
	default:
		return math.RoundToEven(x)
	}
}

// roundInt rounds an integer to a float of the given precision. The result is exact,
// since no precision exceeds that of float64.
func roundInt(magnitude uint64, negative bool, precision int, mode Rounding) float64 {
	drop := max(bits.Len64(magnitude)-precision, 0)
	kept, rest := magnitude>>drop, magnitude&(1<<drop-1)
	if rest != 0 {
		half := uint64(1) << (drop - 1)
		var up bool
		switch mode {
		case TowardsZero:
		case TowardsPositive:
			up = !negative
		case TowardsNegative:
			up = negative
		case NearestAway:
			up = rest >= half
		default:
			up = rest > half || rest == half && kept&1 == 1
		}
		if up {
			kept++
		}
	}
	x := math.Ldexp(float64(kept), drop)
	if negative {
		return -x
	}
	return x
}

// roundToOdd returns a float64 that rounds to any shorter float as the integer does: a
// part that is dropped makes the last bit of the mantissa 1.
func roundToOdd(magnitude uint64, negative bool) float64 {
	drop := max(bits.Len64(magnitude)-53, 0)
	kept := magnitude >> drop
	if magnitude&(1<<drop-1) != 0 {
		kept |= 1
	}
	x := math.Ldexp(float64(kept), drop)
	if negative {
		return -x
	}
	return x
}

// roundTo rounds a finite number to a float type. The result may be infinite.
func (n number) roundTo(x float64, mode Rounding) float64 {
	nearest := n.round(x)
	if nearest == x {
		return x
	}
	if math.Abs(x) >= n.overflow() {
		return math.Inf(int(math.Copysign(1, x)))
	}
	below, above := nearest, nearest
	if nearest < x {
		above = n.next(nearest, 1)
	} else {
		below = n.next(nearest, -1)
	}
	switch mode {
	case TowardsZero:
		if x < 0 {
			return above
		}
		return below
	case TowardsPositive:
		return above
	case TowardsNegative:
		return below
	case NearestAway:
		if x-below != above-x || math.IsInf(above-below, 0) {
			return nearest
		}
		if x < 0 {
			return below
		}
		return above
	default:
		return nearest
	}
}

// next returns the neighbor of x, a number of a float type, in a direction of 1 or -1.
func (n number) next(x float64, direction int64) float64 {
	var raw [8]byte
	n.putFloat(raw[:], 0, x)
	integer := number{size: n.size, bits: 8 * n.size}
	b, sign := integer.int(raw[:], 0), int64(1)<<(8*n.size-1)
	switch {
	case b&(sign-1)|b&^sign == 0 && direction > 0: // either zero
		b = 1
	case b&(sign-1)|b&^sign == 0:
		b = sign | 1
	case (b&sign == 0) == (direction > 0):
		b++
	default:
		b--
	}
	integer.putInt(raw[:], 0, b)
	return n.float(raw[:], 0)
}
