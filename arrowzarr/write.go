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

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// arrayMetadata is that of an array of rows, none so far, with further axes
// behind the first.
func (c *conversion) arrayMetadata(t element.Type, row []int64) *zarr.ArrayMetadata {
	m := &zarr.ArrayMetadata{
		Shape:      append([]int64{0}, row...),
		DataType:   t,
		ChunkShape: chunkShape(c.grid.chunkRows, row),
		Codecs:     zarr.DefaultCodecs(t, c.options.Codec.codecs()...),
	}
	if c.grid.shardRows > 0 {
		m.Codecs = codec.List{codec.Sharding{ChunkShape: m.ChunkShape, Codecs: m.Codecs}}
		m.ChunkShape = chunkShape(c.grid.shardRows, row)
	}
	return m
}

// chunkShape takes all of the axes behind the first. An extent is at least 1,
// also where there is nothing along the axis.
func chunkShape(rows int64, row []int64) []int64 {
	shape := []int64{rows}
	for _, d := range row {
		shape = append(shape, max(d, 1))
	}
	return shape
}

// columnWriter writes one column's arrays. Whether a column has missing values
// is known only at its end, and decides where its values go; so the arrays are
// built under a name that no column has, and moved.
type columnWriter struct {
	plan       *column
	values     *arrayWriter
	mask       *arrayWriter
	elements   *arrayWriter
	categories *categories // of a dictionary column
	missing    atomic.Bool // some row is
	elementGap atomic.Bool // some element of a row is
}

func newColumnWriter(plan *column, shelf *shelf) *columnWriter {
	w := &columnWriter{plan: plan}
	if plan.kind == kindDictionary {
		w.categories = newCategories(plan, shelf)
	}
	return w
}

// begin makes the arrays of the column, under a name of their own.
func (w *columnWriter) begin(c *conversion, at string) (err error) {
	values := c.arrayMetadata(w.plan.dataType(), w.plan.layout.row)
	values.DimensionNames = w.plan.dimensionNames()
	if w.values, err = c.newArrayWriter(at+"/values", values); err != nil {
		return err
	}
	if w.plan.kind == kindDictionary {
		return nil // codes have no mask: a missing one is -1
	}
	mask := c.arrayMetadata(element.Of(ndview.Bool), nil)
	if w.plan.kind == kindNull {
		mask.FillValue = []byte{1} // all is missing, and nothing needs to be stored
	}
	if w.mask, err = c.newArrayWriter(at+"/mask", mask); err != nil {
		return err
	}
	if w.plan.isList() {
		elements := c.arrayMetadata(element.Of(ndview.Bool), w.plan.layout.row)
		elements.DimensionNames = values.DimensionNames
		w.elements, err = c.newArrayWriter(at+"/element_mask", elements)
	}
	return err
}

// arrays are those that the column has.
func (w *columnWriter) arrays() []*arrayWriter {
	return slices.DeleteFunc([]*arrayWriter{w.values, w.mask, w.elements}, func(a *arrayWriter) bool { return a == nil })
}

// write stores a chunk of the column.
func (w *columnWriter) write(ctx context.Context, index int64, c *chunkArrays) error {
	if c.mask != nil {
		w.missing.Store(true)
	}
	if c.elementMask != nil {
		w.elementGap.Store(true)
	}
	return errors.Join(
		w.values.write(ctx, index, c.values),
		w.mask.write(ctx, index, asValues(c.mask)),
		w.elements.write(ctx, index, asValues(c.elementMask)))
}

// arrayWriter writes the chunks of one array, in any order, and closes each
// shard when it has all of its chunks.
type arrayWriter struct {
	array *zarr.Array
	ndim  int
	// perShard is the number of chunks in a shard; 0 without shards.
	perShard int64

	mu     sync.Mutex
	shards map[int64]*openShard
}

