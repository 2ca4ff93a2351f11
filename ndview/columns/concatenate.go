package columns

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Concatenate joins arrays of one type, one at least, in a new array on their
// device, which the caller releases. A single array with elements is shared.
//
// Dictionaries that differ are joined, each value once where it is a number, text
// or bytes: for that they are compared on the host. The result shares the buffers
// that views point into.
//
// Arrays of different types are arrow.ErrInvalid, on different devices
// arrowbuf.ErrDevice. A result whose text, bytes or lists are more than 32-bit
// offsets count, or whose dictionary is too large for its indices, is
// arrowbuf.ErrOutOfRange; [CastOffsets] and [CastIndices] make them wider.
func Concatenate(arrays ...arrow.Array) (arrow.Array, error) {
	if len(arrays) == 0 {
		return nil, errors.New("concatenating arrays: there is none")
	}
	if i := slices.Index(arrays, nil); i >= 0 {
		return nil, fmt.Errorf("concatenating arrays: array %d: %w", i, errAbsent)
	}
	w := &work{dev: deviceOfAll(arrays)}
	defer w.end()
	made, err := w.concatenate(arrays)
	if err != nil {
		return nil, fmt.Errorf("concatenating %d arrays of type %s: %w", len(arrays), arrays[0].DataType(), err)
	}
	return made, nil
}

// ConcatenateBatches is [Concatenate] for record batches of one schema, column by
// column. The result has the schema of the first.
func ConcatenateBatches(batches ...arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(batches) == 0 {
		return nil, errors.New("concatenating record batches: there is none")
	}
	if i := slices.Index(batches, nil); i >= 0 {
		return nil, fmt.Errorf("concatenating record batches: batch %d: %w", i, errAbsent)
	}
	schema, rows := batches[0].Schema(), int64(0)
	for i, b := range batches {
		if !b.Schema().Equal(schema) {
			return nil, fmt.Errorf("concatenating record batches: batch %d has the schema %s, not %s: %w", i, b.Schema(), schema, arrow.ErrInvalid)
		}
		rows += b.NumRows()
	}
	return eachColumn(batches[0], rows, func(i int) (arrow.Array, error) {
		parts := make([]arrow.Array, len(batches))
		for k, b := range batches {
			parts[k] = b.Column(i)
		}
		return Concatenate(parts...)
	})
}

func (w *work) concatenate(arrays []arrow.Array) (arrow.Array, error) {
	parts := make([]arrow.ArrayData, len(arrays))
	for i, arr := range arrays {
		if !arrow.TypeEqual(arr.DataType(), arrays[0].DataType()) {
			return nil, fmt.Errorf("array %d is of type %s: %w", i, arr.DataType(), arrow.ErrInvalid)
		}
		if dev := arrowbuf.DeviceOf(arr); dev != w.dev && hasBuffers(arr.Data()) {
			return nil, fmt.Errorf("array %d is on %s, another on %s: %w", i, dev, w.dev, arrowbuf.ErrDevice)
		}
		moved, err := w.bring(arr)
		if err != nil {
			return nil, fmt.Errorf("array %d: %w", i, err)
		}
		parts[i] = moved.Data()
	}
	data, err := w.join(parts)
	if err != nil {
		return nil, err
	}
	return finish(data)
}

// join makes one array of parts, one at least, of the type of the first.
func (w *work) join(parts []arrow.ArrayData) (arrow.ArrayData, error) {
	made, err := w.joinSome(withElements(parts))
	if err != nil {
		return nil, err
	}
	return w.typed(made, parts[0].DataType()), nil
}

