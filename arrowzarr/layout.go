package arrowzarr

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/ndview"
)

// natMin is NaT, "not a time", of datetime64 and timedelta64.
const natMin = uint64(1) << 63

// fixedTypes maps the Arrow types whose values are one element of one dtype.
var fixedTypes = map[arrow.Type]ndview.DType{
	arrow.BOOL:      ndview.Bool,
	arrow.INT8:      ndview.Int8,
	arrow.INT16:     ndview.Int16,
	arrow.INT32:     ndview.Int32,
	arrow.INT64:     ndview.Int64,
	arrow.UINT8:     ndview.Uint8,
	arrow.UINT16:    ndview.Uint16,
	arrow.UINT32:    ndview.Uint32,
	arrow.UINT64:    ndview.Uint64,
	arrow.FLOAT16:   ndview.Float16,
	arrow.FLOAT32:   ndview.Float32,
	arrow.FLOAT64:   ndview.Float64,
	arrow.DECIMAL32: ndview.Int32,
	arrow.DECIMAL64: ndview.Int64,
}

var timeUnits = map[arrow.TimeUnit]ndview.TimeUnit{
	arrow.Second:      ndview.Second,
	arrow.Millisecond: ndview.Millisecond,
	arrow.Microsecond: ndview.Microsecond,
	arrow.Nanosecond:  ndview.Nanosecond,
}

// fixedLayout is how rows of a fixed width lie in Arrow and in Zarr.
type fixedLayout struct {
	source ndview.DType // the elements in Arrow's buffer
	dtype  ndview.DType // the elements in Zarr
	limbs  int64        // elements that one value of Arrow's buffer makes
	row    []int64      // the axes after the first
	fill   uint64       // what null slots hold, as FillWhere takes it
}

// elements is the number of elements in a row.
func (l fixedLayout) elements() int64 {
	n := int64(1)
	for _, d := range l.row {
		n *= d
	}
	return n
}

// fixedLayoutOf returns the layout of an Arrow type of fixed width, or false
// for another type. Extension types are taken as their storage.
func fixedLayoutOf(t arrow.DataType) (fixedLayout, bool) {
	if dtype, ok := fixedTypes[t.ID()]; ok {
		return fixedLayout{source: dtype, dtype: dtype, limbs: 1}, true
	}
	int64As := func(dtype ndview.DType) (fixedLayout, bool) {
		return fixedLayout{source: dtype, dtype: dtype, limbs: 1, fill: natMin}, true
	}
	int32As := func(dtype ndview.DType) (fixedLayout, bool) {
		return fixedLayout{source: ndview.Int32, dtype: dtype, limbs: 1, fill: natMin}, true
	}
	switch t := t.(type) {
	case *arrow.Date32Type:
		return int32As(ndview.Datetime64(ndview.Day, 1))
	case *arrow.Date64Type:
		return int64As(ndview.Datetime64(ndview.Millisecond, 1))
	case *arrow.Time32Type:
		return int32As(ndview.Timedelta64(timeUnits[t.Unit], 1))
	case *arrow.Time64Type:
		return int64As(ndview.Timedelta64(timeUnits[t.Unit], 1))
	case *arrow.TimestampType:
		return int64As(ndview.Datetime64(timeUnits[t.Unit], 1))
	case *arrow.DurationType:
		return int64As(ndview.Timedelta64(timeUnits[t.Unit], 1))
	case *arrow.Decimal128Type:
		return fixedLayout{source: ndview.Uint64, dtype: ndview.Uint64, limbs: 2, row: []int64{2}}, true
	case *arrow.Decimal256Type:
		return fixedLayout{source: ndview.Uint64, dtype: ndview.Uint64, limbs: 4, row: []int64{4}}, true
	case *arrow.FixedSizeBinaryType:
		width := int64(t.ByteWidth)
		if width < 0 {
			return fixedLayout{}, false
		}
		return fixedLayout{source: ndview.Uint8, dtype: ndview.Uint8, limbs: width, row: []int64{width}}, true
	case *arrow.FixedSizeListType:
		inner, ok := fixedLayoutOf(t.Elem())
		if !ok || !isNumber(t.Elem()) || t.Len() < 0 {
			return fixedLayout{}, false
		}
		inner.row = append([]int64{int64(t.Len())}, inner.row...)
		return inner, true
	case arrow.ExtensionType:
		return fixedLayoutOf(t.StorageType())
	}
	return fixedLayout{}, false
}

// isNumber tells whether a fixed_size_list of the type is an N-d array: of
// numbers and booleans, or of such lists.
func isNumber(t arrow.DataType) bool {
	if list, ok := t.(*arrow.FixedSizeListType); ok {
		return isNumber(list.Elem())
	}
	_, ok := fixedTypes[t.ID()]
	return ok && t.ID() != arrow.DECIMAL32 && t.ID() != arrow.DECIMAL64
}

// leaf finds the elements of rows [from, ...) of an array of fixed width: the
// innermost array data, and the position of the first element in its buffers.
func leaf(data arrow.ArrayData, from int64) (arrow.ArrayData, int64, error) {
	return descend(data, from, func(arrow.ArrayData, int64, int64) error { return nil })
}

// descend is leaf, and calls visit for the lists on the way that are inside
// others, outermost first: with their data, the position of the first, and how
// many of them make a row.
func descend(data arrow.ArrayData, from int64, visit func(lists arrow.ArrayData, at, perRow int64) error) (arrow.ArrayData, int64, error) {
	at, perRow := int64(data.Offset())+from, int64(1)
	t := storage(data.DataType())
	for depth := 0; ; depth++ {
		list, ok := t.(*arrow.FixedSizeListType)
		if !ok {
			return data, at, nil
		}
		if depth > 0 {
			if err := visit(data, at, perRow); err != nil {
				return nil, 0, err
			}
		}
		if len(data.Children()) != 1 {
			return nil, 0, fmt.Errorf("%s with %d children, expected 1", list, len(data.Children()))
		}
		data = data.Children()[0]
		at = at*int64(list.Len()) + int64(data.Offset())
		perRow *= int64(list.Len())
		t = storage(list.Elem())
	}
}

// storage unwraps extension types.
func storage(t arrow.DataType) arrow.DataType {
	for {
		ext, ok := t.(arrow.ExtensionType)
		if !ok {
			return t
		}
		t = ext.StorageType()
	}
}
