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

// A walker walks over arrays, on a device or the host, and collects what a
// message says of them and which bytes its body has. It takes the same bytes as
// arrow-go's writer, so that both write the same file: of a slice what it shows,
// rebased, and of bitmaps that are cut whole lines of 64 bytes.
type walker struct {
	nodes    []fieldNode
	variadic []int64
	parts    []piece
	depth    int
}

// view is a range of an array, of which nothing is counted as long as nobody
// asks.
type view struct {
	data           arrow.ArrayData
	offset, length int
	nulls          int // less than 0 where they were not counted
}

func viewOf(data arrow.ArrayData) view {
	return view{data, data.Offset(), data.Len(), data.NullN()}
}

// slice is elements [from, to).
func (v view) slice(from, to int) (view, error) {
	if from < 0 || to < from || to > v.length {
		return view{}, fmt.Errorf("elements [%d, %d) of %d: %w", from, to, v.length, arrow.ErrInvalid)
	}
	nulls := -1
	if v.nulls == 0 {
		nulls = 0
	}
	return view{v.data, v.offset + from, to - from, nulls}, nil
}

// buffer is buffer i of the array, or nil.
func (v view) buffer(i int) *memory.Buffer {
	if i >= len(v.data.Buffers()) {
		return nil
	}
	return v.data.Buffers()[i]
}

func (v view) children(n int) ([]view, error) {
	all := v.data.Children()
	if len(all) != n {
		return nil, fmt.Errorf("%d child arrays, not %d: %w", len(all), n, arrow.ErrInvalid)
	}
	views := make([]view, n)
	for i, child := range all {
		if child == nil {
			return nil, fmt.Errorf("child array %d is absent: %w", i, arrow.ErrInvalid)
		}
		views[i] = viewOf(child)
	}
	return views, nil
}

// array takes an array of a type, which is not always that of its data: storage
// has the extension's, indices have the dictionary's.
func (w *walker) array(v view, dtype arrow.DataType) error {
	if w.depth >= maxDepth {
		return fmt.Errorf("nested deeper than %d: %w", maxDepth, arrow.ErrInvalid)
	}
	dtype = storageOf(dtype)
	if t, ok := dtype.(*arrow.DictionaryType); ok {
		dtype = t.IndexType
	}
	if err := w.validity(&v, dtype); err != nil {
		return fmt.Errorf("validity bitmap: %w", err)
	}
	return w.layout(v, dtype)
}

func (w *walker) validity(v *view, dtype arrow.DataType) error {
	hasBitmap := true
	switch dtype.ID() {
	case arrow.NULL:
		v.nulls, hasBitmap = v.length, false
	case arrow.SPARSE_UNION, arrow.DENSE_UNION, arrow.RUN_END_ENCODED:
		v.nulls, hasBitmap = max(v.nulls, 0), false
	default:
		if err := v.count(); err != nil {
			return err
		}
	}
	w.nodes = append(w.nodes, fieldNode{int64(v.length), int64(v.nulls)})
	switch {
	case !hasBitmap:
	case v.nulls == 0:
		w.add(piece{})
	case v.nulls == v.length:
		n := lines(bitutil.BytesForBits(int64(v.length)))
		w.add(computed(n, func() ([]byte, error) { return make([]byte, n), nil }))
	default:
		return w.bits(*v, v.buffer(0))
	}
	return nil
}

// count counts the nulls.
func (v *view) count() error {
	b := v.buffer(0)
	switch {
	case v.nulls >= 0:
		return nil
	case b == nil || b.Len() == 0 || v.length == 0:
		v.nulls = 0
		return nil
	}
	from := v.offset / 8
	bits, err := bytesOf(b, int64(from), bitutil.BytesForBits(int64(v.offset+v.length))-int64(from))
	if err != nil {
		return err
	}
	v.nulls = v.length - bitutil.CountSetBits(bits, v.offset%8, v.length)
	return nil
}

