package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// writer is the last stage of the pipeline: it encodes and stores the chunks of all
// columns. Any number of goroutines may run it. After they have ended, finish makes
// the output whole, or abort drops it.
type writer struct {
	columns  []*columnWriter
	store    store.Store
	codec    codecSet
	jobs     int
	index    bool // the root is a data frame, with an index
	progress *Progress
	stats    *pipelineStats
	in       <-chan writeTask

	nodes map[string]zarr.Node // of the finished output

	begun    sync.Once
	beginErr error
}

func newWriter(columns []*column, s store.Store, options Options, progress *Progress, stats *pipelineStats, in <-chan writeTask) *writer {
	w := &writer{store: s, codec: options.codecs(), jobs: options.Jobs, index: !options.NoIndex, progress: progress, stats: stats, in: in}
	for _, plan := range columns {
		w.columns = append(w.columns, &columnWriter{plan: plan})
	}
	return w
}

// addNested makes the writers of nested columns, and returns them by column. Their
// arrays have chunks of a number of elements, and send them to out.
func (w *writer) addNested(grid rowGrid, automatic bool, m *chunkMemory, c *categoryMemory, out chan<- writeTask) []*nestedWriter {
	all := make([]*nestedWriter, len(w.columns))
	for i, column := range w.columns {
		if column.plan.kind != kindNested {
			continue
		}
		sink := &streamSink{
			builder: arrayBuilder{writer: w, grid: grid}, automatic: automatic,
			path: fmt.Sprintf("%s/%d", w.temporaryPath(), i), column: column, memory: m, out: out,
		}
		column.nested = &nestedWriter{root: newNodeWriter(column.plan.nested, sink, c), sink: sink}
		all[i] = column.nested
	}
	return all
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
	return nil
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
	err := catchPanic(func() error { return c.write(ctx, chunk.index, chunk.arrays) })
	if err != nil {
		return partErrorf(partOf(err, PartOutput), "column %q: %w", c.plan.field.Name, err)
	}
	w.progress.raw.Add(rawBytes(chunk.arrays))
	return nil
}

// begin creates the arrays of all columns, once.
func (w *writer) begin(grid rowGrid) error {
	w.begun.Do(func() {
		b := arrayBuilder{writer: w, grid: grid}
		for i, c := range w.columns {
			if w.beginErr = c.begin(b, fmt.Sprintf("%s/%d", w.temporaryPath(), i)); w.beginErr != nil {
				return
			}
		}
	})
	return w.beginErr
}

// temporaryPath is where the arrays are built: a name that no column has.
func (w *writer) temporaryPath() string {
	name := ".building"
	for slices.ContainsFunc(w.columns, func(c *columnWriter) bool { return c.plan.name == name }) {
		name += "."
	}
	return name
}

// finish moves every array to its path and writes the metadata, the root's last.
// The schema is that of the columns; rows is their length. The categories are by
// column.
func (w *writer) finish(ctx context.Context, schema *arrow.Schema, grid rowGrid, rows int64, categories []*categories) error {
	if err := w.begin(grid); err != nil { // an input without rows has no chunk
		return err
	}
	h := hierarchyWriter{writer: w, rows: rows, nodes: map[string]zarr.Node{}}
	columns := make([]*column, len(w.columns))
	for i, c := range w.columns {
		columns[i] = c.plan
		if err := h.column(ctx, c, categories[i]); err != nil {
			return partErrorf(partOf(err, PartOutput), "column %q: %w", c.plan.field.Name, err)
		}
	}
	if err := store.DeleteAll(ctx, w.store, w.temporaryPath()); err != nil {
		return markPart(PartOutput, err)
	}
	attributes, err := rootAttributes(schema, columns, rows)
	if err == nil {
		err = h.frame(ctx, schema, attributes)
	}
	if err != nil {
		return markPart(PartOutput, err)
	}
	w.nodes = h.nodes
	root := &zarr.GroupMetadata{Attributes: attributes, Consolidated: h.nodes}
	return markPart(PartOutput, zarr.WriteNode(ctx, w.store, "", root))
}

