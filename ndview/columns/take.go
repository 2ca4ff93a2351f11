package columns

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Take returns the elements of arr at indices, in the order of the indices. The result
// has the same type and device as arr; the caller must release it. Indices have any
// integer type and are on the host ([Indices] wraps a Go slice) or on the device of
// arr. A null index gives a null element; the values under nulls are undefined.
//
// Take returns arrowbuf.ErrOutOfRange if an index is outside arr, and the error names
// the first such index. It also returns arrowbuf.ErrOutOfRange if the result needs
// wider offsets; see [CastOffsets]. Offsets that exceed the values return
// arrow.ErrInvalid.
//
// The result shares data buffers of views, values of list views, and dictionaries.
func Take(arr, indices arrow.Array) (arrow.Array, error) {
	if arr == nil || indices == nil {
		return nil, fmt.Errorf("columns.Take: %w", errNil)
	}
	w := &workspace{dev: deviceOf(arr, indices)}
	defer w.release()
	result, err := w.takeIndices(arr, indices)
	if err != nil {
		return nil, fmt.Errorf("columns.Take: array of type %s: %w", arr.DataType(), err)
	}
	return result, nil
}

// Indices wraps a Go slice as an array of indices without a copy. It need not be
// released.
func Indices[T int | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](list ...T) arrow.Array {
	var one T
	dtype := map[string]arrow.DataType{
		"int": arrow.PrimitiveTypes.Int64, "int8": arrow.PrimitiveTypes.Int8, "int16": arrow.PrimitiveTypes.Int16,
		"int32": arrow.PrimitiveTypes.Int32, "int64": arrow.PrimitiveTypes.Int64,
		"uint8": arrow.PrimitiveTypes.Uint8, "uint16": arrow.PrimitiveTypes.Uint16,
		"uint32": arrow.PrimitiveTypes.Uint32, "uint64": arrow.PrimitiveTypes.Uint64,
	}[fmt.Sprintf("%T", one)]
	data := array.NewData(dtype, len(list), []*memory.Buffer{nil, memory.NewBufferBytes(arrowBytes(list))}, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// TakeBatch is [Take] for the rows of a record batch. The indices are on the host or on
// the device of the columns. If some columns are on a device, columns on the host are
// copied to it.
func TakeBatch(batch arrow.RecordBatch, indices arrow.Array) (arrow.RecordBatch, error) {
	return selectRows(batch, indices, "columns.TakeBatch", func(w *workspace) (selection, error) { return w.resolveIndices(indices, batch.NumRows()) })
}

func (w *workspace) takeIndices(arr, indices arrow.Array) (arrow.Array, error) {
	s, err := w.resolveIndices(indices, int64(arr.Len()))
	if err != nil {
		return nil, err
	}
	return w.takeArray(arr, s)
}

func (w *workspace) takeArray(arr arrow.Array, s selection) (arrow.Array, error) {
	moved, err := w.copyToDevice(arr) // results have no buffers on the host
	if err != nil {
		return nil, err
	}
	data, err := w.takeData(moved.Data(), s)
	if err != nil {
		return nil, err
	}
	return newArray(data)
}

// newArray returns an array over data. A panic of arrow-go over malformed data becomes
// arrow.ErrInvalid.
func newArray(data arrow.ArrayData) (arr arrow.Array, err error) {
	defer func() {
		if failure := recover(); failure != nil {
			err = fmt.Errorf("%v: %w", failure, arrow.ErrInvalid)
		}
	}()
	return arrowbuf.NewArray(data), nil
}

// takeData returns the selected elements of an array.
func (w *workspace) takeData(data arrow.ArrayData, s selection) (*array.Data, error) {
	dtype := data.DataType()
	switch t := storageOf(dtype).(type) {
	case *arrow.NullType:
		return w.newData(dtype, s.n, nil), nil
	case *arrow.SparseUnionType:
		return w.takeSparseUnion(data, t, s)
	case *arrow.DenseUnionType:
		return w.takeDenseUnion(data, t, s)
	case *arrow.RunEndEncodedType:
		return w.takeRuns(data, t, s)
	}
	valid, err := w.takeValidity(data, s)
	if err != nil {
		return nil, fmt.Errorf("validity bitmap: %w", err)
	}
	switch t := storageOf(dtype).(type) {
	case *arrow.BooleanType:
		values, err := w.viewBits(data, 1)
		if err != nil {
			return nil, err
		}
		taken, err := w.takeBits(values, s)
		return w.newData(dtype, s.n, []*memory.Buffer{valid, taken}), err
	case *arrow.DictionaryType:
		return w.takeDictionary(data, t, s, valid)
	case *arrow.StringType, *arrow.BinaryType:
		return w.takeBinary(data, s, valid, 4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return w.takeBinary(data, s, valid, 8)
	case arrow.BinaryViewDataType:
		return w.takeViews(data, s, valid)
	case *arrow.ListType, *arrow.MapType:
		return w.takeLists(data, s, valid, 4)
	case *arrow.LargeListType:
		return w.takeLists(data, s, valid, 8)
	case *arrow.ListViewType:
		return w.takeListViews(data, s, valid, 4)
	case *arrow.LargeListViewType:
		return w.takeListViews(data, s, valid, 8)
	case *arrow.FixedSizeListType:
		return w.takeFixedSizeLists(data, t, s, valid)
	case *arrow.StructType:
		fields, err := w.takeFields(data, t.Fields(), s)
		return w.newData(dtype, s.n, []*memory.Buffer{valid}, fields...), err
	case arrow.FixedWidthDataType:
		values, err := w.takeFixed(data, 1, int64(t.Bytes()), s)
		return w.newData(dtype, s.n, []*memory.Buffer{valid, values}), err
	default:
		return nil, fmt.Errorf("unknown layout of type %s: %w", dtype, arrow.ErrNotImplemented)
	}
}

// takeValidity returns the validity bitmap of a result, or nil if no element can be
// null.
func (w *workspace) takeValidity(data arrow.ArrayData, s selection) (*memory.Buffer, error) {
	valid, err := w.viewValidity(data)
	if err != nil || valid.bytes == nil && !s.hasNulls {
		return nil, err
	}
	return w.takeBits(valid, s)
}

// takeBits returns a bitmap of the selected bits. Bits of null indices are clear.
func (w *workspace) takeBits(from bitmap, s selection) (*memory.Buffer, error) {
	words := (s.n + 31) / 32
	out, err := w.alloc(ndview.Uint32, words)
	if err != nil {
		return nil, err
	}
	err = w.launch(indexProgram, "quiver_take_bits", words, wordsPerBlock, from.bytes, from.first, from.n, s.indices, s.n, output{out})
	if err != nil {
		return nil, err
	}
	return w.toBuffer(out, (s.n+7)/8)
}

// takeFixed returns a buffer of the selected values, width bytes each.
func (w *workspace) takeFixed(data arrow.ArrayData, i int, width int64, s selection) (*memory.Buffer, error) {
	if width == 0 || s.n == 0 {
		return w.toBuffer(nil, 0)
	}
	values, err := w.viewFixed(data, i, width)
	if err != nil {
		return nil, err
	}
	return w.takeValues(values, s)
}

// takeValues returns a buffer of the selected entries along the first axis. Entries of
// null indices are undefined.
func (w *workspace) takeValues(values *ndview.NDBuffer, s selection) (*memory.Buffer, error) {
	var taken *ndview.NDBuffer
	var err error
	if shape := values.Shape(); shape[0] > 0 {
		taken, err = w.ownArray(ndview.Take(values, s.indices, 0, w.takeMode(s.n)))
	} else {
		taken, err = w.ownArray(ndview.Zeros(w.dev, values.DType(), append([]int64{s.n}, shape[1:]...)...))
	}
	if err != nil {
		return nil, err
	}
	return w.toBuffer(taken, taken.NBytes())
}

// takeMode returns the mode in which ndview takes n elements. The indices are
// validated, and -1 stands for null. For small n on a GPU, clipping avoids the wait
// that a bounds check needs.
func (w *workspace) takeMode(n int64) ndview.Mode {
	const maxClip = 1 << 18
	if w.dev != arrowbuf.CPU() && n < maxClip {
		return ndview.ModeClip
	}
	return ndview.ModeRaise
}

func (w *workspace) takeDictionary(data arrow.ArrayData, t *arrow.DictionaryType, s selection, valid *memory.Buffer) (*array.Data, error) {
	dictionary, err := dictionaryOf(data)
	if err != nil {
		return nil, err
	}
	indices, err := w.takeFixed(data, 1, int64(t.Bytes()), s)
	if err != nil {
		return nil, err
	}
	out := w.newData(data.DataType(), s.n, []*memory.Buffer{valid, indices})
	out.SetDictionary(dictionary)
	return out, nil
}

// takeViews shares the data buffers of the views.
func (w *workspace) takeViews(data arrow.ArrayData, s selection, valid *memory.Buffer) (*array.Data, error) {
	views, err := w.takeFixed(data, 1, int64(arrow.ViewHeaderSizeBytes), s)
	if err != nil {
		return nil, err
	}
	buffers := []*memory.Buffer{valid, views}
	return w.newData(data.DataType(), s.n, append(buffers, data.Buffers()[2:]...)), nil
}

// takeFields takes from each field of a struct or a sparse union, whose elements
// correspond to those of the array.
func (w *workspace) takeFields(data arrow.ArrayData, fields []arrow.Field, s selection) ([]arrow.ArrayData, error) {
	all, err := children(data, len(fields))
	if err != nil {
		return nil, err
	}
	taken := make([]arrow.ArrayData, len(all))
	for i, child := range all {
		field := fmt.Sprintf("field %q", fields[i].Name)
		if child, err = w.sliceData(child, int64(data.Offset()), int64(data.Len()), field); err != nil {
			return nil, err
		}
		if taken[i], err = w.takeData(child, s); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
	}
	return taken, nil
}

// selection is the elements of an array that make up another array, in order.
type selection struct {
	indices  *ndview.NDBuffer // int64: element indices, or -1 for null
	n        int64
	hasNulls bool // an index may be -1
}

// resolveIndices converts an array of integers into a selection among extent elements.
// Null indices select null. It returns arrowbuf.ErrOutOfRange for an index outside the
// elements, and the error names the first one.
func (w *workspace) resolveIndices(indices arrow.Array, extent int64) (selection, error) {
	kind, ok := indexKinds[indices.DataType().ID()]
	if !ok {
		return selection{}, fmt.Errorf("indices of type %s, want integers: %w", indices.DataType(), arrow.ErrInvalid)
	}
	moved, err := w.copyToDevice(indices)
	if err != nil {
		return selection{}, fmt.Errorf("indices: %w", err)
	}
	s, bad, err := w.resolveIndexData(moved.Data(), kind, extent)
	if err != nil {
		return selection{}, fmt.Errorf("indices: %w", err)
	}
	if bad >= 0 {
		return selection{}, fmt.Errorf("index %s at position %d is outside %d elements: %w",
			indices.ValueStr(int(bad)), bad, extent, arrowbuf.ErrOutOfRange)
	}
	return s, nil
}

// indexKinds are the index types, by their names in kernels.
var indexKinds = map[arrow.Type]string{
	arrow.INT8: "i8", arrow.INT16: "i16", arrow.INT32: "i32", arrow.INT64: "i64",
	arrow.UINT8: "u8", arrow.UINT16: "u16", arrow.UINT32: "u32", arrow.UINT64: "u64",
}

// resolveIndexData converts integers on the device into a selection. It returns the
// position of the first index that is out of range, or -1.
func (w *workspace) resolveIndexData(data arrow.ArrayData, kind string, extent int64) (s selection, bad int64, err error) {
	s.n = int64(data.Len())
	indices, err := w.viewFixed(data, 1, indexWidths[kind])
	if err != nil {
		return s, 0, err
	}
	valid, err := w.viewValidity(data)
	if err != nil {
		return s, 0, err
	}
	if s.indices, err = w.alloc(ndview.Int64, s.n); err != nil {
		return s, 0, err
	}
	f, err := w.newFlag()
	if err != nil {
		return s, 0, err
	}
	s.hasNulls = valid.bytes != nil
	err = w.launch(indexProgram, "quiver_resolve_"+kind, s.n, itemsPerBlock,
		indices, valid.bytes, valid.first, s.n, extent, output{s.indices}, output{f})
	if err != nil {
		return s, 0, err
	}
	bad, err = w.readFlag(f)
	return s, bad, err
}

var indexWidths = map[string]int64{"i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8}

// noFlag is the initial value of a flag: a word that kernels lower to the first item
// that is invalid.
const noFlag = math.MaxUint64

func (w *workspace) newFlag() (*ndview.NDBuffer, error) {
	return w.ownArray(ndview.Full(w.dev, ndview.Uint64, uint64(noFlag), 1))
}

// readFlag returns the item that a flag holds, or -1.
func (w *workspace) readFlag(flag *ndview.NDBuffer) (int64, error) {
	var raw [8]byte
	if err := flag.CopyToHost(raw[:]); err != nil {
		return 0, err
	}
	return int64(binary.NativeEndian.Uint64(raw[:])), nil // noFlag becomes -1
}

// expandFixedSize converts a selection of fixed-size lists into that of their values,
// `each` per list.
func (w *workspace) expandFixedSize(s selection, each int64) (selection, error) {
	if each == 1 || s.n == 0 {
		return s, nil
	}
	out := selection{n: s.n * each, hasNulls: s.hasNulls}
	if each > 0 && s.n > math.MaxInt64/8/each {
		return out, fmt.Errorf("%d elements of %d values: %w", s.n, each, arrowbuf.ErrOutOfRange)
	}
	var err error
	if out.indices, err = w.alloc(ndview.Int64, out.n); err != nil {
		return out, err
	}
	return out, w.launch(indexProgram, "quiver_expand_fixed", out.n, itemsPerBlock, s.indices, out.n, each, output{out.indices})
}

func arrowBytes[T any](list []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(one)))
}
