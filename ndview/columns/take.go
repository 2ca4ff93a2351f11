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

// Take returns the elements of an array at indices, in their order: an array of
// the same type on the same device, which the caller releases. Indices are an
// array of any integer type, on the host ([Indices] makes one of a Go slice) or
// on the device of the array; where an index is null, so is the element.
//
// An index below 0 or beyond the last element is arrowbuf.ErrOutOfRange, and the
// error names the first such. So is a result whose text, bytes or lists are more
// than 32-bit offsets count; [CastOffsets] gives an array 64-bit ones. Offsets
// that do not fit the values are arrow.ErrInvalid.
//
// The result shares the buffers that views point into, the values of list views
// and dictionaries. What null elements hold is undefined.
func Take(arr, indices arrow.Array) (arrow.Array, error) {
	if arr == nil || indices == nil {
		return nil, fmt.Errorf("taking elements of an array: %w", errAbsent)
	}
	w := &work{dev: deviceOf(arr, indices)}
	defer w.end()
	made, err := w.takeAt(arr, indices)
	if err != nil {
		return nil, fmt.Errorf("taking elements of an array of type %s: %w", arr.DataType(), err)
	}
	return made, nil
}

// Indices looks at a Go slice as an array of indices, without a copy. It need
// not be released.
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

// TakeBatch is [Take] for the rows of a record batch: of each column the same. The
// indices are on the host or on the device of the columns, which is one; columns
// of the host beside others come to it.
func TakeBatch(batch arrow.RecordBatch, indices arrow.Array) (arrow.RecordBatch, error) {
	return selectRows(batch, indices, "taking rows", func(w *work) (selection, error) { return w.resolve(indices, batch.NumRows()) })
}

func (w *work) takeAt(arr, indices arrow.Array) (arrow.Array, error) {
	s, err := w.resolve(indices, int64(arr.Len()))
	if err != nil {
		return nil, err
	}
	return w.takeArray(arr, s)
}

func (w *work) takeArray(arr arrow.Array, s selection) (arrow.Array, error) {
	moved, err := w.bring(arr) // no buffer of it stays on the host
	if err != nil {
		return nil, err
	}
	data, err := w.take(moved.Data(), s)
	if err != nil {
		return nil, err
	}
	return finish(data)
}

// finish makes the array of a result. What arrow-go refuses to make, by a panic,
// is an error.
func finish(data arrow.ArrayData) (arr arrow.Array, err error) {
	defer func() {
		if refusal := recover(); refusal != nil {
			err = fmt.Errorf("%v: %w", refusal, arrow.ErrInvalid)
		}
	}()
	return arrowbuf.NewArray(data), nil
}

// take makes an array of a selection of another's elements. A type is a case.
func (w *work) take(data arrow.ArrayData, s selection) (*array.Data, error) {
	dtype := data.DataType()
	switch t := storageOf(dtype).(type) {
	case *arrow.NullType:
		return w.data(dtype, s.n, nil), nil
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
		values, err := w.bits(data, 1)
		if err != nil {
			return nil, err
		}
		taken, err := w.takeBits(values, s)
		return w.data(dtype, s.n, []*memory.Buffer{valid, taken}), err
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
		return w.data(dtype, s.n, []*memory.Buffer{valid}, fields...), err
	case arrow.FixedWidthDataType:
		values, err := w.takeFixed(data, 1, int64(t.Bytes()), s)
		return w.data(dtype, s.n, []*memory.Buffer{valid, values}), err
	default:
		return nil, fmt.Errorf("type %s: a layout that is not known: %w", dtype, arrow.ErrNotImplemented)
	}
}

// takeValidity is the bitmap of a result, or nil where no element can be null.
func (w *work) takeValidity(data arrow.ArrayData, s selection) (*memory.Buffer, error) {
	valid, err := w.validity(data)
	if err != nil || valid.bytes == nil && !s.nulls {
		return nil, err
	}
	return w.takeBits(valid, s)
}

// takeBits makes a bitmap of a selection of bits. Those of nulls are clear.
func (w *work) takeBits(from bits, s selection) (*memory.Buffer, error) {
	words := (s.n + 31) / 32
	out, err := w.empty(ndview.Uint32, words)
	if err != nil {
		return nil, err
	}
	err = w.run(indexProgram, "quiver_take_bits", words, bitWords, from.bytes, from.first, from.n, s.at, s.n, written{out})
	if err != nil {
		return nil, err
	}
	return w.buffer(out, (s.n+7)/8)
}

// takeFixed makes a buffer of a selection of values of width bytes each.
func (w *work) takeFixed(data arrow.ArrayData, i int, width int64, s selection) (*memory.Buffer, error) {
	if width == 0 || s.n == 0 {
		return w.buffer(nil, 0)
	}
	values, err := w.fixed(data, i, width)
	if err != nil {
		return nil, err
	}
	return w.takeValues(values, s)
}

// takeValues makes a buffer of a selection along the first axis of an array.
// Where the index is null it has any of them, or 0 if there is none.
func (w *work) takeValues(values *ndview.NDBuffer, s selection) (*memory.Buffer, error) {
	var taken *ndview.NDBuffer
	var err error
	if shape := values.Shape(); shape[0] > 0 {
		taken, err = w.array(ndview.Take(values, s.at, 0, w.mode(s.n)))
	} else {
		taken, err = w.array(ndview.Zeros(w.dev, values.DType(), append([]int64{s.n}, shape[1:]...)...))
	}
	if err != nil {
		return nil, err
	}
	return w.buffer(taken, taken.NBytes())
}

// mode is how ndview takes n elements, whose indices are good and negative for
// nulls. Few are clipped once more, which does not wait for a GPU as a check does.
func (w *work) mode(n int64) ndview.Mode {
	const few = 1 << 18
	if w.dev != arrowbuf.CPU() && n < few {
		return ndview.ModeClip
	}
	return ndview.ModeRaise
}

