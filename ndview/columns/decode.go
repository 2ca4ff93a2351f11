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

// Decode returns the values that a dictionary array or a run-end encoded one
// stands for: an array of the type of the values on the same device, which the
// caller releases. An index outside the dictionary is arrow.ErrInvalid, another
// type arrow.ErrNotImplemented; for the rest see [Take].
func Decode(arr arrow.Array) (arrow.Array, error) {
	if arr == nil {
		return nil, fmt.Errorf("decoding an array: %w", errAbsent)
	}
	w := &work{dev: arrowbuf.DeviceOf(arr)}
	defer w.end()
	made, err := w.decode(arr)
	if err != nil {
		return nil, fmt.Errorf("decoding an array of type %s: %w", arr.DataType(), err)
	}
	return made, nil
}

func (w *work) decode(arr arrow.Array) (arrow.Array, error) {
	moved, err := w.bring(arr)
	if err != nil {
		return nil, err
	}
	values, s, err := w.encoded(moved.Data())
	if err != nil {
		return nil, err
	}
	data, err := w.take(values, s)
	if err != nil {
		return nil, err
	}
	return finish(data)
}

// encoded are the values of an encoded array, and which of them its elements are.
func (w *work) encoded(data arrow.ArrayData) (values arrow.ArrayData, s selection, err error) {
	switch t := storageOf(data.DataType()).(type) {
	case *arrow.DictionaryType:
		dictionary, err := dictionaryOf(data)
		if err != nil {
			return nil, s, err
		}
		s, bad, err := w.resolveAs(data, indexKinds[t.IndexType.ID()], int64(dictionary.Len()))
		if err == nil && bad >= 0 {
			err = fmt.Errorf("the index of element %d is outside a dictionary of %d values: %w", bad, dictionary.Len(), arrow.ErrInvalid)
		}
		return dictionary, s, err
	case *arrow.RunEndEncodedType:
		r, err := runs(data, t)
		if err != nil {
			return nil, s, err
		}
		s, err = w.find(r, int64(data.Offset()), int64(data.Len()), nil)
		return r.values, s, err
	default:
		return nil, s, fmt.Errorf("neither a dictionary nor run-end encoded: %w", arrow.ErrNotImplemented)
	}
}

// Flatten returns the values of all lists of an array, one list behind the other,
// without those of null lists: an array on the same device, which the caller
// releases. It takes lists and list views with offsets of either width, fixed-size
// lists, and maps, whose values are structs of key and value. The values are
// shared where they lie so already. Another type is arrow.ErrNotImplemented.
func Flatten(arr arrow.Array) (arrow.Array, error) {
	if arr == nil {
		return nil, fmt.Errorf("flattening an array: %w", errAbsent)
	}
	w := &work{dev: arrowbuf.DeviceOf(arr)}
	defer w.end()
	made, err := w.flatten(arr)
	if err != nil {
		return nil, fmt.Errorf("flattening an array of type %s: %w", arr.DataType(), err)
	}
	return made, nil
}

func (w *work) flatten(arr arrow.Array) (arrow.Array, error) {
	moved, err := w.bring(arr)
	if err != nil {
		return nil, err
	}
	values, err := w.flat(moved.Data())
	if err != nil {
		return nil, err
	}
	return finish(values)
}

func (w *work) flat(data arrow.ArrayData) (arrow.ArrayData, error) {
	switch t := storageOf(data.DataType()).(type) {
	case *arrow.ListType, *arrow.MapType:
		return w.flatLists(data, 4)
	case *arrow.LargeListType:
		return w.flatLists(data, 8)
	case *arrow.ListViewType:
		return w.flatListViews(data, 4)
	case *arrow.LargeListViewType:
		return w.flatListViews(data, 8)
	case *arrow.FixedSizeListType:
		return w.flatFixedSizeLists(data, int64(t.Len()))
	default:
		return nil, fmt.Errorf("no lists: %w", arrow.ErrNotImplemented)
	}
}

