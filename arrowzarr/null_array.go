package arrowzarr

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// nullArray returns n nulls of a type, or values of a union whose values are null.
// arrow-go's MakeArrayOfNull (v18.8) panics for types that have Null inside.
func nullArray(t arrow.DataType, n int) (arrow.Array, error) {
	storage := storageType(t)
	if !arrow.TypeEqual(storage, t) {
		values, err := nullArray(storage, n)
		if err != nil {
			return nil, err
		}
		return restoreType(values, t)
	}
	missing := slices.Repeat([]byte{1}, n)
	switch t := t.(type) {
	case *arrow.DictionaryType:
		values, err := nullArray(t.ValueType, 0)
		if err != nil {
			return nil, err
		}
		defer values.Release()
		return dictionaryArray(t, slices.Repeat([]int64{-1}, n), values)
	case *arrow.RunEndEncodedType:
		return nullRuns(t, n)
	case arrow.UnionType:
		return nullUnion(t, n)
	case *arrow.FixedSizeListType:
		return nestedNulls(t, n, missing, nil, n*int(t.Len()))
	case *arrow.StructType:
		return nestedNulls(t, n, missing, nil, n)
	case *arrow.ListViewType:
		return nestedNulls(t, n, missing, []*memory.Buffer{zeros(4 * n), zeros(4 * n)}, 0)
	case *arrow.LargeListViewType:
		return nestedNulls(t, n, missing, []*memory.Buffer{zeros(8 * n), zeros(8 * n)}, 0)
	case *arrow.LargeListType:
		return nestedNulls(t, n, missing, []*memory.Buffer{zeros(8 * (n + 1))}, 0)
	case *arrow.ListType, *arrow.MapType:
		return nestedNulls(t, n, missing, []*memory.Buffer{zeros(4 * (n + 1))}, 0)
	}
	return array.MakeArrayOfNull(memory.DefaultAllocator, t, n), nil
}

func zeros(n int) *memory.Buffer { return memory.NewBufferBytes(make([]byte, n)) }

// nestedNulls returns an array of a nested type whose children have a number of nulls.
func nestedNulls(t arrow.DataType, n int, missing []byte, buffers []*memory.Buffer, inner int) (arrow.Array, error) {
	var children []arrow.Array
	defer func() {
		for _, c := range children {
			c.Release()
		}
	}()
	for _, f := range t.(arrow.NestedType).Fields() {
		child, err := nullArray(f.Type, inner)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return nestedArray(t, n, missing, buffers, children...)
}

// nullUnion returns nulls of a union's first type.
func nullUnion(t arrow.UnionType, n int) (arrow.Array, error) {
	code := byte(0)
	if len(t.Fields()) > 0 {
		code = byte(t.TypeCodes()[0])
	} else if n > 0 {
		return nil, fmt.Errorf("%d values of a union of no types: %w", n, errMalformed)
	}
	buffers := []*memory.Buffer{memory.NewBufferBytes(slices.Repeat([]byte{code}, n))}
	inner := n
	if t.Mode() == arrow.DenseMode {
		buffers, inner = append(buffers, zeros(4*n)), min(n, 1)
	}
	return nestedNulls(t, n, nil, buffers, inner)
}

// nullRuns returns one run of nulls, or none.
func nullRuns(t *arrow.RunEndEncodedType, n int) (arrow.Array, error) {
	ends := array.NewBuilder(memory.DefaultAllocator, t.RunEnds())
	defer ends.Release()
	if int64(n) > runLimit(t) {
		return nil, errTooLong
	}
	if n > 0 {
		if err := ends.AppendValueFromString(fmt.Sprint(n)); err != nil {
			return nil, err
		}
	}
	values, err := nullArray(t.Encoded(), min(n, 1))
	if err != nil {
		return nil, err
	}
	defer values.Release()
	runEnds := ends.NewArray()
	defer runEnds.Release()
	return array.NewRunEndEncodedArrayWithType(t, runEnds, values, n, 0), nil
}