// newArrayWriter makes an array whose number of rows is not known yet.
func (c *conversion) newArrayWriter(path string, m *zarr.ArrayMetadata) (*arrayWriter, error) {
	w := &arrayWriter{ndim: len(m.Shape), shards: map[int64]*openShard{}}
	if c.grid.shardRows > 0 {
		w.perShard = c.grid.shardRows / c.grid.chunkRows
	}
	var err error
	if w.array, err = zarr.New(c.store, path, m); err != nil {
		return nil, markPart(PartOutput, err)
	}
	w.array.Trace = c.stages.trace()
	return w, nil
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

// index is the chunk's place in the grid: only the first axis is cut.
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
	writer, err := w.array.Shard(ctx, w.index(i))
	if err != nil {
		return nil, err
	}
	s := &openShard{writer: writer}
	w.shards[i] = s
	return s, nil
}

// finish closes the last shard, which may lack chunks.
func (w *arrayWriter) finish(ctx context.Context) error {
	var errs []error
	for i, s := range w.shards {
		errs = append(errs, s.writer.Close(ctx))
		delete(w.shards, i)
	}
	return errors.Join(errs...)
}

// abort drops what is open.
func (w *arrayWriter) abort() {
	for _, s := range w.shards {
		_ = s.writer.Abort() // of a store that is about to be removed
	}
}

// output is a directory that appears under its name only when it is whole: it
// is built beside it, in a hidden directory, and renamed.
type output struct {
	path      string
	staging   string
	overwrite bool // what is there already goes when the new one comes
}

// newOutput checks that a hierarchy can appear at path, and makes the directory
// to build it in.
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
	// Not MkdirTemp: its directory is for the owner alone, and this one stays.
	own := fmt.Sprintf(".partial-%d-%08x", os.Getpid(), rand.Uint32())
	base := filepath.Base(path)
	base = base[:min(len(base), longestName-len(".")-len(own)-len(".old"))] // as much as there is room for
	name := "." + strings.ToValidUTF8(base, "") + own
	o.staging = filepath.Join(filepath.Dir(path), name)
	if err := os.Mkdir(o.staging, 0o777); err != nil {
		return nil, partErrorf(PartOutput, "making a directory to build %s in: %w", path, err)
	}
	return o, nil
}

// checkReplaceable keeps --overwrite from deleting what never was a Zarr
// hierarchy: a home directory, say.
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

// publish gives the finished directory its name.
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
	// A directory renamed onto one that came meanwhile fails unless that is
	// empty, so nothing is lost.
	if err := os.Rename(o.staging, o.path); err != nil {
		return partErrorf(PartOutput, "naming %s: %w", o.path, err)
	}
	return nil
}

// discard removes what was built.
func (o *output) discard() error { return os.RemoveAll(o.staging) }

// finish gives every array its place and writes the metadata, the root's last.
func (c *conversion) finish(ctx context.Context) error {
	h := hierarchy{conversion: c, nodes: map[string]zarr.Node{}}
	for _, w := range c.writers {
		if err := h.column(ctx, w); err != nil {
			return partErrorf(partOf(err, PartOutput), "column %q: %w", w.plan.name, err)
		}
	}
	if err := c.store.DeleteAll(ctx, c.building()); err != nil {
		return markPart(PartOutput, err)
	}
	attributes, err := rootAttributes(selectSchema(c.src.schema(), c.fields), c.columns, c.cutter.taken)
	if err != nil {
		return markPart(PartOutput, err)
	}
	root := &zarr.GroupMetadata{Attributes: attributes, Consolidated: h.nodes}
	_, err = zarr.CreateGroup(ctx, c.store, "", root)
	return markPart(PartOutput, err)
}

// hierarchy gathers the nodes of the output.
type hierarchy struct {
	*conversion
	nodes map[string]zarr.Node
}

