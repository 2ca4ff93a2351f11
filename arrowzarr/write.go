package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// writer is the last stage of the pipeline: it encodes and stores the chunks of all
// columns. Any number of goroutines may run it. After they have ended, complete writes
// what is left in memory, or abort drops it.
type writer struct {
	columns  []*columnWriter
	layout   layout
	store    store.Store // of chunks
	codec    codecSet
	progress *Progress
	stats    *pipelineStats
	in       <-chan writeTask
	existing *existingTable // to which rows are appended; nil for a new output

	begun    sync.Once
	beginErr error
}

func newWriter(columns []*column, l layout, s store.Store, c codecSet, progress *Progress, stats *pipelineStats, in <-chan writeTask) *writer {
	w := &writer{layout: l, store: s, codec: c, progress: progress, stats: stats, in: in}
	for i, column := range columns {
		w.columns = append(w.columns, &columnWriter{column: column, number: i})
	}
	return w
}

// layout is where the arrays of columns are while their chunks are written.
type layout struct {
	// building is the prefix of arrays that are moved to their paths at the end, when it
	// is known which columns have missing values. If it is "", the arrays are at their
	// paths from the start.
	building string
	// grouped has the columns that are groups of values and masks, if building is "".
	grouped []bool
	// appending reports whether the arrays exist. Masks are at their paths in a group, and
	// the values are moved there at the end if the column was one array.
	appending bool
}

// path returns the path of an array of a column.
func (l layout) path(w *columnWriter, array string) string {
	if l.building != "" {
		return fmt.Sprintf("%s/%d/%s", l.building, w.number, array)
	}
	return finalPath(w.column, array, l.grouped[w.number] || l.appending && array != arrayValues)
}

// isWhole reports whether a column is known to be one array before it is read.
func (l layout) isWhole(w *columnWriter) bool {
	return l.building == "" && !l.appending && !l.grouped[w.number] && w.column.kind != kindDictionary
}

// finalPath returns the path of an array of a column in the output.
func finalPath(c *column, array string, grouped bool) string {
	switch {
	case c.kind == kindNested:
	case c.kind == kindDictionary:
		return c.name + "/codes"
	case !grouped:
		return c.name
	}
	return c.name + "/" + array
}

// run writes chunks until the input is closed.
func (w *writer) run(ctx context.Context) error {
	for task := range w.in {
		err := task.write(ctx, w)
		task.release(w)
		if err != nil {
			return err
		}
	}
	return markPart(PartOutput, flushStore(ctx, w.store))
}

// writeTask is a chunk of an array, or of the arrays of a column, to write.
type writeTask interface {
	write(ctx context.Context, w *writer) error
	// release releases what the task holds. It must be called once; w is nil if the
	// chunk was not written.
	release(w *writer)
}

func (w *writer) writeColumn(ctx context.Context, chunk *columnChunk) error {
	if err := w.begin(chunk.grid); err != nil {
		return err
	}
	c := w.columns[chunk.column]
	// Encoding reads the input's memory, which may be malformed or truncated.
	err := arrowdata.CatchPanic(func() error { return c.write(ctx, chunk.index, chunk.arrays) })
	if err != nil {
		return failedColumn(c.column.field, PartOutput, err)
	}
	w.progress.raw.Add(rawBytes(chunk.arrays))
	chunk.epoch.finish()
	return nil
}

// begin creates the arrays of all columns, once.
func (w *writer) begin(grid rowGrid) error {
	w.begun.Do(func() {
		b := &arrayBuilder{writer: w, grid: grid}
		for _, c := range w.columns {
			if w.beginErr = c.begin(b); w.beginErr != nil {
				return
			}
		}
	})
	return w.beginErr
}

