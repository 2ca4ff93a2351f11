package columns

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

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