// joinSome joins parts that have elements, unless there is one alone. A type is a case.
func (w *work) joinSome(parts []arrow.ArrayData) (arrow.ArrayData, error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	dtype, n := parts[0].DataType(), int64(0)
	for _, part := range parts {
		n += int64(part.Len())
	}
	switch t := storageOf(dtype).(type) {
	case *arrow.NullType:
		return w.data(dtype, n, nil), nil
	case *arrow.SparseUnionType:
		ids, err := w.joinFixed(parts, 1, 1)
		if err != nil {
			return nil, fmt.Errorf("type ids: %w", err)
		}
		fields, err := w.joinFields(parts, t.Fields())
		return w.data(dtype, n, []*memory.Buffer{nil, ids}, fields...), err
	case *arrow.DenseUnionType:
		return w.joinDenseUnions(parts, t, n)
	case *arrow.RunEndEncodedType:
		return w.joinRuns(parts, t, n)
	}
	valid, err := w.joinValidity(parts, n)
	if err != nil {
		return nil, fmt.Errorf("validity bitmap: %w", err)
	}
	switch t := storageOf(dtype).(type) {
	case *arrow.BooleanType:
		values, err := w.joinBits(parts, n, func(part arrow.ArrayData) (bits, error) { return w.bits(part, 1) })
		return w.data(dtype, n, []*memory.Buffer{valid, values}), err
	case *arrow.DictionaryType:
		return w.joinDictionaries(parts, t, n, valid)
	case *arrow.StringType, *arrow.BinaryType:
		return w.joinBinary(parts, n, valid, 4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return w.joinBinary(parts, n, valid, 8)
	case arrow.BinaryViewDataType:
		return w.joinViews(parts, n, valid)
	case *arrow.ListType, *arrow.MapType:
		return w.joinLists(parts, n, valid, 4)
	case *arrow.LargeListType:
		return w.joinLists(parts, n, valid, 8)
	case *arrow.ListViewType:
		return w.joinListViews(parts, n, valid, 4)
	case *arrow.LargeListViewType:
		return w.joinListViews(parts, n, valid, 8)
	case *arrow.FixedSizeListType:
		values, err := w.joinChildren(parts, 0, "list values", int64(t.Len()))
		if err != nil {
			return nil, err
		}
		return w.data(dtype, n, []*memory.Buffer{valid}, values), nil
	case *arrow.StructType:
		fields, err := w.joinFields(parts, t.Fields())
		return w.data(dtype, n, []*memory.Buffer{valid}, fields...), err
	case arrow.FixedWidthDataType:
		values, err := w.joinFixed(parts, 1, int64(t.Bytes()))
		return w.data(dtype, n, []*memory.Buffer{valid, values}), err
	default:
		return nil, fmt.Errorf("type %s: a layout that is not known: %w", dtype, arrow.ErrNotImplemented)
	}
}

// withElements leaves out parts without elements, but for the first if all are.
func withElements(parts []arrow.ArrayData) []arrow.ArrayData {
	var some []arrow.ArrayData
	for _, part := range parts {
		if part.Len() > 0 {
			some = append(some, part)
		}
	}
	if len(some) == 0 {
		return parts[:1]
	}
	return some
}

// typed is an array of a type that differs from its own in names and metadata at most.
func (w *work) typed(data arrow.ArrayData, dtype arrow.DataType) arrow.ArrayData {
	if own := data.DataType(); arrow.TypeEqual(own, dtype, arrow.CheckMetadata()) && own.String() == dtype.String() { // which has names of items
		return data
	}
	renamed := array.NewData(dtype, data.Len(), data.Buffers(), data.Children(), data.NullN(), data.Offset())
	if dictionary, ok := data.Dictionary().(*array.Data); ok && dictionary != nil {
		renamed.SetDictionary(dictionary)
	}
	w.hold(renamed)
	return renamed
}

// joinValidity is nil where no part has a bitmap.
func (w *work) joinValidity(parts []arrow.ArrayData, n int64) (*memory.Buffer, error) {
	for _, part := range parts {
		valid, err := w.validity(part)
		if err != nil {
			return nil, err
		}
		if valid.bytes != nil {
			return w.joinBits(parts, n, w.validity)
		}
	}
	return nil, nil
}

func (w *work) joinBits(parts []arrow.ArrayData, n int64, of func(arrow.ArrayData) (bits, error)) (*memory.Buffer, error) {
	all := make([]bits, len(parts))
	for i, part := range parts { // all are as long as they say before there is room made
		var err error
		if all[i], err = of(part); err != nil {
			return nil, err
		}
	}
	out, err := w.array(ndview.Zeros(w.dev, ndview.Uint32, (n+31)/32))
	if err != nil {
		return nil, err
	}
	at := int64(0)
	for i, part := range parts {
		from, size := all[i], int64(part.Len())
		words := (at%32 + size + 31) / 32
		if err := w.run(joinProgram, "quiver_copy_bits", words, perTile, from.bytes, from.first, size, written{out}, at); err != nil {
			return nil, err
		}
		at += size
	}
	return w.buffer(out, (n+7)/8)
}

// allHave tells that all parts have as many values in their first buffer, of width bytes
// each, as they say, before there is room made for them.
func (w *work) allHave(parts []arrow.ArrayData, width int64) error {
	for _, part := range parts {
		if _, err := w.fixed(part, 1, width); err != nil {
			return err
		}
	}
	return nil
}

// joinFixed joins the values of buffer i, of width bytes each.
func (w *work) joinFixed(parts []arrow.ArrayData, i int, width int64) (*memory.Buffer, error) {
	if width == 0 {
		return w.buffer(nil, 0)
	}
	values := make([]*ndview.NDBuffer, len(parts))
	for k, part := range parts {
		var err error
		if values[k], err = w.fixed(part, i, width); err != nil {
			return nil, err
		}
	}
	return w.joinValues(values)
}

func (w *work) joinValues(values []*ndview.NDBuffer) (*memory.Buffer, error) {
	all, err := w.array(ndview.Concatenate(values, 0))
	if err != nil {
		return nil, err
	}
	return w.buffer(all, all.NBytes())
}

// joinFields joins each field of structs or sparse unions.
func (w *work) joinFields(parts []arrow.ArrayData, fields []arrow.Field) ([]arrow.ArrayData, error) {
	joined := make([]arrow.ArrayData, len(fields))
	for i, f := range fields {
		var err error
		if joined[i], err = w.joinChildren(parts, i, fmt.Sprintf("field %q", f.Name), 1); err != nil {
			return nil, err
		}
	}
	return joined, nil
}

// joinChildren joins child i of the parts, which has each elements for an element.
func (w *work) joinChildren(parts []arrow.ArrayData, i int, what string, each int64) (arrow.ArrayData, error) {
	shown := make([]arrow.ArrayData, len(parts))
	for k, part := range parts {
		if i >= len(part.Children()) || part.Children()[i] == nil {
			return nil, fmt.Errorf("%s: there is no child %d: %w", what, i, arrow.ErrInvalid)
		}
		var err error
		if shown[k], err = w.sliced(part.Children()[i], int64(part.Offset())*each, int64(part.Len())*each, what); err != nil {
			return nil, err
		}
	}
	joined, err := w.join(shown)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return joined, nil
}