// abort drops the shards that are open.
func (w *writer) abort() {
	for _, c := range w.columns {
		for _, a := range c.arrays() {
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

// columnWriter writes the arrays of one column. Whether the column has missing
// values decides the paths of its arrays and is known only at the end. So the
// arrays are built at a temporary path and moved.
type columnWriter struct {
	plan           *column
	values         *arrayWriter
	mask           *arrayWriter
	elements       *arrayWriter
	nested         *nestedWriter // of a nested column, which has none of the above
	missing        atomic.Bool   // some row is missing
	elementMissing atomic.Bool   // some element of a row is missing
}

// begin creates the arrays of the column below a path.
func (w *columnWriter) begin(b arrayBuilder, path string) (err error) {
	if w.nested != nil {
		return nil
	}
	values := b.metadata(w.plan.dataType(), w.plan.layout.row, w.plan.codecs.compressors(arrayValues, w.plan.class(), w.plan.dataType()))
	if w.values, err = b.newArray(path+"/values", values); err != nil {
		return err
	}
	if w.plan.kind == kindDictionary {
		return nil // codes have no mask: a missing one is -1
	}
	boolean := element.Of(ndview.Bool)
	mask := b.metadata(boolean, nil, w.plan.codecs.compressors(arrayMask, ClassBool, boolean))
	if w.plan.kind == kindNull {
		mask.FillValue = []byte{1} // all is missing, so no chunk is stored
	}
	if w.mask, err = b.newArray(path+"/mask", mask); err != nil {
		return err
	}
	if w.plan.isList() {
		elements := b.metadata(boolean, w.plan.layout.row, w.plan.codecs.compressors(arrayElements, ClassBool, boolean))
		w.elements, err = b.newArray(path+"/element_mask", elements)
	}
	return err
}

// arrays returns the arrays that the column has.
func (w *columnWriter) arrays() []*arrayWriter {
	return slices.DeleteFunc([]*arrayWriter{w.values, w.mask, w.elements}, func(a *arrayWriter) bool { return a == nil })
}

// write stores a chunk of the column.
func (w *columnWriter) write(ctx context.Context, index int64, c *chunkArrays) error {
	if c.mask != nil {
		w.missing.Store(true)
	}
	if c.elementMask != nil {
		w.elementMissing.Store(true)
	}
	return errors.Join(
		w.values.write(ctx, index, c.values),
		w.mask.write(ctx, index, maskValues(c.mask)),
		w.elements.write(ctx, index, maskValues(c.elementMask)))
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
	w.array.Trace = b.stats.trace()
	return w, nil
}

// arrayWriter writes the chunks of one array, in any order, and closes each shard
// when it has all of its chunks. A nil arrayWriter writes nothing.
type arrayWriter struct {
	array *zarr.Array
	ndim  int
	// perShard is the number of chunks in a shard; 0 without shards.
	perShard int64

	mu     sync.Mutex
	shards map[int64]*openShard
}

type openShard struct {
	writer *zarr.ShardWriter
	seen   int64
}

// write stores a chunk. Nil values are a chunk of fill values, which is not
// stored, but counts for its shard.
func (w *arrayWriter) write(ctx context.Context, index int64, values element.Values) error {
	if w == nil {
		return nil
	}
	if w.perShard == 0 {
		if values == nil {
			return nil
		}
		return w.array.WriteChunk(ctx, w.index(index), values)
	}
	shard, err := w.shard(ctx, index/w.perShard)
	if err != nil {
		return err
	}
	if values != nil {
		if err := shard.writer.WriteChunk(ctx, w.index(index%w.perShard), values); err != nil {
			return err
		}
	}
	w.mu.Lock()
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

// hierarchyWriter writes the nodes of the output and collects their metadata.
type hierarchyWriter struct {
	*writer
	rows  int64
	nodes map[string]zarr.Node
}

// column moves the chunks of a column to their path, and writes its metadata.
func (h *hierarchyWriter) column(ctx context.Context, w *columnWriter, g *categories) error {
	for _, a := range w.arrays() {
		if err := a.finish(ctx); err != nil {
			return err
		}
	}
	missing := w.missing.Load() || w.plan.kind == kindNull
	attributes := w.plan.attributes(missing || w.elementMissing.Load())
	name := w.plan.name
	if w.nested != nil {
		return h.finishNested(ctx, w, attributes)
	}
	if w.plan.kind == kindDictionary {
		if !g.isUniqueIndex() {
			delete(attributes, attrEncType)
			delete(attributes, attrEncVer)
		}
		return errors.Join(
			h.group(ctx, name, attributes),
			h.array(ctx, w.values, name+"/codes", h.rows, w.plan.dims[:1], nil),
			h.categories(ctx, g, name+"/categories"))
	}
	if !missing && !w.elementMissing.Load() {
		return h.array(ctx, w.values, name, h.rows, w.plan.valueDims(), attributes)
	}
	err := errors.Join(h.group(ctx, name, attributes), h.array(ctx, w.values, name+"/values", h.rows, w.plan.valueDims(), nil))
	if missing {
		err = errors.Join(err, h.array(ctx, w.mask, name+"/mask", h.rows, w.plan.dims[:1], nil))
	}
	if w.elementMissing.Load() {
		err = errors.Join(err, h.array(ctx, w.elements, name+"/element_mask", h.rows, w.plan.valueDims(), nil))
	}
	return err
}

func (h *hierarchyWriter) group(ctx context.Context, path string, attributes map[string]any) error {
	m := &zarr.GroupMetadata{Attributes: attributes}
	h.nodes[path] = m
	return zarr.WriteNode(ctx, h.store, path, m)
}

// array moves the chunks of an array of a length to a path and writes its metadata.
func (h *hierarchyWriter) array(ctx context.Context, w *arrayWriter, path string, length int64, dims []string, attributes map[string]any) error {
	m := w.array.Metadata()
	m.Shape = append([]int64{length}, m.Shape[1:]...)
	m.DimensionNames, m.Attributes = dims, attributes
	// An array of fill values has no chunks to move.
	if err := store.Move(ctx, h.store, w.array.Path(), path); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	h.nodes[path] = m
	return zarr.WriteNode(ctx, h.store, path, m)
}

// categories writes the values of a dictionary column.
func (h *hierarchyWriter) categories(ctx context.Context, g *categories, path string) error {
	plan, err := planColumn(categoriesField(g.column.storage.(*arrow.DictionaryType)))
	if err != nil {
		return err
	}
	m := &zarr.ArrayMetadata{
		Shape:      append([]int64{g.codeOf.len()}, plan.layout.row...),
		DataType:   plan.dataType(),
		ChunkShape: chunkShape(max(min(g.codeOf.len(), DefaultChunkRows), 1), plan.layout.row),
		Codecs:     zarr.DefaultCodecs(plan.dataType(), g.column.codecs.compressors(arrayCategories, plan.class(), plan.dataType())...),
	}
	m.Attributes = plan.attributes(false)
	m.DimensionNames = []string{g.column.name + ".category"}
	for i := range plan.layout.row {
		m.DimensionNames = append(m.DimensionNames, fmt.Sprintf("%s.category_%d", g.column.name, i+1))
	}
	array, err := zarr.New(h.store, path, m)
	if err != nil {
		return err
	}
	if err := array.WriteMetadata(ctx); err != nil {
		return err
	}
	h.nodes[path] = m
	if g.codeOf.len() == 0 {
		return nil
	}
	inputs := make([]columnSlice, len(g.values))
	for i, values := range g.values {
		inputs[i] = columnSlice{values: values, to: int64(values.Len())}
	}
	a := assembler{device: arrowbuf.CPU(), kernels: &h.stats.kernels}
	arrays, err := a.assemble(plan, inputs, g.codeOf.len())
	if err != nil {
		return err
	}
	defer arrays.release()
	return array.Write(ctx, arrays.values, h.jobs)
}

// output is a directory that appears at its path only when it is complete. It is built
// in a hidden directory beside the path, and renamed.
type output struct {
	path      string
	staging   string
	overwrite bool // publish replaces the directory at path
}

// newOutput checks that a hierarchy can be written at path, and creates the staging
// directory.
func newOutput(path string, overwrite bool) (*output, error) {
	path = filepath.Clean(path)
	o := &output{path: path}
	info, err := os.Lstat(path)
	switch {
	case err == nil && !overwrite:
		return nil, partErrorf(PartOutput, "%s exists already (--overwrite replaces it)", path)
	case err == nil && !info.IsDir():
		return nil, partErrorf(PartOutput, "%s is not a directory, so it is not overwritten", path)
	case err == nil:
		if err := checkReplaceable(path); err != nil {
			return nil, markPart(PartOutput, err)
		}
		o.overwrite = true
	case !errors.Is(err, fs.ErrNotExist):
		return nil, markPart(PartOutput, err)
	}
	// Not MkdirTemp: only the owner may read its directory, and this one becomes
	// the output.
	own := fmt.Sprintf(".partial-%d-%08x", os.Getpid(), rand.Uint32())
	base := filepath.Base(path)
	base = base[:min(len(base), maxNameBytes-len(".")-len(own)-len(".old"))] // a prefix that keeps the name short enough
	name := "." + strings.ToValidUTF8(base, "") + own
	o.staging = filepath.Join(filepath.Dir(path), name)
	if err := os.Mkdir(o.staging, 0o777); err != nil {
		return nil, partErrorf(PartOutput, "making a directory to build %s in: %w", path, err)
	}
	return o, nil
}

// checkReplaceable refuses to overwrite anything but a Zarr hierarchy or an empty
// directory: a home directory, for example.
func checkReplaceable(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case "zarr.json", ".zgroup", ".zarray":
			return nil
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return fmt.Errorf("%s holds no zarr.json, so it is not overwritten: expected a Zarr hierarchy or an empty directory", path)
}

// publish moves the staging directory to the path of the output.
func (o *output) publish() error {
	if o.overwrite {
		old := o.staging + ".old"
		if err := os.Rename(o.path, old); err != nil {
			return partErrorf(PartOutput, "moving the old %s out of the way: %w", o.path, err)
		}
		if err := os.Rename(o.staging, o.path); err != nil {
			return partErrorf(PartOutput, "naming the new %s: %w", o.path, errors.Join(err, os.Rename(old, o.path)))
		}
		if err := os.RemoveAll(old); err != nil {
			return partErrorf(PartOutput, "%s is written, but the old one is still at %s: %w", o.path, old, err)
		}
		return nil
	}
	// If a directory was created at the path meanwhile, renaming fails unless it is
	// empty, so nothing is lost.
	if err := os.Rename(o.staging, o.path); err != nil {
		return partErrorf(PartOutput, "naming %s: %w", o.path, err)
	}
	return nil
}

// discard removes the staging directory.
func (o *output) discard() error { return os.RemoveAll(o.staging) }
