package cpu

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// MaxAxes is the largest number of axes of a Walk. Axes that can be merged are, so an
// array that needs more has over 2^32 elements.
const MaxAxes = 32

// Walk locates the operands of the items of a result in C order. Item (i0, i1, ...) is
// at the sums, in bytes, of i*Data in the indexed array, of i*Index in the array of
// indices, and of i*Value in the assigned values. Kernels take a Walk by value, so it
// has C's layout.
type Walk struct {
	Items  int64
	Axes   int64
	Extent [MaxAxes]int64
	Data   [MaxAxes]int64
	Index  [MaxAxes]int64
	Value  [MaxAxes]int64
	// item/Extent is item*Magic>>32>>Shift, for items below 2^31 and extents of at
	// least 2.
	Magic [MaxAxes]uint32
	Shift [MaxAxes]uint32
}

// NewWalk returns the walk of a result of this shape, with as few axes as possible. Nil
// strides are all 0.
func NewWalk(shape, data, index, value []int64) (*Walk, error) {
	still := make([]int64, len(shape))
	for _, strides := range []*[]int64{&data, &index, &value} {
		if *strides == nil {
			*strides = still
		}
	}
	// The first operand represents the result, so that the axes stay in C order and
	// forward.
	n := layout.Collapse(shape, layout.CStrides(1, shape), data, index, value)
	if len(n.Shape) > MaxAxes {
		return nil, fmt.Errorf("%d axes that cannot be joined, of at most %d: %w", len(n.Shape), MaxAxes, layout.ErrShape)
	}
	w := &Walk{Items: layout.Product(shape), Axes: int64(len(n.Shape))}
	for k, extent := range n.Shape {
		w.Data[k], w.Index[k], w.Value[k] = n.Strides[1][k], n.Strides[2][k], n.Strides[3][k]
		w.setExtent(k, extent)
	}
	return w, nil
}

// NewUnitWalk is NewWalk for elements of size bytes that are copied in units. An item
// is a unit of width bytes. The width is the greatest one up to 16 that divides runs of
// elements, all strides of data and value, and align. align combines the addresses and
// other steps. There must be elements. value is nil for a walk without values.
func NewUnitWalk(size int64, align uint64, shape, data, index, value []int64) (w *Walk, width int64, err error) {
	grow := func(s []int64, last int64) []int64 { return append(slices.Clip(s), last) }
	if value != nil {
		value = grow(value, 1)
	}
	w, err = NewWalk(grow(shape, size), grow(data, 1), grow(index, 0), value)
	if err != nil || w.Axes == 0 {
		return w, 1, err
	}
	last := w.Axes - 1
	run := int64(1)
	if w.Data[last] == 1 && w.Index[last] == 0 && (value == nil || w.Value[last] == 1) {
		run = w.Extent[last]
	} else {
		last++ // the axis of bytes was removed: its extent is 1
	}
	align |= uint64(run) | 16
	for k := range last {
		align |= uint64(w.Data[k]) | uint64(w.Value[k])
	}
	width = 1 << bits.TrailingZeros64(align)
	if run == 1 {
		return w, width, nil
	}
	w.Items /= width
	w.Data[last] *= width
	w.Value[last] *= width
	w.setExtent(int(last), run/width)
	if run == width {
		w.Axes--
		w.Extent[last], w.Data[last], w.Value[last] = 0, 0, 0
	}
	return w, width, nil
}

func (w *Walk) setExtent(k int, extent int64) {
	w.Extent[k] = extent
	if 2 <= extent && extent <= math.MaxInt32 {
		shift := uint32(bits.Len32(uint32(extent - 1)))
		w.Magic[k] = uint32((uint64(1)<<(31+shift) + uint64(extent) - 1) / uint64(extent))
		w.Shift[k] = shift - 1
	}
}

