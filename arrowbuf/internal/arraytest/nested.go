package arraytest

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// randomNested makes n elements of a nested type, whose children have more
// elements than the parent shows.
func randomNested(t testing.TB, mem memory.Allocator, rng *rand.Rand, dtype arrow.NestedType, n int, nulls bool) *array.Data {
	t.Helper()
	const spare = 3
	buffers, unknown := []*memory.Buffer{nil}, 0
	var children []arrow.ArrayData
	defer func() {
		for _, b := range buffers {
			if b != nil {
				b.Release()
			}
		}
		for _, child := range children {
			child.Release()
		}
	}()
	add := func(dtype arrow.DataType, n int, nulls bool) {
		child := Random(t, mem, rng, dtype, n, nulls)
		defer child.Release()
		child.Data().Retain()
		children = append(children, child.Data())
	}
	integers := func(width int, values []int) {
		buffers = append(buffers, Buffer(mem, width*len(values), func(b []byte) {
			for i, v := range values {
				var wide [8]byte
				binary.LittleEndian.PutUint64(wide[:], uint64(v))
				copy(b[i*width:(i+1)*width], wide[:])
			}
		}))
	}
	if nulls && dtype.ID() != arrow.SPARSE_UNION && dtype.ID() != arrow.DENSE_UNION && dtype.ID() != arrow.RUN_END_ENCODED {
		buffers[0], unknown = randomBits(mem, rng, n), array.UnknownNullCount
	}
	list := func(width int, elem arrow.DataType, nulls bool) {
		offsets := []int{spare}
		for range n {
			offsets = append(offsets, offsets[len(offsets)-1]+rng.IntN(4))
		}
		integers(width, offsets)
		add(elem, offsets[n]+spare, nulls)
	}
	views := func(width int, elem arrow.DataType) {
		const values = 20
		var offsets, sizes []int
		for range n {
			offsets, sizes = append(offsets, rng.IntN(values)), append(sizes, rng.IntN(4))
		}
		integers(width, offsets)
		integers(width, sizes)
		add(elem, values+spare, nulls)
	}
	switch dt := dtype.(type) {
	case *arrow.ListType:
		list(4, dt.Elem(), nulls)
	case *arrow.LargeListType:
		list(8, dt.Elem(), nulls)
	case *arrow.MapType:
		list(4, arrow.Null, false)
		count := children[0].Len()
		children[0].Release()
		children = nil
		keys := Random(t, mem, rng, dt.KeyType(), count, false)
		items := Random(t, mem, rng, dt.ItemType(), count, nulls)
		children = append(children, array.NewData(dt.Elem(), count, []*memory.Buffer{nil}, []arrow.ArrayData{keys.Data(), items.Data()}, 0, 0))
		keys.Release()
		items.Release()
	case *arrow.ListViewType:
		views(4, dt.Elem())
	case *arrow.LargeListViewType:
		views(8, dt.Elem())
	case *arrow.StructType:
		for _, f := range dt.Fields() {
			add(f.Type, n+spare, nulls)
		}
	case arrow.UnionType:
		var ids, offsets []int
		for range n {
			ids, offsets = append(ids, int(dt.TypeCodes()[rng.IntN(2)])), append(offsets, len(offsets)/2+rng.IntN(2))
		}
		integers(1, ids)
		if dt.Mode() == arrow.DenseMode {
			integers(4, offsets)
		}
		for _, f := range dt.Fields() {
			add(f.Type, n+spare, nulls)
		}
	case *arrow.RunEndEncodedType:
		var ends []int
		for last := 0; last < n+spare; {
			last += 1 + rng.IntN(5)
			ends = append(ends, last)
		}
		integers(dt.RunEnds().(arrow.FixedWidthDataType).Bytes(), ends)
		ends32 := array.NewData(dt.RunEnds(), len(ends), []*memory.Buffer{nil, buffers[1]}, nil, 0, 0)
		buffers[1].Release()
		buffers = buffers[:1]
		children = append(children, ends32)
		add(dt.Encoded(), len(ends), nulls)
	default:
		require.FailNow(t, "no generator", dtype)
	}
	return array.NewData(dtype, n, append([]*memory.Buffer(nil), buffers...), append([]arrow.ArrayData(nil), children...), unknown, 0)
}
