package arrowbuf_test

import (
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// readerOf returns a reader of batches, which it retains.
func readerOf(t *testing.T, schema *arrow.Schema, batches ...arrow.RecordBatch) array.RecordReader {
	r, err := array.NewRecordReader(schema, batches)
	require.NoError(t, err)
	t.Cleanup(r.Release)
	return r
}

// firstColumn returns a batch of the first column.
func firstColumn(b arrow.RecordBatch) (arrow.RecordBatch, error) {
	return arrowbuf.NewRecordBatch(arrow.NewSchema(b.Schema().Fields()[:1], nil), b.Columns()[:1], b.NumRows())
}

func TestMapReaderAppliesAFunctionToEachBatch(t *testing.T) {
	mem := checked(t)
	one := randomBatch(t, mem, 10, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)
	two := randomBatch(t, mem, 20, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)
	for name, batches := range map[string][]arrow.RecordBatch{"two batches": {one, two}, "one": {two}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			r, err := arrowbuf.MapReader(readerOf(t, one.Schema(), batches...), firstColumn)
			require.NoError(t, err)
			defer r.Release()
			assert.Equal(t, 1, r.Schema().NumFields())
			var rows []int64
			for r.Next() {
				rows = append(rows, r.RecordBatch().NumRows())
				assert.True(t, array.Equal(batches[len(rows)-1].Column(0), r.RecordBatch().Column(0)))
			}
			require.NoError(t, r.Err())
			assert.Len(t, rows, len(batches))
		})
	}
}

func TestMapReaderReleasesTheBatchesItDoesNotReturn(t *testing.T) {
	one := randomBatch(t, checked(t), 10, arrow.PrimitiveTypes.Int32)
	r, err := arrowbuf.MapReader(readerOf(t, one.Schema(), one, one), firstColumn)
	require.NoError(t, err)
	r.Release() // the first result was never read; checked fails the test if it leaks
}

func TestMapReaderReturnsErrors(t *testing.T) {
	one := randomBatch(t, checked(t), 10, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)
	mine := errors.New("mine")
	_, err := arrowbuf.MapReader(readerOf(t, one.Schema(), one), func(arrow.RecordBatch) (arrow.RecordBatch, error) { return nil, mine })
	assert.ErrorIs(t, err, mine)
	_, err = arrowbuf.MapReader(readerOf(t, one.Schema(), one), func(arrow.RecordBatch) (arrow.RecordBatch, error) { return nil, nil })
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	for want, second := range map[error]func(b arrow.RecordBatch) (arrow.RecordBatch, error){
		mine:             func(arrow.RecordBatch) (arrow.RecordBatch, error) { return nil, mine },
		arrow.ErrInvalid: func(b arrow.RecordBatch) (arrow.RecordBatch, error) { b.Retain(); return b, nil }, // two columns
	} {
		calls := 0
		r, err := arrowbuf.MapReader(readerOf(t, one.Schema(), one, one), func(b arrow.RecordBatch) (arrow.RecordBatch, error) {
			if calls++; calls == 1 {
				return firstColumn(b)
			}
			return second(b)
		})
		require.NoError(t, err)
		assert.True(t, r.Next())
		assert.False(t, r.Next())
		assert.ErrorIs(t, r.Err(), want)
		r.Release()
	}
}
