package arrowipc

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
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
