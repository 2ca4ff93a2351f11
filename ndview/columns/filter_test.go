package columns_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// chosen returns the indices at which a host mask is true.
func chosen(mask arrow.Array) []int {
	var indices []int
	for i := range mask.Len() {
		if mask.IsValid(i) && mask.(*array.Boolean).Value(i) {
			indices = append(indices, i)
		}
	}
	return indices
}

func TestFilterAllTypes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types {
			for seed := range 6 {
				m := newMaker(t, seed, seed%2 == 0)
				n := []int{0, 1, 40, 200}[m.rng.IntN(4)]
				arr := m.array(dtype, n, seed%3 > 0)
				mask := m.array(arrow.FixedWidthTypes.Boolean, n, seed%2 > 0)
				given := mask
				if seed%2 == 0 {
					given = on(t, dev, mask)
				}
				got, err := columns.Filter(on(t, dev, arr), given)
				requireElements(t, arr, chosen(mask), toHost(t, dev, got, err))
			}
		}
	})
}

func TestFilterRejectsInvalidMasks(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		m := newMaker(t, 1, false)
		arr := on(t, dev, m.array(arrow.BinaryTypes.String, 10, false))
		_, err := columns.Filter(arr, m.array(arrow.FixedWidthTypes.Boolean, 11, false))
		require.ErrorIs(t, err, arrow.ErrInvalid)
		require.ErrorContains(t, err, "mask of 11 elements, want 10")
		_, err = columns.Filter(arr, m.array(arrow.PrimitiveTypes.Int8, 10, false))
		require.ErrorContains(t, err, "mask of type int8, want bool")
	})
}

func TestBatchFunctionsMatchColumnFunctions(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		m := newMaker(t, 3, true)
		meta := arrow.NewMetadata([]string{"of"}, []string{"rows"})
		schema := arrow.NewSchema([]arrow.Field{
			{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, {Name: "b", Type: arrow.BinaryTypes.String, Nullable: true},
			{Name: "c", Type: arrow.ListOf(arrow.PrimitiveTypes.Int16), Nullable: true}, {Name: "d", Type: arrow.Null, Nullable: true},
		}, &meta)
		batch := func(n int64) (host, moved arrow.RecordBatch) {
			var all []arrow.Array
			for _, f := range schema.Fields() {
				all = append(all, m.array(f.Type, int(n), false))
			}
			host = array.NewRecordBatch(schema, all, n)
			t.Cleanup(host.Release)
			moved, err := arrowbuf.CopyTo(host, dev)
			require.NoError(t, err)
			t.Cleanup(moved.Release)
			return host, moved
		}
		a, onDevice := batch(50)
		b, other := batch(7)
		check := func(got arrow.RecordBatch, err error, rows int, column func(i int, got arrow.Array)) {
			t.Helper()
			require.NoError(t, err)
			t.Cleanup(got.Release)
			require.True(t, got.Schema().Equal(schema))
			require.EqualValues(t, rows, got.NumRows())
			for i, c := range got.Columns() {
				c.Retain()
				column(i, toHost(t, dev, c, nil))
			}
		}
		got, err := columns.ConcatenateBatches(onDevice, other)
		check(got, err, 57, func(i int, got arrow.Array) { requireJoined(t, []arrow.Array{a.Column(i), b.Column(i)}, got) })
		got, err = columns.TakeBatch(onDevice, columns.Indices(3, 1, int64(4)))
		check(got, err, 3, func(i int, got arrow.Array) { requireElements(t, a.Column(i), []int{3, 1, 4}, got) })
		mask := m.array(arrow.FixedWidthTypes.Boolean, 50, false)
		got, err = columns.FilterBatch(onDevice, mask)
		check(got, err, len(chosen(mask)), func(i int, got arrow.Array) { requireElements(t, a.Column(i), chosen(mask), got) })

		_, err = columns.TakeBatch(onDevice, columns.Indices[int64](50))
		require.ErrorContains(t, err, "columns.TakeBatch: index 50 at position 0 is outside 50 elements")
		_, err = columns.ConcatenateBatches(onDevice, array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 3))
		require.ErrorIs(t, err, arrow.ErrInvalid)
		_, err = columns.ConcatenateBatches()
		require.Error(t, err)
	})
}

func TestTakeBatchWithoutBuffersAcceptsDeviceIndices(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		indices, err := arrowbuf.CopyArrayTo(columns.Indices(2, 0), dev)
		require.NoError(t, err)
		defer indices.Release()
		for _, batch := range []arrow.RecordBatch{
			array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 3),
			array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.Null}}, nil), []arrow.Array{array.NewNull(3)}, 3),
		} {
			taken, err := columns.TakeBatch(batch, indices)
			require.NoError(t, err)
			assert.Equal(t, int64(2), taken.NumRows())
			taken.Release()
		}
	})
}
