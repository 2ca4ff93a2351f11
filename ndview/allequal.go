package ndview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// AllEqual tells whether every element equals what other has in its place, as
// zarr does to find chunks that are nothing but the fill value. other is an array,
// of any device, or what ScalarOf takes; nil equals nothing. The two broadcast
// together, either way; if they cannot, the error is ErrShape. No elements are
// equal to anything.
//
// A float that is zero, be it a scalar or an array of one element, equals only
// what has the bits of that zero as an element of a: -0.0 is another value. Else
// numbers equal as NumPy's == has it, after promotion, with integers of either
// sign compared exactly. A NaN of any sign and payload, and NaT, equals any other
// if equalNaN is set. Records are compared field by field, where NaNs are never
// equal, bytes as they are, and times of different units in their common one, to
// which arrays are copied: a time that it does not count is another than those that
// it does. Values that do not compare, such as a time and a float, are ErrDType.
//
// On a GPU this is one pass over the arrays, which stops early where it finds a
// difference, and four bytes that come back; an operand of one element that is
// converted to the other's type is fetched before.
func (a *NDBuffer) AllEqual(other any, equalNaN bool) (bool, error) {
	if err := a.hold(); err != nil {
		return false, err
	}
	defer a.Release()
	switch b := other.(type) {
	case nil:
		return false, nil
	case *NDBuffer:
		if b == nil {
			return false, nil
		}
		return a.allEqualArray(b, equalNaN)
	}
	s, err := ScalarOf(other)
	if err != nil {
		return false, err
	}
	if s.weak && s.dtype.isInteger() && a.dtype == BFloat16 { // which has no common type with int64
		own := Int8
		if below, above := s.beyond(own); below || above {
			own = Float64
		}
		if s, err = NewScalar(own, s); err != nil {
			return false, err
		}
	}
	return a.allEqualScalar(s, a.shape, equalNaN)
}

func (a *NDBuffer) allEqualArray(b *NDBuffer, equalNaN bool) (bool, error) {
	if err := b.hold(); err != nil {
		return false, err
	}
	defer b.Release()
	shape, err := layout.Broadcast(a.shape, b.shape)
	if err != nil {
		return false, err
	}
	if product(shape) == 0 {
		_, err := commonOf(a.dtype, b.dtype)
		return err == nil, err
	}
	if timesApart(a.dtype, b.dtype) && b.Size() != 1 {
		return a.allEqualTimes(b, equalNaN)
	}
	if b.Size() == 1 && b.dtype != a.dtype || b.Size() == 1 && b.dtype.isFloat() {
		raw, err := b.Bytes()
		if err != nil {
			return false, err
		}
		return a.allEqualScalar(Scalar{dtype: b.dtype, raw: string(raw)}, shape, equalNaN)
	}
	if b, err = b.reachedFrom(a.Device()); err != nil {
		return false, err
	}
	defer b.Release()
	if _, err := commonOf(a.dtype, b.dtype); err != nil {
		return false, err
	}
	c, err := newComparison(a.Device())
	if err != nil {
		return false, err
	}
	defer c.end()
	if err := c.add(a, b, shape, equalNaN); err != nil {
		return false, err
	}
	return c.result()
}

// commonOf is the type in which elements of two types are compared.
func commonOf(a, b DType) (DType, error) {
	if a == b {
		return a, nil
	}
	if timesApart(a, b) {
		return Promote(a, b)
	}
	_, numberA := a.numberCode()
	_, numberB := b.numberCode()
	if !numberA || !numberB {
		return DType{}, fmt.Errorf("comparing %s with %s: %w", a, b, ErrDType)
	}
	return Promote(a, b)
}

// reachedFrom is the array on a device: itself, or a copy.
func (a *NDBuffer) reachedFrom(dev arrowbuf.Device) (*NDBuffer, error) {
	if a.Device() == dev {
		a.Retain()
		return a, nil
	}
	return a.on(dev)
}

// isZero tells whether the bytes of a float are those of a zero of either sign.
func isZero(raw string) bool {
	last := len(raw) - 1
	return strings.Trim(raw[:last], "\x00") == "" && raw[last]&0x7f == 0
}

