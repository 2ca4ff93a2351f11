package columns_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// foreign returns an array whose indices and offsets were never validated.
func foreign(t *testing.T, dev arrowbuf.Device, dtype arrow.DataType, n int, valid []byte, buffers []*memory.Buffer, values arrow.ArrayData) arrow.Array {
	t.Helper()
	nulls := 0
	first := []*memory.Buffer{nil}
	if valid != nil {
		nulls, first[0] = array.UnknownNullCount, memory.NewBufferBytes(valid)
	}
	var children []arrow.ArrayData
	if _, dictionary := dtype.(*arrow.DictionaryType); !dictionary && values != nil {
		children = append(children, values)
	}
	data := array.NewData(dtype, n, append(first, buffers...), children, nulls, 0)
	if children == nil && values != nil {
		data.SetDictionary(values)
	}
	t.Cleanup(data.Release)
	there := copied(t, dev, data)
	if dev == arrowbuf.CPU() {
		return part{data: there}
	}
	result := arrowbuf.NewArray(there)
	t.Cleanup(result.Release)
	return result
}

func TestCastIndicesNamesAnIndexOutsideTheDictionary(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		values := newMaker(t, 1, false).data(arrow.PrimitiveTypes.Int8, 3)
		for _, c := range []struct {
			from  arrow.DataType
			width int
			bad   int
			shown string
		}{
			{arrow.PrimitiveTypes.Int16, 2, 256, "index 256 of element 2"},
			{arrow.PrimitiveTypes.Uint32, 4, 1 << 16, "index 65536 of element 2"},
			{arrow.PrimitiveTypes.Int64, 8, 1<<40 + 1, "index 1099511627777 of element 2"},
			{arrow.PrimitiveTypes.Int8, 1, -1, "index -1 of element 2"},
			{arrow.PrimitiveTypes.Int32, 4, -256, "index -256 of element 2"},
			{arrow.PrimitiveTypes.Uint8, 1, 3, "index 3 of element 2"},
		} {
			dtype := &arrow.DictionaryType{IndexType: c.from, ValueType: arrow.PrimitiveTypes.Int8}
			indices := []*memory.Buffer{integers(c.width, []int{0, 2, c.bad, 1, c.bad})}
			for _, to := range []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int64} {
				_, err := columns.CastIndices(foreign(t, dev, dtype, 5, nil, indices, values), to)
				require.ErrorIs(t, err, arrow.ErrInvalid, "%s to %s", dtype, to)
				require.ErrorContains(t, err, c.shown+" is outside a dictionary of 3 values")
				require.ErrorContains(t, err, dtype.String())
				cast, err := columns.CastIndices(foreign(t, dev, dtype, 5, []byte{0b01011}, indices, values), to)
				got := toHost(t, dev, cast, err).(*array.Dictionary)
				require.Equal(t, []int{0, 2, 1}, []int{got.GetValueIndex(0), got.GetValueIndex(1), got.GetValueIndex(3)}, "indices of nulls are not validated")
				require.True(t, got.IsNull(2) && got.IsNull(4))
			}
		}
		dtype := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.PrimitiveTypes.Int8}
		_, err := columns.CastIndices(foreign(t, dev, dtype, 1, nil, []*memory.Buffer{integers(2, []int{0})}, newMaker(t, 1, false).data(arrow.PrimitiveTypes.Int8, 0)), arrow.PrimitiveTypes.Int8)
		require.ErrorContains(t, err, "index 0 of element 0 is outside a dictionary of 0 values")
	})
}

func TestCastOffsetsNamesAnOffsetOutsideTheValues(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		values := newMaker(t, 1, false).data(arrow.PrimitiveTypes.Int8, 9)
		views := arrow.LargeListViewOf(arrow.PrimitiveTypes.Int8)
		narrow := arrow.ListViewOf(arrow.PrimitiveTypes.Int8)
		for name, b := range map[string][2][]int{
			"an offset of more than 32 bits": {{0, 1 << 32, 3}, {2, 0, 1}},
			"a size of more than 32 bits":    {{0, 0, 3}, {2, 1<<32 + 1, 1}},
			"a negative offset":              {{0, -1, 3}, {2, 1, 1}},
			"an offset beyond the values":    {{0, 10, 3}, {2, 0, 1}},
		} {
			for width, types := range map[int][2]arrow.DataType{8: {views, narrow}, 4: {narrow, views}} {
				buffers := []*memory.Buffer{integers(width, b[0]), integers(width, b[1])}
				if width == 4 && (b[0][1] >= 1<<32 || b[1][1] >= 1<<32) {
					continue
				}
				_, err := columns.CastOffsets(foreign(t, dev, types[0], 3, nil, buffers, values), types[1])
				require.ErrorIs(t, err, arrow.ErrInvalid, "%s: %s", name, types[0])
				require.ErrorContains(t, err, "element 1")
				cast, err := columns.CastOffsets(foreign(t, dev, types[0], 3, []byte{0b101}, buffers, values), types[1])
				require.NoError(t, err, "%s in a null element", name)
				cast.Release()
			}
		}
		text := []*memory.Buffer{integers(8, []int{0, 1 << 32, 3}), memory.NewBufferBytes([]byte("abc"))}
		_, err := columns.CastOffsets(foreign(t, dev, arrow.BinaryTypes.LargeString, 2, nil, text, nil), arrow.BinaryTypes.String)
		require.ErrorIs(t, err, arrow.ErrInvalid)
		require.ErrorContains(t, err, "element 0")
		for width, types := range map[int][2]arrow.DataType{
			8: {arrow.BinaryTypes.LargeString, arrow.BinaryTypes.String},
			4: {arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString},
		} {
			for name, offsets := range map[string][]int{"below the first": {2, 0, 3}, "negative": {0, -1, 3}, "beyond the values": {0, 7, 3}} {
				text := []*memory.Buffer{integers(width, offsets), memory.NewBufferBytes([]byte("abc"))}
				_, err = columns.CastOffsets(foreign(t, dev, types[0], 2, nil, text, nil), types[1])
				require.ErrorIs(t, err, arrow.ErrInvalid, "an offset %s of %s", name, types[0])
			}
		}
	})
}

