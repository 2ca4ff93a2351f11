package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// The array-to-array codecs of numcodecs. They compute as NumPy does, in the type of
// their elements. Types are named as in NumPy: "<i4", ">f8", "|u1", "|b1", "<c16".
// Elements of another type and the same total size are reinterpreted.

// Delta stores differences of successive elements in C order, after the first element
// (numcodecs, "delta").
type Delta struct {
	// DType is the type of decoded elements: an integer, a float or a complex number.
	DType string
	// AsType is the type of encoded elements; empty means DType. It is complex if DType is.
	AsType string
}

// FixedScaleOffset stores round((x - Offset) * Scale) and decodes x / Scale + Offset
// (numcodecs, "fixedscaleoffset").
type FixedScaleOffset struct {
	Offset, Scale json.Number
	// DType is the type of decoded elements: an integer or a float.
	DType string
	// AsType is the type of encoded elements; empty means DType.
	AsType string
}

// Quantize rounds floats to a number of decimal digits after the point (numcodecs,
// "quantize"). It is lossy; decoding only converts the type.
type Quantize struct {
	Digits int
	// DType is the type of decoded elements: a float.
	DType string
	// AsType is the type of encoded elements; empty means DType.
	AsType string
}

// AsType converts elements to another type and back (numcodecs, "astype"): bools, integers,
// floats and complex numbers.
type AsType struct {
	EncodeDType, DecodeDType string
}

// BitRound rounds floats to a number of bits of the mantissa, ties to even, and integers
// to a number of bits from the highest set bit (zarr-extensions, "bitround"). A NaN is
// unchanged. It is lossy; decoding does nothing.
type BitRound struct {
	KeepBits int
}

// Name returns "numcodecs.delta".
func (Delta) Name() string { return numcodecs + "delta" }

// Name returns "numcodecs.fixedscaleoffset".
func (FixedScaleOffset) Name() string { return numcodecs + "fixedscaleoffset" }

// Name returns "numcodecs.quantize".
func (Quantize) Name() string { return numcodecs + "quantize" }

// Name returns "numcodecs.astype".
func (AsType) Name() string { return numcodecs + "astype" }

// Name returns "numcodecs.bitround", the name that zarr-python reads too. Metadata with
// the registered name "bitround" is read as well.
func (BitRound) Name() string { return numcodecs + "bitround" }

// Configuration returns the types.
func (c Delta) Configuration() any { return typesConfig(c.DType, c.AsType) }

// Configuration returns the parameters and the types.
func (c FixedScaleOffset) Configuration() any {
	return append(metajson.Members{{Key: "scale", Value: c.Scale}, {Key: "offset", Value: c.Offset}}, typesConfig(c.DType, c.AsType)...)
}

// Configuration returns the digits and the types.
func (c Quantize) Configuration() any {
	return append(metajson.Members{{Key: "digits", Value: c.Digits}}, typesConfig(c.DType, c.AsType)...)
}

// Configuration returns the types.
func (c AsType) Configuration() any {
	return metajson.Members{{Key: "encode_dtype", Value: c.EncodeDType}, {Key: "decode_dtype", Value: c.DecodeDType}}
}

// Configuration returns the number of bits.
func (c BitRound) Configuration() any { return metajson.Members{{Key: "keepbits", Value: c.KeepBits}} }

func (c BitRound) v2() (string, metajson.Members) {
	return "bitround", metajson.Members{{Key: "keepbits", Value: c.KeepBits}}
}

func typesConfig(dtype, astype string) metajson.Members {
	m := metajson.Members{{Key: "dtype", Value: dtype}}
	if astype != "" {
		m = append(m, metajson.Member{Key: "astype", Value: astype})
	}
	return m
}

func parseTypes(config *metajson.Object, dtype, astype *string) error {
	if err := config.DecodeRequired("dtype", dtype); err != nil {
		return err
	}
	if raw, ok := config.Take("astype"); ok && string(raw) != "null" {
		return metajson.Decode("astype", raw, astype)
	}
	return nil
}

func parseDelta(config *metajson.Object) (Codec, error) {
	var c Delta
	if err := parseTypes(config, &c.DType, &c.AsType); err != nil {
		return nil, err
	}
	return c, c.check()
}