// allEqualScalar compares with one value; shape is that of both together.
func (a *NDBuffer) allEqualScalar(s Scalar, shape []int64, equalNaN bool) (bool, error) {
	own := s.dtype
	if own.isFloat() && isZero(s.raw) && a.dtype.kind != KindBytes && a.dtype.kind != KindRecord {
		raw, err := Scalar{dtype: own, raw: s.raw}.Bytes(a.dtype)
		if err != nil {
			return false, err
		}
		return a.equalsValue(raw, a.dtype, true, equalNaN)
	}
	if own.kind == KindBytes && a.dtype.kind == KindBytes {
		// Shorter ones are padded with zeros; longer ones must have nothing but.
		raw := make([]byte, max(own.size, a.dtype.size))
		copy(raw, s.raw)
		if slices.ContainsFunc(raw[a.dtype.size:], func(b byte) bool { return b != 0 }) {
			return product(shape) == 0, nil
		}
		return a.equalsValue(raw[:a.dtype.size], a.dtype, false, equalNaN)
	}
	if timesApart(a.dtype, own) {
		return a.allEqualTime(s, equalNaN)
	}
	common, err := commonOf(a.dtype, own)
	switch {
	case err != nil:
		return false, err
	case product(shape) == 0:
		return true, nil
	case common == a.dtype && common == own:
		return a.equalsValue([]byte(s.raw), own, false, equalNaN)
	case a.dtype.isInteger() && a.dtype.size == 8 && !own.isInteger():
		// Several integers are the same float.
		return a.equalsValue([]byte(s.raw), own, false, equalNaN)
	}
	// Elements are exact in the common type, so only an exact value equals any.
	raw, err := Scalar{dtype: own, raw: s.raw}.Bytes(a.dtype)
	if err != nil {
		return false, err
	}
	value, err := fromBytes(arrowbuf.CPU(), a.dtype, raw)
	if err != nil {
		return false, err
	}
	defer value.Release()
	if exact, err := value.equalsValue([]byte(s.raw), own, false, true); err != nil || !exact {
		return false, err
	}
	return a.equalsValue(raw, a.dtype, false, equalNaN)
}

// equalsValue compares all elements with one value of a type, by bits or as
// numbers.
func (a *NDBuffer) equalsValue(raw []byte, dtype DType, byBits, equalNaN bool) (bool, error) {
	if a.Size() == 0 {
		return true, nil
	}
	c, err := newComparison(a.Device())
	if err != nil {
		return false, err
	}
	defer c.end()
	if n := len(raw); n <= 16 && n&(n-1) == 0 && dtype.kind != KindRecord {
		err = c.addValue(a, raw, dtype, byBits, equalNaN)
	} else {
		var value *NDBuffer
		if value, err = fromBytes(a.Device(), dtype, raw); err != nil {
			return false, err
		}
		defer value.Release()
		err = c.add(a, value, a.shape, equalNaN)
	}
	if err != nil {
		return false, err
	}
	return c.result()
}

// Equal tells whether two arrays, on any devices, have the same dtype, the same
// shape and the same bits in every element. Of two devices, the comparison is done
// on the one that is no CPU, or where a is.
func (a *NDBuffer) Equal(b *NDBuffer) (bool, error) {
	release, err := holdAll(a, b)
	if err != nil {
		return false, err
	}
	defer release()
	if a.dtype != b.dtype || !slices.Equal(a.shape, b.shape) {
		return false, nil
	}
	if a.Size() == 0 {
		return true, nil
	}
	dev := a.Device()
	if dev == arrowbuf.CPU() {
		dev = b.Device()
	}
	if a, err = a.reachedFrom(dev); err != nil {
		return false, err
	}
	defer a.Release()
	if b, err = b.reachedFrom(dev); err != nil {
		return false, err
	}
	defer b.Release()
	c, err := newComparison(dev)
	if err != nil {
		return false, err
	}
	defer c.end()
	if err := c.bits(a, b, a.shape); err != nil {
		return false, err
	}
	return c.result()
}
