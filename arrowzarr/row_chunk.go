package arrowzarr

import (
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
)

// sharedBatch is a batch whose rows are not written yet. Its slices share a reference
// count.
type sharedBatch struct {
	first   int           // column
	columns []arrow.Array // on the device if column.onDevice
	codes   []codeMap     // by column; nil for other than dictionary columns
	rows    int64
	bytes   int64 // of batchMemory
	memory  *batchMemory
	mapping *source.Mapping
	refs    atomic.Int64
	copied  chan error // has the result of copying the columns to the device
	strip   bool       // the batch is one chunk of some columns
}

func (b *sharedBatch) release() {
	if b.refs.Add(-1) > 0 {
		return
	}
	for _, c := range b.columns {
		forEachRegion(c.Data(), b.mapping.Evict)
		c.Release()
	}
	b.memory.release(b.bytes)
}

// batchSlice is a run of rows of a batch. It owns one reference to the batch.
type batchSlice struct {
	batch    *sharedBatch
	from, to int64
}

// rowChunk is the rows of one chunk of all columns.
type rowChunk struct {
	index     int64
	rows      int64
	grid      rowGrid
	slices    []batchSlice
	first, to int   // columns
	last      bool  // it has the last column
	start     int64 // row
	epoch     *epoch
	unwritten atomic.Int64 // columns that still read the rows
}

// columnRows is the rows of one column of a chunk. The consumer must release it
// once.
type columnRows struct {
	*rowChunk
	column int
}

func (r columnRows) columnSlices() []columnSlice {
	slices := make([]columnSlice, len(r.slices))
	for i, s := range r.slices {
		column := r.column - s.batch.first
		slices[i] = columnSlice{values: s.batch.columns[column], from: s.from, to: s.to, codes: s.batch.codes[column]}
	}
	return slices
}

// release releases the rows for one column. It returns the rows of which that was the last
// column, which are 0 for all but one strip of a chunk.
func (r *rowChunk) release() int64 {
	if r.unwritten.Add(-1) > 0 {
		return 0
	}
	for _, s := range r.slices {
		s.batch.release()
	}
	if !r.last {
		return 0
	}
	return r.rows
}