func (w *work) takeDictionary(data arrow.ArrayData, t *arrow.DictionaryType, s selection, valid *memory.Buffer) (*array.Data, error) {
	dictionary, err := dictionaryOf(data)
	if err != nil {
		return nil, err
	}
	indices, err := w.takeFixed(data, 1, int64(t.Bytes()), s)
	if err != nil {
		return nil, err
	}
	out := w.data(data.DataType(), s.n, []*memory.Buffer{valid, indices})
	out.SetDictionary(dictionary)
	return out, nil
}

// takeViews shares the buffers that the views point into.
func (w *work) takeViews(data arrow.ArrayData, s selection, valid *memory.Buffer) (*array.Data, error) {
	views, err := w.takeFixed(data, 1, int64(arrow.ViewHeaderSizeBytes), s)
	if err != nil {
		return nil, err
	}
	buffers := []*memory.Buffer{valid, views}
	return w.data(data.DataType(), s.n, append(buffers, data.Buffers()[2:]...)), nil
}

// takeFields takes of each field of a struct or a sparse union, whose elements
// lie as the array's own.
func (w *work) takeFields(data arrow.ArrayData, fields []arrow.Field, s selection) ([]arrow.ArrayData, error) {
	all, err := children(data, len(fields))
	if err != nil {
		return nil, err
	}
	taken := make([]arrow.ArrayData, len(all))
	for i, child := range all {
		field := fmt.Sprintf("field %q", fields[i].Name)
		if child, err = w.sliced(child, int64(data.Offset()), int64(data.Len()), field); err != nil {
			return nil, err
		}
		if taken[i], err = w.take(child, s); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
	}
	return taken, nil
}

// selection says which elements of an array make another, in order.
type selection struct {
	at    *ndview.NDBuffer // int64, of elements of the array, or -1 for null
	n     int64
	nulls bool // some may be null
}

// resolve makes a selection from an array of integers, which are indices of
// extent elements. Nulls stay nulls. A bad index is arrowbuf.ErrOutOfRange, and
// the error names the first.
func (w *work) resolve(indices arrow.Array, extent int64) (selection, error) {
	kind, ok := indexKinds[indices.DataType().ID()]
	if !ok {
		return selection{}, fmt.Errorf("indices of type %s: integers are expected: %w", indices.DataType(), arrow.ErrInvalid)
	}
	moved, err := w.bring(indices)
	if err != nil {
		return selection{}, fmt.Errorf("indices: %w", err)
	}
	s, bad, err := w.resolveAs(moved.Data(), kind, extent)
	if err != nil {
		return selection{}, fmt.Errorf("indices: %w", err)
	}
	if bad >= 0 {
		return selection{}, fmt.Errorf("index %s, number %d, is outside %d elements: %w",
			indices.ValueStr(int(bad)), bad, extent, arrowbuf.ErrOutOfRange)
	}
	return s, nil
}

// indexKinds are the integers that may be indices, as the kernels call them.
var indexKinds = map[arrow.Type]string{
	arrow.INT8: "i8", arrow.INT16: "i16", arrow.INT32: "i32", arrow.INT64: "i64",
	arrow.UINT8: "u8", arrow.UINT16: "u16", arrow.UINT32: "u32", arrow.UINT64: "u64",
}

// resolveAs resolves the integers of an array on the device, and returns the
// number of the first bad one, or -1.
func (w *work) resolveAs(data arrow.ArrayData, kind string, extent int64) (s selection, bad int64, err error) {
	s.n = int64(data.Len())
	indices, err := w.fixed(data, 1, kindBytes[kind])
	if err != nil {
		return s, 0, err
	}
	valid, err := w.validity(data)
	if err != nil {
		return s, 0, err
	}
	if s.at, err = w.empty(ndview.Int64, s.n); err != nil {
		return s, 0, err
	}
	f, err := w.flag()
	if err != nil {
		return s, 0, err
	}
	s.nulls = valid.bytes != nil
	err = w.run(indexProgram, "quiver_resolve_"+kind, s.n, perTile,
		indices, valid.bytes, valid.first, s.n, extent, written{s.at}, written{f})
	if err != nil {
		return s, 0, err
	}
	bad, err = w.first(f)
	return s, bad, err
}

var kindBytes = map[string]int64{"i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8}

// A flag is a word in which kernels note the first item that is bad.
const noFlag = math.MaxUint64

func (w *work) flag() (*ndview.NDBuffer, error) {
	return w.array(ndview.Full(w.dev, ndview.Uint64, uint64(noFlag), 1))
}

// first is what a flag noted, or -1.
func (w *work) first(flag *ndview.NDBuffer) (int64, error) {
	var raw [8]byte
	if err := flag.CopyToHost(raw[:]); err != nil {
		return 0, err
	}
	return int64(binary.NativeEndian.Uint64(raw[:])), nil // noFlag is -1
}

// spread is the selection of the values of elements that have so many each.
func (w *work) spread(s selection, each int64) (selection, error) {
	if each == 1 || s.n == 0 {
		return s, nil
	}
	out := selection{n: s.n * each, nulls: s.nulls}
	if each > 0 && s.n > math.MaxInt64/8/each {
		return out, fmt.Errorf("%d elements of %d values: %w", s.n, each, arrowbuf.ErrOutOfRange)
	}
	var err error
	if out.at, err = w.empty(ndview.Int64, out.n); err != nil {
		return out, err
	}
	return out, w.run(indexProgram, "quiver_spread", out.n, perTile, s.at, out.n, each, written{out.at})
}

func arrowBytes[T any](list []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(one)))
}
