package columns

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// CastIndices returns a dictionary array whose indices have another integer type. The
// result is on the same device and shares the dictionary; the caller must release it.
//
// CastIndices returns arrowbuf.ErrOutOfRange if the new type cannot index the
// dictionary, and arrow.ErrInvalid if it is not an integer type. An index outside the
// dictionary returns arrow.ErrInvalid, and the error names the first one. Arrays
// without a dictionary return arrow.ErrNotImplemented.
func CastIndices(arr arrow.Array, to arrow.DataType) (arrow.Array, error) {
	if arr == nil || to == nil {
		return nil, fmt.Errorf("columns.CastIndices: %w", errNil)
	}
	w := &workspace{dev: arrowbuf.DeviceOf(arr)}
	defer w.release()
	result, err := w.castIndices(arr, to)
	if err != nil {
		return nil, fmt.Errorf("columns.CastIndices: array of type %s to %s: %w", arr.DataType(), to, err)
	}
	return result, nil
}

func (w *workspace) castIndices(arr arrow.Array, to arrow.DataType) (arrow.Array, error) {
	t, ok := arr.DataType().(*arrow.DictionaryType)
	if !ok {
		return nil, fmt.Errorf("not a dictionary type: %w", arrow.ErrNotImplemented)
	}
	if _, ok := indexKinds[to.ID()]; !ok {
		return nil, fmt.Errorf("not an integer type: %w", arrow.ErrInvalid)
	}
	moved, err := w.copyToDevice(arr)
	if err != nil {
		return nil, err
	}
	data := moved.Data()
	dictionary, err := dictionaryOf(data)
	if err != nil {
		return nil, err
	}
	if last := uint64(dictionary.Len() - 1); dictionary.Len() > 0 && last > maxIndex(to) {
		return nil, fmt.Errorf("dictionary of %d values: %w", dictionary.Len(), arrowbuf.ErrOutOfRange)
	}
	indices, err := w.viewFixed(data, 1, int64(t.Bytes()))
	if err != nil {
		return nil, err
	}
	if err := w.checkIndices(data, indices, t, int64(dictionary.Len())); err != nil {
		return nil, err
	}
	width := int64(to.(arrow.FixedWidthDataType).Bytes())
	cast, err := w.ownArray(indices.AsType(dtypeOf(width), ndview.OrderC, ndview.CastUnsafe)) // only indices of nulls can be negative
	if err != nil {
		return nil, err
	}
	b, err := w.toBuffer(cast, cast.NBytes())
	if err != nil {
		return nil, err
	}
	valid, err := w.concatValidity([]arrow.ArrayData{data}, int64(data.Len()))
	if err != nil {
		return nil, err
	}
	out := w.newData(&arrow.DictionaryType{IndexType: to, ValueType: t.ValueType, Ordered: t.Ordered}, int64(data.Len()), []*memory.Buffer{valid, b})
	out.SetDictionary(dictionary)
	return newArray(out)
}

// CastOffsets returns an array of strings, byte strings, lists or list views whose
// offsets have the width that type to has. Examples are utf8 to large_utf8 or back, and
// list to large_list. The result is on the same device and shares the values; the
// caller must release it.
//
// CastOffsets returns arrowbuf.ErrOutOfRange if 32-bit offsets cannot count the values,
// and arrow.ErrInvalid if offsets exceed the values. It returns arrow.ErrNotImplemented
// if the types differ in anything but the width of offsets.
func CastOffsets(arr arrow.Array, to arrow.DataType) (arrow.Array, error) {
	if arr == nil || to == nil {
		return nil, fmt.Errorf("columns.CastOffsets: %w", errNil)
	}
	w := &workspace{dev: arrowbuf.DeviceOf(arr)}
	defer w.release()
	result, err := w.castOffsets(arr, to)
	if err != nil {
		return nil, fmt.Errorf("columns.CastOffsets: array of type %s to %s: %w", arr.DataType(), to, err)
	}
	return result, nil
}

