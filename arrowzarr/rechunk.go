package arrowzarr

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// take prepares a batch and adds its rows to what waits for being cut.
func (c *conversion) take(r result) error {
	// Counting reads the input's memory, as encoding does.
	if err := catchPanic(func() error { return countNulls(r.loan.batch) }); err != nil {
		r.loan.batch.Release()
		return markPart(PartInput, err)
	}
	if so := c.cutter.taken + c.cutter.rows; r.loan.batch.NumRows() > math.MaxInt64-so {
		r.loan.batch.Release()
		return partErrorf(PartInput, "after %d rows: more rows than can be counted", so)
	}
	c.chooseChunkRows(r.loan.batch)
	h, err := c.hold(r.loan)
	if err != nil {
		return err
	}
	c.cutter.add(h)
	c.memory.wait(0) // chunks will be cut of what is pending
	c.progress.input.Store(r.done)
	c.progress.inputTotal.Store(r.total)
	return nil
}

// hold keeps a batch, with those columns on the device that go there.
func (c *conversion) hold(l sourceBatch) (*hold, error) {
	h := &hold{rows: l.batch.NumRows(), bytes: l.bytes, drop: c.src.mapping().evict, free: func() { c.memory.give(l.bytes) }}
	h.refs.Store(1)
	var err error
	if h.recodes, err = c.recodes(l.batch); err == nil {
		h.columns, err = c.toDevice(l.batch)
	}
	l.batch.Release()
	if err != nil {
		h.free()
		return nil, err
	}
	return h, nil
}

// recodes brings the dictionaries of a batch to the codes of the whole column.
func (c *conversion) recodes(batch arrow.RecordBatch) ([]codeMap, error) {
	recodes := make([]codeMap, len(c.columns))
	for i, w := range c.writers {
		if w.categories == nil {
			continue
		}
		err := catchPanic(func() error {
			dictionary, ok := unwrap(batch.Column(i)).(*array.Dictionary)
			if !ok {
				return fmt.Errorf("array of %T, expected a dictionary", batch.Column(i))
			}
			var err error
			recodes[i], err = w.categories.mapDictionary(dictionary.Dictionary())
			return err
		})
		if err != nil {
			return nil, partErrorf(PartInput, "column %q: %w", w.plan.name, err)
		}
	}
	return recodes, nil
}

// unwrap returns the storage of extension arrays.
func unwrap(a arrow.Array) arrow.Array {
	for {
		ext, ok := a.(array.ExtensionArray)
		if !ok {
			return a
		}
		a = ext.Storage()
	}
}

// toDevice returns the columns of a batch, those of fixed width on the device.
func (c *conversion) toDevice(batch arrow.RecordBatch) ([]arrow.Array, error) {
	columns := make([]arrow.Array, len(c.columns))
	var moving []int
	for i, plan := range c.columns {
		if plan.onDevice() && c.options.Device != arrowbuf.CPU() {
			moving = append(moving, i)
			continue
		}
		columns[i] = batch.Column(i)
		columns[i].Retain()
	}
	if len(moving) == 0 {
		return columns, nil
	}
	batch.Retain()
	part := selectColumns(batch, selectSchema(batch.Schema(), moving), moving)
	defer part.Release()
	start := time.Now()
	moved, err := arrowbuf.CopyTo(part, c.options.Device)
	if err != nil {
		for _, column := range columns {
			if column != nil {
				column.Release()
			}
		}
		return nil, markPart(PartDevice, err)
	}
	defer moved.Release()
	c.stages.h2d.record(batchBytes(part, bufferLen), time.Since(start))
	for i, m := range moving {
		columns[m] = moved.Column(i)
		columns[m].Retain()
	}
	return columns, nil
}

