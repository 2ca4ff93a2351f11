package arrowzarr

import (
	"context"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// segment is the rows that a pipeline writes, and what is known of those before.
type segment struct {
	rows       source.RowRange
	grid       rowGrid // chunkRows of 0 is found with the first batch
	automatic  bool    // an input shorter than a chunk has a chunk of its length
	state      *tableState
	categories []string       // keys of the values of dictionaries before
	end        []*nestedState // the nested columns at the end of the rows; nil if unknown
	pieces     string         // the prefix of the pieces of a partition
	complete   bool           // the values of all dictionaries are known

	existing *existingTable // to which the rows are appended; nil for a new output

	checkpoints time.Duration // between two; 0 for none
	last        *checkpoint   // from which the segment begins; nil for the first row
}

// pipeline connects the stages of a conversion:
//
//	source → prefetcher → rechunker → worker → writer → store
//
// Chunks that a device encodes go from the worker to the deviceWriter instead of the writer.
// Those of nested columns go from the rechunker to the writer.
type pipeline struct {
	prefetcher *prefetcher
	rechunker  *rechunker
	worker     *worker
	writer     *writer
	hierarchy  *hierarchyWriter

	automatic   bool
	checkpoints *checkpointer // nil for none
	state       *tableState   // after run
	jobs        int           // goroutines of worker and writer
	rows        chan columnRows
	chunks      chan writeTask
	onDevice    chan *columnChunk // chunks that a device encodes
	// early is the number of rows whose numbers are written while the columns are
	// converted; 0 for none.
	early    int64
	progress *Progress
	stats    pipelineStats
}

// newPipeline returns the pipeline of a segment of the input. It takes ownership of the
// source.
func (c *conversion) newPipeline(ctx context.Context, segment segment) (*pipeline, error) {
	options, columns := c.options, c.chosen.columns
	p := &pipeline{
		jobs: options.Jobs, progress: options.Progress, automatic: segment.automatic,
		rows: make(chan columnRows), chunks: make(chan writeTask, options.Jobs), onDevice: make(chan *columnChunk, deviceChunks), state: segment.state,
	}
	if p.progress == nil {
		p.progress = &Progress{}
	}
	shares := c.shares()
	batchBytes, shardBytes := shares.batches, int64(0)
	chunkStore, documents := c.stores(segment)
	if c.target.isRemote() {
		var puts int64
		batchBytes, puts, shardBytes = shares.forObjects(options.ShardRows > 0 || c.choosesShards())
		queue := newPutQueue(ctx, chunkStore, int64(options.StoreConcurrency), puts)
		queue.existing = segment.existing != nil
		chunkStore = queue
	}
	readAhead := batchBytes
	if options.Device.Type() == arrowbuf.DeviceCPU {
		// Batches lie in Go's heap. The fuller it is, the more often it is collected.
		readAhead /= 2
		if slices.ContainsFunc(columns, func(c *column) bool { return c.kind == kindDictionary }) {
			readAhead /= 2 // the values of dictionaries are kept
		}
	}
	values := newCategoryMemory(shares.batches)
	all := newCategories(columns, values)
	p.writer = newWriter(columns, c.plan.layout(c.target), chunkStore, options.codecs(), p.progress, &p.stats, p.chunks)
	p.writer.existing = segment.existing
	p.hierarchy = &hierarchyWriter{writer: p.writer, documents: documents, jobs: options.Jobs, memory: shares.chunks, index: !options.NoIndex}
	if c.src != nil {
		p.newStages(c, segment, shares, newBatchMemory(batchBytes, readAhead), all)
		p.rechunker.sizer.shardMemory, p.rechunker.sizer.choosesShards = shardBytes, c.choosesShards()
		c.allowStrips(segment.grid, p.rechunker.sizer)
	} else {
		p.rechunker = &rechunker{categories: all}
	}
	nestedGrid := rowGrid{chunkRows: c.plan.StreamRows, shardRows: options.ShardRows}
	p.rechunker.nested = p.addNested(c.target.store, nestedGrid, options.ChunkRows == 0, segment.pieces, shares, values)
	p.rechunker.existing = segment.existing
	if segment.checkpoints > 0 {
		p.checkpoints = &checkpointer{
			work: c.target.store, interval: segment.checkpoints, writer: p.writer, last: segment.last,
			lastTime: time.Now(), current: newEpoch(), marks: make(chan *mark), saved: segment.categories,
		}
		p.rechunker.checkpoints = p.checkpoints
	}
	if err := p.restore(ctx, c.target.store, segment); err != nil {
		return p, markPart(PartOutput, err)
	}
	return p, markPart(PartOutput, segment.existing.attach(ctx, p.rechunker.nested))
}

// stores returns the stores of chunks and of metadata.
func (c *conversion) stores(segment segment) (chunks, documents store.Store) {
	if !c.target.renames() || segment.end != nil {
		return c.target.store, c.target.store
	}
	// No other process writes there, and what is written last before the end of the
	// process is written again.
	inPlace := store.NewLocal(c.target.staging, store.InPlace())
	return inPlace, inPlace
}

// newStages makes the stages before the writer.
func (p *pipeline) newStages(c *conversion, segment segment, shares memoryShares, batches *batchMemory, all []*categories) {
	options, columns, input := c.options, c.chosen.columns, c.src.Info()
	p.progress.rowsTotal.Store(input.Rows)
	p.prefetcher = newPrefetcher(c.src, inputName(c.input), c.chosen.fields, segment.rows, c.host, batches, &p.stats.read)
	p.rechunker = &rechunker{
		in: p.prefetcher, columns: columns, categories: all,
		device: options.Device, memory: batches, mapping: input.Mapping,
		progress: p.progress, stats: &p.stats.h2d, out: p.rows,
		sizer: chunkSizer{automatic: segment.automatic, shares: shares, jobs: options.Jobs, codec: options.codecs()},
		grid:  segment.grid, rows: segment.rows.From,
	}
	if segment.grid.chunkRows > 0 {
		p.rechunker.nextChunk = segment.rows.From / segment.grid.chunkRows
	}
	chunks, chunkBytes := 2*options.Jobs, shares.chunks // as many wait as are encoded
	if options.Device.Type() != arrowbuf.DeviceCPU {
		chunks += deviceChunks
		chunkBytes += shares.batches / 4
	}
	p.worker = &worker{
		columns: columns, device: options.Device, codec: options.codecs(),
		memory: newChunkMemory(chunkBytes, chunks, input.Mapping), maxBytes: shares.batches,
		stats: &p.stats.kernels, in: p.rows, out: p.chunks, onDevice: p.onDevice,
	}
}

// addNested makes the writers of nested columns, and returns them by column.
func (p *pipeline) addNested(work store.Store, grid rowGrid, automatic bool, pieces string, shares memoryShares, values *categoryMemory) []*nestedWriter {
	all := make([]*nestedWriter, len(p.writer.columns))
	filling := &fillingMemory{size: shares.total / 12, encoding: shares.batches}
	for i, w := range p.writer.columns {
		if w.column.kind != kindNested {
			continue
		}
		sink := &streamSink{
			builder: arrayBuilder{writer: p.writer, grid: grid}, automatic: automatic,
			writer: w, filling: filling, out: p.chunks, work: work, pieces: pieces,
			epoch: func() *epoch { return p.checkpoints.epochOf() },
		}
		if p.worker != nil {
			sink.memory = p.worker.memory
		}
		w.nested = newNestedWriter(w.column.nested, sink, values)
		all[i] = w.nested
	}
	return all
}

// restore makes the stages continue after the rows before the segment.
func (p *pipeline) restore(ctx context.Context, work store.Store, segment segment) error {
	nested := p.rechunker.nested
	limits := make([]*nestedState, len(nested))
	if segment.state != nil {
		if len(segment.state.Columns) != len(nested) {
			return partErrorf(PartInput, "a state of %d columns, expected %d", len(segment.state.Columns), len(nested))
		}
		p.rechunker.codecsChosen = true
		p.progress.rows.Store(segment.state.Rows)
		p.progress.raw.Store(segment.state.RawBytes)
		p.stats.write.bytes = segment.state.Stored
		for i, state := range segment.state.Columns {
			w := p.writer.columns[i]
			if state.Codecs != nil {
				w.column.codecs.chosen = state.Codecs
			}
			w.missing.Store(state.Missing)
			w.elementMissing.Store(state.ElementMissing)
			if nested[i] == nil {
				continue
			}
			limits[i] = state.Nested
			var end *nestedState
			if segment.end != nil {
				end = segment.end[i]
			}
			if err := nested[i].restore(state.Nested, end); err != nil {
				return err
			}
		}
	}
	if err := loadDeltas(ctx, work, segment.categories, p.rechunker.categories, nested, limits); err != nil {
		return err
	}
	for _, g := range p.rechunker.categories {
		if g != nil {
			g.complete = segment.complete
		}
	}
	if segment.last != nil {
		for _, piece := range segment.last.Pieces {
			if err := nested[piece.Column].streams[piece.Stream].loadPending(ctx, work, storedPiece{piece, segment.last.folder()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// run runs the stages until all rows are written but the metadata. Then state has what is
// known of them.
func (p *pipeline) run(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	p.prefetcher.start(groupCtx)
	// The rechunker sends chunks of nested columns, and may do so after an error has ended the
	// workers.
	var senders atomic.Int64
	senders.Store(2)
	closeChunks := func() {
		if senders.Add(-1) == 0 {
			close(p.chunks)
		}
	}
	closeRows := func() { close(p.rows); closeChunks() }
	if p.checkpoints != nil {
		startStage(group, 1, func() error { return p.checkpoints.run(groupCtx) }, func() {})
		closeRows = func() { close(p.rows); closeChunks(); close(p.checkpoints.marks) }
	}
	startStage(group, 1, func() error { return p.rechunker.run(groupCtx) }, closeRows)
	startStage(group, p.jobs, func() error { return p.worker.run(groupCtx) }, func() { closeChunks(); close(p.onDevice) })
	device := &deviceWriter{writer: p.writer, in: p.onDevice, jobs: p.jobs, held: map[*columnChunk]bool{}}
	startStage(group, 1, func() error { return device.run(groupCtx) }, func() {})
	startStage(group, p.jobs, func() error { return p.writer.run(groupCtx) }, func() {})
	if p.early > 0 {
		group.Go(func() error { return p.hierarchy.writeIndexEarly(groupCtx, p.early, p.worker.memory) })
	}
	err := group.Wait()
	for chunk := range p.onDevice { // left after an error; the workers have closed it
		chunk.release(nil)
	}
	for task := range p.chunks {
		task.release(nil)
	}
	if err == nil {
		err = p.complete(ctx)
	}
	if err != nil {
		p.writer.abort()
		if q, ok := p.writer.store.(*putQueue); ok {
			q.wait()
		}
	}
	return err
}

// complete writes what the stages have left in memory.
func (p *pipeline) complete(ctx context.Context) error {
	if err := p.writer.begin(p.rechunker.grid); err != nil { // an input without rows has no chunk
		return err
	}
	if err := p.writer.complete(ctx, p.jobs); err != nil {
		return err
	}
	p.state = p.rechunker.state()
	for i, s := range p.writer.state() {
		p.state.Columns[i].Missing, p.state.Columns[i].ElementMissing = s.Missing, s.ElementMissing
	}
	p.state.RawBytes, p.state.Stored = p.progress.raw.Load(), p.stats.write.total()
	if p.checkpoints == nil || p.checkpoints.last == nil {
		return nil
	}
	// Moving the arrays must not begin before it is known that everything is written.
	deltas := takeDeltas(p.rechunker.categories, p.rechunker.nested)
	return markPart(PartOutput, p.checkpoints.write(ctx, &mark{state: *p.state, deltas: deltas}, true))
}

// finalize joins the pieces and writes the metadata.
func (p *pipeline) finalize(ctx context.Context, schema *arrow.Schema, pieces []storedPiece) error {
	if err := p.hierarchy.joinPieces(ctx, pieces); err != nil {
		return err
	}
	err := p.hierarchy.finalize(ctx, schema, p.state, p.rechunker.categories)
	if q, ok := p.writer.store.(*putQueue); ok {
		q.wait()
	}
	return err
}

// startStage runs a stage in n goroutines of a group, and calls closeOutput after
// the last of them has ended.
func startStage(group *errgroup.Group, n int, run func() error, closeOutput func()) {
	var running atomic.Int64
	running.Store(int64(n))
	for range n {
		group.Go(func() error {
			// The input may be mapped memory of a file that is truncated meanwhile.
			// That must be an error of the file, not the end of the program.
			debug.SetPanicOnFault(true)
			defer func() {
				if running.Add(-1) == 0 {
					closeOutput()
				}
			}()
			return run()
		})
	}
}

// release releases the values of dictionaries.
func (p *pipeline) release() {
	for _, g := range p.rechunker.categories {
		if g != nil {
			g.release()
		}
	}
	for _, n := range p.rechunker.nested {
		if n != nil {
			n.root.release()
		}
	}
}

// close closes the source.
func (p *pipeline) close() error { return p.prefetcher.close() }
