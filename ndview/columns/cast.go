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

// CastIndices returns a dictionary array with indices of another integer type, on
// the same device and over the same dictionary, which the caller releases. A type
// that does not count the values of the dictionary is arrowbuf.ErrOutOfRange, one
// of no integers arrow.ErrInvalid, as is an index that is outside the dictionary,
// of which the error names the first; an array without a dictionary is
// arrow.ErrNotImplemented.
func CastIndices(arr arrow.Array, to arrow.DataType) (arrow.Array, error) {
	if arr == nil || to == nil {
		return nil, fmt.Errorf("casting the indices of an array: %w", errAbsent)
	}
	w := &work{dev: arrowbuf.DeviceOf(arr)}
	defer w.end()
	made, err := w.castIndices(arr, to)
	if err != nil {
		return nil, fmt.Errorf("casting the indices of an array of type %s to %s: %w", arr.DataType(), to, err)
	}
	return made, nil
}

func (w *work) castIndices(arr arrow.Array, to arrow.DataType) (arrow.Array, error) {
	t, ok := arr.DataType().(*arrow.DictionaryType)
	if !ok {
		return nil, fmt.Errorf("no dictionary: %w", arrow.ErrNotImplemented)
	}
	if _, ok := indexKinds[to.ID()]; !ok {
		return nil, fmt.Errorf("integers are expected: %w", arrow.ErrInvalid)
	}
	moved, err := w.bring(arr)
	if err != nil {
		return nil, err
	}
	data := moved.Data()
	dictionary, err := dictionaryOf(data)
	if err != nil {
		return nil, err
	}
	if last := uint64(dictionary.Len() - 1); dictionary.Len() > 0 && last > most(to) {
		return nil, fmt.Errorf("the dictionary has %d values: %w", dictionary.Len(), arrowbuf.ErrOutOfRange)
	}
	indices, err := w.fixed(data, 1, int64(t.Bytes()))
	if err != nil {
		return nil, err
	}
	if err := w.checkIndices(data, indices, t, int64(dictionary.Len())); err != nil {
		return nil, err
	}
	width := int64(to.(arrow.FixedWidthDataType).Bytes())
	cast, err := w.array(indices.AsType(dtypeOf(width), ndview.OrderC, ndview.CastUnsafe)) // none but a null's is negative
	if err != nil {
		return nil, err
	}
	b, err := w.buffer(cast, cast.NBytes())
	if err != nil {
		return nil, err
	}
	valid, err := w.joinValidity([]arrow.ArrayData{data}, int64(data.Len()))
	if err != nil {
		return nil, err
	}
	out := w.data(&arrow.DictionaryType{IndexType: to, ValueType: t.ValueType, Ordered: t.Ordered}, int64(data.Len()), []*memory.Buffer{valid, b})
	out.SetDictionary(dictionary)
	return finish(out)
}

// CastOffsets returns an array of text, binaries, lists or list views with offsets
// of the width that a type has: utf8 to large_utf8 or back, binary to large_binary,
// list to large_list, list_view to large_list_view. It is on the same device and
// shares the values; the caller releases it. Values that 32-bit offsets do not
// count are arrowbuf.ErrOutOfRange, offsets outside the values arrow.ErrInvalid;
// other types, and others than the array's for the elements of lists, are
// arrow.ErrNotImplemented.
func CastOffsets(arr arrow.Array, to arrow.DataType) (arrow.Array, error) {
	if arr == nil || to == nil {
		return nil, fmt.Errorf("casting the offsets of an array: %w", errAbsent)
	}
	w := &work{dev: arrowbuf.DeviceOf(arr)}
	defer w.end()
	made, err := w.castOffsets(arr, to)
	if err != nil {
		return nil, fmt.Errorf("casting the offsets of an array of type %s to those of %s: %w", arr.DataType(), to, err)
	}
	return made, nil
}

func (w *work) castOffsets(arr arrow.Array, to arrow.DataType) (arrow.Array, error) {
	kind, width := offsetsOf(arr.DataType())
	wanted, toWidth := offsetsOf(to)
	if width == 0 || kind != wanted {
		return nil, fmt.Errorf("they differ in more than the width of offsets: %w", arrow.ErrNotImplemented)
	}
	moved, err := w.bring(arr)
	if err != nil {
		return nil, err
	}
	data, n := moved.Data(), int64(arr.Len())
	valid, err := w.joinValidity([]arrow.ArrayData{data}, n)
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
	var all []enclosed
	if n > 0 {
		if all, err = w.enclosed([]arrow.ArrayData{data}, width, limit); err != nil {
			return nil, err
		}
	} else if all, err = w.noneEnclosed(width); err != nil {
		return nil, err
	}
	if n > 0 {
		err := w.checkWithin([]*ndview.NDBuffer{all[0].offsets}, all[0].from, all[0].to, func() (pieces, error) {
			r, err := w.offsetRanges(data, width, limit(data))
			if err != nil {
				return pieces{}, err
			}
			return w.pieces(r, bits{}, nil, 8)
		})
		if err != nil {
			return nil, err
		}
	}
	offsets, err := w.joinOffsets(all, n, width, toWidth)
	if err != nil {
		return nil, err
	}
	from, size := all[0].from, all[0].to-all[0].from
	buffers := []*memory.Buffer{valid, offsets}
	if len(data.Children()) == 1 {
		values, err := w.sliced(data.Children()[0], from, size, "list values")
		if err != nil {
			return nil, err
		}
		return finish(w.data(to, n, buffers, values))
	}
	values, err := w.buffer(nil, 0)
	if b := bufferOf(data, 2); b != nil && size > 0 {
		b.Retain()
		values = w.slice(b, from, size)
	}
	if err != nil {
		return nil, err
	}
	return finish(w.data(to, n, append(buffers, values)))
}