func parseFixedScaleOffset(config *metajson.Object) (Codec, error) {
	var c FixedScaleOffset
	if err := config.DecodeRequired("scale", &c.Scale); err != nil {
		return nil, err
	}
	if err := config.DecodeRequired("offset", &c.Offset); err != nil {
		return nil, err
	}
	if err := parseTypes(config, &c.DType, &c.AsType); err != nil {
		return nil, err
	}
	return c, c.check()
}

func parseQuantize(config *metajson.Object) (Codec, error) {
	var c Quantize
	if err := config.DecodeRequired("digits", &c.Digits); err != nil {
		return nil, err
	}
	if err := parseTypes(config, &c.DType, &c.AsType); err != nil {
		return nil, err
	}
	return c, c.check()
}

func parseAsType(config *metajson.Object) (Codec, error) {
	var c AsType
	if err := config.DecodeRequired("encode_dtype", &c.EncodeDType); err != nil {
		return nil, err
	}
	if err := config.DecodeRequired("decode_dtype", &c.DecodeDType); err != nil {
		return nil, err
	}
	return c, c.check()
}

func parseBitRound(config *metajson.Object) (Codec, error) {
	var c BitRound
	if err := config.DecodeRequired("keepbits", &c.KeepBits); err != nil {
		return nil, err
	}
	return c, c.check()
}

// filterTypes are the types of elements before and after encoding.
type filterTypes struct {
	decoded, encoded           number
	decodedOrder, encodedOrder Endian
}

func parseFilterTypes(dtype, astype string) (t filterTypes, err error) {
	if astype == "" {
		astype = dtype
	}
	if t.decoded, t.decodedOrder, err = parseElement(dtype); err != nil {
		return t, err
	}
	t.encoded, t.encodedOrder, err = parseElement(astype)
	return t, err
}

// checkReal returns an error if elements are bools or complex numbers.
func (t filterTypes) checkReal() error {
	for _, n := range []number{t.decoded, t.encoded} {
		if n.boolean || n.complex {
			return fmt.Errorf("type %s: %w", n.element(), errors.ErrUnsupported)
		}
	}
	return nil
}

// check refuses bools, which numcodecs does not restore.
func (c Delta) check() error {
	t, err := parseFilterTypes(c.DType, c.AsType)
	if err == nil && (t.decoded.complex != t.encoded.complex || t.decoded.boolean || t.encoded.boolean) {
		err = fmt.Errorf("delta of %s as %s: %w", t.decoded.element(), t.encoded.element(), errors.ErrUnsupported)
	}
	return err
}

func (c AsType) check() error {
	_, err := parseFilterTypes(c.DecodeDType, c.EncodeDType)
	return err
}

func (c FixedScaleOffset) check() error {
	if scale, err := c.Scale.Float64(); err != nil || scale == 0 || math.IsInf(scale, 0) {
		return fmt.Errorf("fixedscaleoffset: scale %q", c.Scale)
	}
	if _, err := c.Offset.Float64(); err != nil {
		return fmt.Errorf("fixedscaleoffset: offset %q", c.Offset)
	}
	t, err := parseFilterTypes(c.DType, c.AsType)
	if err == nil {
		if err = t.checkReal(); err != nil {
			err = fmt.Errorf("fixedscaleoffset: %w", err)
		}
	}
	return err
}

func (c Quantize) check() error {
	t, err := parseFilterTypes(c.DType, c.AsType)
	if err == nil && (!t.decoded.floating || !t.encoded.floating || t.checkReal() != nil) {
		err = fmt.Errorf("quantize: types %q and %q, want floats", c.DType, c.AsType)
	}
	if err == nil && (c.Digits < -300 || c.Digits > 300) {
		err = fmt.Errorf("quantize: digits %d is not within -300 to 300", c.Digits)
	}
	return err
}

func (c BitRound) check() error {
	if c.KeepBits < 0 {
		return fmt.Errorf("bitround: keepbits %d is negative", c.KeepBits)
	}
	return nil
}

func (c Delta) types() (filterTypes, error) { return parseFilterTypes(c.DType, c.AsType) }

func (c FixedScaleOffset) types() (filterTypes, error) { return parseFilterTypes(c.DType, c.AsType) }

