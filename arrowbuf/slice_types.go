package arrowbuf

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/quiver-gpu/quiver/arrowbuf/internal/integers"
)

// Offsets, views and indices refer to elements of another buffer or array. If an
// array shows all of them, they are copied unchanged. Those of a slice are read on
// the host, which finds the range that they refer to and rebases them.

// sliceBinary collects the offsets of strings and the bytes that they enclose.
func (s *slicer) sliceBinary(out *slicedArray, r elementRange, dtype arrow.DataType, width int) error {
	values := r.buffer(2)
	first, last, err := s.sliceOffsets(out, r, width, values.Len())
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	bytes := s.addRange(values, first, last, 1)
	if text, ok := dtype.(arrow.BinaryDataType); ok && text.IsUtf8() {
		return out.add(bytes, nil)
	}
	return out.add(s.zeroIfSet(bytes, nil))
}

// sliceOffsets collects the offsets of the elements, rebased to 0, and returns the
// range of values that they enclose.
func (s *slicer) sliceOffsets(out *slicedArray, r elementRange, width, values int) (first, last int, err error) {
	if r.length == 0 {
		s.ranges = append(s.ranges, rangeOfBytes(make([]byte, width), width))
		return 0, 0, out.add(len(s.ranges)-1, nil)
	}
	r.length++
	at, err := s.sliceFixed(r, 1, width)
	if err != nil {
		return 0, 0, err
	}
	out.buffers = append(out.buffers, at)
	if p := s.ranges[at]; p.isWhole() && !OnHost(p.src) && !s.checkOnly && !s.zeroValues {
		// The array shows all values, so the last offset need not be read from
		// the device.
		return 0, values, nil
	}
	from, to, err := s.ranges[at].firstAndLast(width)
	if err != nil {
		return 0, 0, err
	}
	if from < 0 || to < from || to > int64(values) {
		return 0, 0, fmt.Errorf("from %d to %d into %d values: %w", from, to, values, arrow.ErrInvalid)
	}
	if from != 0 && !s.checkOnly {
		old, err := s.ranges[at].ints(width)
		if err != nil {
			return 0, 0, err
		}
		s.ranges[at] = rangeOfBytes(old.Subtract(from).Bytes, width)
	}
	return int(from), int(to), nil
}

// sliceViews collects 16-byte views and the buffers that they refer to.
func (s *slicer) sliceViews(out *slicedArray, r elementRange) error {
	at, err := s.sliceFixed(r, 1, arrow.ViewHeaderSizeBytes)
	if err != nil {
		return err
	}
	out.buffers = append(out.buffers, at)
	buffers := r.data.Buffers()[min(2, len(r.data.Buffers())):]
	reached := make([]interval, len(buffers))
	for i, b := range buffers {
		reached[i] = interval{0, int64(orEmpty(b).Len())}
	}
	if s.narrow || s.isPartial(at) {
		if err := s.narrowViews(out, at, reached); err != nil {
			return fmt.Errorf("views: %w", err)
		}
	}
	for i, b := range buffers {
		out.buffers = append(out.buffers, s.addRange(orEmpty(b), int(reached[i].from), int(reached[i].to), 1))
	}
	return nil
}

// narrowViews narrows buffers to what the views use. It replaces the views of null
// elements, which may hold anything, by empty ones.
func (s *slicer) narrowViews(out *slicedArray, at int, buffers []interval) error {
	const size, inline = arrow.ViewHeaderSizeBytes, 12 // inline: values of up to this many bytes are in the view itself
	old, err := s.ranges[at].bytes()
	if err != nil {
		return err
	}
	isNull, err := s.nullFunc(out)
	if err != nil {
		return err
	}
	views := append([]byte(nil), old...)
	reached := make([]interval, len(buffers))
	outside := func(yield func(view []byte, buffer uint32, from, to int64) error) error {
		for i := range out.length {
			view := views[i*size : (i+1)*size]
			if isNull(i) {
				clear(view)
			}
			length := int64(int32(binary.LittleEndian.Uint32(view)))
			if length >= 0 && length <= inline {
				continue
			}
			from := int64(int32(binary.LittleEndian.Uint32(view[12:])))
			if err := yield(view, binary.LittleEndian.Uint32(view[8:]), from, from+length); err != nil {
				return err
			}
		}
		return nil
	}
	err = outside(func(_ []byte, buffer uint32, from, to int64) error {
		if int64(buffer) >= int64(len(buffers)) || from < 0 || to < from || to > buffers[buffer].to {
			return fmt.Errorf("bytes [%d, %d) of buffer %d of %d: %w", from, to, buffer, len(buffers), arrow.ErrInvalid)
		}
		reached[buffer].extend(from, to)
		return nil
	})
	if err != nil {
		return err
	}
	_ = outside(func(view []byte, buffer uint32, from, _ int64) error {
		binary.LittleEndian.PutUint32(view[12:], uint32(from-reached[buffer].from))
		return nil
	})
	copy(buffers, reached)
	s.ranges[at] = rangeOfBytes(views, 8)
	return nil
}

