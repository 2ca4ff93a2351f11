package arrowzarr

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
)

// isNullValue reports whether value i is null: also where a dictionary's value, the
// value of a run or that of a union is.
func isNullValue(a arrow.Array, i int) bool {
	switch a := arrowdata.Unwrap(a).(type) {
	case *array.Null:
		return true
	case *array.Dictionary:
		return a.IsNull(i) || isNullValue(a.Dictionary(), a.GetValueIndex(i))
	case *array.RunEndEncoded:
		return isNullValue(a.Values(), a.GetPhysicalIndex(i))
	case array.Union:
		values, at, err := unionValue(a, i)
		return err == nil && isNullValue(values, at)
	default:
		return a.IsNull(i)
	}
}

// unionValue returns the array and the position of value i of a union.
func unionValue(a array.Union, i int) (arrow.Array, int, error) {
	code := a.TypeCode(i)
	for child, c := range a.UnionType().TypeCodes() {
		if c != code {
			continue
		}
		at := i
		if dense, ok := a.(*array.DenseUnion); ok {
			at = int(dense.ValueOffset(i))
		}
		values := a.Field(child)
		if at < 0 || at >= values.Len() {
			break
		}
		return values, at, nil
	}
	return nil, 0, fmt.Errorf("a union's value of type code %d: %w", code, arrowdata.ErrMalformed)
}

// appendValueKey appends bytes that two values of a type share exactly if they are
// equal: with the same nulls, and floats of the same bits. How the array stores the
// value, as a dictionary or a run for example, does not matter.
func appendValueKey(key []byte, a arrow.Array, i int) ([]byte, error) {
	a = arrowdata.Unwrap(a)
	if i < 0 || i >= a.Len() {
		return nil, fmt.Errorf("element %d of an array of %d: %w", i, a.Len(), arrowdata.ErrMalformed)
	}
	if isNullValue(a, i) {
		if union, ok := a.(array.Union); ok {
			return append(key, 0, byte(union.TypeCode(i))), nil
		}
		return append(key, 0), nil
	}
	key = append(key, 1)
	switch a := a.(type) {
	case *array.Dictionary:
		return appendValueKey(key[:len(key)-1], a.Dictionary(), a.GetValueIndex(i))
	case *array.RunEndEncoded:
		return appendValueKey(key[:len(key)-1], a.Values(), a.GetPhysicalIndex(i))
	case *array.Struct:
		var err error
		for f := range a.NumField() {
			if key, err = appendValueKey(key, a.Field(f), i); err != nil {
				return nil, err
			}
		}
		return key, nil
	case array.Union:
		values, at, err := unionValue(a, i)
		if err != nil {
			return nil, err
		}
		return appendValueKey(append(key, byte(a.TypeCode(i))), values, at)
	case array.ListLike:
		start, end := a.ValueOffsets(i)
		values := a.ListValues()
		if start < 0 || end < start || end > int64(values.Len()) {
			return nil, fmt.Errorf("a list of elements [%d, %d) of %d: %w", start, end, values.Len(), arrowdata.ErrMalformed)
		}
		key = binary.AppendUvarint(key, uint64(end-start))
		var err error
		for j := start; j < end; j++ {
			if key, err = appendValueKey(key, values, int(j)); err != nil {
				return nil, err
			}
		}
		return key, nil
	}
	if value, err := valueReader(a); err == nil {
		v := value(i)
		return append(binary.AppendUvarint(key, uint64(len(v))), v...), nil
	}
	width, err := valueWidth(a.DataType())
	if err != nil {
		return nil, err
	}
	at := a.Data().Offset() + i
	buffers := a.Data().Buffers()
	if width == 0 {
		return key, nil
	}
	if len(buffers) < 2 || buffers[1] == nil || buffers[1].Len() < (at+1)*width && width > 0 || width < 0 && buffers[1].Len()*8 <= at {
		return nil, fmt.Errorf("%s array without its values: %w", a.DataType(), arrowdata.ErrMalformed)
	}
	raw := buffers[1].Bytes()
	if width < 0 {
		return append(key, raw[at/8]>>(at%8)&1), nil
	}
	return append(key, raw[at*width:(at+1)*width]...), nil
}

// appendElementsKey is appendValueKey for rows of a column that is one array of numbers. A
// list inside of a fixed_size_list that is missing equals one of missing elements, since
// the array has no mask of lists.
func appendElementsKey(key []byte, a arrow.Array, i int) ([]byte, error) {
	if isNullValue(a, i) {
		return append(key, 0), nil
	}
	a = arrowdata.Unwrap(a)
	for runs, ok := a.(*array.RunEndEncoded); ok; runs, ok = a.(*array.RunEndEncoded) {
		a, i = arrowdata.Unwrap(runs.Values()), runs.GetPhysicalIndex(i)
	}
	return appendLeafKeys(append(key, 1), a, i, false)
}

func appendLeafKeys(key []byte, a arrow.Array, i int, missing bool) ([]byte, error) {
	list, ok := arrowdata.Unwrap(a).(*array.FixedSizeList)
	switch {
	case !ok && missing:
		return append(key, 0), nil
	case !ok:
		return appendValueKey(key, a, i)
	}
	start, end := list.ValueOffsets(i)
	values := list.ListValues()
	if start < 0 || end < start || end > int64(values.Len()) {
		return nil, fmt.Errorf("a list of elements [%d, %d) of %d: %w", start, end, values.Len(), arrowdata.ErrMalformed)
	}
	var err error
	for j := start; j < end; j++ {
		if key, err = appendLeafKeys(key, values, int(j), missing || list.IsNull(i)); err != nil {
			return nil, err
		}
	}
	return key, nil
}

// valueWidth returns the bytes of a value of fixed width, or -1 for a single bit.
func valueWidth(t arrow.DataType) (int, error) {
	switch t.ID() {
	case arrow.INTERVAL_DAY_TIME, arrow.INTERVAL_MONTH_DAY_NANO:
		size, _ := intervalFieldsOf(t)
		return size, nil
	}
	l, ok := fixedLayoutOf(t)
	switch {
	case !ok:
		return 0, fmt.Errorf("values of type %s are not supported", t)
	case l.source == ndview.Bool:
		return -1, nil
	}
	return int(l.source.Size() * l.limbs), nil
}