func (w *walker) layout(v view, dtype arrow.DataType) error {
	switch t := dtype.(type) {
	case *arrow.NullType:
		return nil
	case *arrow.BooleanType:
		if v.length == 0 {
			w.add(piece{})
			return nil
		}
		return w.bits(v, v.buffer(1))
	case *arrow.StringType, *arrow.BinaryType:
		return w.binary(v, 4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return w.binary(v, 8)
	case arrow.BinaryViewDataType:
		return w.views(v)
	case *arrow.ListType, *arrow.MapType:
		return w.list(v, t.(arrow.NestedType), 4)
	case *arrow.LargeListType:
		return w.list(v, t, 8)
	case *arrow.ListViewType:
		return w.listViews(v, t, 4)
	case *arrow.LargeListViewType:
		return w.listViews(v, t, 8)
	case *arrow.FixedSizeListType:
		return w.fixedSizeList(v, t)
	case *arrow.StructType:
		return w.fields(v, t.Fields())
	case *arrow.SparseUnionType:
		if err := w.lines(v, 1, 1); err != nil {
			return err
		}
		return w.fields(v, t.Fields())
	case *arrow.DenseUnionType:
		return w.denseUnion(v, t)
	case *arrow.RunEndEncodedType:
		return w.runs(v, t)
	case arrow.FixedWidthDataType:
		return w.fixed(v, 1, t.Bytes())
	default:
		return fmt.Errorf("a layout that is not known: %w", arrow.ErrNotImplemented)
	}
}

func (w *walker) add(p piece) { w.parts = append(w.parts, p) }

// lines rounds up to lines of 64 bytes.
func lines(n int64) int64 { return (n + 63) &^ 63 }

// bits takes a bitmap: as it is, or where it begins within a byte or has more
// bytes than the elements need, a copy that ends with zeros.
func (w *walker) bits(v view, b *memory.Buffer) error {
	if b == nil {
		return w.nothing(bitutil.BytesForBits(int64(v.offset + v.length)))
	}
	n := lines(bitutil.BytesForBits(int64(v.length)))
	from, to := int64(v.offset/8), bitutil.BytesForBits(int64(v.offset+v.length))
	if to > int64(b.Len()) {
		return fmt.Errorf("a bitmap of %d bytes, the array needs %d: %w", b.Len(), to, arrow.ErrInvalid)
	}
	if v.offset == 0 && n >= int64(b.Len()) {
		return w.raw(b, 0, int64(b.Len()))
	}
	w.add(computed(n, func() ([]byte, error) {
		bits, err := bytesOf(b, from, to-from)
		if err != nil {
			return nil, err
		}
		moved := make([]byte, n)
		bitutil.CopyBitmap(bits, v.offset%8, v.length, moved, 0)
		return moved, nil
	}))
	return nil
}

// raw takes bytes as they are.
func (w *walker) raw(b *memory.Buffer, from, n int64) error {
	if b == nil {
		return w.nothing(n)
	}
	if from < 0 || n < 0 || from+n > int64(b.Len()) {
		return fmt.Errorf("bytes [%d, %d+%d) of a buffer of %d: %w", from, from, n, b.Len(), arrow.ErrInvalid)
	}
	w.add(piece{src: b, from: from, length: n})
	return nil
}

// nothing takes a buffer that there is none of, of which so many bytes are needed.
func (w *walker) nothing(need int64) error {
	if need > 0 {
		return fmt.Errorf("no buffer, the array needs %d bytes: %w", need, arrow.ErrInvalid)
	}
	w.add(piece{})
	return nil
}

func shorter(b *memory.Buffer, need int64) error {
	return fmt.Errorf("a buffer of %d bytes, the array needs %d: %w", b.Len(), need, arrow.ErrInvalid)
}

// fixed takes values of a width, and padding where it is there.
func (w *walker) fixed(v view, i, width int) error {
	b := v.buffer(i)
	if b == nil {
		return w.nothing(int64(v.length * width))
	}
	from, need := int64(v.offset*width), int64(v.length*width)
	if from+need > int64(b.Len()) {
		return shorter(b, from+need)
	}
	if v.offset == 0 && lines(need) >= int64(b.Len()) {
		return w.raw(b, 0, int64(b.Len()))
	}
	return w.raw(b, from, min((need+7)&^7, int64(b.Len())-from))
}

// lines takes values of a width, with what follows them up to whole lines.
func (w *walker) lines(v view, i, width int) error {
	b := v.buffer(i)
	if b == nil {
		return w.nothing(int64(v.length * width))
	}
	from, need := int64(v.offset*width), lines(int64(v.length*width))
	if to := from + int64(v.length*width); to > int64(b.Len()) {
		return shorter(b, to)
	}
	if v.offset == 0 && need >= int64(b.Len()) {
		return w.raw(b, 0, int64(b.Len()))
	}
	return w.raw(b, from, min(need, int64(b.Len())-from))
}

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