func (w *work) flatLists(data arrow.ArrayData, width int64) (arrow.ArrayData, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	if data.Len() == 0 {
		return w.sliced(all[0], 0, 0, "list values")
	}
	ends, err := w.enclosed([]arrow.ArrayData{data}, width, func(arrow.ArrayData) int64 { return int64(all[0].Len()) })
	if err != nil {
		return nil, err
	}
	from, size := ends[0].from, ends[0].to-ends[0].from
	valid, err := w.validity(data)
	if err != nil {
		return nil, err
	}
	if valid.bytes != nil {
		r, err := w.offsetRanges(data, width, int64(all[0].Len()))
		if err != nil {
			return nil, err
		}
		p, err := w.pieces(r, valid, nil, width)
		if err != nil {
			return nil, err
		}
		if p.total != size { // there is something in null lists
			return w.takePieces(all[0], p)
		}
	}
	return w.sliced(all[0], from, size, "list values")
}

// flatListViews takes the values, which may lie in any order, and again and again.
func (w *work) flatListViews(data arrow.ArrayData, width int64) (arrow.ArrayData, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	valid, err := w.validity(data)
	if err != nil {
		return nil, err
	}
	r, err := w.viewRanges(data, width, int64(all[0].Len()))
	if err != nil {
		return nil, err
	}
	p, err := w.pieces(r, valid, nil, 8)
	if err != nil {
		return nil, err
	}
	return w.takePieces(all[0], p)
}

func (w *work) flatFixedSizeLists(data arrow.ArrayData, each int64) (arrow.ArrayData, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	values, err := w.sliced(all[0], int64(data.Offset())*each, int64(data.Len())*each, "list values")
	if err != nil {
		return nil, err
	}
	valid, err := w.validity(data)
	if err != nil || valid.bytes == nil {
		return values, err
	}
	s, err := w.setBits(valid, bits{})
	if err != nil {
		return nil, err
	}
	if s, err = w.spread(s, each); err != nil {
		return nil, err
	}
	return w.take(values, s)
}

// runsOf are the children of a run-end encoded array, of which the last run may
// reach beyond the last element, as in a slice.
type runsOf struct {
	ends, values arrow.ArrayData
	width        int64 // bytes of a run end: 2, 4 or 8
}

func runs(data arrow.ArrayData, t *arrow.RunEndEncodedType) (r runsOf, err error) {
	all, err := children(data, 2)
	if err != nil {
		return r, err
	}
	r = runsOf{ends: all[0], values: all[1]}
	if !t.ValidRunEndsType(r.ends.DataType()) || r.ends.Len() != r.values.Len() || r.ends.Len() == 0 && data.Len() > 0 {
		return r, fmt.Errorf("%d run ends of type %s for %d values: %w", r.ends.Len(), r.ends.DataType(), r.values.Len(), arrow.ErrInvalid)
	}
	r.width = int64(r.ends.DataType().(arrow.FixedWidthDataType).Bytes())
	return r, nil
}

// mostRuns is the last end that a run end of so many bytes can be.
func mostRuns(width int64) int64 { return math.MaxInt64 >> (64 - 8*width) }

// find makes of a selection of elements, or of all n where there is none, the
// selection of the runs that they are in.
func (w *work) find(r runsOf, offset, n int64, s *selection) (selection, error) {
	out := selection{n: n}
	var at *ndview.NDBuffer
	if s != nil {
		at, out.n, out.nulls = s.at, s.n, s.nulls
	}
	var err error
	if out.at, err = w.empty(ndview.Int64, out.n); err != nil || out.n == 0 {
		return out, err
	}
	ends, err := w.fixed(r.ends, 1, r.width)
	if err != nil {
		return out, fmt.Errorf("run ends: %w", err)
	}
	return out, w.run(nestProgram, fmt.Sprintf("quiver_find_runs_%d", 8*r.width), out.n, perTile,
		ends, ends.Size(), offset, at, out.n, written{out.at})
}

