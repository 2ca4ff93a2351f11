package arrowipc

import (
	"fmt"
	"math"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
)

// binary takes the offsets of strings and the bytes that they enclose.
func (w *walker) binary(v view, width int) error {
	first, last, err := w.offsets(v, width)
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	b := v.buffer(2)
	switch {
	case b == nil:
		w.add(piece{})
		return nil
	case v.length == 0:
		return w.raw(b, 0, 0)
	}
	return w.raw(b, first, last-first)
}

// offsets takes the offsets of elements that follow one another, so that they
// start at 0, and returns which values they enclose.
func (w *walker) offsets(v view, width int) (first, last int64, err error) {
	b := v.buffer(1)
	if b == nil || b.Len() == 0 {
		w.add(piece{})
		return 0, 0, nil
	}
	from, n := int64(v.offset*width), int64((v.length+1)*width)
	if from+n > int64(b.Len()) {
		return 0, 0, fmt.Errorf("%d bytes, the array needs %d: %w", b.Len(), from+n, arrow.ErrInvalid)
	}
	for i, at := range []int64{from, from + n - int64(width)} {
		end, err := bytesOf(b, at, int64(width))
		if err != nil {
			return 0, 0, err
		}
		if i == 0 {
			first = ints{end, width}.at(0)
		} else {
			last = ints{end, width}.at(0)
		}
	}
	if first < 0 || last < first {
		return 0, 0, fmt.Errorf("from %d to %d: %w", first, last, arrow.ErrInvalid)
	}
	switch {
	case first != 0:
		w.add(piece{src: b, from: from, length: n, fix: rebase(width, first)})
	case v.offset != 0 || n < int64(b.Len()):
		return first, last, w.raw(b, from, n)
	default:
		return first, last, w.raw(b, 0, int64(b.Len()))
	}
	return first, last, nil
}

// rebase takes so much from each integer.
func rebase(width int, by int64) func([]byte) {
	return func(b []byte) {
		v := ints{b, width}
		for i := range v.len() {
			v.put(i, v.at(i)-by)
		}
	}
}

// views takes 16-byte views and all buffers that they may point into.
func (w *walker) views(v view) error {
	if err := w.fixed(v, 1, arrow.ViewHeaderSizeBytes); err != nil {
		return err
	}
	buffers := v.data.Buffers()
	if len(buffers) < 2 {
		return fmt.Errorf("%d buffers, expected 2 or more: %w", len(buffers), arrow.ErrInvalid)
	}
	w.variadic = append(w.variadic, int64(len(buffers)-2))
	for i, b := range buffers[2:] {
		if b == nil {
			return fmt.Errorf("buffer %d is absent: %w", i+2, arrow.ErrInvalid)
		}
		if err := w.raw(b, 0, int64(b.Len())); err != nil {
			return err
		}
	}
	return nil
}

// child takes an array inside another.
func (w *walker) child(v view, field arrow.Field) error {
	w.depth++
	defer func() { w.depth-- }()
	if err := w.array(v, field.Type); err != nil {
		return fmt.Errorf("field %q: %w", field.Name, err)
	}
	return nil
}

func (w *walker) list(v view, t arrow.NestedType, width int) error {
	children, err := v.children(1)
	if err != nil {
		return err
	}
	first, last, err := w.offsets(v, width)
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	values := children[0]
	if v.length == 0 {
		first, last = 0, 0
	}
	if v.length != 0 || values.length > 0 {
		if values, err = values.slice(int(first), int(last)); err != nil {
			return err
		}
	}
	return w.child(values, t.Fields()[0])
}

// listViews takes lists that lie anywhere in their values. Those of a slice at an
// offset are rebased to the first value that one of them begins at.
func (w *walker) listViews(v view, t arrow.NestedType, width int) error {
	children, err := v.children(1)
	if err != nil {
		return err
	}
	values := children[0]
	if v.length == 0 {
		w.add(piece{})
		w.add(piece{})
		if values, err = values.slice(0, 0); err != nil {
			return err
		}
		return w.child(values, t.Fields()[0])
	}
	from, n := int64(v.offset*width), int64(v.length*width)
	if v.offset == 0 {
		for i := 1; i <= 2; i++ {
			if err := w.raw(v.buffer(i), 0, n); err != nil {
				return err
			}
		}
		return w.child(values, t.Fields()[0])
	}
	first, end, err := v.reach(width)
	if err != nil {
		return err
	}
	w.add(piece{src: v.buffer(1), from: from, length: n, fix: rebase(width, first)})
	if err := w.raw(v.buffer(2), from, n); err != nil {
		return err
	}
	if values, err = values.slice(int(first), int(end)); err != nil {
		return err
	}
	return w.child(values, t.Fields()[0])
}

// reach is which values the list views of a slice reach.
func (v view) reach(width int) (first, end int64, err error) {
	var both [2]ints
	for i := range both {
		b, err := bytesOf(v.buffer(i+1), int64(v.offset*width), int64(v.length*width))
		if err != nil {
			return 0, 0, err
		}
		both[i] = ints{b, width}
	}
	first = math.MaxInt64
	for i := range v.length {
		at, n := both[0].at(i), both[1].at(i)
		first, end = min(first, at), max(end, at+n)
	}
	return first, end, nil
}

func (w *walker) fixedSizeList(v view, t *arrow.FixedSizeListType) error {
	children, err := v.children(1)
	if err != nil {
		return err
	}
	n := int(t.Len())
	values, err := children[0].slice(v.offset*n, (v.offset+v.length)*n)
	if err != nil {
		return err
	}
	return w.child(values, t.ElemField())
}

// fields takes the children of a struct or a sparse union.
func (w *walker) fields(v view, fields []arrow.Field) error {
	children, err := v.children(len(fields))
	if err != nil {
		return err
	}
	for i, child := range children {
		if v.offset != 0 || child.length != v.length {
			if child, err = child.slice(v.offset, v.offset+v.length); err != nil {
				return fmt.Errorf("field %q: %w", fields[i].Name, err)
			}
		}
		if err := w.child(child, fields[i]); err != nil {
			return err
		}
	}
	return nil
}

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
	at, moved := ints{b, 4}, ints{make([]byte, len(b)), 4}
	starts, lengths := map[byte]int64{}, map[byte]int64{}
	for i, id := range ids {
		if _, seen := starts[id]; !seen {
			starts[id] = at.at(i)
		}
		moved.put(i, at.at(i)-starts[id])
		lengths[id] = max(lengths[id], moved.at(i)+1)
	}
	w.add(computed(int64(len(b)), func() ([]byte, error) { return moved.b, nil }))
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
			ends := ints{b, width}
			for i := range ends.len() {
				ends.put(i, min(ends.at(i)-int64(v.offset), int64(v.length)))
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
		return ints{one, width}.at(0)
	}
	first = sort.Search(ends.length, func(i int) bool { return end(i) > int64(v.offset) })
	last = first + sort.Search(ends.length-first, func(i int) bool { return end(first+i) > int64(v.offset+v.length-1) }) + 1
	if err == nil && last > ends.length {
		err = fmt.Errorf("%d runs do not reach element %d: %w", ends.length, v.offset+v.length, arrow.ErrInvalid)
	}
	return first, last, err
}