func (c Quantize) types() (filterTypes, error) { return parseFilterTypes(c.DType, c.AsType) }

func (c AsType) types() (filterTypes, error) { return parseFilterTypes(c.DecodeDType, c.EncodeDType) }

// transform returns the transform of elements that the types describe.
func (t filterTypes) transform(in ChunkSpec, encode, decode func(dst, src []byte) error) (Transform, error) {
	decoded, encoded := t.decoded.element(), t.encoded.element()
	shape, err := viewShape(in, int(decoded.Size()))
	if err != nil {
		return Transform{}, err
	}
	out := ChunkSpec{Type: encoded, Shape: shape, Fill: make([]byte, encoded.Size())}
	// numcodecs does not transform fill values. One that has no encoding becomes 0,
	// which only affects the size of shards.
	lost := int64(len(in.Fill)) == decoded.Size() && encode(out.Fill, in.Fill) != nil
	if lost {
		clear(out.Fill)
	}
	return Transform{Out: out, Encode: encode, Decode: decode, fillLost: lost}, nil
}

// Transform returns the transform of chunks of any type with the size of DType.
func (c Delta) Transform(in ChunkSpec) (Transform, error) {
	t, err := parseFilterTypes(c.DType, c.AsType)
	if err != nil {
		return Transform{}, err
	}
	if t.decoded.floating || t.encoded.floating {
		return t.transform(in, t.encodeFloatDeltas, t.decodeFloatDeltas)
	}
	return t.transform(in, t.encodeIntDeltas, t.decodeIntDeltas)
}

// encodeIntDeltas takes differences modulo the size of their type, and stores the low
// bits of each, as NumPy does. So smaller signed integers hold those of unsigned ones.
// It checks that the decoder restores every element.
func (t filterTypes) encodeIntDeltas(dst, src []byte) error {
	of, last := t.decoded, int64(0)
	var one [8]byte
	wrap := func(x int64) int64 {
		of.putInt(one[:], 0, x)
		return of.int(one[:], 0)
	}
	for i := range of.count(src) {
		x := of.int(src, i)
		if of.time && (x == nat || last == nat) {
			t.encoded.putInt(dst, i, nat)
			if x != nat || t.encoded.int(dst, i) != nat {
				return fmt.Errorf("element %d is NaT or follows it, which has no difference in %s", i, t.encoded.of)
			}
			last = nat
			continue
		}
		t.encoded.putInt(dst, i, wrap(x-last))
		stored := t.encoded.int(dst, i)
		if wrap(last+stored) != x || of.time && stored == nat {
			return fmt.Errorf("element %d differs by %d from the one before: %w %s", i, x-last, errRange, t.encoded.of)
		}
		last = x
	}
	return nil
}

// decodeIntDeltas adds up differences. All times after NaT are NaT, as in NumPy.
func (t filterTypes) decodeIntDeltas(dst, src []byte) error {
	of, sum := t.decoded, int64(0)
	for i := range of.count(dst) {
		if x := t.encoded.int(src, i); of.time && (x == nat || sum == nat && i > 0) {
			sum = nat
		} else {
			sum += x
		}
		of.putInt(dst, i, sum)
	}
	return nil
}

func (t filterTypes) encodeFloatDeltas(dst, src []byte) error {
	of, parts := t.decoded, t.decoded.parts()
	diff := make([]byte, len(src))
	for i := range of.count(src) {
		switch {
		case i < parts:
			copy(diff[i*of.size:], src[i*of.size:(i+1)*of.size])
		case of.floating:
			of.putFloat(diff, i, of.float(src, i)-of.float(src, i-parts))
		default:
			of.putInt(diff, i, of.int(src, i)-of.int(src, i-1))
		}
	}
	return convert(dst, t.encoded, diff, of)
}

// decodeFloatDeltas adds up differences in the type in which NumPy does.
func (t filterTypes) decodeFloatDeltas(dst, src []byte) error {
	in, parts := promotedFloat(t.decoded, t.encoded), t.decoded.parts()
	in.complex = t.decoded.complex
	sums := make([]byte, t.encoded.count(src)*in.size)
	if err := reconvert(sums, in, src, t.encoded); err != nil {
		return err
	}
	for i := parts; i < in.count(sums); i++ {
		in.putFloat(sums, i, in.float(sums, i-parts)+in.float(sums, i))
	}
	return reconvert(dst, t.decoded, sums, in)
}

