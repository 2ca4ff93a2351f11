package ndview

import (
	"fmt"
	"slices"
)

// CopyAll copies each array of src to the array of dst at the same index, as CopyFrom
// does. Both must have the same shape. Views that lie a constant step apart, such as the
// tiles of a grid, are copied together: on a GPU many small arrays then take one launch.
// The arrays of dst must not overlap each other or those of src. After an error, some of
// the arrays are copied.
func CopyAll(dst, src []*NDBuffer) (err error) {
	defer nameError("CopyAll", &err)
	if len(dst) != len(src) {
		return fmt.Errorf("got %d arrays, want %d: %w", len(src), len(dst), ErrShape)
	}
	copies := make([]tileCopy, len(dst))
	for i := range dst {
		if err := checkNil(dst[i], src[i]); err != nil {
			return err
		}
		if !slices.Equal(dst[i].shape, src[i].shape) {
			return fmt.Errorf("array %d: got shape %v, want %v: %w", i, src[i].shape, dst[i].shape, ErrShape)
		}
		copies[i] = tileCopy{dst: tilesOf(dst[i]), src: tilesOf(src[i])}
	}
	for before := len(copies) + 1; len(copies) < before; {
		before = len(copies)
		copies = joinCopies(copies)
	}
	for _, c := range copies {
		if err := c.run(); err != nil {
			return err
		}
	}
	return nil
}

// tiles is an array, with leading axes for the arrays that were joined to it.
type tiles struct {
	first          *NDBuffer
	offset         int64
	shape, strides []int64
}

func tilesOf(a *NDBuffer) tiles {
	return tiles{first: a, offset: a.offset, shape: a.shape, strides: a.strides}
}

// isLike reports whether two arrays differ in nothing but where they lie in their buffer.
func (t tiles) isLike(u tiles) bool {
	return t.first.buf == u.first.buf && t.first.dtype == u.first.dtype && t.first.readOnly == u.first.readOnly &&
		slices.Equal(t.shape, u.shape) && slices.Equal(t.strides, u.strides)
}

// repeat returns n such arrays, step bytes apart, as one.
func (t tiles) repeat(n, step int64) tiles {
	t.shape, t.strides = slices.Insert(slices.Clone(t.shape), 0, n), slices.Insert(slices.Clone(t.strides), 0, step)
	return t
}

// array returns the tiles as one array. The caller must release it.
func (t tiles) array() (*NDBuffer, error) {
	if err := t.first.TryRetain(); err != nil {
		return nil, err
	}
	defer t.first.Release()
	return FromBuffer(t.first.buf, t.first.dtype, t.offset, t.shape, t.strides)
}

type tileCopy struct{ dst, src tiles }

func (c tileCopy) run() error {
	if len(c.dst.shape) == len(c.dst.first.shape) || c.dst.first.readOnly {
		return c.dst.first.CopyFrom(c.src.first)
	}
	dst, err := c.dst.array()
	if err != nil {
		return err
	}
	defer dst.Release()
	src, err := c.src.array()
	if err != nil {
		return err
	}
	defer src.Release()
	return dst.CopyFrom(src)
}

// joinCopies joins neighbors that lie a constant step apart on both sides.
func joinCopies(all []tileCopy) (joined []tileCopy) {
	for len(all) > 0 {
		first, n := all[0], 1
		var to, from int64
		for n < len(all) && first.dst.first.buf != nil && all[n].dst.isLike(first.dst) && all[n].src.isLike(first.src) {
			last := all[n-1]
			stepTo, stepFrom := all[n].dst.offset-last.dst.offset, all[n].src.offset-last.src.offset
			if n > 1 && (stepTo != to || stepFrom != from) {
				break
			}
			to, from = stepTo, stepFrom
			n++
		}
		if n > 1 {
			first = tileCopy{first.dst.repeat(int64(n), to), first.src.repeat(int64(n), from)}
		}
		joined, all = append(joined, first), all[n:]
	}
	return joined
}