// hold keeps a batch's columns while chunks are made of its rows.
type hold struct {
	columns []arrow.Array // by plan; on the device where the plan says so
	recodes []codeMap     // by plan; of dictionary columns
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
		forEachRegion(c.Data(), h.drop)
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
func (r *rowChunk) parts(column int) []columnSlice {
	parts := make([]columnSlice, len(r.segments))
	for i, s := range r.segments {
		parts[i] = columnSlice{values: s.hold.columns[column], from: s.from, to: s.to, codes: s.hold.recodes[column]}
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

// bufferLen is the size of what is in a buffer.
func bufferLen(b *memory.Buffer) int64 { return int64(b.Len()) }

// rowGrid is how rows are cut: into chunks, and chunks into shards.
type rowGrid struct {
	chunkRows int64
	shardRows int64 // 0: no shards
}

// chooseChunkRows fixes the number of rows in a chunk with the first batch in
// hand.
func (c *conversion) chooseChunkRows(batch arrow.RecordBatch) {
	if c.grid.chunkRows == 0 {
		c.grid.chunkRows = c.defaultChunkRows(batch)
	}
}

// beginArrays makes the arrays, once: when the first chunk is full, or at the
// end of an input that is shorter than a chunk, whose chunks are then as long
// as it is, unless the user wanted another length.
func (c *conversion) beginArrays(atEnd bool) error {
	if c.begun {
		return nil
	}
	c.begun = true
	if atEnd && c.options.ChunkRows == 0 {
		c.grid.chunkRows = max(c.cutter.rows, 1)
	}
	if err := c.checkIndexes(); err != nil {
		return err
	}
	for i, w := range c.writers {
		if err := w.begin(c, fmt.Sprintf("%s/%d", c.building(), i)); err != nil {
			return err
		}
	}
	return nil
}

// checkIndexes refuses shards of so many chunks that the indexes of those that are
// written at a time take much of the memory.
func (c *conversion) checkIndexes() error {
	const each = 80 // bytes of an entry and of what is made of it
	share := c.options.MaxMemory / 8 / int64(len(c.writers)+1)
	if chunks := c.grid.shardRows / c.grid.chunkRows; chunks > share/each {
		return partErrorf(PartUsage, "a shard of %d chunks has an index of %d bytes for each column: lower --shard-rows, raise --chunk-rows, or raise --max-memory", chunks, 16*chunks)
	}
	return nil
}

// rowsAtOnce is how many rows to cut off: those of a chunk, or, where no column
// stores anything, all. A message of a few bytes can have 2^62 such rows.
func (c *conversion) rowsAtOnce() int64 {
	for _, plan := range c.columns {
		if plan.kind != kindNull {
			return c.grid.chunkRows
		}
	}
	return c.cutter.rows
}

// building is where the arrays are built: a name that no column has.
func (c *conversion) building() string {
	name := ".building"
	for slices.ContainsFunc(c.columns, func(plan *column) bool { return plan.name == name }) {
		name += "."
	}
	return name
}

// defaultChunkRows is DefaultChunkRows, halved until the rows that are in work
// at a time fit in a part of --max-memory: an eighth for the chunk of all
// columns that is gathered, the share of the work for the chunks that are being
// encoded, which take their size three times.
func (c *conversion) defaultChunkRows(batch arrow.RecordBatch) int64 {
	rows := int64(DefaultChunkRows)
	var row, widest float64
	for i, plan := range c.columns {
		width := plan.rowBytes(batch.Column(i), batch.NumRows())
		row += width
		widest = max(widest, width)
	}
	fits := func() bool {
		gathered, encoding := row*float64(rows), widest*float64(rows)*3
		alone := encoding + float64(outside(int64(c.options.Codec.tableBytes(widest*float64(rows)))))
		share := float64(c.options.MaxMemory / workShare)
		return gathered <= float64(c.options.MaxMemory/8) && encoding*float64(c.options.Jobs) <= share && alone <= share
	}
	for rows > 1 && !fits() {
		rows /= 2
	}
	return rows
}

// rowBytes is the size of a row of the column: of fixed width, or as the first
// batch has it on average.
func (c *column) rowBytes(values arrow.Array, rows int64) float64 {
	if c.kind == kindFixed || c.kind == kindDictionary {
		return float64(c.layout.elements() * c.layout.dtype.Size())
	}
	var total int64
	for _, b := range values.Data().Buffers() {
		if b != nil {
			total += int64(b.Len())
		}
	}
	return float64(total) / float64(max(rows, 1))
}

// countNulls makes sure that a batch's arrays know how many nulls they have.
// Readers may leave a count open; it decides whether a column gets a mask, and
// on a device nobody could count any more.
func countNulls(batch arrow.RecordBatch) error {
	for i, c := range batch.Columns() {
		if int64(c.Len()) != batch.NumRows() {
			return fmt.Errorf("column %q has %d rows in a batch of %d", batch.ColumnName(i), c.Len(), batch.NumRows())
		}
		if err := countArrayNulls(c.Data()); err != nil {
			return fmt.Errorf("column %q: %w", batch.ColumnName(i), err)
		}
	}
	return nil
}

func countArrayNulls(data arrow.ArrayData) error {
	buffers := data.Buffers()
	if len(buffers) > 0 && data.NullN() != 0 && data.DataType().ID() != arrow.NULL {
		validity := buffers[0]
		switch {
		case validity == nil || validity.Len() == 0:
			data.(*array.Data).SetNullN(0)
		case int64(validity.Len())*8 < int64(data.Offset())+int64(data.Len()):
			return fmt.Errorf("a validity bitmap of %d bytes for %d values", validity.Len(), data.Offset()+data.Len())
		case data.NullN() < 0:
			set := bitutil.CountSetBits(validity.Bytes(), data.Offset(), data.Len())
			data.(*array.Data).SetNullN(data.Len() - set)
		}
	}
	for _, child := range data.Children() {
		if err := countArrayNulls(child); err != nil {
			return err
		}
	}
	return nil
}
