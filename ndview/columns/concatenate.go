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

// Concatenate joins one or more arrays of one type into a new array on their device.
// The caller must release the result. If only one array has elements, the result shares
// its buffers. Views share the buffers that they point into.
//
// Different dictionaries are merged. Each number, string or byte string occurs once in
// the merged dictionary; the comparison runs on the host.
//
// Concatenate returns arrow.ErrInvalid if types differ or an array is nil, and
// arrowbuf.ErrDevice if devices differ. It returns arrowbuf.ErrOutOfRange if the result
// needs wider offsets or dictionary indices; see [CastOffsets] and [CastIndices].
func Concatenate(arrays ...arrow.Array) (arrow.Array, error) {
	if len(arrays) == 0 {
		return nil, errors.New("columns.Concatenate: no arrays")
	}
	if i := slices.Index(arrays, nil); i >= 0 {
		return nil, fmt.Errorf("columns.Concatenate: array %d: %w", i, errNil)
	}
	w := &workspace{dev: deviceOfAll(arrays)}
	defer w.release()
	result, err := w.concatenate(arrays)
	if err != nil {
		return nil, fmt.Errorf("columns.Concatenate: %d arrays of type %s: %w", len(arrays), arrays[0].DataType(), err)
	}
	return result, nil
}

// ConcatenateBatches is [Concatenate] for each column of record batches. The batches
// must have equal schemas; the result has the schema of the first.
func ConcatenateBatches(batches ...arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(batches) == 0 {
		return nil, errors.New("columns.ConcatenateBatches: no batches")
	}
	if i := slices.Index(batches, nil); i >= 0 {
		return nil, fmt.Errorf("columns.ConcatenateBatches: batch %d: %w", i, errNil)
	}
	schema, rows := batches[0].Schema(), int64(0)
	for i, b := range batches {
		if !b.Schema().Equal(schema) {
			return nil, fmt.Errorf("columns.ConcatenateBatches: batch %d has schema %s, want %s: %w", i, b.Schema(), schema, arrow.ErrInvalid)
		}
		rows += b.NumRows()
	}
	return mapColumns(batches[0], rows, func(i int) (arrow.Array, error) {
		parts := make([]arrow.Array, len(batches))
		for k, b := range batches {
			parts[k] = b.Column(i)
		}
		return Concatenate(parts...)
	})
}

func (w *workspace) concatenate(arrays []arrow.Array) (arrow.Array, error) {
	parts := make([]arrow.ArrayData, len(arrays))
	for i, arr := range arrays {
		if !arrow.TypeEqual(arr.DataType(), arrays[0].DataType()) {
			return nil, fmt.Errorf("array %d is of type %s, want %s: %w", i, arr.DataType(), arrays[0].DataType(), arrow.ErrInvalid)
		}
		if dev := arrowbuf.DeviceOf(arr); dev != w.dev && hasBuffers(arr.Data()) {
			return nil, fmt.Errorf("array %d is on %s, want %s: %w", i, dev, w.dev, arrowbuf.ErrDevice)
		}
		moved, err := w.copyToDevice(arr)
		if err != nil {
			return nil, fmt.Errorf("array %d: %w", i, err)
		}
		parts[i] = moved.Data()
	}
	data, err := w.concatData(parts)
	if err != nil {
		return nil, err
	}
	return newArray(data)
}

// concatData joins one or more parts. The result has exactly the type of the first
// part.
func (w *workspace) concatData(parts []arrow.ArrayData) (arrow.ArrayData, error) {
	result, err := w.concatNonEmpty(nonEmpty(parts))
	if err != nil {
		return nil, err
	}
	return w.withType(result, parts[0].DataType()), nil
}

