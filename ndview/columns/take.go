package columns

import (
	"fmt"

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