// column writes a column's metadata, and moves its chunks there.
func (h *hierarchy) column(ctx context.Context, w *columnWriter) error {
	for _, a := range w.arrays() {
		if err := a.finish(ctx); err != nil {
			return err
		}
	}
	missing := w.missing.Load() || w.plan.kind == kindNull
	attributes := w.plan.attributes(missing || w.elementGap.Load())
	name := w.plan.name
	if w.plan.kind == kindDictionary {
		if !w.categories.isIndex() {
			delete(attributes, attrEncType)
			delete(attributes, attrEncVer)
		}
		return errors.Join(
			h.group(ctx, name, attributes),
			h.array(ctx, w.values, name+"/codes", nil),
			h.categories(ctx, w.categories, name+"/categories"))
	}
	if !missing && !w.elementGap.Load() {
		return h.array(ctx, w.values, name, attributes)
	}
	err := errors.Join(h.group(ctx, name, attributes), h.array(ctx, w.values, name+"/values", nil))
	if missing {
		err = errors.Join(err, h.array(ctx, w.mask, name+"/mask", nil))
	}
	if w.elementGap.Load() {
		err = errors.Join(err, h.array(ctx, w.elements, name+"/element_mask", nil))
	}
	return err
}

func (h *hierarchy) group(ctx context.Context, at string, attributes map[string]any) error {
	m := &zarr.GroupMetadata{Attributes: attributes}
	h.nodes[at] = m
	_, err := zarr.CreateGroup(ctx, h.store, at, m)
	return err
}

// array moves the chunks of an array to its place and writes its metadata.
func (h *hierarchy) array(ctx context.Context, w *arrayWriter, at string, attributes map[string]any) error {
	m := w.array.Metadata()
	m.Shape = append([]int64{h.cutter.taken}, m.Shape[1:]...)
	m.Attributes = attributes
	// An array of fill values has no chunks to move.
	if err := h.store.Move(ctx, w.array.Path(), at); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	h.nodes[at] = m
	_, err := zarr.Create(ctx, h.store, at, m)
	return err
}

// categories writes the values of a dictionary column.
func (h *hierarchy) categories(ctx context.Context, g *categories, at string) error {
	plan, err := planColumn(categoriesField(g.column.storage.(*arrow.DictionaryType)))
	if err != nil {
		return err
	}
	m := &zarr.ArrayMetadata{
		Shape:      append([]int64{g.count}, plan.layout.row...),
		DataType:   plan.dataType(),
		ChunkShape: chunkShape(max(min(g.count, DefaultChunkRows), 1), plan.layout.row),
		Codecs:     zarr.DefaultCodecs(plan.dataType(), h.options.Codec.codecs()...),
	}
	m.Attributes = plan.attributes(false)
	array, err := zarr.Create(ctx, h.store, at, m)
	if err != nil {
		return err
	}
	h.nodes[at] = m
	if g.count == 0 {
		return nil
	}
	parts := make([]columnSlice, len(g.values))
	for i, p := range g.values {
		parts[i] = columnSlice{values: p, to: int64(p.Len())}
	}
	a := assembler{device: h.deviceOf(g.column), kernels: &h.stages.kernels}
	made, err := a.assemble(plan, parts, g.count)
	if err != nil {
		return err
	}
	defer made.release()
	return array.Write(ctx, made.values, h.options.Jobs)
}

// abort drops shards that are open, and what is held.
func (c *conversion) abort() {
	for _, w := range c.writers {
		for _, a := range w.arrays() {
			a.abort()
		}
	}
}

// close gives back what the conversion took.
func (c *conversion) close() error {
	for _, w := range c.writers {
		if w.categories != nil {
			w.categories.release()
		}
	}
	if c.reading == nil {
		return c.src.close()
	}
	select {
	case <-c.reading.stopped:
		return c.src.close()
	default:
	}
	if c.src.interrupt() {
		<-c.reading.stopped
		return c.src.close()
	}
	go func() { // that a pipe which nobody waits for cannot be closed is no failure
		<-c.reading.stopped
		_ = c.src.close()
	}()
	return nil
}
