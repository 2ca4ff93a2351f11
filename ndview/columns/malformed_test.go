package columns_test

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
	"github.com/stretchr/testify/require"
)

func (m maker) broken(dtype arrow.DataType, n int, buffers []*memory.Buffer, children ...arrow.ArrayData) arrow.ArrayData {
	data := array.NewData(dtype, n, append([]*memory.Buffer{nil}, buffers...), children, 0, 0)
	m.t.Cleanup(data.Release)
	return data
}

func TestMalformedArraysAreErrors(t *testing.T) {
	m := newMaker(t, 1, false)
	text := []*memory.Buffer{integers(4, []int{0, 9, 4, 5}), memory.NewBufferBytes(make([]byte, 5, 64))}
	outside := []*memory.Buffer{integers(4, []int{0, 1, 4, 6}), memory.NewBufferBytes(make([]byte, 5, 64))}
	int8s := m.data(arrow.PrimitiveTypes.Int8, 3)
	union := arrow.DenseUnionOf(pair[:1], []arrow.UnionTypeCode{4})
	indices := m.data(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Int8}, 3)
	indices.SetDictionary(m.data(arrow.PrimitiveTypes.Int8, 0))
	runs := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int8)
	for name, c := range map[string]struct {
		data   arrow.ArrayData
		joined bool // Concatenate detects it, too
	}{
		"descending offsets":                    {m.broken(arrow.BinaryTypes.String, 3, text), false},
		"offsets beyond the values":             {m.broken(arrow.BinaryTypes.Binary, 3, outside), true},
		"too few offsets":                       {m.broken(arrow.BinaryTypes.Binary, 5, outside), true},
		"no offsets":                            {m.broken(arrow.BinaryTypes.Binary, 3, nil), true},
		"too few values":                        {m.broken(arrow.PrimitiveTypes.Int64, 3, []*memory.Buffer{integers(8, []int{1, 2})}), true},
		"too few bits":                          {m.broken(arrow.FixedWidthTypes.Boolean, 9, []*memory.Buffer{integers(1, []int{1})}), true},
		"a list without values":                 {m.broken(arrow.ListOf(arrow.PrimitiveTypes.Int8), 3, outside[:1]), true},
		"a list with too few values":            {m.broken(arrow.ListOf(arrow.PrimitiveTypes.Int8), 3, outside[:1], int8s), true},
		"a fixed-size list with too few values": {m.broken(arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int8), 3, nil, int8s), true},
		"a struct of short fields":              {m.broken(arrow.StructOf(pair[:1]...), 4, nil, m.data(pair[0].Type, 3)), true},
		"a struct without fields":               {m.broken(arrow.StructOf(pair...), 4, nil), true},
		"an offset outside a union's child":     {m.broken(union, 2, []*memory.Buffer{integers(1, []int{4, 4}), integers(4, []int{0, 3})}, m.data(pair[0].Type, 3)), false},
		"an index without a value":              {indices, false},
		"run ends without values":               {m.broken(runs, 3, nil, m.data(arrow.PrimitiveTypes.Int16, 2), int8s), true},
		"elements without runs":                 {m.broken(runs, 3, nil, m.data(arrow.PrimitiveTypes.Int16, 0), m.data(arrow.PrimitiveTypes.Int8, 0)), true},
	} {
		cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
			data := copied(t, dev, c.data)
			var arr arrow.Array = part{data: data}
			if dev != arrowbuf.CPU() && arrowbuf.DeviceOf(arr) == dev {
				result := arrowbuf.NewArray(data)
				t.Cleanup(result.Release)
				arr = result
			}
			calls := map[string]func() (arrow.Array, error){}
			switch data.DataType().ID() {
			case arrow.DICTIONARY:
				calls["decode"] = func() (arrow.Array, error) { return columns.Decode(arr) }
			default:
				calls["take"] = func() (arrow.Array, error) { return columns.Take(arr, columns.Indices(upTo(arr.Len())...)) }
			}
			if c.joined {
				calls["concatenate"] = func() (arrow.Array, error) { return columns.Concatenate(arr, arr) }
			}
			for function, call := range calls {
				_, err := call()
				require.ErrorIs(t, err, arrow.ErrInvalid, "%s: %s", name, function)
			}
		})
	}
}

// The result is measured before its memory is allocated.
func TestOffsetsThatOverflowAreErrors(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		data := array.NewData(arrow.BinaryTypes.Binary, 1, []*memory.Buffer{nil, integers(4, []int{0, 1 << 20}), memory.NewBufferBytes(make([]byte, 1<<20))}, nil, 0, 0)
		defer data.Release()
		arr := on(t, dev, array.MakeFromData(data))
		_, err := columns.Take(arr, columns.Indices(make([]int32, 1<<11)...))
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		require.ErrorContains(t, err, "result of 2147483648 values exceeds 32-bit offsets; cast to 64-bit offsets first")
		wide, err := columns.CastOffsets(arr, arrow.BinaryTypes.LargeBinary)
		require.NoError(t, err)
		defer wide.Release()
		times := 3
		if gpu, ok := dev.(*cudabuf.Device); ok {
			free, _, err := gpu.MemInfo()
			require.NoError(t, err)
			if free > 8<<30 {
				times = 1 << 11 // a result of 2 GiB
			}
		}
		taken, err := columns.Take(wide, columns.Indices(make([]int32, times)...))
		require.NoError(t, err)
		defer taken.Release()
		require.Equal(t, times, taken.Len())
		require.Equal(t, times<<20, taken.Data().Buffers()[2].Len())
	})
}

