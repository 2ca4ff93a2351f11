package arrowdata

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// Parquet has one kind of list. list_views and fixed_size_lists are written as lists, of
// which a missing one has no elements, and the stored Arrow schema has their type.

// ViewsToLists returns a list_view or large_list_view as a list or large_list, and other
// types as they are.
func ViewsToLists(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.ListViewType:
		return arrow.ListOfField(t.ElemField())
	case *arrow.LargeListViewType:
		return arrow.LargeListOfField(t.ElemField())
	}
	return t
}

// WithoutListViews is ViewsToLists for a type and those inside of it.
func WithoutListViews(t arrow.DataType) arrow.DataType {
	if ext, ok := t.(arrow.ExtensionType); ok && !arrow.TypeEqual(WithoutListViews(ext.StorageType()), ext.StorageType()) {
		return WithoutListViews(ext.StorageType())
	}
	return ViewsToLists(MapChildren(t, WithoutListViews))
}

// WithoutEmptyLists returns a type with lists for fixed_size_lists of size 0.
func WithoutEmptyLists(t arrow.DataType) arrow.DataType {
	if empty, ok := t.(*arrowipc.EmptyListType); ok {
		return WithoutEmptyLists(empty.StorageType())
	}
	return MapChildren(t, WithoutEmptyLists)
}

// MapChildren returns a type whose children have the types that f returns.
func MapChildren(t arrow.DataType, f func(arrow.DataType) arrow.DataType) arrow.DataType {
	field := func(child arrow.Field) arrow.Field {
		child.Type = f(child.Type)
		return child
	}
	switch t := t.(type) {
	case *arrow.StructType:
		fields := t.Fields()
		for i, child := range fields {
			fields[i] = field(child)
		}
		return arrow.StructOf(fields...)
	case *arrow.MapType:
		made := arrow.MapOfFields(field(t.KeyField()), field(t.ItemField()))
		made.KeysSorted = t.KeysSorted
		return made
	case *arrow.ListType:
		return arrow.ListOfField(field(t.ElemField()))
	case *arrow.LargeListType:
		return arrow.LargeListOfField(field(t.ElemField()))
	case *arrow.ListViewType:
		return arrow.ListViewOfField(field(t.ElemField()))
	case *arrow.LargeListViewType:
		return arrow.LargeListViewOfField(field(t.ElemField()))
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(t.Len(), field(t.ElemField()))
	}
	return t
}

// toLists returns lists of any kind as those of a list or large_list. The caller owns
// them.
func toLists(a array.ListLike, t arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	type run struct{ from, to int64 }
	var runs []run
	ends := make([]int64, 1, a.Len()+1)
	for i := range a.Len() {
		end := ends[i]
		if from, to := a.ValueOffsets(i); a.IsValid(i) && to > from {
			if last := len(runs) - 1; last >= 0 && runs[last].to == from {
				runs[last].to = to
			} else {
				runs = append(runs, run{from, to})
			}
			end += to - from
		}
		ends = append(ends, end)
	}
	if len(runs) == 0 {
		runs = append(runs, run{})
	}
	pieces := make([]arrow.Array, len(runs))
	for i, r := range runs {
		pieces[i] = array.NewSlice(a.ListValues(), r.from, r.to)
		defer pieces[i].Release()
	}
	elements := pieces[0]
	if len(pieces) > 1 {
		var err error
		if elements, err = array.Concatenate(pieces, mem); err != nil {
			return nil, err
		}
		defer elements.Release()
	}
	return listArray(a, t, elements, mem, integers(ends, t.ID() == arrow.LARGE_LIST))
}

// toListViews returns lists as those of a list_view or large_list_view. The caller owns
// them.
func toListViews(a array.ListLike, t arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	starts, sizes := make([]int64, a.Len()), make([]int64, a.Len())
	for i := range starts {
		from, to := a.ValueOffsets(i)
		starts[i], sizes[i] = from, to-from
	}
	wide := t.ID() == arrow.LARGE_LIST_VIEW
	return listArray(a, t, a.ListValues(), mem, integers(starts, wide), integers(sizes, wide))
}

// listArray returns lists with the validity of a, of converted elements.
func listArray(a array.ListLike, t arrow.DataType, elements arrow.Array, mem memory.Allocator, buffers ...*memory.Buffer) (arrow.Array, error) {
	elements, err := ConvertTo(elements, t.(arrow.ListLikeType).Elem(), mem)
	if err != nil {
		return nil, err
	}
	defer elements.Release()
	var validity *memory.Buffer
	if a.NullN() > 0 {
		bits := make([]byte, bitutil.BytesForBits(int64(a.Len())))
		for i := range a.Len() {
			bitutil.SetBitTo(bits, i, a.IsValid(i))
		}
		validity = memory.NewBufferBytes(bits)
	}
	data := array.NewData(t, a.Len(), append([]*memory.Buffer{validity}, buffers...), []arrow.ArrayData{elements.Data()}, a.NullN(), 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// integers returns a buffer of integers of 64 or 32 bits.
func integers(values []int64, wide bool) *memory.Buffer {
	out := make([]byte, 0, 8*len(values))
	for _, v := range values {
		if wide {
			out = binary.NativeEndian.AppendUint64(out, uint64(v))
		} else {
			out = binary.NativeEndian.AppendUint32(out, uint32(v))
		}
	}
	return memory.NewBufferBytes(out)
}