func (w *workspace) castOffsets(arr arrow.Array, to arrow.DataType) (arrow.Array, error) {
	kind, width := offsetLayout(arr.DataType())
	wanted, toWidth := offsetLayout(to)
	if width == 0 || kind != wanted {
		return nil, fmt.Errorf("types differ in more than the width of offsets: %w", arrow.ErrNotImplemented)
	}
	moved, err := w.copyToDevice(arr)
	if err != nil {
		return nil, err
	}
	data, n := moved.Data(), int64(arr.Len())
	valid, err := w.concatValidity([]arrow.ArrayData{data}, n)
	if err != nil {
		return nil, fmt.Errorf("validity bitmap: %w", err)
	}
	switch to.(type) {
	case *arrow.ListViewType, *arrow.LargeListViewType:
		return w.castListViews(data, to, valid, width, toWidth)
	}
	limit := byteCount
	if len(data.Children()) > 0 || arrow.IsListLike(to.ID()) {
		if _, err := children(data, 1); err != nil {
			return nil, err
		}
		limit = func(data arrow.ArrayData) int64 { return int64(data.Children()[0].Len()) }
	}
	var all []bounds
	if n > 0 {
		if all, err = w.readBounds([]arrow.ArrayData{data}, width, limit); err != nil {
			return nil, err
		}
	} else if all, err = w.emptyBounds(width); err != nil {
		return nil, err
	}
	if n > 0 {
		err := w.checkWithin([]*ndview.NDBuffer{all[0].offsets}, all[0].from, all[0].to, func() (gatherPlan, error) {
			r, err := w.rangesOfOffsets(data, width, limit(data))
			if err != nil {
				return gatherPlan{}, err
			}
			return w.planGather(r, bitmap{}, nil, 8)
		})
		if err != nil {
			return nil, err
		}
	}
	offsets, err := w.concatOffsets(all, n, width, toWidth)
	if err != nil {
		return nil, err
	}
	from, size := all[0].from, all[0].to-all[0].from
	buffers := []*memory.Buffer{valid, offsets}
	if len(data.Children()) == 1 {
		values, err := w.sliceData(data.Children()[0], from, size, "list values")
		if err != nil {
			return nil, err
		}
		return newArray(w.newData(to, n, buffers, values))
	}
	values, err := w.toBuffer(nil, 0)
	if b := bufferOf(data, 2); b != nil && size > 0 {
		b.Retain()
		values = w.sliceBuffer(b, from, size)
	}
	if err != nil {
		return nil, err
	}
	return newArray(w.newData(to, n, append(buffers, values)))
}

func (w *workspace) castListViews(data arrow.ArrayData, to arrow.DataType, valid *memory.Buffer, width, toWidth int64) (arrow.Array, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	if toWidth == 4 && all[0].Len() > math.MaxInt32 {
		return nil, fmt.Errorf("%d values need 64-bit offsets: %w", all[0].Len(), arrowbuf.ErrOutOfRange)
	}
	n := int64(data.Len())
	values := int64(all[0].Len())
	r, err := w.rangesOfViews(data, width, values)
	if err != nil {
		return nil, err
	}
	known, err := w.viewValidity(data)
	if err != nil {
		return nil, err
	}
	if _, err := w.planGather(r, known, nil, 8); err != nil { // start and size may each fit while their sum does not
		return nil, err
	}
	buffers := []*memory.Buffer{valid, nil, nil}
	for i, from := range []*ndview.NDBuffer{r.starts, r.sizes} {
		out, err := w.alloc(dtypeOf(toWidth), n)
		if err != nil {
			return nil, err
		}
		if err := w.rebaseOffsets(from, width, 0, out, 0, toWidth); err != nil {
			return nil, err
		}
		if buffers[1+i], err = w.toBuffer(out, n*toWidth); err != nil {
			return nil, err
		}
	}
	return newArray(w.newData(to, n, buffers, all[0]))
}

// emptyBounds returns the bounds of an empty array, which may lack offsets.
func (w *workspace) emptyBounds(width int64) ([]bounds, error) {
	zero, err := w.ownArray(ndview.Zeros(w.dev, dtypeOf(width), 1))
	return []bounds{{offsets: zero}}, err
}