// Transform returns the transform of chunks of any type with the size of DType.
func (c FixedScaleOffset) Transform(in ChunkSpec) (Transform, error) {
	t, err := parseFilterTypes(c.DType, c.AsType)
	if err != nil {
		return Transform{}, err
	}
	encode, err := c.encoder(t)
	if err != nil { // elements that NumPy 1 stored can still be decoded
		encode = func(_, _ []byte) error { return err }
	}
	return t.transform(in, encode, c.decoder(t))
}

// isInt reports whether Python parses a number as an integer.
func isInt(n json.Number) bool { return !strings.ContainsAny(n.String(), ".eE") }

// encoder subtracts and multiplies integers as integers of their type, unless a
// parameter is a float. An integer parameter that the type lacks is an error, as in NumPy 2.
func (c FixedScaleOffset) encoder(t filterTypes) (func(dst, src []byte) error, error) {
	of := t.decoded
	if !of.floating && isInt(c.Offset) && isInt(c.Scale) {
		offset, err := of.parseInt(c.Offset)
		if err != nil {
			return nil, fmt.Errorf("offset: %w", err)
		}
		scale, err := of.parseInt(c.Scale)
		if err != nil {
			return nil, fmt.Errorf("scale: %w", err)
		}
		return func(dst, src []byte) error {
			scaled := make([]byte, len(src))
			for i := range of.count(src) {
				of.putInt(scaled, i, (of.int(src, i)-offset)*scale)
			}
			return convert(dst, t.encoded, scaled, of)
		}, nil
	}
	offset, scale, err := c.floats()
	if err != nil {
		return nil, err
	}
	in, intOffset, wrap := c.arithmetic(of), int64(0), false
	if !of.floating && isInt(c.Offset) {
		if intOffset, err = of.parseInt(c.Offset); err != nil {
			return nil, fmt.Errorf("offset: %w", err)
		}
		wrap = true
	}
	offset, scale = in.round(offset), in.round(scale)
	return func(dst, src []byte) error {
		scaled := make([]byte, of.count(src)*in.size)
		var one [8]byte
		for i := range of.count(src) {
			var x float64
			switch {
			case of.floating:
				x = in.round(of.float(src, i) - offset)
			case wrap:
				of.putInt(one[:], 0, of.int(src, i)-intOffset)
				x = of.toFloat(of.int(one[:], 0), in)
			default:
				x = of.toFloat(of.int(src, i), in) - offset
			}
			in.putFloat(scaled, i, math.RoundToEven(in.round(x*scale)))
		}
		return convert(dst, t.encoded, scaled, in)
	}, nil
}

func (c FixedScaleOffset) decoder(t filterTypes) func(dst, src []byte) error {
	offset, scale, _ := c.floats() // check has parsed them
	in := c.arithmetic(t.encoded)
	offset, scale = in.round(offset), in.round(scale)
	return func(dst, src []byte) error {
		sums := make([]byte, t.encoded.count(src)*in.size)
		for i := range t.encoded.count(src) {
			var x float64
			if t.encoded.floating {
				x = t.encoded.float(src, i)
			} else {
				x = t.encoded.toFloat(t.encoded.int(src, i), in)
			}
			in.putFloat(sums, i, in.round(x/scale)+offset)
		}
		return reconvert(dst, t.decoded, sums, in)
	}
}

// arithmetic returns the float type in which NumPy computes with elements of a type and
// floats of Python.
func (FixedScaleOffset) arithmetic(of number) number {
	if of.floating {
		return of
	}
	double, _ := numberOf(float64s)
	return double
}

func (c FixedScaleOffset) floats() (offset, scale float64, err error) {
	if offset, err = c.Offset.Float64(); err != nil {
		return 0, 0, err
	}
	scale, err = c.Scale.Float64()
	return offset, scale, err
}

// parseInt parses an integer of the type.
func (n number) parseInt(text json.Number) (int64, error) {
	raw, err := n.of.ParseFill(json.RawMessage(text))
	if err != nil {
		return 0, err
	}
	return n.int(raw, 0), nil
}