func TestCastIndicesKeepsTheValues(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, from := range indexTypes {
			for _, to := range indexTypes {
				m := newMaker(t, 5, true)
				dtype := &arrow.DictionaryType{IndexType: from, ValueType: arrow.BinaryTypes.String, Ordered: true}
				arr := m.array(dtype, 70, true)
				cast, err := columns.CastIndices(on(t, dev, arr), to)
				got := toHost(t, dev, cast, err)
				require.True(t, arrow.TypeEqual(got.DataType(), &arrow.DictionaryType{IndexType: to, ValueType: arrow.BinaryTypes.String, Ordered: true}))
				for i := range arr.Len() {
					require.Equal(t, arr.GetOneForMarshal(i), got.GetOneForMarshal(i))
				}
			}
		}
		m := newMaker(t, 5, true)
		large := array.NewDataWithDictionary(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.PrimitiveTypes.Int8},
			0, []*memory.Buffer{nil, nil}, 0, 0, m.data(arrow.PrimitiveTypes.Int8, 129))
		_, err := columns.CastIndices(on(t, dev, array.MakeFromData(large)), arrow.PrimitiveTypes.Int8)
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		_, err = columns.CastIndices(on(t, dev, array.MakeFromData(large)), arrow.PrimitiveTypes.Float32)
		require.ErrorIs(t, err, arrow.ErrInvalid)
	})
}

func TestCastOffsetsKeepsTheValues(t *testing.T) {
	pairs := [][2]arrow.DataType{
		{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString}, {arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary},
		{arrow.ListOf(arrow.BinaryTypes.String), arrow.LargeListOf(arrow.BinaryTypes.String)},
		{arrow.ListViewOf(arrow.PrimitiveTypes.Int8), arrow.LargeListViewOf(arrow.PrimitiveTypes.Int8)},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, pair := range pairs {
			for _, types := range [][2]arrow.DataType{{pair[0], pair[1]}, {pair[1], pair[0]}, {pair[0], pair[0]}} {
				for seed, n := range []int{0, 1, 70, 70} {
					arr := newMaker(t, seed, seed > 1).array(types[0], n, seed > 0)
					cast, err := columns.CastOffsets(on(t, dev, arr), types[1])
					got := toHost(t, dev, cast, err)
					require.True(t, arrow.TypeEqual(got.DataType(), types[1]))
					require.Equal(t, n, got.Len())
					for i := range n {
						require.Equal(t, arr.GetOneForMarshal(i), got.GetOneForMarshal(i))
					}
				}
			}
		}
		arr := on(t, dev, newMaker(t, 1, false).array(arrow.BinaryTypes.String, 3, false))
		_, err := columns.CastOffsets(arr, arrow.BinaryTypes.LargeBinary)
		require.ErrorIs(t, err, arrow.ErrNotImplemented)
	})
}

func TestCastOffsetsRejectsListViewsBeyondValues(t *testing.T) {
	values := array.NewData(arrow.PrimitiveTypes.Int8, 8, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 8))}, nil, 0, 0)
	word := func(v byte) *memory.Buffer { return memory.NewBufferBytes([]byte{v, 0, 0, 0}) }
	views := array.NewData(arrow.ListViewOf(arrow.PrimitiveTypes.Int8), 1, []*memory.Buffer{nil, word(5), word(7)}, []arrow.ArrayData{values}, 0, 0)
	_, err := columns.CastOffsets(arrowbuf.NewArray(views), arrow.LargeListViewOf(arrow.PrimitiveTypes.Int8))
	assert.ErrorIs(t, err, arrow.ErrInvalid)
}
