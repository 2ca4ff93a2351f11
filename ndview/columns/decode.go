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

// Decode returns the values that a dictionary array or a run-end encoded array
// represents. The result has the type of the values and is on the same device; the
// caller must release it. Decode returns arrow.ErrInvalid if an index is outside the
// dictionary, and arrow.ErrNotImplemented for other types. [Take] says what the result
// shares with arr.
func Decode(arr arrow.Array) (arrow.Array, error) {
	if arr == nil {
		return nil, fmt.Errorf("columns.Decode: %w", errNil)
	}
	w := &workspace{dev: arrowbuf.DeviceOf(arr)}
	defer w.release()
	result, err := w.decode(arr)
	if err != nil {
		return nil, fmt.Errorf("columns.Decode: array of type %s: %w", arr.DataType(), err)
	}
	return result, nil
}

func (w *workspace) decode(arr arrow.Array) (arrow.Array, error) {
	moved, err := w.copyToDevice(arr)
	if err != nil {
		return nil, err
	}
	values, s, err := w.resolveEncoding(moved.Data())
	if err != nil {
		return nil, err
	}
	data, err := w.takeData(values, s)
	if err != nil {
		return nil, err
	}
	return newArray(data)
}

// resolveEncoding returns the values of an encoded array and the selection of values
// that its elements stand for.
func (w *workspace) resolveEncoding(data arrow.ArrayData) (values arrow.ArrayData, s selection, err error) {
	switch t := storageOf(data.DataType()).(type) {
	case *arrow.DictionaryType:
		dictionary, err := dictionaryOf(data)
		if err != nil {
			return nil, s, err
		}
		s, bad, err := w.resolveIndexData(data, indexKinds[t.IndexType.ID()], int64(dictionary.Len()))
		if err == nil && bad >= 0 {
			err = fmt.Errorf("index of element %d is outside a dictionary of %d values: %w", bad, dictionary.Len(), arrow.ErrInvalid)
		}
		return dictionary, s, err
	case *arrow.RunEndEncodedType:
		r, err := runEndsOf(data, t)
		if err != nil {
			return nil, s, err
		}
		s, err = w.findRuns(r, int64(data.Offset()), int64(data.Len()), nil)
		return r.values, s, err
	default:
		return nil, s, fmt.Errorf("neither dictionary nor run-end encoded: %w", arrow.ErrNotImplemented)
	}
}

// Flatten returns the values of all lists of an array, in order and without those of
// null lists. The result is on the same device; the caller must release it. Flatten
// accepts lists and list views with 32-bit or 64-bit offsets, fixed-size lists, and
// maps, whose values are structs of key and value. The result shares the values if they
// are already contiguous. Flatten returns arrow.ErrNotImplemented for other types.
func Flatten(arr arrow.Array) (arrow.Array, error) {
	if arr == nil {
		return nil, fmt.Errorf("columns.Flatten: %w", errNil)
	}
	w := &workspace{dev: arrowbuf.DeviceOf(arr)}
	defer w.release()
	result, err := w.flatten(arr)
	if err != nil {
		return nil, fmt.Errorf("columns.Flatten: array of type %s: %w", arr.DataType(), err)
	}
	return result, nil
}

func (w *workspace) flatten(arr arrow.Array) (arrow.Array, error) {
	moved, err := w.copyToDevice(arr)
	if err != nil {
		return nil, err
	}
	values, err := w.flattenData(moved.Data())
	if err != nil {
		return nil, err
	}
	return newArray(values)
}

func (w *workspace) flattenData(data arrow.ArrayData) (arrow.ArrayData, error) {
	switch t := storageOf(data.DataType()).(type) {
	case *arrow.ListType, *arrow.MapType:
		return w.flattenLists(data, 4)
	case *arrow.LargeListType:
		return w.flattenLists(data, 8)
	case *arrow.ListViewType:
		return w.flattenListViews(data, 4)
	case *arrow.LargeListViewType:
		return w.flattenListViews(data, 8)
	case *arrow.FixedSizeListType:
		return w.flattenFixedSizeLists(data, int64(t.Len()))
	default:
		return nil, fmt.Errorf("not a list type: %w", arrow.ErrNotImplemented)
	}
}

