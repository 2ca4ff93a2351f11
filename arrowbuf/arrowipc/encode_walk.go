package arrowipc

import (
	"fmt"
	"math"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf/internal/integers"
)

// A walker walks over arrays of any device, and collects the field nodes and the
// buffers of a message. It selects the same bytes as arrow-go's writer, so that both
// write equal files. Of a slice these are the shown elements, rebased, and bitmaps
// in multiples of 64 bytes.
type walker struct {
	nodes    []fieldNode
	variadic []int64
	buffers  []bodyBuffer
	depth    int
}

// elementRange is a range of the elements of an array. Nulls are counted only when
// needed.
type elementRange struct {
	data           arrow.ArrayData
	offset, length int
	nulls          int // negative if unknown
}

// allElements returns the range of all elements.
func allElements(data arrow.ArrayData) elementRange {
	return elementRange{data, data.Offset(), data.Len(), data.NullN()}
}

// slice returns elements [from, to) of the range.
func (r elementRange) slice(from, to int) (elementRange, error) {
	if from < 0 || to < from || to > r.length {
		return elementRange{}, fmt.Errorf("elements [%d, %d) of %d: %w", from, to, r.length, arrow.ErrInvalid)
	}
	nulls := -1
	if r.nulls == 0 {
		nulls = 0
	}
	return elementRange{r.data, r.offset + from, to - from, nulls}, nil
}

// buffer returns buffer i of the array, or nil.
func (r elementRange) buffer(i int) *memory.Buffer {
	if i >= len(r.data.Buffers()) {
		return nil
	}
	return r.data.Buffers()[i]
}

// children returns the child arrays, of which there must be n.
func (r elementRange) children(n int) ([]elementRange, error) {
	all := r.data.Children()
	if len(all) != n {
		return nil, fmt.Errorf("%d child arrays, want %d: %w", len(all), n, arrow.ErrInvalid)
	}
	views := make([]elementRange, n)
	for i, child := range all {
		if child == nil {
			return nil, fmt.Errorf("child array %d is nil: %w", i, arrow.ErrInvalid)
		}
		views[i] = allElements(child)
	}
	return views, nil
}

// walkArray collects an array. dtype may differ from the type of its data: it is the
// storage type of an extension array, and the index type of a dictionary array.
func (w *walker) walkArray(r elementRange, dtype arrow.DataType) error {
	if w.depth >= maxDepth {
		return fmt.Errorf("arrays are nested deeper than %d: %w", maxDepth, arrow.ErrInvalid)
	}
	emptyLists := emptyListOf(dtype)
	dtype = storageOf(dtype)
	if t, ok := dtype.(*arrow.DictionaryType); ok {
		dtype = t.IndexType
	}
	if err := w.walkValidity(&r, dtype); err != nil {
		return fmt.Errorf("validity bitmap: %w", err)
	}
	if emptyLists != nil {
		return w.walkEmptyLists(r, emptyLists)
	}
	return w.walkLayout(r, dtype)
}

// walkValidity adds the field node and the validity bitmap.
func (w *walker) walkValidity(r *elementRange, dtype arrow.DataType) error {
	hasBitmap := true
	switch dtype.ID() {
	case arrow.NULL:
		r.nulls, hasBitmap = r.length, false
	case arrow.SPARSE_UNION, arrow.DENSE_UNION, arrow.RUN_END_ENCODED:
		r.nulls, hasBitmap = max(r.nulls, 0), false
	default:
		if err := r.countNulls(); err != nil {
			return err
		}
	}
	w.nodes = append(w.nodes, fieldNode{int64(r.length), int64(r.nulls)})
	switch {
	case !hasBitmap:
	case r.nulls == 0:
		w.add(bodyBuffer{})
	case r.nulls == r.length:
		n := padTo64(bitutil.BytesForBits(int64(r.length)))
		w.add(newComputed(n, func() ([]byte, error) { return make([]byte, n), nil }))
	default:
		return w.addBitmap(*r, r.buffer(0))
	}
	return nil
}