// joinRuns joins the runs that the parts show.
func (w *work) joinRuns(parts []arrow.ArrayData, t *arrow.RunEndEncodedType, n int64) (arrow.ArrayData, error) {
	shown, err := w.shownRuns(parts, t)
	if err != nil {
		return nil, err
	}
	width, count := shown[0].width, int64(0)
	if n > mostRuns(width) {
		return nil, fmt.Errorf("%d elements, more than run ends of type %s count; decode them first: %w", n, t.RunEnds(), arrowbuf.ErrOutOfRange)
	}
	values := make([]arrow.ArrayData, len(parts))
	for k, r := range shown {
		values[k], count = r.values, count+int64(r.ends.Len())
	}
	ends, err := w.empty(dtypeOf(width), count)
	if err != nil {
		return nil, err
	}
	at, before := int64(0), int64(0)
	for k, r := range shown {
		from, err := w.fixed(r.ends, 1, width)
		if err != nil {
			return nil, fmt.Errorf("run ends: %w", err)
		}
		to, err := w.array(ends.Slice(0, at, at+from.Size()))
		if err != nil {
			return nil, err
		}
		err = w.run(joinProgram, fmt.Sprintf("quiver_shift_ends_%d", 8*width), from.Size(), perTile,
			from, from.Size(), int64(parts[k].Offset()), int64(parts[k].Len()), before, written{to})
		if err != nil {
			return nil, err
		}
		at, before = at+from.Size(), before+int64(parts[k].Len())
	}
	b, err := w.buffer(ends, count*width)
	if err != nil {
		return nil, err
	}
	joined, err := w.join(values)
	if err != nil {
		return nil, fmt.Errorf("values of runs: %w", err)
	}
	return w.data(parts[0].DataType(), n, nil, w.data(t.RunEnds(), count, []*memory.Buffer{nil, b}), joined), nil
}

// shownRuns are the runs that elements of the parts are in, of which each has
// some. Where the first and the last is comes from the device in one copy.
func (w *work) shownRuns(parts []arrow.ArrayData, t *arrow.RunEndEncodedType) ([]runsOf, error) {
	shown := make([]runsOf, len(parts))
	places, err := w.empty(ndview.Int64, 2*int64(len(parts)))
	if err != nil {
		return nil, err
	}
	for k, part := range parts {
		if shown[k], err = runs(part, t); err != nil {
			return nil, err
		}
		ends, err := w.fixed(shown[k].ends, 1, shown[k].width)
		if err != nil {
			return nil, fmt.Errorf("run ends: %w", err)
		}
		for i, element := range []int{part.Offset(), part.Offset() + part.Len() - 1} {
			to, err := w.array(places.Slice(0, int64(2*k+i), int64(2*k+i+1)))
			if err != nil {
				return nil, err
			}
			err = w.run(nestProgram, fmt.Sprintf("quiver_find_runs_%d", 8*shown[k].width), 1, perTile,
				ends, ends.Size(), int64(element), (*ndview.NDBuffer)(nil), int64(1), written{to})
			if err != nil {
				return nil, err
			}
		}
	}
	raw := make([]byte, places.NBytes())
	if err := places.CopyToHost(raw); err != nil {
		return nil, err
	}
	for k := range shown {
		first, last := int64(binary.NativeEndian.Uint64(raw[16*k:])), int64(binary.NativeEndian.Uint64(raw[16*k+8:]))
		if shown[k].ends, err = w.sliced(shown[k].ends, first, last+1-first, "run ends"); err != nil {
			return nil, err
		}
		if shown[k].values, err = w.sliced(shown[k].values, first, last+1-first, "values of runs"); err != nil {
			return nil, err
		}
	}
	return shown, nil
}