func (w *workspace) flattenLists(data arrow.ArrayData, width int64) (arrow.ArrayData, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	if data.Len() == 0 {
		return w.sliceData(all[0], 0, 0, "list values")
	}
	ends, err := w.readBounds([]arrow.ArrayData{data}, width, func(arrow.ArrayData) int64 { return int64(all[0].Len()) })
	if err != nil {
		return nil, err
	}
	from, size := ends[0].from, ends[0].to-ends[0].from
	valid, err := w.viewValidity(data)
	if err != nil {
		return nil, err
	}
	if valid.bytes != nil {
		r, err := w.rangesOfOffsets(data, width, int64(all[0].Len()))
		if err != nil {
			return nil, err
		}
		p, err := w.planGather(r, valid, nil, width)
		if err != nil {
			return nil, err
		}
		if p.total != size { // null lists enclose values
			return w.gatherValues(all[0], p)
		}
	}
	return w.sliceData(all[0], from, size, "list values")
}

// flattenListViews always copies: views may overlap and may be in any order.
func (w *workspace) flattenListViews(data arrow.ArrayData, width int64) (arrow.ArrayData, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	valid, err := w.viewValidity(data)
	if err != nil {
		return nil, err
	}
	r, err := w.rangesOfViews(data, width, int64(all[0].Len()))
	if err != nil {
		return nil, err
	}
	p, err := w.planGather(r, valid, nil, 8)
	if err != nil {
		return nil, err
	}
	return w.gatherValues(all[0], p)
}

func (w *workspace) flattenFixedSizeLists(data arrow.ArrayData, each int64) (arrow.ArrayData, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	values, err := w.sliceData(all[0], int64(data.Offset())*each, int64(data.Len())*each, "list values")
	if err != nil {
		return nil, err
	}
	valid, err := w.viewValidity(data)
	if err != nil || valid.bytes == nil {
		return values, err
	}
	s, err := w.selectSetBits(valid, bitmap{})
	if err != nil {
		return nil, err
	}
	if s, err = w.expandFixedSize(s, each); err != nil {
		return nil, err
	}
	return w.takeData(values, s)
}

// runEnds is the children of a run-end encoded array. The last run may extend past the
// last element, as in a slice.
type runEnds struct {
	ends, values arrow.ArrayData
	width        int64 // bytes of a run end: 2, 4 or 8
}

func runEndsOf(data arrow.ArrayData, t *arrow.RunEndEncodedType) (r runEnds, err error) {
	all, err := children(data, 2)
	if err != nil {
		return r, err
	}
	r = runEnds{ends: all[0], values: all[1]}
	if !t.ValidRunEndsType(r.ends.DataType()) || r.ends.Len() != r.values.Len() || r.ends.Len() == 0 && data.Len() > 0 {
		return r, fmt.Errorf("%d run ends of type %s for %d values: %w", r.ends.Len(), r.ends.DataType(), r.values.Len(), arrow.ErrInvalid)
	}
	r.width = int64(r.ends.DataType().(arrow.FixedWidthDataType).Bytes())
	return r, nil
}

// maxRunEnd returns the greatest run end that an integer of width bytes can hold.
func maxRunEnd(width int64) int64 { return math.MaxInt64 >> (64 - 8*width) }

// findRuns converts a selection of elements into a selection of the runs that contain
// them. A nil selection stands for all n elements.
func (w *workspace) findRuns(r runEnds, offset, n int64, s *selection) (selection, error) {
	out := selection{n: n}
	var at *ndview.NDBuffer
	if s != nil {
		at, out.n, out.hasNulls = s.indices, s.n, s.hasNulls
	}
	var err error
	if out.indices, err = w.alloc(ndview.Int64, out.n); err != nil || out.n == 0 {
		return out, err
	}
	ends, err := w.viewFixed(r.ends, 1, r.width)
	if err != nil {
		return out, fmt.Errorf("run ends: %w", err)
	}
	return out, w.launch(nestProgram, fmt.Sprintf("quiver_find_runs_%d", 8*r.width), out.n, itemsPerBlock,
		ends, ends.Size(), offset, at, out.n, output{out.indices})
}