// countNulls computes the null count if it is unknown.
func (r *elementRange) countNulls() error {
	b := r.buffer(0)
	switch {
	case r.nulls >= 0:
		return nil
	case b == nil || b.Len() == 0 || r.length == 0:
		r.nulls = 0
		return nil
	}
	from := r.offset / 8
	bits, err := bufferBytes(b, int64(from), bitutil.BytesForBits(int64(r.offset+r.length))-int64(from))
	if err != nil {
		return err
	}
	r.nulls = r.length - bitutil.CountSetBits(bits, r.offset%8, r.length)
	return nil
}

// walkLayout adds the buffers after the validity bitmap, and the children.
func (w *walker) walkLayout(r elementRange, dtype arrow.DataType) error {
	switch t := dtype.(type) {
	case *arrow.NullType:
		return nil
	case *arrow.BooleanType:
		if r.length == 0 {
			w.add(bodyBuffer{})
			return nil
		}
		return w.addBitmap(r, r.buffer(1))
	case *arrow.StringType, *arrow.BinaryType:
		return w.walkBinary(r, 4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return w.walkBinary(r, 8)
	case arrow.BinaryViewDataType:
		return w.walkViews(r)
	case *arrow.ListType, *arrow.MapType:
		return w.walkList(r, t.(arrow.NestedType), 4)
	case *arrow.LargeListType:
		return w.walkList(r, t, 8)
	case *arrow.ListViewType:
		return w.walkListViews(r, t, 4)
	case *arrow.LargeListViewType:
		return w.walkListViews(r, t, 8)
	case *arrow.FixedSizeListType:
		return w.walkFixedSizeList(r, t)
	case *arrow.StructType:
		return w.walkFields(r, t.Fields())
	case *arrow.SparseUnionType:
		if err := w.addPaddedValues(r, 1, 1); err != nil {
			return err
		}
		return w.walkFields(r, t.Fields())
	case *arrow.DenseUnionType:
		return w.walkDenseUnion(r, t)
	case *arrow.RunEndEncodedType:
		return w.walkRuns(r, t)
	case arrow.FixedWidthDataType:
		return w.addValues(r, 1, t.Bytes())
	default:
		return fmt.Errorf("unknown layout: %w", arrow.ErrNotImplemented)
	}
}

func (w *walker) add(p bodyBuffer) { w.buffers = append(w.buffers, p) }

// padTo64 rounds up to a multiple of 64.
func padTo64(n int64) int64 { return (n + 63) &^ 63 }

// addBitmap adds a bitmap: verbatim, or a copy padded with zeros if it begins within
// a byte or is longer than the elements need.
func (w *walker) addBitmap(r elementRange, b *memory.Buffer) error {
	if b == nil {
		return w.addAbsent(bitutil.BytesForBits(int64(r.offset + r.length)))
	}
	n := padTo64(bitutil.BytesForBits(int64(r.length)))
	from, to := int64(r.offset/8), bitutil.BytesForBits(int64(r.offset+r.length))
	if to > int64(b.Len()) {
		return fmt.Errorf("a bitmap of %d bytes, want at least %d: %w", b.Len(), to, arrow.ErrInvalid)
	}
	if r.offset == 0 && n >= int64(b.Len()) {
		return w.addRange(b, 0, int64(b.Len()))
	}
	w.add(newComputed(n, func() ([]byte, error) {
		bits, err := bufferBytes(b, from, to-from)
		if err != nil {
			return nil, err
		}
		shifted := make([]byte, n)
		bitutil.CopyBitmap(bits, r.offset%8, r.length, shifted, 0)
		return shifted, nil
	}))
	return nil
}

// addRange adds n bytes of a buffer.
func (w *walker) addRange(b *memory.Buffer, from, n int64) error {
	if b == nil {
		return w.addAbsent(n)
	}
	if from < 0 || n < 0 || from+n > int64(b.Len()) {
		return fmt.Errorf("bytes [%d, %d+%d) of a buffer of %d: %w", from, from, n, b.Len(), arrow.ErrInvalid)
	}
	w.add(bodyBuffer{src: b, from: from, length: n})
	return nil
}

// addAbsent adds an empty buffer in place of an absent one, of which the array needs
// this many bytes: anything but 0 is an error.
func (w *walker) addAbsent(need int64) error {
	if need > 0 {
		return fmt.Errorf("nil buffer, want at least %d bytes: %w", need, arrow.ErrInvalid)
	}
	w.add(bodyBuffer{})
	return nil
}

// shortBufferError returns an error about a buffer that is too short.
func shortBufferError(b *memory.Buffer, need int64) error {
	return fmt.Errorf("a buffer of %d bytes, want at least %d: %w", b.Len(), need, arrow.ErrInvalid)
}

// addValues adds buffer i, values of width bytes each, with the padding that it has.
func (w *walker) addValues(r elementRange, i, width int) error {
	b := r.buffer(i)
	if b == nil {
		return w.addAbsent(int64(r.length * width))
	}
	from, need := int64(r.offset*width), int64(r.length*width)
	if from+need > int64(b.Len()) {
		return shortBufferError(b, from+need)
	}
	if r.offset == 0 && padTo64(need) >= int64(b.Len()) {
		return w.addRange(b, 0, int64(b.Len()))
	}
	return w.addRange(b, from, min((need+7)&^7, int64(b.Len())-from))
}

// addPaddedValues adds buffer i, values of width bytes each, with the bytes after
// them up to a multiple of 64.
func (w *walker) addPaddedValues(r elementRange, i, width int) error {
	b := r.buffer(i)
	if b == nil {
		return w.addAbsent(int64(r.length * width))
	}
	from, need := int64(r.offset*width), padTo64(int64(r.length*width))
	if to := from + int64(r.length*width); to > int64(b.Len()) {
		return shortBufferError(b, to)
	}
	if r.offset == 0 && need >= int64(b.Len()) {
		return w.addRange(b, 0, int64(b.Len()))
	}
	return w.addRange(b, from, min(need, int64(b.Len())-from))
}

// walkBinary adds the offsets of strings and the bytes that they enclose.
func (w *walker) walkBinary(r elementRange, width int) error {
	first, last, err := w.addOffsets(r, width)
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	b := r.buffer(2)
	switch {
	case b == nil && last > first:
		return fmt.Errorf("nil buffer of values, but the offsets enclose %d bytes: %w", last-first, arrow.ErrInvalid)
	case b == nil:
		w.add(bodyBuffer{})
		return nil
	case r.length == 0:
		return w.addRange(b, 0, 0)
	}
	return w.addRange(b, first, last-first)
}

// addOffsets adds offsets, rebased to 0, and returns the range of values that they
// enclose.
func (w *walker) addOffsets(r elementRange, width int) (first, last int64, err error) {
	b := r.buffer(1)
	if r.length == 0 && (b == nil || b.Len() == 0) {
		w.add(bodyBuffer{})
		return 0, 0, nil
	}
	if b == nil {
		return 0, 0, w.addAbsent(int64((r.length + 1) * width))
	}
	from, n := int64(r.offset*width), int64((r.length+1)*width)
	if from+n > int64(b.Len()) {
		return 0, 0, fmt.Errorf("%d bytes, want at least %d: %w", b.Len(), from+n, arrow.ErrInvalid)
	}
	for i, at := range []int64{from, from + n - int64(width)} {
		end, err := bufferBytes(b, at, int64(width))
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
		return 0, 0, fmt.Errorf("from %d to %d, want nonnegative and increasing: %w", first, last, arrow.ErrInvalid)
	}
	switch {
	case first != 0:
		w.add(bodyBuffer{src: b, from: from, length: n, transform: subtract(width, first)})
	case r.offset != 0 || n < int64(b.Len()):
		return first, last, w.addRange(b, from, n)
	default:
		return first, last, w.addRange(b, 0, int64(b.Len()))
	}
	return first, last, nil
}

// subtract returns a transform that subtracts by from each integer.
func subtract(width int, by int64) func([]byte) {
	return func(b []byte) {
		r := integers.Slice{Bytes: b, Width: width}
		for i := range r.Len() {
			r.Put(i, r.At(i)-by)
		}
	}
}

// walkViews adds 16-byte views and all buffers that they may refer to.
func (w *walker) walkViews(r elementRange) error {
	if err := w.addValues(r, 1, arrow.ViewHeaderSizeBytes); err != nil {
		return err
	}
	buffers := r.data.Buffers()
	if len(buffers) < 2 {
		return fmt.Errorf("%d buffers, want at least 2: %w", len(buffers), arrow.ErrInvalid)
	}
	w.variadic = append(w.variadic, int64(len(buffers)-2))
	for i, b := range buffers[2:] {
		if b == nil {
			return fmt.Errorf("buffer %d is nil: %w", i+2, arrow.ErrInvalid)
		}
		if err := w.addRange(b, 0, int64(b.Len())); err != nil {
			return err
		}
	}
	return nil
}

// walkChild collects a child array.
func (w *walker) walkChild(r elementRange, field arrow.Field) error {
	w.depth++
	defer func() { w.depth-- }()
	if err := w.walkArray(r, field.Type); err != nil {
		return fmt.Errorf("field %q: %w", field.Name, err)
	}
	return nil
}

func (w *walker) walkList(r elementRange, t arrow.NestedType, width int) error {
	children, err := r.children(1)
	if err != nil {
		return err
	}
	first, last, err := w.addOffsets(r, width)
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	values := children[0]
	if r.length == 0 {
		first, last = 0, 0
	}
	if r.length != 0 || values.length > 0 {
		if values, err = values.slice(int(first), int(last)); err != nil {
			return err
		}
	}
	return w.walkChild(values, t.Fields()[0])
}

// walkListViews adds list views, whose values may be in any order. Those of a slice
// with an offset are rebased to the first value that they use.
func (w *walker) walkListViews(r elementRange, t arrow.NestedType, width int) error {
	children, err := r.children(1)
	if err != nil {
		return err
	}
	values := children[0]
	if r.length == 0 {
		w.add(bodyBuffer{})
		w.add(bodyBuffer{})
		if values, err = values.slice(0, 0); err != nil {
			return err
		}
		return w.walkChild(values, t.Fields()[0])
	}
	from, n := int64(r.offset*width), int64(r.length*width)
	if r.offset == 0 {
		for i := 1; i <= 2; i++ {
			if err := w.addRange(r.buffer(i), 0, n); err != nil {
				return err
			}
		}
		return w.walkChild(values, t.Fields()[0])
	}
	first, end, err := r.listViewValues(width)
	if err != nil {
		return err
	}
	w.add(bodyBuffer{src: r.buffer(1), from: from, length: n, transform: subtract(width, first)})
	if err := w.addRange(r.buffer(2), from, n); err != nil {
		return err
	}
	if values, err = values.slice(int(first), int(end)); err != nil {
		return err
	}
	return w.walkChild(values, t.Fields()[0])
}

// listViewValues returns the range of values that the list views of a slice use.
func (r elementRange) listViewValues(width int) (first, end int64, err error) {
	var both [2]integers.Slice
	for i := range both {
		b, err := bufferBytes(r.buffer(i+1), int64(r.offset*width), int64(r.length*width))
		if err != nil {
			return 0, 0, err
		}
		both[i] = integers.Slice{Bytes: b, Width: width}
	}
	first = math.MaxInt64
	for i := range r.length {
		at, n := both[0].At(i), both[1].At(i)
		first, end = min(first, at), max(end, at+n)
	}
	return first, end, nil
}

func (w *walker) walkFixedSizeList(r elementRange, t *arrow.FixedSizeListType) error {
	children, err := r.children(1)
	if err != nil {
		return err
	}
	n := int(t.Len())
	values, err := children[0].slice(r.offset*n, (r.offset+r.length)*n)
	if err != nil {
		return err
	}
	return w.walkChild(values, t.ElemField())
}

// walkFields collects the children of a struct or a sparse union.
func (w *walker) walkFields(r elementRange, fields []arrow.Field) error {
	children, err := r.children(len(fields))
	if err != nil {
		return err
	}
	for i, child := range children {
		if r.offset != 0 || child.length != r.length {
			if child, err = child.slice(r.offset, r.offset+r.length); err != nil {
				return fmt.Errorf("field %q: %w", fields[i].Name, err)
			}
		}
		if err := w.walkChild(child, fields[i]); err != nil {
			return err
		}
	}
	return nil
}

// walkDenseUnion adds type ids and offsets, and the range of each child that a slice
// uses.
func (w *walker) walkDenseUnion(r elementRange, t *arrow.DenseUnionType) error {
	children, err := r.children(len(t.Fields()))
	if err != nil {
		return err
	}
	if err := w.addPaddedValues(r, 1, 1); err != nil {
		return fmt.Errorf("type ids: %w", err)
	}
	if r.offset == 0 {
		if err := w.addPaddedValues(r, 2, 4); err != nil {
			return fmt.Errorf("offsets: %w", err)
		}
	} else if err := w.addUnionOffsets(r, t, children); err != nil {
		return err
	}
	for i, child := range children {
		if err := w.walkChild(child, t.Fields()[i]); err != nil {
			return err
		}
	}
	return nil
}

// addUnionOffsets adds the offsets of a slice, rebased to 0 for each child, and
// narrows the children. It relies on the offsets of a child being increasing, as the
// Arrow format requires and arrow-go does.
func (w *walker) addUnionOffsets(r elementRange, t *arrow.DenseUnionType, children []elementRange) error {
	ids, err := bufferBytes(r.buffer(1), int64(r.offset), int64(r.length))
	if err != nil {
		return fmt.Errorf("type ids: %w", err)
	}
	b, err := bufferBytes(r.buffer(2), int64(r.offset*4), int64(r.length*4))
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	at, rebased := integers.Slice{Bytes: b, Width: 4}, integers.Slice{Bytes: make([]byte, len(b)), Width: 4}
	starts, lengths := map[byte]int64{}, map[byte]int64{}
	for i, id := range ids {
		if _, seen := starts[id]; !seen {
			starts[id] = at.At(i)
		}
		rebased.Put(i, at.At(i)-starts[id])
		lengths[id] = max(lengths[id], rebased.At(i)+1)
	}
	w.add(newComputed(int64(len(b)), func() ([]byte, error) { return rebased.Bytes, nil }))
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

// walkRuns collects the runs that contain the elements. In a slice with an offset,
// the last run ends at the last element.
func (w *walker) walkRuns(r elementRange, t *arrow.RunEndEncodedType) error {
	children, err := r.children(2)
	if err != nil {
		return err
	}
	width := t.RunEnds().(arrow.FixedWidthDataType).Bytes()
	ends, values := children[0], children[1]
	first, last, err := r.physicalRuns(ends, width)
	if err != nil {
		return fmt.Errorf("run ends: %w", err)
	}
	if ends, err = ends.slice(first, last); err != nil {
		return fmt.Errorf("run ends: %w", err)
	}
	if values, err = values.slice(first, last); err != nil {
		return err
	}
	if err := w.walkChild(ends, t.Fields()[0]); err != nil {
		return err
	}
	if r.offset != 0 && last > first {
		p := &w.buffers[len(w.buffers)-1]
		p.length = int64((last - first) * width)
		p.transform = func(b []byte) {
			ends := integers.Slice{Bytes: b, Width: width}
			for i := range ends.Len() {
				ends.Put(i, min(ends.At(i)-int64(r.offset), int64(r.length)))
			}
		}
	}
	return w.walkChild(values, t.Fields()[1])
}

// physicalRuns returns the range of the runs that contain the elements. It searches
// the run ends, of which it reads only some.
func (r elementRange) physicalRuns(ends elementRange, width int) (first, last int, err error) {
	if r.length == 0 {
		return 0, 0, nil
	}
	end := func(i int) int64 {
		one, failed := bufferBytes(ends.buffer(1), int64((ends.offset+i)*width), int64(width))
		if failed != nil {
			err = failed
			return math.MaxInt64
		}
		return integers.Slice{Bytes: one, Width: width}.At(0)
	}
	first = sort.Search(ends.length, func(i int) bool { return end(i) > int64(r.offset) })
	last = first + sort.Search(ends.length-first, func(i int) bool { return end(first+i) > int64(r.offset+r.length-1) }) + 1
	if err == nil && last > ends.length {
		err = fmt.Errorf("%d runs do not reach element %d: %w", ends.length, r.offset+r.length, arrow.ErrInvalid)
	}
	return first, last, err
}
