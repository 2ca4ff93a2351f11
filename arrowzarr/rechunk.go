package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// rechunker is the second stage of the pipeline: it copies batches to the device
// and cuts batches of any length into the rows of chunks.
type rechunker struct {
	in         batchReader
	columns    []*column
	categories []*categories // by column; nil for other than dictionary columns
	device     arrowbuf.Device
	sizer      chunkSizer
	memory     *batchMemory
	mapping    *source.Mapping // of the source; may be nil
	progress   *Progress
	stats      *stageStats // of copies to the device
	out        chan<- columnRows
	nested     []*nestedWriter // by column; nil for other than nested columns
	existing   *existingTable  // to which the rows are appended; nil for a new output

	checkpoints *checkpointer // nil for none

	grid         rowGrid // chunkRows is 0 until the first batch
	gridFixed    bool
	codecsChosen bool
	placed       bool           // it is decided which columns are copied to the device
	copying      []*sharedBatch // whose columns are being copied to the device
	copyingRows  int64
	pending      []batchSlice // rows that are not in a chunk yet
	pendingRows  int64
	pendingBytes int64 // of the batches in pending
	nextChunk    int64 // index
	rows         int64 // in the chunks so far
}

// batchReader yields the batches of an input, and io.EOF. pendingBytes is the size of
// the batches that the caller cannot release before it has the next one.
type batchReader interface {
	next(ctx context.Context, pendingBytes int64) (prefetchBatch, error)
}

const (
	// batchesAhead is the number of batches of a mapped file that cross the link while
	// chunks of one before are sent.
	batchesAhead = 2
	// readersPerBatch is the number of goroutines, per 16 jobs, that read such a batch. The
	// others are for what is stored. Page-locking the mapped file instead took longer than
	// reading it, on an H200.
	readersPerBatch = 3
)