// interval is a range [from, to) that grows.
type interval struct{ from, to int64 }

// extend grows the interval to include [from, to).
func (r *interval) extend(from, to int64) {
	if r.to == r.from {
		*r = interval{from, to}
		return
	}
	r.from, r.to = min(r.from, from), max(r.to, to)
}

// sliceDictionary collects indices and the dictionary. The dictionary stays whole,
// because other batches may share it, unless narrow is set.
func (s *slicer) sliceDictionary(out *slicedArray, r elementRange, t *arrow.DictionaryType) error {
	values, ok := r.data.Dictionary().(*array.Data)
	if !ok || values == nil {
		return fmt.Errorf("nil dictionary: %w", arrow.ErrInvalid)
	}
	at, err := s.sliceFixed(r, 1, t.Bytes())
	if err != nil {
		return err
	}
	out.buffers = append(out.buffers, at)
	used := interval{0, int64(values.Len())}
	if s.narrow {
		if used, err = s.narrowIndices(out, at, t.Bytes(), values.Len()); err != nil {
			return fmt.Errorf("indices: %w", err)
		}
	}
	if copied, ok := s.cache[values]; ok {
		out.dictionary = &slicedArray{source: values, built: copied}
		return nil
	}
	dictionary, err := s.slice(values, int(used.from), int(used.to-used.from))
	if err != nil {
		return fmt.Errorf("dictionary: %w", err)
	}
	dictionary.source = values
	out.dictionary = &dictionary
	return nil
}

// narrowIndices returns the range of the n values that the indices use, and rebases
// the indices.
func (s *slicer) narrowIndices(out *slicedArray, at, width, n int) (used interval, err error) {
	old, err := s.ranges[at].ints(width)
	if err != nil {
		return used, err
	}
	isNull, err := s.nullFunc(out)
	if err != nil {
		return used, err
	}
	// Arrow's indices are not negative, so all widths can be read as unsigned.
	index := func(i int) int64 { return old.At(i) & (math.MaxInt64>>(64-8*width)<<1 | 1) }
	for i := range out.length {
		if isNull(i) {
			continue
		}
		if at := index(i); at < 0 || at >= int64(n) {
			return used, fmt.Errorf("%d of %d values: %w", at, n, arrow.ErrInvalid)
		}
		used.extend(index(i), index(i)+1)
	}
	rebased := integers.Slice{Bytes: make([]byte, len(old.Bytes)), Width: width}
	for i := range out.length {
		if !isNull(i) {
			rebased.Put(i, index(i)-used.from)
		}
	}
	s.ranges[at] = rangeOfBytes(rebased.Bytes, width)
	return used, nil
}

// nullFunc returns a function that reports whether element i is null.
func (s *slicer) nullFunc(out *slicedArray) (isNull func(i int) bool, err error) {
	if out.buffers[0] == noBuffer {
		return func(int) bool { return false }, nil
	}
	bits, err := s.ranges[out.buffers[0]].bytes()
	return func(i int) bool { return bitutil.BitIsNotSet(bits, i) }, err
}

// sliceList collects the offsets of lists and the values that they enclose.
func (s *slicer) sliceList(out *slicedArray, r elementRange, width int) error {
	children, err := r.children(1)
	if err != nil {
		return err
	}
	first, last, err := s.sliceOffsets(out, r, width, children[0].Len())
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	return s.sliceChild(out, children[0], first, last-first, "list values")
}

// sliceMap collects a map: a list of key-value structs. arrow-go makes a map only if
// its entries and keys are known not to be null.
func (s *slicer) sliceMap(out *slicedArray, r elementRange) error {
	if err := s.sliceList(out, r, 4); err != nil {
		return err
	}
	pairs := &out.children[0]
	if len(pairs.children) != 2 {
		return fmt.Errorf("map entries of %d fields, want 2: %w", len(pairs.children), arrow.ErrInvalid)
	}
	for _, never := range []*slicedArray{pairs, &pairs.children[0]} {
		if err := s.countNulls(never); err != nil {
			return fmt.Errorf("map entries: %w", err)
		}
		if never.nulls != 0 {
			return fmt.Errorf("%d map entries or keys are null: %w", never.nulls, arrow.ErrInvalid)
		}
	}
	return nil
}

