package ndview

import "errors"

// Times of one kind and different units compare as in their common unit.

// timesApart tells whether two types are times that compare, but count in
// different units.
func timesApart(a, b DType) bool { return a.IsTime() && a.kind == b.kind && a != b }

// allEqualTimes compares with an array in another unit, with which a broadcasts to
// a shape that has elements: both are copied to their common unit. Where only one
// has a time that this does not count, the other has no such time.
func (a *NDBuffer) allEqualTimes(b *NDBuffer, equalNaN bool) (bool, error) {
	common, err := Promote(a.dtype, b.dtype)
	if err != nil {
		return false, err
	}
	x, errX := a.AsType(common, OrderK, CastUnsafe)
	if errX == nil {
		defer x.Release()
	}
	y, errY := b.AsType(common, OrderK, CastUnsafe)
	if errY == nil {
		defer y.Release()
	}
	switch {
	case errX == nil && errY == nil:
		return x.allEqualArray(y, equalNaN)
	case errX == nil && errors.Is(errY, ErrRange), errY == nil && errors.Is(errX, ErrRange):
		return false, nil
	}
	return false, errors.Join(errX, errY)
}

// allEqualTime compares with one time in another unit, which no element equals
// that the unit of a does not count.
func (a *NDBuffer) allEqualTime(s Scalar, equalNaN bool) (bool, error) {
	if _, err := Promote(a.dtype, s.dtype); err != nil {
		return false, err
	}
	raw, err := s.Bytes(a.dtype)
	if errors.Is(err, ErrRange) {
		return a.Size() == 0, nil
	}
	if err != nil {
		return false, err
	}
	back, err := Scalar{dtype: a.dtype, raw: string(raw)}.Bytes(s.dtype)
	if err != nil || string(back) != s.raw {
		return a.Size() == 0, err
	}
	return a.equalsValue(raw, a.dtype, false, equalNaN)
}
