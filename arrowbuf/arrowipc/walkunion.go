package arrowipc

import (
	"fmt"
	"math"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf/internal/integers"
)

// denseUnion takes type ids, offsets, and of the children of a slice what the
// offsets reach.
func (w *walker) denseUnion(v view, t *arrow.DenseUnionType) error {
	children, err := v.children(len(t.Fields()))
	if err != nil {
		return err
	}
	if err := w.lines(v, 1, 1); err != nil {
		return fmt.Errorf("type ids: %w", err)
	}
	if v.offset == 0 {
		if err := w.lines(v, 2, 4); err != nil {
			return fmt.Errorf("offsets: %w", err)
		}
	} else if err := w.narrowUnion(v, t, children); err != nil {
		return err
	}
	for i, child := range children {
		if err := w.child(child, t.Fields()[i]); err != nil {
			return err
		}
	}
	return nil
}

// narrowUnion takes the offsets of a slice, which begin at 0 for each child, and
// narrows the children. As arrow-go does, and Arrow says, it takes the offsets of
// a child for ones that grow.
func (w *walker) narrowUnion(v view, t *arrow.DenseUnionType, children []view) error {
	ids, err := bytesOf(v.buffer(1), int64(v.offset), int64(v.length))
	if err != nil {
		return fmt.Errorf("type ids: %w", err)
	}
	b, err := bytesOf(v.buffer(2), int64(v.offset*4), int64(v.length*4))
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	at, moved := integers.Slice{Bytes: b, Width: 4}, integers.Slice{Bytes: make([]byte, len(b)), Width: 4}
	starts, lengths := map[byte]int64{}, map[byte]int64{}
	for i, id := range ids {
		if _, seen := starts[id]; !seen {
			starts[id] = at.At(i)
		}
		moved.Put(i, at.At(i)-starts[id])
		lengths[id] = max(lengths[id], moved.At(i)+1)
	}
	w.add(computed(int64(len(b)), func() ([]byte, error) { return moved.Bytes, nil }))
	for i, code := range t.TypeCodes() {
		first, n := starts[byte(code)], lengths[byte(code)]
		if first > 0 || n < int64(children[i].length) {
			if children[i], err = children[i].slice(int(first), int(first+n)); err != nil {
				return fmt.Errorf("field %q: %w", t.Fields()[i].Name, err)
			}
		}
	}
	return nil
}

// runs takes the runs that the elements lie in, which end with the last of them
// where they are a slice at an offset.
func (w *walker) runs(v view, t *arrow.RunEndEncodedType) error {
	children, err := v.children(2)
	if err != nil {
		return err
	}
	width := t.RunEnds().(arrow.FixedWidthDataType).Bytes()
	ends, values := children[0], children[1]
	first, last, err := v.physical(ends, width)
	if err != nil {
		return fmt.Errorf("run ends: %w", err)
	}
	if ends, err = ends.slice(first, last); err != nil {
		return fmt.Errorf("run ends: %w", err)
	}
	if values, err = values.slice(first, last); err != nil {
		return err
	}
	if err := w.child(ends, t.Fields()[0]); err != nil {
		return err
	}
	if v.offset != 0 && last > first {
		p := &w.parts[len(w.parts)-1]
		p.length = int64((last - first) * width)
		p.fix = func(b []byte) {
			ends := integers.Slice{Bytes: b, Width: width}
			for i := range ends.Len() {
				ends.Put(i, min(ends.At(i)-int64(v.offset), int64(v.length)))
			}
		}
	}
	return w.child(values, t.Fields()[1])
}

// physical is which runs the elements lie in. It reads few of the ends.
func (v view) physical(ends view, width int) (first, last int, err error) {
	if v.length == 0 {
		return 0, 0, nil
	}
	end := func(i int) int64 {
		one, failed := bytesOf(ends.buffer(1), int64((ends.offset+i)*width), int64(width))
		if failed != nil {
			err = failed
			return math.MaxInt64
		}
		return integers.Slice{Bytes: one, Width: width}.At(0)
	}
	first = sort.Search(ends.length, func(i int) bool { return end(i) > int64(v.offset) })
	last = first + sort.Search(ends.length-first, func(i int) bool { return end(first+i) > int64(v.offset+v.length-1) }) + 1
	if err == nil && last > ends.length {
		err = fmt.Errorf("%d runs do not reach element %d: %w", ends.length, v.offset+v.length, arrow.ErrInvalid)
	}
	return first, last, err
}