// concatRuns joins the visible runs of the parts.
func (w *workspace) concatRuns(parts []arrow.ArrayData, t *arrow.RunEndEncodedType, n int64) (arrow.ArrayData, error) {
	visible, err := w.visibleRuns(parts, t)
	if err != nil {
		return nil, err
	}
	width, count := visible[0].width, int64(0)
	if n > maxRunEnd(width) {
		return nil, fmt.Errorf("%d elements exceed run ends of type %s; decode them first: %w", n, t.RunEnds(), arrowbuf.ErrOutOfRange)
	}
	values := make([]arrow.ArrayData, len(parts))
	for k, r := range visible {
		values[k], count = r.values, count+int64(r.ends.Len())
	}
	ends, err := w.alloc(dtypeOf(width), count)
	if err != nil {
		return nil, err
	}
	at, before := int64(0), int64(0)
	for k, r := range visible {
		from, err := w.viewFixed(r.ends, 1, width)
		if err != nil {
			return nil, fmt.Errorf("run ends: %w", err)
		}
		to, err := w.ownArray(ends.Slice(0, at, at+from.Size()))
		if err != nil {
			return nil, err
		}
		err = w.launch(joinProgram, fmt.Sprintf("quiver_shift_ends_%d", 8*width), from.Size(), itemsPerBlock,
			from, from.Size(), int64(parts[k].Offset()), int64(parts[k].Len()), before, output{to})
		if err != nil {
			return nil, err
		}
		at, before = at+from.Size(), before+int64(parts[k].Len())
	}
	b, err := w.toBuffer(ends, count*width)
	if err != nil {
		return nil, err
	}
	joined, err := w.concatData(values)
	if err != nil {
		return nil, fmt.Errorf("values of runs: %w", err)
	}
	return w.newData(parts[0].DataType(), n, nil, w.newData(t.RunEnds(), count, []*memory.Buffer{nil, b}), joined), nil
}

// visibleRuns slices the children of each part to the runs that contain its elements.
// Every part has elements. The first and last runs of all parts are read in one copy.
func (w *workspace) visibleRuns(parts []arrow.ArrayData, t *arrow.RunEndEncodedType) ([]runEnds, error) {
	visible := make([]runEnds, len(parts))
	positions, err := w.alloc(ndview.Int64, 2*int64(len(parts)))
	if err != nil {
		return nil, err
	}
	for k, part := range parts {
		if visible[k], err = runEndsOf(part, t); err != nil {
			return nil, err
		}
		ends, err := w.viewFixed(visible[k].ends, 1, visible[k].width)
		if err != nil {
			return nil, fmt.Errorf("run ends: %w", err)
		}
		for i, element := range []int{part.Offset(), part.Offset() + part.Len() - 1} {
			to, err := w.ownArray(positions.Slice(0, int64(2*k+i), int64(2*k+i+1)))
			if err != nil {
				return nil, err
			}
			err = w.launch(nestProgram, fmt.Sprintf("quiver_find_runs_%d", 8*visible[k].width), 1, itemsPerBlock,
				ends, ends.Size(), int64(element), (*ndview.NDBuffer)(nil), int64(1), output{to})
			if err != nil {
				return nil, err
			}
		}
	}
	raw := make([]byte, positions.NBytes())
	if err := positions.CopyToHost(raw); err != nil {
		return nil, err
	}
	for k := range visible {
		first, last := int64(binary.NativeEndian.Uint64(raw[16*k:])), int64(binary.NativeEndian.Uint64(raw[16*k+8:]))
		if visible[k].ends, err = w.sliceData(visible[k].ends, first, last+1-first, "run ends"); err != nil {
			return nil, err
		}
		if visible[k].values, err = w.sliceData(visible[k].values, first, last+1-first, "values of runs"); err != nil {
			return nil, err
		}
	}
	return visible, nil
}
