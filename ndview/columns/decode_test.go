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

func TestDecodeIsTheValuesThatAreMeant(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types {
			for seed := range 4 {
				m := newMaker(t, seed, seed%2 == 0)
				arr := m.array(dtype, 90, seed > 1)
				got, err := columns.Decode(on(t, dev, arr))
				var values arrow.Array
				var from []int
				switch a := arr.(type) {
				case *array.Dictionary:
					values = a.Dictionary()
					for i := range a.Len() {
						if from = append(from, -1); a.IsValid(i) {
							from[i] = a.GetValueIndex(i)
						}
					}
				case *array.RunEndEncoded:
					values = a.Values()
					for i := range a.Len() {
						from = append(from, a.GetPhysicalIndex(i))
					}
				default:
					require.ErrorIs(t, err, arrow.ErrNotImplemented, dtype)
					continue
				}
				requireElements(t, values, from, toHost(t, dev, got, err))
			}
		}
	})
}

func TestFlattenIsTheListsBehindOneAnother(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types {
			for seed := range 4 {
				m := newMaker(t, seed, seed%2 == 0)
				arr := m.array(dtype, []int{0, 90}[min(seed, 1)], seed > 1)
				got, err := columns.Flatten(on(t, dev, arr))
				list, ok := arr.(array.VarLenListLike)
				fixed, isFixed := arr.(*array.FixedSizeList)
				if !ok && !isFixed {
					require.ErrorIs(t, err, arrow.ErrNotImplemented, dtype)
					continue
				}
				var values arrow.Array
				var bounds func(i int) (from, to int64)
				if isFixed {
					values, bounds = fixed.ListValues(), fixed.ValueOffsets
				} else {
					values, bounds = list.ListValues(), list.ValueOffsets
				}
				var from []int
				for i := range arr.Len() {
					for first, last := bounds(i); arr.IsValid(i) && first < last; first++ {
						from = append(from, int(first))
					}
				}
				requireElements(t, values, from, toHost(t, dev, got, err))
			}
		}
	})
}

func TestCastIndicesKeepsTheValues(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
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
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
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