// concatNonEmpty joins parts that all have elements. A single part is returned as is.
func (w *workspace) concatNonEmpty(parts []arrow.ArrayData) (arrow.ArrayData, error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	dtype, n := parts[0].DataType(), int64(0)
	for _, part := range parts {
		n += int64(part.Len())
	}
	switch t := storageOf(dtype).(type) {
	case *arrow.NullType:
		return w.newData(dtype, n, nil), nil
	case *arrow.SparseUnionType:
		ids, err := w.concatFixed(parts, 1, 1)
		if err != nil {
			return nil, fmt.Errorf("type ids: %w", err)
		}
		fields, err := w.concatFields(parts, t.Fields())
		return w.newData(dtype, n, []*memory.Buffer{nil, ids}, fields...), err
	case *arrow.DenseUnionType:
		return w.concatDenseUnions(parts, t, n)
	case *arrow.RunEndEncodedType:
		return w.concatRuns(parts, t, n)
	}
	valid, err := w.concatValidity(parts, n)
	if err != nil {
		return nil, fmt.Errorf("validity bitmap: %w", err)
	}
	switch t := storageOf(dtype).(type) {
	case *arrow.BooleanType:
		values, err := w.concatBits(parts, n, func(part arrow.ArrayData) (bitmap, error) { return w.viewBits(part, 1) })
		return w.newData(dtype, n, []*memory.Buffer{valid, values}), err
	case *arrow.DictionaryType:
		return w.concatDictionaries(parts, t, n, valid)
	case *arrow.StringType, *arrow.BinaryType:
		return w.concatBinary(parts, n, valid, 4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return w.concatBinary(parts, n, valid, 8)
	case arrow.BinaryViewDataType:
		return w.concatViews(parts, n, valid)
	case *arrow.ListType, *arrow.MapType:
		return w.concatLists(parts, n, valid, 4)
	case *arrow.LargeListType:
		return w.concatLists(parts, n, valid, 8)
	case *arrow.ListViewType:
		return w.concatListViews(parts, n, valid, 4)
	case *arrow.LargeListViewType:
		return w.concatListViews(parts, n, valid, 8)
	case *arrow.FixedSizeListType:
		values, err := w.concatChildren(parts, 0, "list values", int64(t.Len()))
		if err != nil {
			return nil, err
		}
		return w.newData(dtype, n, []*memory.Buffer{valid}, values), nil
	case *arrow.StructType:
		fields, err := w.concatFields(parts, t.Fields())
		return w.newData(dtype, n, []*memory.Buffer{valid}, fields...), err
	case arrow.FixedWidthDataType:
		values, err := w.concatFixed(parts, 1, int64(t.Bytes()))
		return w.newData(dtype, n, []*memory.Buffer{valid, values}), err
	default:
		return nil, fmt.Errorf("unknown layout of type %s: %w", dtype, arrow.ErrNotImplemented)
	}
}

// nonEmpty drops parts without elements. If all are empty, it keeps the first.
func nonEmpty(parts []arrow.ArrayData) []arrow.ArrayData {
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

// withType gives data a type that differs at most in field names and metadata.
func (w *workspace) withType(data arrow.ArrayData, dtype arrow.DataType) arrow.ArrayData {
	if own := data.DataType(); arrow.TypeEqual(own, dtype, arrow.CheckMetadata()) && own.String() == dtype.String() { // the string includes names of list items
		return data
	}
	renamed := array.NewData(dtype, data.Len(), data.Buffers(), data.Children(), data.NullN(), data.Offset())
	if dictionary, ok := data.Dictionary().(*array.Data); ok && dictionary != nil {
		renamed.SetDictionary(dictionary)
	}
	w.own(renamed)
	return renamed
}

// concatValidity returns nil if no part has a validity bitmap.
func (w *workspace) concatValidity(parts []arrow.ArrayData, n int64) (*memory.Buffer, error) {
	for _, part := range parts {
		valid, err := w.viewValidity(part)
		if err != nil {
			return nil, err
		}
		if valid.bytes != nil {
			return w.concatBits(parts, n, w.viewValidity)
		}
	}
	return nil, nil
}

// concatBits joins the bitmap that of returns for each part. It validates all lengths
// before it allocates.
func (w *workspace) concatBits(parts []arrow.ArrayData, n int64, of func(arrow.ArrayData) (bitmap, error)) (*memory.Buffer, error) {
	all := make([]bitmap, len(parts))
	for i, part := range parts {
		var err error
		if all[i], err = of(part); err != nil {
			return nil, err
		}
	}
	out, err := w.ownArray(ndview.Zeros(w.dev, ndview.Uint32, (n+31)/32))
	if err != nil {
		return nil, err
	}
	at := int64(0)
	for i, part := range parts {
		from, size := all[i], int64(part.Len())
		words := (at%32 + size + 31) / 32
		if err := w.launch(joinProgram, "quiver_copy_bits", words, itemsPerBlock, from.bytes, from.first, size, output{out}, at); err != nil {
			return nil, err
		}
		at += size
	}
	return w.toBuffer(out, (n+7)/8)
}

// checkLengths returns an error unless buffer 1 of every part holds a value of width
// bytes per element. Callers allocate the result afterwards.
func (w *workspace) checkLengths(parts []arrow.ArrayData, width int64) error {
	for _, part := range parts {
		if _, err := w.viewFixed(part, 1, width); err != nil {
			return err
		}
	}
	return nil
}

// concatFixed joins buffer i of the parts, whose values have width bytes.
func (w *workspace) concatFixed(parts []arrow.ArrayData, i int, width int64) (*memory.Buffer, error) {
	if width == 0 {
		return w.toBuffer(nil, 0)
	}
	values := make([]*ndview.NDBuffer, len(parts))
	for k, part := range parts {
		var err error
		if values[k], err = w.viewFixed(part, i, width); err != nil {
			return nil, err
		}
	}
	return w.concatValues(values)
}

func (w *workspace) concatValues(values []*ndview.NDBuffer) (*memory.Buffer, error) {
	all, err := w.ownArray(ndview.Concatenate(values, 0))
	if err != nil {
		return nil, err
	}
	return w.toBuffer(all, all.NBytes())
}

// concatFields joins each field of structs or sparse unions.
func (w *workspace) concatFields(parts []arrow.ArrayData, fields []arrow.Field) ([]arrow.ArrayData, error) {
	joined := make([]arrow.ArrayData, len(fields))
	for i, f := range fields {
		var err error
		if joined[i], err = w.concatChildren(parts, i, fmt.Sprintf("field %q", f.Name), 1); err != nil {
			return nil, err
		}
	}
	return joined, nil
}

// concatChildren joins child i of the parts. An element of a part has `each` elements
// of the child.
func (w *workspace) concatChildren(parts []arrow.ArrayData, i int, what string, each int64) (arrow.ArrayData, error) {
	visible := make([]arrow.ArrayData, len(parts))
	for k, part := range parts {
		if i >= len(part.Children()) || part.Children()[i] == nil {
			return nil, fmt.Errorf("%s: child %d is missing: %w", what, i, arrow.ErrInvalid)
		}
		var err error
		if visible[k], err = w.sliceData(part.Children()[i], int64(part.Offset())*each, int64(part.Len())*each, what); err != nil {
			return nil, err
		}
	}
	joined, err := w.concatData(visible)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return joined, nil
}
