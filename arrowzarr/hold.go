package arrowzarr

import (
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// hold keeps a batch's columns while chunks are made of its rows.
type hold struct {
	columns []arrow.Array // by plan; on the device where the plan says so
	recodes []recode      // by plan; of dictionary columns
	rows    int64
	bytes   int64 // host memory that --max-memory counts
	refs    atomic.Int64
	drop    func(span []byte) // says that memory will hardly be read again
	free    func()
}

func (h *hold) release() {
	if h.refs.Add(-1) > 0 {
		return
	}
	for _, c := range h.columns {
		eachSpan(c.Data(), h.drop)
		c.Release()
	}
	h.free()
}

// segment is a run of rows of a held batch.
type segment struct {
	hold     *hold
	from, to int64
}

// rowChunk is the rows of one chunk of all columns.
type rowChunk struct {
	index    int64
	rows     int64
	segments []segment
	open     atomic.Int64 // columns that still need the rows
}

// parts are a column's share of the rows.
func (r *rowChunk) parts(column int) []part {
	parts := make([]part, len(r.segments))
	for i, s := range r.segments {
		parts[i] = part{values: s.hold.columns[column], from: s.from, to: s.to, recode: s.hold.recodes[column]}
	}
	return parts
}

// done says that one column is through with the rows. It tells whether it was
// the last.
func (r *rowChunk) done() bool {
	if r.open.Add(-1) > 0 {
		return false
	}
	for _, s := range r.segments {
		s.hold.release()
	}
	return true
}

// cutter turns batches of any length into chunks of rows.
type cutter struct {
	pending []segment
	rows    int64 // in pending
	bytes   int64 // of the batches in pending
	next    int64 // index of the next chunk
	taken   int64 // rows in the chunks so far
}

// add takes over a hold.
func (c *cutter) add(h *hold) {
	if h.rows == 0 {
		h.release()
		return
	}
	c.pending = append(c.pending, segment{hold: h, to: h.rows})
	c.rows += h.rows
	c.bytes += h.bytes
}

// cut takes the next rows off what is pending, at most that many.
func (c *cutter) cut(rows int64, columns int) *rowChunk {
	chunk := &rowChunk{index: c.next, rows: min(rows, c.rows)}
	chunk.open.Store(int64(columns))
	c.next++
	c.taken += chunk.rows
	for need := chunk.rows; need > 0; {
		s := &c.pending[0]
		take := min(need, s.to-s.from)
		chunk.segments = append(chunk.segments, segment{hold: s.hold, from: s.from, to: s.from + take})
		s.from += take
		need -= take
		c.rows -= take
		if s.from < s.to {
			s.hold.refs.Add(1) // the rest stays pending
			continue
		}
		c.bytes -= s.hold.bytes
		c.pending = c.pending[1:]
	}
	return chunk
}

// drop releases what is pending.
func (c *cutter) drop() {
	for _, s := range c.pending {
		s.hold.release()
	}
	c.pending, c.rows, c.bytes = nil, 0, 0
}

// batchBytes is the memory of a batch's buffers, each as size says.
func batchBytes(batch arrow.RecordBatch, size func(*memory.Buffer) int64) int64 {
	var total int64
	for _, c := range batch.Columns() {
		total += arrayBytes(c.Data(), size)
	}
	return total
}

func arrayBytes(data arrow.ArrayData, size func(*memory.Buffer) int64) int64 {
	var total int64
	for _, b := range data.Buffers() {
		if b != nil {
			total += size(b)
		}
	}
	for _, child := range data.Children() {
		total += arrayBytes(child, size)
	}
	return total
}

// filled is the size of what is in a buffer.
func filled(b *memory.Buffer) int64 { return int64(b.Len()) }
