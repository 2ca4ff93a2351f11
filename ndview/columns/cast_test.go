package columns_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// foreign is an array as a stranger hands it over, of which nothing is checked.
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
	made := arrowbuf.NewArray(there)
	t.Cleanup(made.Release)
	return made
}

func TestCastIndicesNamesAnIndexOutsideTheDictionary(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		values := newMaker(t, 1, false).data(arrow.PrimitiveTypes.Int8, 3)
		for _, c := range []struct {
			from  arrow.DataType
			width int
			bad   int
			shown string
		}{
			{arrow.PrimitiveTypes.Int16, 2, 256, "index 256, of element 2"},
			{arrow.PrimitiveTypes.Uint32, 4, 1 << 16, "index 65536, of element 2"},
			{arrow.PrimitiveTypes.Int64, 8, 1<<40 + 1, "index 1099511627777, of element 2"},
			{arrow.PrimitiveTypes.Int8, 1, -1, "index -1, of element 2"},
			{arrow.PrimitiveTypes.Int32, 4, -256, "index -256, of element 2"},
			{arrow.PrimitiveTypes.Uint8, 1, 3, "index 3, of element 2"},
		} {
			dtype := &arrow.DictionaryType{IndexType: c.from, ValueType: arrow.PrimitiveTypes.Int8}
			indices := []*memory.Buffer{integers(c.width, []int{0, 2, c.bad, 1, c.bad})}
			for _, to := range []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int64} {
				_, err := columns.CastIndices(foreign(t, dev, dtype, 5, nil, indices, values), to)
				require.ErrorIs(t, err, arrow.ErrInvalid, "%s to %s", dtype, to)
				require.ErrorContains(t, err, c.shown+", is outside a dictionary of 3 values")
				require.ErrorContains(t, err, dtype.String())
				cast, err := columns.CastIndices(foreign(t, dev, dtype, 5, []byte{0b01011}, indices, values), to)
				got := toHost(t, dev, cast, err).(*array.Dictionary)
				require.Equal(t, []int{0, 2, 1}, []int{got.GetValueIndex(0), got.GetValueIndex(1), got.GetValueIndex(3)}, "what is null may be anything")
				require.True(t, got.IsNull(2) && got.IsNull(4))
			}
		}
		dtype := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.PrimitiveTypes.Int8}
		_, err := columns.CastIndices(foreign(t, dev, dtype, 1, nil, []*memory.Buffer{integers(2, []int{0})}, newMaker(t, 1, false).data(arrow.PrimitiveTypes.Int8, 0)), arrow.PrimitiveTypes.Int8)
		require.ErrorContains(t, err, "index 0, of element 0, is outside a dictionary of 0 values")
	})
}

func TestCastOffsetsNamesAnOffsetOutsideTheValues(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
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
				require.NoError(t, err, "%s, which is null", name)
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
			for name, offsets := range map[string][]int{"below the first": {2, 0, 3}, "negative": {0, -1, 3}, "behind the values": {0, 7, 3}} {
				text := []*memory.Buffer{integers(width, offsets), memory.NewBufferBytes([]byte("abc"))}
				_, err = columns.CastOffsets(foreign(t, dev, types[0], 2, nil, text, nil), types[1])
				require.ErrorIs(t, err, arrow.ErrInvalid, "an offset %s of %s", name, types[0])
			}
		}
	})
}
