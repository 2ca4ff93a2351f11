package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// ScaleOffset stores (x - Offset) * Scale, and decodes x / Scale + Offset, in the type of
// the elements (zarr-extensions, "scale_offset"). Results that are no integers of an
// integer type are errors, as are those beyond the range of a float type without
// infinities. Times are the integers that count their units; NaT stays NaT.
type ScaleOffset struct {
	// Offset and Scale are fill values in JSON of the type; nil means 0 and 1.
	Offset, Scale json.RawMessage
}

// Name returns "scale_offset".
func (ScaleOffset) Name() string { return "scale_offset" }

// Configuration returns the parameters that are set.
func (c ScaleOffset) Configuration() any {
	var m metajson.Members
	if c.Offset != nil {
		m = append(m, metajson.Member{Key: "offset", Value: c.Offset})
	}
	if c.Scale != nil {
		m = append(m, metajson.Member{Key: "scale", Value: c.Scale})
	}
	if m == nil {
		return nil
	}
	return m
}

func parseScaleOffset(config *metajson.Object) (Codec, error) {
	var c ScaleOffset
	c.Offset, _ = config.Take("offset")
	c.Scale, _ = config.Take("scale")
	return c, nil
}

// Transform returns the transform of chunks of integers, floats or times.
func (c ScaleOffset) Transform(in ChunkSpec) (Transform, error) {
	of, ok := castableNumber(in.Type)
	if !ok {
		return Transform{}, fmt.Errorf("cannot scale %s: %w", in.Type, errors.ErrUnsupported)
	}
	offset, scale := make([]byte, of.size), make([]byte, of.size)
	if of.floating {
		of.putFloat(scale, 0, 1)
	} else {
		of.putInt(scale, 0, 1)
	}
	var err error
	if c.Offset != nil {
		if offset, err = of.of.ParseFill(c.Offset); err != nil {
			return Transform{}, fmt.Errorf("offset: %w", err)
		}
	}
	if c.Scale != nil {
		if scale, err = of.of.ParseFill(c.Scale); err != nil {
			return Transform{}, fmt.Errorf("scale: %w", err)
		}
	}
	t := Transform{Out: in}
	if of.floating {
		from := 0.0 // which not every type has
		if c.Offset != nil {
			from = of.float(offset, 0)
		}
		t.Encode, t.Decode, err = scaleFloats(of, from, of.float(scale, 0))
	} else if of.time && (of.int(offset, 0) == nat || of.int(scale, 0) == nat) {
		err = errors.New("offset or scale is NaT")
	} else {
		t.Encode, t.Decode, err = scaleInts(of, of.int(offset, 0), of.int(scale, 0))
	}
	if err != nil {
		return Transform{}, err
	}
	t.Out.Fill = make([]byte, of.size)
	if err := t.Encode(t.Out.Fill, in.Fill); err != nil {
		t.fillLost, t.fillErr = true, fmt.Errorf("fill value: %w", err)
		clear(t.Out.Fill)
	}
	return t, nil
}

var errZeroScale = errors.New("scale is 0")

func scaleFloats(of number, offset, scale float64) (encode, decode func(dst, src []byte) error, err error) {
	if scale == 0 {
		return nil, nil, errZeroScale
	}
	if of.small != nil {
		encode = func(dst, src []byte) error {
			return of.small.mapTwice(dst, src, of, func(x float64) float64 { return x - offset }, func(x float64) float64 { return x * scale })
		}
		decode = func(dst, src []byte) error {
			return of.small.mapTwice(dst, src, of, func(x float64) float64 { return x / scale }, func(x float64) float64 { return x + offset })
		}
		return encode, decode, nil
	}
	encode = func(dst, src []byte) error {
		for i := range of.count(src) {
			of.putFloat(dst, i, of.round(of.float(src, i)-offset)*scale)
		}
		return nil
	}
	decode = func(dst, src []byte) error {
		for i := range of.count(src) {
			of.putFloat(dst, i, of.round(of.float(src, i)/scale)+offset)
		}
		return nil
	}
	return encode, decode, nil
}

// mapTwice applies two operations to each element, and rounds the result of each.
func (s *smallFloat) mapTwice(dst, src []byte, of number, first, second func(float64) float64) error {
	for i := range src {
		x := of.float(src, i)
		for _, operation := range []func(float64) float64{first, second} {
			if !s.put(dst, i, operation(x), NearestEven, s.hasInfinity) {
				return fmt.Errorf("element %d: %w %s", i, errRange, of.of)
			}
			x = of.float(dst, i)
		}
	}
	return nil
}

// scaleInts computes with 128 bits, which hold every intermediate value.
func scaleInts(of number, offset, scale int64) (encode, decode func(dst, src []byte) error, err error) {
	if scale == 0 {
		return nil, nil, errZeroScale
	}
	wideOffset, wideScale := of.wide(offset), of.wide(scale)
	encode = func(dst, src []byte) error {
		for i := range of.count(src) {
			if of.time && of.int(src, i) == nat {
				of.putInt(dst, i, nat)
				continue
			}
			difference := of.wide(of.int(src, i)).add(wideOffset.negated())
			x, ok := difference.times(wideScale)
			if !ok || !of.holds(x) {
				return fmt.Errorf("element %d: %w %s", i, errRange, of.of)
			}
			of.putInt(dst, i, x.int())
		}
		return nil
	}
	decode = func(dst, src []byte) error {
		for i := range of.count(src) {
			if of.time && of.int(src, i) == nat {
				of.putInt(dst, i, nat)
				continue
			}
			x := of.wide(of.int(src, i))
			if x.magnitude%wideScale.magnitude != 0 {
				return fmt.Errorf("element %d is not a multiple of the scale", i)
			}
			x = wide{x.negative != wideScale.negative, x.magnitude / wideScale.magnitude, 0}.add(wideOffset)
			if !of.holds(x) {
				return fmt.Errorf("element %d: %w %s", i, errRange, of.of)
			}
			of.putInt(dst, i, x.int())
		}
		return nil
	}
	return encode, decode, nil
}

// wide is an integer: a sign, and a magnitude of 64 bits and a carry.
type wide struct {
	negative         bool
	magnitude, carry uint64
}

// wide returns an integer of the type.
func (n number) wide(x int64) wide {
	if n.signed && x < 0 {
		return wide{true, -uint64(x), 0}
	}
	return wide{false, uint64(x), 0}
}

// holds reports whether the type contains x.
func (n number) holds(x wide) bool {
	low, high := n.limits()
	if x.carry != 0 {
		return false
	}
	if x.negative {
		return x.magnitude <= -uint64(low)
	}
	return x.magnitude <= high
}

func (x wide) negated() wide { return wide{!x.negative, x.magnitude, x.carry} }

// int returns an integer that a type holds.
func (x wide) int() int64 {
	if x.negative {
		return -int64(x.magnitude)
	}
	return int64(x.magnitude)
}

// add returns the sum of integers without a carry.
func (x wide) add(y wide) wide {
	if x.negative == y.negative {
		sum, carry := bits.Add64(x.magnitude, y.magnitude, 0)
		return wide{x.negative, sum, carry}
	}
	if x.magnitude < y.magnitude {
		x, y = y, x
	}
	return wide{x.negative, x.magnitude - y.magnitude, 0}
}

// times returns the product, or false if it has more than 64 bits.
func (x wide) times(y wide) (wide, bool) {
	high, low := bits.Mul64(x.magnitude, y.magnitude)
	return wide{x.negative != y.negative, low, 0}, high == 0 && (x.carry == 0 || y.magnitude == 0)
}