// sliceListViews collects list views, whose values may be in any order.
func (s *slicer) sliceListViews(out *slicedArray, r elementRange, width int) error {
	children, err := r.children(1)
	if err != nil {
		return err
	}
	offsets, err := s.sliceFixed(r, 1, width)
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	sizes, err := s.sliceFixed(r, 2, width)
	if err != nil {
		return fmt.Errorf("sizes: %w", err)
	}
	out.buffers = append(out.buffers, offsets, sizes)
	used := interval{0, int64(children[0].Len())}
	if r.length == 0 || s.isPartial(offsets, sizes) {
		if used, err = s.narrowListViews(offsets, sizes, width, used.to); err != nil {
			return fmt.Errorf("list views: %w", err)
		}
	}
	return s.sliceChild(out, children[0], int(used.from), int(used.to-used.from), "list values")
}

// narrowListViews returns the range of the n values that the lists use, and rebases
// their offsets. The offset of an empty list is not checked.
func (s *slicer) narrowListViews(offsets, sizes, width int, n int64) (used interval, err error) {
	from, err := s.ranges[offsets].ints(width)
	if err != nil {
		return used, err
	}
	size, err := s.ranges[sizes].ints(width)
	if err != nil {
		return used, err
	}
	for i := range from.Len() {
		at, length := from.At(i), size.At(i)
		if length == 0 {
			continue
		}
		if at < 0 || length < 0 || at > n || length > n-at {
			return used, fmt.Errorf("%d values at %d of %d: %w", length, at, n, arrow.ErrInvalid)
		}
		used.extend(at, at+length)
	}
	rebased := integers.Slice{Bytes: make([]byte, len(from.Bytes)), Width: width}
	for i := range from.Len() {
		if size.At(i) != 0 {
			rebased.Put(i, from.At(i)-used.from)
		}
	}
	s.ranges[offsets] = rangeOfBytes(rebased.Bytes, width)
	return used, nil
}

func (s *slicer) sliceFixedSizeList(out *slicedArray, r elementRange, n int) error {
	children, err := r.children(1)
	if err != nil {
		return err
	}
	if n < 0 || n > 0 && r.first+r.length > children[0].Len()/n {
		return fmt.Errorf("too few values for %d fixed-size lists: %w", r.first+r.length, arrow.ErrInvalid)
	}
	return s.sliceChild(out, children[0], r.first*n, r.length*n, "list values")
}

func (s *slicer) sliceFields(out *slicedArray, r elementRange, t *arrow.StructType) error {
	children, err := r.children(t.NumFields())
	if err != nil {
		return err
	}
	for i, child := range children {
		if r.first+r.length > child.Len() {
			return fmt.Errorf("field %q has %d elements, the array needs %d: %w", t.Field(i).Name, child.Len(), r.first+r.length, arrow.ErrInvalid)
		}
		if err := s.sliceChild(out, child, r.first, r.length, fmt.Sprintf("field %q", t.Field(i).Name)); err != nil {
			return err
		}
	}
	return nil
}

func (s *slicer) sliceSparseUnion(out *slicedArray, r elementRange, t *arrow.SparseUnionType) error {
	if err := out.add(s.sliceFixed(r, 1, 1)); err != nil {
		return fmt.Errorf("type ids: %w", err)
	}
	return s.sliceFields(out, r, arrow.StructOf(t.Fields()...))
}

// sliceDenseUnion collects type ids, offsets, and the range of each child that the
// offsets use.
func (s *slicer) sliceDenseUnion(out *slicedArray, r elementRange, t *arrow.DenseUnionType) error {
	children, err := r.children(t.NumFields())
	if err != nil {
		return err
	}
	ids, err := s.sliceFixed(r, 1, 1)
	if err != nil {
		return fmt.Errorf("type ids: %w", err)
	}
	offsets, err := s.sliceFixed(r, 2, 4)
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	out.buffers = append(out.buffers, ids, offsets)
	used := make([]interval, len(children))
	for i, child := range children {
		used[i] = interval{0, int64(child.Len())}
	}
	if r.length == 0 || s.isPartial(ids, offsets) {
		if err := s.narrowUnion(ids, offsets, t, used); err != nil {
			return fmt.Errorf("dense union: %w", err)
		}
	}
	for i, child := range children {
		if err := s.sliceChild(out, child, int(used[i].from), int(used[i].to-used[i].from), fmt.Sprintf("field %q", t.Fields()[i].Name)); err != nil {
			return err
		}
	}
	return nil
}