// run rechunks the whole input.
func (r *rechunker) run(ctx context.Context) error {
	defer r.releasePending()
	if err := r.existing.loadNested(ctx, r.nested); err != nil {
		return err
	}
	for more := true; more; {
		if err := r.copyRests(); err != nil {
			return err
		}
		b, err := r.in.next(ctx, r.pendingBytes)
		more = !errors.Is(err, io.EOF)
		if err != nil && more {
			return err
		}
		ahead := 0 // batches that cross the link while chunks of those before are sent
		if more {
			if err := r.begin(b); err != nil {
				return err
			}
			if r.mapping != nil && b.Bytes == 0 {
				ahead = batchesAhead // it takes no memory of batches
			}
		}
		for len(r.copying) > ahead {
			if err := r.add(ctx); err != nil {
				return err
			}
		}
	}
	if err := r.fixGrid(true); err != nil {
		return err
	}
	for r.pendingRows > 0 {
		if err := r.send(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin takes ownership of a batch, and begins to copy it to the device.
func (r *rechunker) begin(b prefetchBatch) error {
	shared, err := r.prepare(b)
	if err != nil {
		b.Record.Release()
		r.memory.release(b.Bytes)
		return err
	}
	b.Record = withoutDictionaries(b.Record, shared.codes)
	r.memory.release(b.Dictionaries)
	b.Bytes -= b.Dictionaries
	shared.bytes = b.Bytes
	r.copying = append(r.copying, shared)
	r.copyingRows += shared.rows
	r.progress.input.Store(b.position)
	r.progress.inputTotal.Store(b.size)
	go func() {
		debug.SetPanicOnFault(true) // see startStage
		var err error
		shared.columns, err = r.copyToDevice(b)
		b.Record.Release() // first: its memory counts until copied has the result
		shared.copied <- err
	}()
	return nil
}

// add waits for the copy that began first, adds its rows to the pending ones, and sends the
// chunks that are complete.
func (r *rechunker) add(ctx context.Context) error {
	shared := r.copying[0]
	r.copying = r.copying[1:]
	r.copyingRows -= shared.rows
	if err := <-shared.copied; err != nil {
		r.memory.release(shared.bytes)
		return err
	}
	if !slices.ContainsFunc(r.columns, func(c *column) bool { return !c.onDevice }) {
		// Columns on the host would keep the memory of the others, too.
		r.memory.release(shared.bytes)
		shared.bytes = 0
	}
	if shared.rows == 0 {
		shared.release()
		return nil
	}
	r.pending = append(r.pending, batchSlice{batch: shared, to: shared.rows})
	r.pendingRows += shared.rows
	r.pendingBytes += shared.bytes
	for r.pendingRows >= r.grid.chunkRows || shared.strip && r.pendingRows > 0 {
		if err := r.send(ctx); err != nil {
			return err
		}
	}
	return nil
}

// copyRests copies pending rows of large batches that hold the memory of many more rows,
// which the next batch may need.
func (r *rechunker) copyRests() error {
	for i := range r.pending {
		s := &r.pending[i]
		shared, n := s.batch, s.to-s.from
		if shared.bytes < r.memory.size/8 || 4*n > shared.rows || slices.ContainsFunc(r.columns, func(c *column) bool { return c.onDevice }) {
			continue
		}
		rows := make([]int64, n)
		for j := range rows {
			rows[j] = s.from + int64(j)
		}
		rest := &sharedBatch{first: shared.first, codes: shared.codes, rows: n, memory: r.memory}
		rest.refs.Store(1)
		err := arrowdata.CatchPanic(func() error {
			for _, c := range shared.columns {
				taken, err := columns.Take(c, columns.Indices(rows...))
				if err != nil {
					return err
				}
				rest.columns = append(rest.columns, taken)
				rest.bytes += arrowdata.ArrayBytes(taken.Data(), arrowdata.BufferLen)
			}
			return nil
		})
		// Views share the memory of their values.
		if err != nil || rest.bytes > shared.bytes/2 {
			arrowdata.ReleaseArrays(rest.columns)
			if err != nil {
				return markPart(PartInput, err)
			}
			continue
		}
		// The copy counts instead of that part of the batch. What is at work of the batch will
		// end soon, and acquiring memory would wait until the next batch has its own.
		*s = batchSlice{batch: rest, to: n}
		r.pendingBytes += rest.bytes - shared.bytes
		shared.bytes -= rest.bytes
		shared.release()
	}
	return nil
}

// prepare returns the batch without its columns. The caller still owns b.
func (r *rechunker) prepare(b prefetchBatch) (*sharedBatch, error) {
	// Counting reads the input's memory, which may be malformed or truncated.
	if err := arrowdata.CatchPanic(func() error { return countNulls(b.Record) }); err != nil {
		return nil, markPart(PartInput, err)
	}
	if before := r.rows + r.pendingRows + r.copyingRows; b.Record.NumRows() > math.MaxInt64-before {
		return nil, partErrorf(PartInput, "after %d rows: more rows than can be counted", before)
	}
	if !r.codecsChosen && b.Record.NumRows() > 0 {
		r.codecsChosen = true
		if err := chooseCodecs(r.columns, b.Record, r.sizer.jobs); err != nil {
			return nil, err
		}
	}
	if !r.placed {
		r.placed = true
		place(r.columns, r.device)
	}
	columns, all, first := r.columns, r.categories, 0
	if b.Strip == nil {
		widths := rowWidths(r.columns, b.Record)
		if r.grid.chunkRows == 0 {
			r.grid = r.sizer.defaultGrid(r.columns, widths, b.Record.NumRows(), r.mapping != nil && b.Bytes == 0)
		}
		if err := r.sizer.checkShardMemory(r.grid, widths); err != nil {
			return nil, err
		}
	} else {
		first = b.Strip.First
		end := first + int(b.Record.NumCols())
		columns, all = columns[first:end], all[first:end]
		r.grid, r.gridFixed = rowGrid{chunkRows: b.Strip.ChunkRows, shardRows: b.Strip.ShardRows}, true
	}
	shared := &sharedBatch{first: first, strip: b.Strip != nil, rows: b.Record.NumRows(), bytes: b.Bytes, memory: r.memory, mapping: r.mapping, copied: make(chan error, 1)}
	shared.refs.Store(1)
	var err error
	shared.codes, err = mapDictionaries(columns, all, b.Record)
	return shared, err
}

// mapDictionaries maps the dictionaries of a batch to the codes of the columns.
func mapDictionaries(columns []*column, all []*categories, batch arrow.RecordBatch) ([]codeMap, error) {
	codes := make([]codeMap, len(columns))
	for i, g := range all {
		if g == nil {
			continue
		}
		err := arrowdata.CatchPanic(func() error {
			dictionary, ok := arrowdata.UnwrapRuns(batch.Column(i)).(*array.Dictionary)
			if !ok {
				return fmt.Errorf("array of %T, expected a dictionary", batch.Column(i))
			}
			var err error
			codes[i], err = g.mapDictionary(dictionary.Dictionary())
			return err
		})
		if err != nil {
			return nil, partErrorf(PartInput, "column %q: %w", columns[i].field.Name, err)
		}
	}
	return codes, nil
}

// withoutDictionaries returns a batch whose dictionary columns have no values: their codes
// are known. It releases the batch.
func withoutDictionaries(batch arrow.RecordBatch, codes []codeMap) arrow.RecordBatch {
	columns := slices.Clone(batch.Columns())
	changed := false
	for i, c := range columns {
		d, ok := c.(*array.Dictionary)
		if !ok || codes[i] == nil {
			continue
		}
		indices := d.Indices().Data()
		empty := array.MakeArrayOfNull(memory.DefaultAllocator, d.Dictionary().DataType(), 0)
		data := array.NewDataWithDictionary(d.DataType(), d.Len(), indices.Buffers(), indices.NullN(), indices.Offset(), empty.Data().(*array.Data))
		empty.Release()
		columns[i] = array.MakeFromData(data)
		data.Release()
		defer columns[i].Release()
		changed = true
	}
	if !changed {
		return batch
	}
	defer batch.Release()
	return array.NewRecordBatch(batch.Schema(), columns, batch.NumRows())
}

// copyToDevice returns the columns of a batch, those of fixed width on the device.
// The caller must release them.
func (r *rechunker) copyToDevice(b prefetchBatch) ([]arrow.Array, error) {
	batch := b.Record
	columns := make([]arrow.Array, batch.NumCols())
	first := 0
	if b.Strip != nil {
		first = b.Strip.First
	}
	var copied []int
	for i := range columns {
		if r.columns[first+i].onDevice {
			copied = append(copied, i)
			continue
		}
		columns[i] = batch.Column(i)
		columns[i].Retain()
	}
	if len(copied) == 0 {
		return columns, nil
	}
	batch.Retain()
	onHost := arrowdata.SelectColumns(batch, arrowdata.SelectSchema(batch.Schema(), copied), copied)
	defer onHost.Release()
	var options []arrowbuf.CopyOption
	part := PartDevice
	if r.mapping != nil && b.Bytes == 0 { // no buffer was decompressed
		part = PartInput
		options = append(options, arrowbuf.WithReader(r.mapping.Read, max(readersPerBatch*r.sizer.jobs/16, 1)))
	}
	start := time.Now()
	var onDevice arrow.RecordBatch
	// Offsets and bitmaps are read in the input's memory, which may be truncated.
	err := arrowdata.CatchPanic(func() (err error) {
		onDevice, err = arrowbuf.CopyTo(onHost, r.device, options...)
		return err
	})
	if err != nil {
		arrowdata.ReleaseArrays(columns)
		return nil, markPart(partOf(err, part), err)
	}
	defer onDevice.Release()
	for _, c := range onHost.Columns() {
		forEachRegion(c.Data(), r.mapping.Evict)
	}
	r.stats.record(arrowdata.BatchBytes(onHost, arrowdata.BufferLen), time.Since(start))
	for i, c := range copied {
		columns[c] = onDevice.Column(i)
		columns[c].Retain()
	}
	return columns, nil
}

// send sends the rows of the next chunk, column by column.
func (r *rechunker) send(ctx context.Context) error {
	if err := r.fixGrid(false); err != nil {
		return err
	}
	chunk := r.popChunk(r.rowsPerChunk())
	if len(r.columns) == 0 {
		chunk.release()
	}
	var nested []columnRows
	for _, c := range r.columns[chunk.first:chunk.to] {
		if c.kind != kindNested {
			chunk.epoch.add(1)
		}
	}
	for i := chunk.first; i < chunk.to; i++ {
		if r.columns[i].kind == kindNested {
			nested = append(nested, columnRows{chunk, i})
			continue
		}
		select {
		case r.out <- columnRows{chunk, i}:
		case <-ctx.Done():
			for range chunk.to - i + len(nested) {
				chunk.release()
			}
			return context.Cause(ctx)
		}
	}
	if err := r.sendNested(ctx, nested); err != nil {
		return err
	}
	if chunk.last && r.rows%r.grid.unit() == 0 && r.checkpoints.isDue() {
		return r.checkpoints.mark(ctx, r.newMark())
	}
	return nil
}

// state returns what is known of the rows that were sent.
func (r *rechunker) state() *tableState {
	s := &tableState{Rows: r.rows, ChunkRows: r.grid.chunkRows, ShardRows: r.grid.shardRows, Columns: make([]columnState, len(r.columns))}
	for i, n := range r.nested {
		if n != nil {
			s.Columns[i].Nested = n.state()
		}
		s.Columns[i].Codecs = maps.Clone(r.columns[i].codecs.chosen)
	}
	return s
}

// newMark marks the rows that were sent.
func (r *rechunker) newMark() *mark {
	m := &mark{state: *r.state(), deltas: takeDeltas(r.categories, r.nested)}
	for _, n := range r.nested {
		if n == nil {
			continue
		}
		for _, s := range n.streams {
			if len(s.pending) > 0 {
				m.pending = append(m.pending, pendingPiece{s.pendingPiece(), slices.Clone(s.pending)})
			}
		}
	}
	return m
}

// sendNested appends the rows of nested columns to their arrays, columns in parallel.
// The rows of a column must come in order, so the workers cannot do it.
func (r *rechunker) sendNested(ctx context.Context, all []columnRows) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.sizer.jobs)
	for _, rows := range all {
		group.Go(func() error {
			debug.SetPanicOnFault(true) // see startStage
			defer func() { r.progress.rows.Add(rows.release()) }()
			return r.nested[rows.column].append(ctx, r.existing.skipRows(rows.columnSlices(), rows.start))
		})
	}
	err := group.Wait()
	if len(all) > 0 {
		r.mapping.EvictAll() // a batch may be all of a file
	}
	return err
}

// popChunk removes the next rows, at most n, from the pending ones.
func (r *rechunker) popChunk(n int64) *rowChunk {
	chunk := &rowChunk{
		index: r.nextChunk, rows: min(n, r.pendingRows), grid: r.grid, epoch: r.checkpoints.epochOf(),
		to: len(r.columns), start: r.rows,
	}
	if shared := r.pending[0].batch; shared.strip {
		chunk.first, chunk.to = shared.first, shared.first+len(shared.columns)
	}
	chunk.unwritten.Store(int64(chunk.to - chunk.first))
	if chunk.last = chunk.to == len(r.columns); chunk.last {
		r.nextChunk++
		r.rows += chunk.rows
	}
	r.pendingRows -= chunk.rows
	for need := chunk.rows; need > 0; {
		s := &r.pending[0]
		rows := min(need, s.to-s.from)
		chunk.slices = append(chunk.slices, batchSlice{batch: s.batch, from: s.from, to: s.from + rows})
		s.from += rows
		need -= rows
		if s.from < s.to {
			s.batch.refs.Add(1) // the rest stays pending
			continue
		}
		r.pendingBytes -= s.batch.bytes
		r.pending = r.pending[1:]
	}
	return chunk
}

func (r *rechunker) releasePending() {
	for _, shared := range r.copying {
		if err := <-shared.copied; err == nil {
			shared.release()
		} else {
			r.memory.release(shared.bytes)
		}
	}
	r.copying = nil
	for _, s := range r.pending {
		s.batch.release()
	}
	r.pending, r.pendingRows, r.pendingBytes = nil, 0, 0
}

// rowsPerChunk is the number of rows to cut. If no column stores anything, it is
// all rows: a message of a few bytes can have 2^62 of them.
func (r *rechunker) rowsPerChunk() int64 {
	for _, c := range r.columns {
		if c.kind != kindNull {
			return r.grid.chunkRows
		}
	}
	return r.pendingRows
}

// fixGrid fixes the grid before the first chunk is sent. The chunks of an input
// that is shorter than one, which is known atEnd, are as long as the input, unless
// the options say otherwise.
func (r *rechunker) fixGrid(atEnd bool) error {
	if r.gridFixed {
		return nil
	}
	r.gridFixed = true
	if atEnd && r.sizer.automatic {
		r.grid = rowGrid{chunkRows: max(r.pendingRows, 1)}
	}
	return r.sizer.checkShardIndexes(r.grid, len(r.columns))
}

// countNulls ensures that the arrays of a batch know their number of nulls, which
// readers may leave unknown. The number decides whether a column gets a mask, and
// it cannot be counted on the device.
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