// Transform returns the transform of chunks of any type with the size of DType.
func (c Quantize) Transform(in ChunkSpec) (Transform, error) {
	t, err := parseFilterTypes(c.DType, c.AsType)
	if err != nil {
		return Transform{}, err
	}
	of := t.decoded
	scale := of.round(math.Ldexp(1, int(math.Ceil(float64(c.Digits)*math.Log2(10)))))
	return t.transform(in, func(dst, src []byte) error {
		rounded := make([]byte, len(src))
		for i := range of.count(src) {
			of.putFloat(rounded, i, math.RoundToEven(of.round(scale*of.float(src, i)))/scale)
		}
		return convert(dst, t.encoded, rounded, of)
	}, func(dst, src []byte) error { return reconvert(dst, of, src, t.encoded) })
}

// Transform returns the transform of chunks of any type with the size of DecodeDType.
func (c AsType) Transform(in ChunkSpec) (Transform, error) {
	t, err := parseFilterTypes(c.DecodeDType, c.EncodeDType)
	if err != nil {
		return Transform{}, err
	}
	encode := func(dst, src []byte) error { return convert(dst, t.encoded, src, t.decoded) }
	if t.decoded.isInt() && t.encoded.isInt() {
		encode = t.encodeLowBits
	}
	return t.transform(in, encode, func(dst, src []byte) error { return reconvert(dst, t.decoded, src, t.encoded) })
}

// encodeLowBits stores the low bits of integers, as NumPy does. It checks that the decoder
// restores every element: a signed type also holds the largest numbers of an unsigned one.
func (t filterTypes) encodeLowBits(dst, src []byte) error {
	of := t.decoded
	var one [8]byte
	for i := range of.count(src) {
		x := of.int(src, i)
		t.encoded.putInt(dst, i, x)
		of.putInt(one[:], 0, t.encoded.int(dst, i))
		if of.int(one[:], 0) != x {
			return fmt.Errorf("element %d, %d: %w %s", i, x, errRange, t.encoded.of)
		}
	}
	return nil
}

// Transform returns the transform of chunks of integers or floats.
func (c BitRound) Transform(in ChunkSpec) (Transform, error) {
	of, ok := numberOf(in.Type)
	if !ok {
		return Transform{}, fmt.Errorf("cannot round %s: %w", in.Type, errors.ErrUnsupported)
	}
	round := roundInts
	if of.floating {
		mantissa := map[string]int{"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[in.Type.String()]
		if c.KeepBits > mantissa {
			return Transform{}, fmt.Errorf("keepbits %d, want at most %d for %s", c.KeepBits, mantissa, in.Type)
		}
		round = func(dst, src []byte, of number, keep int) { roundFloats(dst, src, of, mantissa-keep) }
	}
	out := in
	out.Fill = make([]byte, len(in.Fill))
	round(out.Fill, in.Fill, of, c.KeepBits)
	return Transform{
		Out:    out,
		Encode: func(dst, src []byte) error { round(dst, src, of, c.KeepBits); return nil },
		Decode: func(dst, src []byte) error { copy(dst, src); return nil },
	}, nil
}

// roundFloats clears the lowest bits of each float, rounded to nearest, ties to even.
func roundFloats(dst, src []byte, of number, drop int) {
	copy(dst, src)
	if drop == 0 {
		return
	}
	for i := range of.count(src) {
		if x := of.float(src, i); x == x {
			b := uint64(of.int(src, i))
			b += b>>drop&1 + 1<<(drop-1) - 1
			of.putInt(dst, i, int64(b>>drop<<drop))
		}
	}
}

// roundInts keeps bits from the highest set bit of each integer, taken as unsigned. A
// number that would overflow is truncated instead.
func roundInts(dst, src []byte, of number, keep int) {
	mask := uint64(math.MaxUint64) >> (64 - of.bits)
	for i := range of.count(src) {
		x := uint64(of.int(src, i)) & mask
		drop := bits.Len64(x) - keep
		if drop > 0 {
			rounded := x + x>>drop&1 + 1<<(drop-1) - 1
			if rounded > mask || rounded < x {
				rounded = mask
			}
			x = rounded >> drop << drop
		}
		of.putInt(dst, i, int64(x))
	}
}