// narrowUnion narrows the ranges of the children to what the elements use.
func (s *slicer) narrowUnion(ids, offsets int, t *arrow.DenseUnionType, children []interval) error {
	id, err := s.ranges[ids].ints(1)
	if err != nil {
		return err
	}
	at, err := s.ranges[offsets].ints(4)
	if err != nil {
		return err
	}
	used := make([]interval, len(children))
	childOf := t.ChildIDs()
	for i := range id.Len() {
		code := id.At(i)
		if code < 0 || code >= int64(len(childOf)) || childOf[code] == arrow.InvalidUnionChildID {
			return fmt.Errorf("type id %d: %w", code, arrow.ErrInvalid)
		}
		child := childOf[code]
		if at.At(i) < 0 || at.At(i) >= children[child].to {
			return fmt.Errorf("element %d of %d of child %d: %w", at.At(i), children[child].to, child, arrow.ErrInvalid)
		}
		used[child].extend(at.At(i), at.At(i)+1)
	}
	rebased := integers.Slice{Bytes: make([]byte, len(at.Bytes)), Width: 4}
	for i := range id.Len() {
		rebased.Put(i, at.At(i)-used[childOf[id.At(i)]].from)
	}
	s.ranges[offsets] = rangeOfBytes(rebased.Bytes, 4)
	copy(children, used)
	return nil
}

// sliceRuns collects the runs of a run-end encoded array that contain the elements.
// The last run may end after the last element, as in any slice.
func (s *slicer) sliceRuns(out *slicedArray, r elementRange, t *arrow.RunEndEncodedType) error {
	children, err := r.children(2)
	if err != nil {
		return err
	}
	ends, values := children[0], children[1]
	width, ok := ends.DataType().(arrow.FixedWidthDataType)
	if !ok || !t.ValidRunEndsType(ends.DataType()) || ends.Len() != values.Len() {
		return fmt.Errorf("%d run ends of type %s for %d values: %w", ends.Len(), ends.DataType(), values.Len(), arrow.ErrInvalid)
	}
	at, err := s.sliceFixed(elementRange{data: ends, first: ends.Offset(), length: ends.Len()}, 1, width.Bytes())
	if err != nil {
		return fmt.Errorf("run ends: %w", err)
	}
	first, last, err := s.ranges[at].findRuns(r, width.Bytes())
	if err != nil {
		return fmt.Errorf("run ends: %w", err)
	}
	p := &s.ranges[at]
	p.from, p.to = p.from+int64(first*width.Bytes()), p.from+int64(last*width.Bytes())
	if r.first != 0 {
		old, err := p.ints(width.Bytes())
		if err != nil {
			return fmt.Errorf("run ends: %w", err)
		}
		*p = rangeOfBytes(old.Subtract(int64(r.first)).Bytes, width.Bytes())
	}
	out.children = []slicedArray{{dtype: ends.DataType(), length: last - first, buffers: []int{noBuffer, at}}}
	return s.sliceChild(out, values, first, last-first, "run values")
}

// findRuns returns the range [first, last) of the runs that contain the elements. If
// the run ends are on a device and many, it reads only those that a binary search
// needs.
func (p bufferRange) findRuns(r elementRange, width int) (first, last int, err error) {
	if r.length == 0 {
		return 0, 0, nil
	}
	const few = 64 << 10
	n := int(p.to-p.from) / width
	end := func(i int) int64 {
		one, failed := p.read(int64(i*width), int64((i+1)*width))
		if failed != nil {
			err = failed
			return math.MaxInt64
		}
		return integers.Slice{Bytes: one, Width: width}.At(0)
	}
	if p.to-p.from <= few || OnHost(p.src) {
		all, err := p.ints(width)
		if err != nil {
			return 0, 0, err
		}
		end = all.At
	}
	first = sort.Search(n, func(i int) bool { return end(i) > int64(r.first) })
	last = first + sort.Search(n-first, func(i int) bool { return end(first+i) >= int64(r.first+r.length) }) + 1
	if err == nil && last > n {
		err = fmt.Errorf("%d runs do not reach element %d: %w", n, r.first+r.length, arrow.ErrInvalid)
	}
	return first, last, err
}
