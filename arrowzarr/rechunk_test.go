package arrowzarr

import (
	"cmp"
	"context"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// fakeReader is a batchReader of batches with these numbers of rows. A batch has one
// column of consecutive integers, and takes 10 bytes if bytes is 0.
type fakeReader struct {
	lengths []int
	bytes   int64
	rows    int64
	pending []int64 // as next was told
}

func (f *fakeReader) next(_ context.Context, pendingBytes int64) (b prefetchBatch, err error) {
	f.pending = append(f.pending, pendingBytes)
	if len(f.lengths) == 0 {
		return b, io.EOF
	}
	values := array.NewInt64Builder(memory.DefaultAllocator)
	for range f.lengths[0] {
		values.Append(f.rows)
		f.rows++
	}
	f.lengths = f.lengths[1:]
	schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.PrimitiveTypes.Int64}}, nil)
	column := values.NewArray()
	b.Record, b.Bytes = array.NewRecordBatch(schema, []arrow.Array{column}, int64(column.Len())), cmp.Or(f.bytes, 10)
	return b, nil
}

// Chunks have the rows of the batches in order. A batch stays reserved until the last
// of its chunks is released, and counts as pending while some of its rows do.
func TestRechunkerSendsRowsInChunks(t *testing.T) {
	chosen, err := chooseColumns(arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.PrimitiveTypes.Int64}}, nil), Options{})
	require.NoError(t, err)
	in := &fakeReader{lengths: []int{2, 2, 7, 0, 1}}
	batches := newBatchMemory(100, 100)
	require.True(t, batches.free.TryAcquire(50), "the five batches")
	out := make(chan columnRows)
	r := &rechunker{
		in: in, columns: chosen.columns, categories: make([]*categories, 1), device: arrowbuf.CPU(),
		memory: batches, progress: &Progress{}, stats: &stageStats{}, out: out,
		sizer: chunkSizer{shares: divideMemory(DefaultMaxMemory, 0)}, grid: rowGrid{chunkRows: 5},
	}
	var group errgroup.Group
	group.Go(func() error {
		defer close(out)
		return r.run(t.Context())
	})
	var chunks [][]int64
	var sent []columnRows
	for rows := range out {
		assert.Equal(t, int64(len(chunks)), rows.index)
		var values []int64
		for _, s := range rows.columnSlices() {
			values = append(values, s.values.(*array.Int64).Int64Values()[s.from:s.to]...)
		}
		chunks = append(chunks, values)
		sent = append(sent, rows)
	}
	require.NoError(t, group.Wait())
	assert.Equal(t, [][]int64{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}, {10, 11}}, chunks)
	assert.Equal(t, []int64{0, 10, 20, 10, 10, 20}, in.pending)
	assert.Equal(t, int64(12), r.rows)

	assert.False(t, batches.free.TryAcquire(61), "only the batch without rows is released")
	assert.Equal(t, int64(5), sent[0].release(), "of one column")
	assert.True(t, batches.free.TryAcquire(80), "the first two batches")
	assert.False(t, batches.free.TryAcquire(1))
	assert.Equal(t, int64(5), sent[1].release())
	assert.False(t, batches.free.TryAcquire(1), "the last chunk reads the third batch")
	assert.Equal(t, int64(2), sent[2].release())
	assert.True(t, batches.free.TryAcquire(20), "all are released")
}

// A few rows of a large batch that wait for the next one do not keep its memory.
func TestRestsOfLargeBatchesAreCopied(t *testing.T) {
	chosen, err := chooseColumns(arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.PrimitiveTypes.Int64}}, nil), Options{})
	require.NoError(t, err)
	in := &fakeReader{lengths: []int{7, 7, 8}, bytes: 5000}
	batches := newBatchMemory(20_000, 20_000)
	require.True(t, batches.free.TryAcquire(15_000), "the three batches")
	out := make(chan columnRows)
	r := &rechunker{
		in: in, columns: chosen.columns, categories: make([]*categories, 1), device: arrowbuf.CPU(),
		memory: batches, progress: &Progress{}, stats: &stageStats{}, out: out,
		sizer: chunkSizer{shares: divideMemory(DefaultMaxMemory, 0)}, grid: rowGrid{chunkRows: 6},
	}
	var group errgroup.Group
	group.Go(func() error {
		defer close(out)
		return r.run(t.Context())
	})
	var values []int64
	for rows := range out {
		for _, s := range rows.columnSlices() {
			values = append(values, s.values.(*array.Int64).Int64Values()[s.from:s.to]...)
		}
		rows.release()
	}
	require.NoError(t, group.Wait())
	require.Len(t, values, 22)
	for i, v := range values {
		assert.Equal(t, int64(i), v)
	}
	assert.Equal(t, []int64{0, 8, 5000, 5000}, in.pending, "of 1, 2 and 4 rows")
	assert.True(t, batches.free.TryAcquire(20_000), "all are released")
}