func (w *work) castListViews(data arrow.ArrayData, to arrow.DataType, valid *memory.Buffer, width, toWidth int64) (arrow.Array, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	if toWidth == 4 && all[0].Len() > math.MaxInt32 {
		return nil, fmt.Errorf("into %d values: %w", all[0].Len(), arrowbuf.ErrOutOfRange)
	}
	n := int64(data.Len())
	values := int64(all[0].Len())
	r, err := w.viewRanges(data, width, values)
	if err != nil {
		return nil, err
	}
	known, err := w.validity(data)
	if err != nil {
		return nil, err
	}
	if _, err := w.pieces(r, known, nil, 8); err != nil { // a start and a size may each fit, and not together
		return nil, err
	}
	buffers := []*memory.Buffer{valid, nil, nil}
	for i, from := range []*ndview.NDBuffer{r.starts, r.sizes} {
		out, err := w.empty(dtypeOf(toWidth), n)
		if err != nil {
			return nil, err
		}
		if err := w.rebase(from, width, 0, out, 0, toWidth); err != nil {
			return nil, err
		}
		if buffers[1+i], err = w.buffer(out, n*toWidth); err != nil {
			return nil, err
		}
	}
	return finish(w.data(to, n, buffers, all[0]))
}

// noneEnclosed are the offsets of no elements, which an array may lack.
func (w *work) noneEnclosed(width int64) ([]enclosed, error) {
	zero, err := w.array(ndview.Zeros(w.dev, dtypeOf(width), 1))
	return []enclosed{{offsets: zero}}, err
}

// offsetsOf says what a type is but for the width of its offsets.
func offsetsOf(dtype arrow.DataType) (kind string, width int64) {
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

// Integers of an array that came from elsewhere may be anything. Before they are
// made narrower one pass looks for the extremes; only where those do not fit, which
// nulls are free to, another one looks for the element.

// extreme is the Min or Max of unsigned integers, which are some.
func (w *work) extreme(of ndview.Reduction, a *ndview.NDBuffer) (uint64, error) {
	one, err := w.array(of.Of(a, ndview.ReduceOptions{}))
	if err != nil {
		return 0, err
	}
	return w.unsigned(one)
}

// unsigned is the value of an array of one.
func (w *work) unsigned(one *ndview.NDBuffer) (uint64, error) {
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

// checkIndices returns an error for an index outside a dictionary, which may be any
// where an element is null.
func (w *work) checkIndices(data arrow.ArrayData, indices *ndview.NDBuffer, t *arrow.DictionaryType, values int64) error {
	if indices.Size() == 0 {
		return nil
	}
	greatest, err := w.extreme(ndview.Max, indices)
	if err != nil || greatest < uint64(values) {
		return err
	}
	kind := indexKinds[t.IndexType.ID()]
	_, bad, err := w.resolveAs(data, kind, values)
	if err != nil || bad < 0 {
		return err
	}
	one, err := w.array(indices.Slice(0, bad, bad+1))
	if err != nil {
		return err
	}
	index, err := w.unsigned(one)
	if err != nil {
		return err
	}
	shown := fmt.Sprint(index)
	if kind[0] == 'i' {
		unused := 64 - 8*t.Bytes()
		shown = fmt.Sprint(int64(index<<unused) >> unused)
	}
	return fmt.Errorf("index %s, of element %d, is outside a dictionary of %d values: %w", shown, bad, values, arrow.ErrInvalid)
}

// checkWithin returns an error for offsets or sizes that are not in [least, most],
// if one of an element that counts is not.
func (w *work) checkWithin(all []*ndview.NDBuffer, least, most int64, find func() (pieces, error)) error {
	for _, a := range all {
		if a.Size() == 0 {
			continue
		}
		greatest, err := w.extreme(ndview.Max, a)
		if err != nil {
			return err
		}
		smallest := uint64(least)
		if least > 0 {
			if smallest, err = w.extreme(ndview.Min, a); err != nil {
				return err
			}
		}
		if greatest > uint64(most) || smallest < uint64(least) {
			_, err := find()
			return err
		}
	}
	return nil
}