// offsetLayout returns a type's kind, which ignores the width of offsets, and that
// width in bytes. It returns 0 for types without offsets.
func offsetLayout(dtype arrow.DataType) (kind string, width int64) {
	switch t := dtype.(type) {
	case *arrow.StringType:
		return "text", 4
	case *arrow.LargeStringType:
		return "text", 8
	case *arrow.BinaryType:
		return "binaries", 4
	case *arrow.LargeBinaryType:
		return "binaries", 8
	case *arrow.ListType:
		return "lists of " + t.ElemField().String(), 4
	case *arrow.LargeListType:
		return "lists of " + t.ElemField().String(), 8
	case *arrow.ListViewType:
		return "views of " + t.ElemField().String(), 4
	case *arrow.LargeListViewType:
		return "views of " + t.ElemField().String(), 8
	default:
		return "", 0
	}
}

// Indices and offsets are foreign integers. Before they are narrowed, one pass finds
// their extremes. Only if those do not fit does a second pass look for the element:
// values under nulls may be anything.

// reduceUnsigned returns the Min or Max of a non-empty array of unsigned integers.
func (w *workspace) reduceUnsigned(r ndview.Reduction, a *ndview.NDBuffer) (uint64, error) {
	one, err := w.ownArray(r.Of(a, ndview.ReduceOptions{}))
	if err != nil {
		return 0, err
	}
	return w.readUnsigned(one)
}

// readUnsigned returns the value of an array of one unsigned integer.
func (w *workspace) readUnsigned(one *ndview.NDBuffer) (uint64, error) {
	raw := make([]byte, one.NBytes(), 8)
	if err := one.CopyToHost(raw); err != nil {
		return 0, err
	}
	switch len(raw) {
	case 1:
		return uint64(raw[0]), nil
	case 2:
		return uint64(binary.NativeEndian.Uint16(raw)), nil
	case 4:
		return uint64(binary.NativeEndian.Uint32(raw)), nil
	default:
		return binary.NativeEndian.Uint64(raw), nil
	}
}

// checkIndices returns an error if the index of a valid element is outside the
// dictionary.
func (w *workspace) checkIndices(data arrow.ArrayData, indices *ndview.NDBuffer, t *arrow.DictionaryType, values int64) error {
	if indices.Size() == 0 {
		return nil
	}
	greatest, err := w.reduceUnsigned(ndview.Max, indices)
	if err != nil || greatest < uint64(values) {
		return err
	}
	kind := indexKinds[t.IndexType.ID()]
	_, bad, err := w.resolveIndexData(data, kind, values)
	if err != nil || bad < 0 {
		return err
	}
	one, err := w.ownArray(indices.Slice(0, bad, bad+1))
	if err != nil {
		return err
	}
	index, err := w.readUnsigned(one)
	if err != nil {
		return err
	}
	shown := fmt.Sprint(index)
	if kind[0] == 'i' {
		unused := 64 - 8*t.Bytes()
		shown = fmt.Sprint(int64(index<<unused) >> unused)
	}
	return fmt.Errorf("index %s of element %d is outside a dictionary of %d values: %w", shown, bad, values, arrow.ErrInvalid)
}

// checkWithin calls locate if an integer is outside [least, most]. locate returns an
// error if the integer belongs to a valid element.
func (w *workspace) checkWithin(all []*ndview.NDBuffer, least, most int64, locate func() (gatherPlan, error)) error {
	for _, a := range all {
		if a.Size() == 0 {
			continue
		}
		greatest, err := w.reduceUnsigned(ndview.Max, a)
		if err != nil {
			return err
		}
		smallest := uint64(least)
		if least > 0 {
			if smallest, err = w.reduceUnsigned(ndview.Min, a); err != nil {
				return err
			}
		}
		if greatest > uint64(most) || smallest < uint64(least) {
			_, err := locate()
			return err
		}
	}
	return nil
}