// Lists of nulls can claim many values without memory.
func TestListsThatOverflowAreErrors(t *testing.T) {
	values := func() arrow.ArrayData {
		return array.NewData(arrow.Null, math.MaxInt32, []*memory.Buffer{nil}, nil, math.MaxInt32, 0)
	}
	for _, c := range []struct {
		dtype   arrow.DataType
		buffers []*memory.Buffer
	}{
		{arrow.ListOf(arrow.Null), []*memory.Buffer{nil, integers(4, []int{0, math.MaxInt32})}},
		{arrow.ListViewOf(arrow.Null), []*memory.Buffer{nil, integers(4, []int{0}), integers(4, []int{math.MaxInt32})}},
	} {
		a := array.NewData(c.dtype, 1, c.buffers, []arrow.ArrayData{values()}, 0, 0)
		b := array.NewData(c.dtype, 1, c.buffers, []arrow.ArrayData{values()}, 0, 0)
		_, err := columns.Concatenate(array.MakeFromData(a), array.MakeFromData(b))
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange, c.dtype)
		require.ErrorContains(t, err, "cast to 64-bit offsets first")
	}
}

func TestRunEndsThatOverflowAreErrors(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		arr := on(t, dev, newMaker(t, 1, false).array(arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int8), 20_000, false))
		_, err := columns.Concatenate(arr, arr)
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		require.ErrorContains(t, err, "40000 elements exceed run ends of type int16; decode them first")
		_, err = columns.Take(arr, columns.Indices(make([]uint8, 1<<15)...))
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
	})
}

// The sizes sum to 2^64, which wraps to 0.
func TestSumOfListSizesDoesNotOverflow(t *testing.T) {
	const each, n = 1 << 57, 128
	values := array.NewData(arrow.Null, each, []*memory.Buffer{nil}, nil, each, 0)
	starts, sizes := make([]int, n), make([]int, n)
	for i := range sizes {
		sizes[i] = each
	}
	lists := array.NewData(arrow.LargeListViewOf(arrow.Null), n, []*memory.Buffer{nil, integers(8, starts), integers(8, sizes)}, []arrow.ArrayData{values}, 0, 0)
	arr := arrowbuf.NewArray(lists)
	defer arr.Release()
	_, err := columns.Flatten(arr)
	require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
}

// FuzzMalformed makes arrays of arbitrary offsets, sizes, type ids, run ends and
// indices. Reads outside the buffers would panic, since host kernels are Go.
func FuzzMalformed(f *testing.F) {
	f.Add(uint8(0), uint8(3), uint8(0), []byte{0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0}, []byte("text"))
	f.Add(uint8(3), uint8(2), uint8(1), []byte{0, 0, 0, 0, 255, 255, 255, 255, 1, 0, 0, 0}, []byte{1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 128})
	f.Add(uint8(6), uint8(4), uint8(0), []byte{1, 0, 9, 0, 2, 0, 4, 0}, []byte{1})
	f.Fuzz(func(t *testing.T, kind, length, offset uint8, a, b []byte) {
		n := int(length)
		one, two := memory.NewBufferBytes(append(make([]byte, 0, len(a)+64), a...)), memory.NewBufferBytes(append(make([]byte, 0, len(b)+64), b...))
		child := func(dtype arrow.DataType, n int) arrow.ArrayData {
			return array.NewData(dtype, n, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 4*n, 4*n+64))}, nil, 0, 0)
		}
		values := child(arrow.PrimitiveTypes.Int32, len(b)%50)
		dtypes := []arrow.DataType{
			arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, arrow.ListOf(arrow.PrimitiveTypes.Int32), arrow.ListViewOf(arrow.PrimitiveTypes.Int32),
			arrow.DenseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int32}, {Name: "b", Type: arrow.PrimitiveTypes.Int32}}, []arrow.UnionTypeCode{2, 5}),
			&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.PrimitiveTypes.Int32},
			arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32), arrow.BinaryTypes.BinaryView, arrow.LargeListOf(arrow.PrimitiveTypes.Int32),
		}
		dtype := dtypes[int(kind)%len(dtypes)]
		buffers, children := []*memory.Buffer{nil, one, two}, []arrow.ArrayData(nil)
		switch dtype.ID() {
		case arrow.LIST, arrow.LARGE_LIST:
			buffers, children = buffers[:2], []arrow.ArrayData{values}
		case arrow.LIST_VIEW:
			children = []arrow.ArrayData{values}
		case arrow.DENSE_UNION:
			children = []arrow.ArrayData{values, child(arrow.PrimitiveTypes.Int32, 3)}
		case arrow.DICTIONARY:
			buffers = buffers[:2]
		case arrow.RUN_END_ENCODED:
			ends := array.NewData(arrow.PrimitiveTypes.Int16, len(a)/2, []*memory.Buffer{nil, one}, nil, 0, 0)
			buffers, children = []*memory.Buffer{nil}, []arrow.ArrayData{ends, child(arrow.PrimitiveTypes.Int32, len(a)/2)}
		}
		data := array.NewData(dtype, n, buffers, children, 0, int(offset))
		if dtype.ID() == arrow.DICTIONARY {
			data.SetDictionary(values.(*array.Data))
		}
		arr := part{data: data}
		done := func(got arrow.Array, err error) {
			if err == nil {
				got.Release()
			}
		}
		done(columns.Take(arr, columns.Indices(upTo(n)...)))
		done(columns.Concatenate(arr, arr))
		done(columns.Flatten(arr))
		done(columns.Decode(arr))
		done(columns.CastOffsets(arr, arrow.BinaryTypes.LargeBinary))
		done(columns.CastIndices(arr, arrow.PrimitiveTypes.Int8))
	})
}
