package ndview

import (
	"fmt"
	"slices"
)

// Get copies what the keys take to a new array in C order. Beside those of Index,
// keys are arrays: a.Get(At(0), IntArray(rows), Mask(m)) is NumPy's
// a[0, rows, m]. Arrays of indices are broadcast together, a mask as the indices
// of its true elements; their axes are where the keys are that are arrays or
// numbers, or first if other keys are between those. An index outside its axis is
// arrowbuf.ErrOutOfRange, which names it; what does not fit is ErrShape.
func (a *NDBuffer) Get(keys ...Key) (*NDBuffer, error) {
	if err := a.hold(); err != nil {
		return nil, err
	}
	defer a.Release()
	chosen, err := choosing(keys)
	if err != nil {
		return nil, err
	}
	if !chosen {
		v, err := a.Index(keys...)
		if err != nil {
			return nil, err
		}
		defer v.Release()
		return v.inCOrder()
	}
	if mask := a.maskOf(keys); mask != nil {
		t, err := newTruths(mask)
		if err != nil {
			return nil, err
		}
		defer t.release()
		return t.compact(a)
	}
	c, release, err := a.choose(keys)
	defer release()
	if err != nil {
		return nil, err
	}
	return c.get()
}

// Set writes a value to what the keys take, as Get takes it: whatever Assign
// takes, cast as it casts, which broadcasts to the shape that Get would answer.
// Where an element is taken more than once, the last value in C order stays.
// Nothing is written if there is an error.
func (a *NDBuffer) Set(value any, keys ...Key) error {
	release, err := holdToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	chosen, err := choosing(keys)
	if err != nil {
		return err
	}
	if !chosen {
		v, err := a.Index(keys...)
		if err != nil {
			return err
		}
		defer v.Release()
		return v.Assign(value)
	}
	values, err := a.assignable(value)
	if err != nil {
		return err
	}
	defer values.Release()
	if mask := a.maskOf(keys); mask != nil && values.oneByOne() && !MayShareMemory(a, mask) {
		return a.setMasked(mask, values)
	}
	c, release, err := a.choose(keys)
	defer release()
	if err != nil {
		return err
	}
	return c.set(values)
}

// choosing tells whether a key is an array.
func choosing(keys []Key) (bool, error) {
	chosen := false
	for i, k := range keys {
		switch {
		case k.chosen == nil:
			continue
		case k.chosen.array == nil && k.chosen.list == nil:
			return false, fmt.Errorf("key %d: an array is expected, not nil: %w", i+1, ErrDType)
		}
		chosen = true
	}
	return chosen, nil
}

// maskOf is the mask that is the only key and has the array's shape, where the
// elements at which it is true are moved without lists of places; else nil.
func (a *NDBuffer) maskOf(keys []Key) *NDBuffer {
	if len(keys) != 1 || !keys[0].chosen.mask || !a.oneByOne() {
		return nil
	}
	mask := keys[0].chosen.array
	if mask.dtype != Bool || mask.Device() != a.Device() || len(mask.shape) == 0 || !slices.Equal(mask.shape, a.shape) {
		return nil
	}
	return mask
}

func (a *NDBuffer) setMasked(mask, values *NDBuffer) error {
	values, err := (&selection{from: a}).readable(values)
	if err != nil {
		return err
	}
	defer values.Release()
	t, err := newTruths(mask)
	if err != nil {
		return err
	}
	defer t.release()
	if _, err := stretch(values, []int64{t.count}); err != nil {
		return fmt.Errorf("setting the %d elements at which a mask is true: %w", t.count, err)
	}
	return t.expand(a, values)
}
