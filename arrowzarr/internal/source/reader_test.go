package source_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// readerOf returns an opener of the batches of a table, with a new reader for each call.
func readerOf(t *testing.T, table tabletest.Table) sourcetest.Opener {
	t.Helper()
	return func() (source.Source, error) {
		r, err := array.NewRecordReader(table.Schema, table.Batches)
		if err != nil {
			return nil, err
		}
		t.Cleanup(r.Release)
		return source.NewReader(r), nil
	}
}

func TestRangesOfRecordReadersAreSlicesOfTheWhole(t *testing.T) {
	sourcetest.TestRanges(t, map[string]sourcetest.Opener{
		"batches": readerOf(t, sourcetest.RangeTable(7, []int{13, 0, 1, 40, 7}, 0.3, sourcetest.Flat...)),
		"nested":  readerOf(t, sourcetest.RangeTable(7, []int{13, 0, 1, 40, 7}, 0.3, sourcetest.Nested...)),
		"no rows": readerOf(t, sourcetest.RangeTable(8, nil, 0, sourcetest.Flat...)),
	})
}

func TestRecordReadersCannotBeCounted(t *testing.T) {
	open := readerOf(t, tabletest.Numbers(0, 3))
	assert.EqualValues(t, -1, sourcetest.Info(t, open).Rows)
	_, err := sourcetest.Count(open)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// The source reads no batch after the last row of its range.
func TestRecordReadersAreNotReadBeyondTheRange(t *testing.T) {
	batches := slices.Concat(tabletest.Numbers(0, 4).Batches, tabletest.Numbers(4, 4).Batches)
	r := &stubReader{batches: batches, failure: errors.New("read beyond the range")}
	var rows int64
	open := func() (source.Source, error) { return source.NewReader(r), nil }
	require.NoError(t, sourcetest.Read(open, nil, source.RowRange{From: 1, To: 8}, func(b arrow.RecordBatch) { rows += b.NumRows() }))
	assert.EqualValues(t, 7, rows)
}

func TestBytesOfRecordReadersAreThoseOfTheChosenColumns(t *testing.T) {
	numbers := tabletest.Numbers(0, 100).Batches[0].Column(0)
	fields := []arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "b", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}
	src, err := readerOf(t, tabletest.New(fields, []arrow.Array{numbers, numbers}))()
	require.NoError(t, err)
	require.NoError(t, src.Open(t.Context(), []int{1}, source.WholeInput))
	b, err := src.Next()
	require.NoError(t, err)
	defer b.Record.Release()
	assert.Equal(t, "b", b.Record.ColumnName(0))
	want := arrowdata.ArrayBytes(numbers.Data(), arrowdata.BufferLen)
	assert.Equal(t, want, b.Bytes)
	done, total := src.Position()
	assert.Equal(t, want, done)
	assert.EqualValues(t, -1, total)
}

func TestErrorsOfRecordReadersAreReturned(t *testing.T) {
	good := tabletest.Numbers(0, 5).Batches[0]
	lost := errors.New("the connection was lost")
	for name, test := range map[string]struct {
		reader stubReader
		want   string
		is     error
	}{
		"error":  {stubReader{batches: []arrow.RecordBatch{good}, failure: lost}, "the connection was lost", lost},
		"schema": {stubReader{batches: []arrow.RecordBatch{good, tabletest.Single("other", tabletest.Texts("x")).Batches[0]}}, "a batch of another schema than the reader's", nil},
		"panic":  {stubReader{batches: []arrow.RecordBatch{good, nil}}, "malformed", arrowdata.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			var rows int64
			open := func() (source.Source, error) { return source.NewReader(&test.reader), nil }
			err := sourcetest.Read(open, nil, source.WholeInput, func(b arrow.RecordBatch) { rows += b.NumRows() })
			require.ErrorContains(t, err, test.want)
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
			assert.EqualValues(t, 5, rows, "the rows before the error")
		})
	}
}

// stubReader yields batches, of which only the first need have the schema, and then fails.
type stubReader struct {
	array.RecordReader
	batches []arrow.RecordBatch
	at      int
	failure error
}

func (r *stubReader) Schema() *arrow.Schema          { return r.batches[0].Schema() }
func (r *stubReader) RecordBatch() arrow.RecordBatch { return r.batches[r.at-1] }
func (r *stubReader) Next() bool                     { r.at++; return r.at <= len(r.batches) }
func (r *stubReader) Err() error                     { return r.failure }
