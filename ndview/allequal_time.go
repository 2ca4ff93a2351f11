package ndview

import "errors"

// Times of one kind and different units compare as in their common unit.

// timesApart tells whether two types are times that compare, but count in
// different units.
func timesApart(a, b DType) bool { return a.IsTime() && a.kind == b.kind && a != b }

// allEqualTimes compares with an array in another unit: both are copied to their
// common one.
func (a *NDBuffer) allEqualTimes(b *NDBuffer, equalNaN bool) (bool, error) {
	common, err := Promote(a.dtype, b.dtype)
	if err != nil {
		return false, err
	}
	x, err := a.AsType(common, OrderK, CastUnsafe)
	if err != nil {
		return false, err
	}
	defer x.Release()
	y, err := b.AsType(common, OrderK, CastUnsafe)
	if err != nil {
		return false, err
	}
	defer y.Release()
	return x.allEqualArray(y, equalNaN)
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
