package arrowzarr

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
)

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
	if plan.form == formDictionary {
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
	if w.plan.form == formDictionary {
		return nil // codes have no mask: a missing one is -1
	}
	mask := c.arrayMetadata(element.Of(ndview.Bool), nil)
	if w.plan.form == formNull {
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
func (w *columnWriter) write(ctx context.Context, index int64, c *chunk) error {
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
		return nil, failed(PartOutput, err)
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
