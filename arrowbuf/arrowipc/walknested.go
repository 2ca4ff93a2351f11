package arrowipc

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf/internal/integers"
)

// binary takes the offsets of strings and the bytes that they enclose.
func (w *walker) binary(v view, width int) error {
	first, last, err := w.offsets(v, width)
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	b := v.buffer(2)
	switch {
	case b == nil && last > first:
		return fmt.Errorf("no values, the offsets enclose %d bytes: %w", last-first, arrow.ErrInvalid)
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
	if v.length == 0 && (b == nil || b.Len() == 0) {
		w.add(piece{})
		return 0, 0, nil
	}
	if b == nil {
		return 0, 0, w.nothing(int64((v.length + 1) * width))
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
			first = integers.Slice{Bytes: end, Width: width}.At(0)
		} else {
			last = integers.Slice{Bytes: end, Width: width}.At(0)
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
		v := integers.Slice{Bytes: b, Width: width}
		for i := range v.Len() {
			v.Put(i, v.At(i)-by)
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
	var both [2]integers.Slice
	for i := range both {
		b, err := bytesOf(v.buffer(i+1), int64(v.offset*width), int64(v.length*width))
		if err != nil {
			return 0, 0, err
		}
		both[i] = integers.Slice{Bytes: b, Width: width}
	}
	first = math.MaxInt64
	for i := range v.length {
		at, n := both[0].At(i), both[1].At(i)
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