// complete writes what the arrays have not written yet, after all chunks: several arrays
// at once.
func (w *writer) complete(ctx context.Context, jobs int) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(jobs)
	finish := func(c *columnWriter, f func() error) {
		group.Go(func() error {
			debug.SetPanicOnFault(true) // see startStage
			if err := arrowdata.CatchPanic(f); err != nil {
				return failedColumn(c.column.field, PartOutput, err)
			}
			return nil
		})
	}
	for _, c := range w.columns {
		for _, a := range c.open {
			finish(c, func() error { return a.finish(groupCtx) })
		}
		if c.nested == nil {
			continue
		}
		for _, s := range c.nested.streams {
			finish(c, func() error { return s.complete(groupCtx) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return markPart(PartOutput, flushStore(ctx, w.store))
}

// state returns what was written of each column.
func (w *writer) state() []columnState {
	states := make([]columnState, len(w.columns))
	for i, c := range w.columns {
		states[i] = columnState{Missing: c.missing.Load(), ElementMissing: c.elementMissing.Load()}
	}
	return states
}

// abort drops the shards that are open.
func (w *writer) abort() {
	for _, c := range w.columns {
		for _, a := range c.open {
			a.abort()
		}
		if c.nested != nil {
			c.nested.abort()
		}
	}
}

// rawBytes is the size of a chunk's arrays without compression.
func rawBytes(c *chunkArrays) int64 {
	var n int64
	switch v := c.values.(type) {
	case *ndview.NDBuffer:
		n = v.NBytes()
	case *element.VLen:
		n = v.NBytes() + 4*v.Len() // vlen-utf8 stores a length before each
	}
	for _, mask := range []*ndview.NDBuffer{c.mask, c.elementMask} {
		if mask != nil {
			n += mask.NBytes()
		}
	}
	return n
}

// columnWriter writes the arrays of one column.
type columnWriter struct {
	column         *column
	number         int           // of the column
	whole          bool          // the column is one array, so no value may be missing
	builder        *arrayBuilder // of all columns
	open           []namedArray  // nil if each chunk has writers of its own
	nested         *nestedWriter // of a nested column, which has none of the above
	missing        atomic.Bool   // some row is missing
	elementMissing atomic.Bool   // some element of a row is missing
}

// namedArray is an array that a column may have.
type namedArray struct {
	name string
	*arrayWriter
}

// wideTable is the number of columns from which on arrays are not kept open.
const wideTable = 256

// begin creates the arrays of the column. Those of a wide table would take much memory, so
// each chunk has some of its own, unless chunks of one array share a shard.
func (w *columnWriter) begin(b *arrayBuilder) error {
	if w.nested != nil {
		return nil
	}
	w.whole, w.builder = b.layout.isWhole(w), b
	if len(b.columns) >= wideTable && b.grid.shardRows == 0 {
		return nil
	}
	var err error
	w.open, err = w.newArrays(func(string) bool { return true })
	return err
}

// newArrays creates those of the arrays that the column may have.
func (w *columnWriter) newArrays(chosen func(name string) bool) ([]namedArray, error) {
	var made []namedArray
	for _, a := range w.builder.columnArrays(w) {
		if !chosen(a.name) {
			continue
		}
		writer, err := w.builder.newArray(w.builder.layout.path(w, a.name), a.metadata)
		if err != nil {
			return nil, err
		}
		made = append(made, namedArray{a.name, writer})
	}
	return made, nil
}

// write stores a chunk of the column.
func (w *columnWriter) write(ctx context.Context, index int64, c *chunkArrays) error {
	chunks, err := w.split(index, c)
	for _, chunk := range chunks {
		err = errors.Join(err, chunk.write(ctx))
	}
	return err
}

// split returns the chunks of the column's arrays.
func (w *columnWriter) split(index int64, c *chunkArrays) ([]arrayChunk, error) {
	if c.mask != nil || c.elementMask != nil {
		if w.whole {
			return nil, partErrorf(PartInput, "the input says that no value is null, but some are")
		}
		if c.mask != nil {
			w.missing.Store(true)
		}
		if c.elementMask != nil {
			w.elementMissing.Store(true)
		}
	}
	values := map[string]element.Values{arrayValues: c.values}
	if !w.whole {
		values[arrayMask], values[arrayElements] = maskValues(c.mask), maskValues(c.elementMask)
	}
	arrays := w.open
	if arrays == nil {
		var err error
		arrays, err = w.newArrays(func(name string) bool { return values[name] != nil || w.builder.existing != nil })
		if err != nil {
			return nil, err
		}
	}
	var chunks []arrayChunk
	for _, a := range arrays {
		if v, ok := values[a.name]; ok {
			chunks = append(chunks, arrayChunk{a.arrayWriter, index, v})
		}
	}
	return chunks, nil
}

// maskValues returns nil for a nil mask, instead of an interface that holds one.
func maskValues(mask *ndview.NDBuffer) element.Values {
	if mask == nil {
		return nil
	}
	return mask
}

// arrayBuilder creates arrays of rows whose number is not known yet.
type arrayBuilder struct {
	*writer
	grid rowGrid
}

// metadata returns that of an array without rows. row is the shape of one.
func (b arrayBuilder) metadata(t element.Type, row []int64, compressors []codec.Codec) *zarr.ArrayMetadata {
	m := &zarr.ArrayMetadata{
		Shape:      append([]int64{0}, row...),
		DataType:   t,
		ChunkShape: chunkShape(b.grid.chunkRows, row),
		Codecs:     zarr.DefaultCodecs(t, compressors...),
	}
	if b.grid.shardRows > 0 {
		m.Codecs = codec.List{codec.Sharding{ChunkShape: m.ChunkShape, Codecs: m.Codecs}}
		m.ChunkShape = chunkShape(b.grid.shardRows, row)
	}
	return m
}

// columnArray is an array of a column that is not nested.
type columnArray struct {
	name     string
	metadata *zarr.ArrayMetadata // of no rows
}

// columnArrays returns the arrays that a column may have.
func (b arrayBuilder) columnArrays(w *columnWriter) []columnArray {
	all := b.newColumnArrays(w.column)
	for i, a := range all {
		all[i].metadata = b.existing.reuse(w.number, a.name, a.metadata)
	}
	return all
}

// newColumnArrays returns the arrays that a column may have in a new output.
func (b arrayBuilder) newColumnArrays(c *column) []columnArray {
	values := b.metadata(c.dataType(), c.layout.row, c.codecs.compressors(arrayValues, c.class(), c.dataType()))
	all := []columnArray{{arrayValues, values}}
	if c.kind == kindDictionary {
		return all // codes have no mask: a missing one is -1
	}
	boolean := element.Of(ndview.Bool)
	mask := b.metadata(boolean, nil, c.codecs.compressors(arrayMask, ClassBool, boolean))
	if c.kind == kindNull {
		mask.FillValue = []byte{1} // all is missing, so no chunk is stored
	}
	all = append(all, columnArray{arrayMask, mask})
	if c.isList() {
		elements := b.metadata(boolean, c.layout.row, c.codecs.compressors(arrayElements, ClassBool, boolean))
		all = append(all, columnArray{arrayElements, elements})
	}
	return all
}

// chunkShape is the shape of chunks that divide only the first axis. Zarr requires
// extents of at least 1.
func chunkShape(rows int64, row []int64) []int64 {
	shape := []int64{rows}
	for _, d := range row {
		shape = append(shape, max(d, 1))
	}
	return shape
}

func (b arrayBuilder) newArray(path string, m *zarr.ArrayMetadata) (*arrayWriter, error) {
	w := &arrayWriter{ndim: len(m.Shape), shards: map[int64]*openShard{}}
	if b.grid.shardRows > 0 {
		w.perShard = b.grid.shardRows / b.grid.chunkRows
	}
	var err error
	if w.array, err = zarr.New(b.store, path, m); err != nil {
		return nil, markPart(PartOutput, err)
	}
	w.array.Trace, w.array.Stats = b.stats.trace(), &b.stats.codecs
	w.store, w.stored = b.store, b.existing.storedUnits(path, m)
	return w, nil
}

// arrayWriter writes the chunks of one array, in any order, and closes each shard
// when it has all of its chunks.
type arrayWriter struct {
	array *zarr.Array
	store store.Store
	ndim  int
	// stored is the number of chunks, or shards, that the array has before rows are
	// appended. Those that become fill values are deleted.
	stored int64
	// perShard is the number of chunks in a shard; 0 without shards.
	perShard int64

	mu     sync.Mutex
	shards map[int64]*openShard
}

type openShard struct {
	writer *zarr.ShardWriter
	seen   int64
}

// arrayChunk is a chunk of an array. Nil values are a chunk of fill values, which is not
// stored, but counts for its shard.
type arrayChunk struct {
	array  *arrayWriter
	index  int64
	values element.Values
}

// write stores the chunk.
func (c arrayChunk) write(ctx context.Context) error {
	w, ok, err := c.chunkWrite(ctx)
	switch {
	case err != nil:
		return err
	case !ok:
	case w.Shard != nil:
		err = w.Shard.WriteChunk(ctx, w.Index, w.Values)
	default:
		err = w.Array.WriteChunk(ctx, w.Index, w.Values)
	}
	if err != nil {
		return err
	}
	return c.array.countChunk(ctx, c.index)
}

// chunkWrite returns what to store, and false for nothing. Afterwards, the chunk must be
// counted.
func (c arrayChunk) chunkWrite(ctx context.Context) (w zarr.ChunkWrite, ok bool, err error) {
	a := c.array
	w = zarr.ChunkWrite{Array: a.array, Values: c.values}
	if a.perShard == 0 {
		w.Index = a.index(c.index)
		if c.values == nil && c.index < a.stored {
			err = a.store.Delete(ctx, a.array.Path()+"/"+a.array.Metadata().ChunkKeyEncoding.Key(w.Index))
		}
		return w, c.values != nil, err
	}
	shard, err := a.shard(ctx, c.index/a.perShard)
	if err != nil {
		return w, false, err
	}
	w.Shard, w.Index = shard.writer, a.index(c.index%a.perShard)
	return w, c.values != nil, nil
}

// countChunk counts a chunk that is stored, and closes its shard after the last one.
func (w *arrayWriter) countChunk(ctx context.Context, index int64) error {
	if w.perShard == 0 {
		return nil
	}
	w.mu.Lock()
	shard := w.shards[index/w.perShard]
	shard.seen++
	full := shard.seen == w.perShard
	if full {
		delete(w.shards, index/w.perShard)
	}
	w.mu.Unlock()
	if full {
		return shard.writer.Close(ctx)
	}
	return nil
}

// index returns the index of a chunk or shard in the grid, which divides only the first
// axis.
func (w *arrayWriter) index(row int64) []int64 {
	index := make([]int64, w.ndim)
	index[0] = row
	return index
}

func (w *arrayWriter) shard(ctx context.Context, i int64) (*openShard, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s, ok := w.shards[i]; ok {
		return s, nil
	}
	writer, err := w.array.NewShardWriter(ctx, w.index(i))
	if err != nil {
		return nil, err
	}
	s := &openShard{writer: writer}
	w.shards[i] = s
	return s, nil
}

// finish closes the shards that lack chunks: the last one.
func (w *arrayWriter) finish(ctx context.Context) error {
	var errs []error
	for i, s := range w.shards {
		errs = append(errs, s.writer.Close(ctx))
		delete(w.shards, i)
	}
	return errors.Join(errs...)
}

// abort drops the open shards.
func (w *arrayWriter) abort() {
	for _, s := range w.shards {
		_ = s.writer.Abort() // the store is removed next
	}
}