// ByteBounds returns the range of bytes, relative to item 0, that items of width bytes
// access by one of the walk's strides.
func (w *Walk) ByteBounds(strides *[MaxAxes]int64, width int64) (low, high int64) {
	for k := range w.Axes {
		if span := (w.Extent[k] - 1) * strides[k]; span < 0 {
			low += span
		} else {
			high += span
		}
	}
	return low, high + width
}

// At returns the operands of an item.
func (w *Walk) At(item int64) (at Offset) {
	for k := w.Axes - 1; k >= 0; k-- {
		i := item
		if k > 0 {
			i, item = item%w.Extent[k], item/w.Extent[k]
		}
		at.Data += i * w.Data[k]
		at.Index += i * w.Index[k]
		at.Value += i * w.Value[k]
	}
	return at
}

// Split splits w into walks of at most most items, and calls do for each in order. first
// is the number in w of the part's first item, and offset the location of its operands.
func (w *Walk) Split(most int64, do func(part *Walk, first int64, offset Offset) error) error {
	return w.split(most, 0, Offset{}, do)
}

// Offset is the location of an item's operands, in bytes.
type Offset struct{ Data, Index, Value int64 }

func (w *Walk) split(most, first int64, offset Offset, do func(part *Walk, first int64, offset Offset) error) error {
	if w.Items <= most {
		return do(w, first, offset)
	}
	inner := w.Items / w.Extent[0]
	part := *w
	if inner > most {
		part.Axes--
		part.Items = inner
		for _, axis := range [...]*[MaxAxes]int64{&part.Extent, &part.Data, &part.Index, &part.Value} {
			copy(axis[:], axis[1:])
		}
		copy(part.Magic[:], w.Magic[1:])
		copy(part.Shift[:], w.Shift[1:])
	}
	step := max(most/inner, 1)
	for i := int64(0); i < w.Extent[0]; i += step {
		if inner <= most {
			part.setExtent(0, min(step, w.Extent[0]-i))
			part.Items = part.Extent[0] * inner
		}
		at := Offset{offset.Data + i*w.Data[0], offset.Index + i*w.Index[0], offset.Value + i*w.Value[0]}
		if err := part.split(most, first+i*inner, at, do); err != nil {
			return err
		}
	}
	return nil
}

// parallel is Parallel over items of width bytes. It splits between rows if there are
// many.
func (w *Walk) parallel(width int64, do func(lo, hi int64)) {
	inner := max(w.Extent[max(w.Axes-1, 0)], 1)
	if w.Items/inner < 256 {
		inner = 1
	}
	Parallel(w.Items/inner, grain/width/inner, func(lo, hi int64) { do(lo*inner, hi*inner) })
}

// rows calls do for each row of items [lo, hi) along the last axis, in order. do receives
// the row's first item, its number of items, and where the first item's operands are.
func (w *Walk) rows(lo, hi int64, do func(item, n int64, at Offset)) {
	last := max(w.Axes-1, 0)
	inner := max(w.Extent[last], 1)
	var count [MaxAxes]int64
	rest := lo / inner
	for k := last - 1; k >= 0; k-- {
		count[k], rest = rest%w.Extent[k], rest/w.Extent[k]
	}
	skip := lo % inner
	at := w.At(lo - skip)
	for item := lo; item < hi; {
		n := min(inner-skip, hi-item)
		do(item, n, Offset{at.Data + skip*w.Data[last], at.Index + skip*w.Index[last], at.Value + skip*w.Value[last]})
		item += n
		skip = 0
		for k := last - 1; k >= 0; k-- {
			count[k]++
			at.Data += w.Data[k]
			at.Index += w.Index[k]
			at.Value += w.Value[k]
			if count[k] < w.Extent[k] {
				break
			}
			count[k] = 0
			at.Data -= w.Extent[k] * w.Data[k]
			at.Index -= w.Extent[k] * w.Index[k]
			at.Value -= w.Extent[k] * w.Value[k]
		}
	}
}
