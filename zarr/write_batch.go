package zarr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// writeBatch is the most bytes of chunks that a batch has, but for one chunk. Several
// batches are in flight, so that kernels run, encoded bytes cross the link and are stored
// at the same time. Tests make it smaller.
var writeBatch int64 = 128 << 20

const writeInFlight = 3

// ChunkWrite is a chunk that [WriteChunks] stores.
type ChunkWrite struct {
	// Array has the chunk at Index. It is not used if Shard is not nil.
	Array *Array
	// Shard, if not nil, has the chunk at Index of its own grid.
	Shard *ShardWriter
	Index []int64
	// Values are those of the chunk, which fill values pad.
	Values element.Values
}

// WriteChunks stores chunks of any arrays, each as [Array.WriteChunk] does, or
// [ShardWriter.WriteChunk]. A GPU encodes those whose values it has in batches, as far as
// it has kernels for their codecs: only encoded bytes cross the link, while other batches
// are encoded and stored. It needs device memory of about four times 384 MiB, or of four
// chunks. WriteChunks uses jobs goroutines, or GOMAXPROCS if jobs is not positive. For
// chunks of a GPU it uses as many for each of up to three batches at the same time. The
// same chunk must not be written twice. After an error, some of the chunks are stored.
func WriteChunks(ctx context.Context, chunks []ChunkWrite, jobs int) error {
	var batched, single []ChunkWrite
	for i, c := range chunks {
		if err := c.check(); err != nil {
			return fmt.Errorf("zarr.WriteChunks: chunk %d: %w", i, err)
		}
		whole, err := c.isWhole()
		if err != nil {
			return err
		}
		if whole && c.onDevice() {
			batched = append(batched, c)
		} else {
			single = append(single, c)
		}
	}
	w := &batchWriter{jobs: parallelism(jobs), shards: map[*ShardWriter]int64{}}
	if err := w.run(ctx, slices.Values(batched)); err != nil {
		return err
	}
	return forEachParallel(ctx, w.jobs, slices.Values(single), func(ctx context.Context, c ChunkWrite) error {
		if c.Shard != nil {
			return c.Shard.WriteChunk(ctx, c.Index, c.Values)
		}
		return c.Array.WriteChunk(ctx, c.Index, c.Values)
	})
}

func (c ChunkWrite) check() error {
	switch {
	case c.Shard != nil:
		return c.Shard.checkIndex(c.Index)
	case c.Array == nil:
		return errors.New("nil array")
	default:
		return errors.Join(c.Array.checkWritable(), c.Array.checkIndex(c.Index))
	}
}

// chain returns the codecs of the chunk.
func (c ChunkWrite) chain() (*codec.Chain, error) {
	if c.Shard != nil {
		return c.Shard.layout.ChunkChain(), nil
	}
	return c.Array.chainFor(c.Index)
}

// isWhole reports whether the values are all that the chunk has, so that it need not be
// read.
func (c ChunkWrite) isWhole() (bool, error) {
	chain, err := c.chain()
	if err == nil {
		err = chain.CheckValues(c.Values)
	}
	if err != nil {
		return false, c.wrap(err)
	}
	if c.Shard != nil {
		return true, nil
	}
	cell := c.Array.grid.Box(c.Index)
	box := grid.Box{Origin: cell.Origin, Shape: c.Values.Shape()}
	inside, ok := cell.Intersect(grid.WholeBox(c.Array.Shape()))
	return slices.Equal(box.Shape, cell.Shape) || ok && box.Contains(inside), nil
}

// onDevice reports whether a GPU encodes the chunk.
func (c ChunkWrite) onDevice() bool {
	chain, err := c.chain()
	return err == nil && isOnGPU(c.Values) && chain.EncodesOnDevice()
}

// isOnGPU reports whether values are in the memory of a GPU.
func isOnGPU(v element.Values) bool {
	nd, ok := v.(*ndview.NDBuffer)
	if !ok {
		return false
	}
	_, gpu := arrowbuf.As[*cudabuf.Device](nd.Device())
	_, host := arrowbuf.HostBytes(nd.Buffer())
	return gpu && !host
}

func (c ChunkWrite) array() *Array {
	if c.Shard != nil {
		return c.Shard.array
	}
	return c.Array
}

func (c ChunkWrite) wrap(err error) error {
	if c.Shard != nil {
		return fmt.Errorf("shard %q: chunk %v: %w", c.Shard.key, c.Index, err)
	}
	return fmt.Errorf("array %q: chunk %v: %w", c.Array.path, c.Index, err)
}

// store stores the encoded chunk; nil is one of fill values.
func (c ChunkWrite) store(ctx context.Context, enc []byte) error {
	if c.Shard != nil {
		return c.Shard.addEncoded(ctx, c.Index, enc)
	}
	a, key := c.Array, c.Array.chunkKey(c.Index)
	unlock, err := a.writing.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	return a.replaceChunk(ctx, key, enc)
}

// batchWriter writes whole chunks whose values a GPU has.
type batchWriter struct {
	jobs int

	mu     sync.Mutex
	shards map[*ShardWriter]int64 // chunks that are left of those that the writer closes
}

func (w *batchWriter) run(ctx context.Context, chunks func(func(ChunkWrite) bool)) error {
	return forEachParallel(ctx, writeInFlight, batchesOf(chunks), func(ctx context.Context, batch []ChunkWrite) error {
		return w.write(ctx, batch)
	})
}

// batchesOf yields chunks in batches of writeBatch bytes.
func batchesOf(chunks func(func(ChunkWrite) bool)) func(func([]ChunkWrite) bool) {
	return func(yield func([]ChunkWrite) bool) {
		var batch []ChunkWrite
		var bytes int64
		for c := range chunks {
			n := valuesBytes(c.Values)
			if bytes+n > writeBatch && len(batch) > 0 {
				if !yield(batch) {
					return
				}
				batch, bytes = nil, 0
			}
			batch, bytes = append(batch, c), bytes+n
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

// write encodes and stores a batch.
func (w *batchWriter) write(ctx context.Context, batch []ChunkWrite) error {
	items := make([]codec.EncodeItem, len(batch))
	var raw int64
	for i, c := range batch {
		chain, err := c.chain()
		if err != nil {
			return c.wrap(err)
		}
		a := c.array()
		items[i] = codec.EncodeItem{Chain: chain, Values: c.Values, KeepEmpty: a.WriteEmptyChunks, Stats: a.Stats}
		raw += valuesBytes(c.Values)
	}
	var copying atomic.Int64 // nanoseconds; chunks that the host encodes are copied at the same time
	start := time.Now()
	encoded, err := codec.EncodeBatch(items, codec.BatchOptions{Jobs: w.jobs, OnHostCopy: func(bytes int64, took time.Duration) {
		copying.Add(int64(took))
		if trace := batch[0].array().Trace; trace != nil && trace.ToHost != nil {
			trace.ToHost(bytes, took)
		}
	}})
	if err != nil {
		return err
	}
	defer encoded.Release()
	took := time.Since(start) - time.Duration(copying.Load())
	for i, c := range batch {
		enc, err := encoded.Chunk(i)
		if err != nil {
			return c.wrap(err)
		}
		if trace := c.array().Trace; trace != nil && trace.Encode != nil {
			n := valuesBytes(c.Values)
			trace.Encode(n, int64(len(enc)), time.Duration(float64(took)*float64(n)/float64(max(raw, 1))))
		}
	}
	return forEachParallel(ctx, w.jobs, indices(len(batch)), func(ctx context.Context, i int) error {
		enc, _ := encoded.Chunk(i)
		if err := batch[i].store(ctx, enc); err != nil {
			return err
		}
		return w.stored(ctx, batch[i])
	})
}

func indices(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// stored closes the shard of a chunk, if that was its last one.
func (w *batchWriter) stored(ctx context.Context, c ChunkWrite) error {
	if !w.isLast(c.Shard) {
		return nil
	}
	unlock, err := c.Shard.array.writing.lock(ctx, c.Shard.key)
	if err != nil {
		return errors.Join(err, c.Shard.Abort())
	}
	defer unlock()
	return c.Shard.Close(ctx)
}

// isLast counts a chunk of a shard. It reports whether the writer must close the shard.
func (w *batchWriter) isLast(s *ShardWriter) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	left, ok := w.shards[s]
	if !ok {
		return false
	}
	if left > 1 {
		w.shards[s] = left - 1
		return false
	}
	delete(w.shards, s)
	return true
}

// abort drops the shards that are open.
func (w *batchWriter) abort() error {
	var errs []error
	for s := range w.shards {
		errs = append(errs, s.Abort())
	}
	clear(w.shards)
	return errors.Join(errs...)
}

// encodesOnDevice reports whether a GPU encodes the chunks of a box of values.
func (a *Array) encodesOnDevice(box grid.Box, v element.Values) bool {
	if !isOnGPU(v) || valuesBytes(v) < minDeviceBytes {
		return false
	}
	for index := range a.grid.Chunks(box) {
		chain, err := a.chainFor(index)
		if err != nil {
			return false
		}
		if layout, ok := chain.ShardLayout(); ok {
			chain = layout.ChunkChain()
		}
		return chain.EncodesOnDevice()
	}
	return false
}

// writeBoxOnDevice stores a box of the array whose values a GPU has. Chunks that the box
// has only in part are written one by one.
func (a *Array) writeBoxOnDevice(ctx context.Context, box grid.Box, v element.Values, jobs int) error {
	w := &batchWriter{jobs: jobs, shards: map[*ShardWriter]int64{}}
	var failure error
	var views []element.Values
	defer func() {
		for _, v := range views {
			v.Release()
		}
	}()
	err := w.run(ctx, func(yield func(ChunkWrite) bool) {
		for cell := range a.grid.Chunks(box) {
			chunk := a.grid.Box(cell)
			part, _ := chunk.Intersect(box)
			values, err := element.SliceBox(v, part.RelativeTo(box.Origin).Origin, part.Shape)
			if err == nil {
				views = append(views, values)
				inside, ok := chunk.Intersect(grid.WholeBox(a.Shape()))
				switch {
				case !ok || !part.Contains(inside):
					err = a.writeBoxOfChunk(ctx, cell, part, values, jobs)
				case a.isSharded(cell):
					err = w.splitShard(ctx, a, cell, values, func(c ChunkWrite) bool {
						views = append(views, c.Values)
						return yield(c)
					})
				default:
					if !yield(ChunkWrite{Array: a, Index: cell, Values: values}) {
						return
					}
				}
			}
			if err != nil {
				if !errors.Is(err, errStopped) {
					failure = err
				}
				return
			}
		}
	})
	if err = errors.Join(err, failure); err != nil {
		return errors.Join(err, w.abort())
	}
	return nil
}

func (a *Array) isSharded(cell []int64) bool {
	chain, err := a.chainFor(cell)
	if err != nil {
		return false
	}
	_, sharded := chain.ShardLayout()
	return sharded
}

// splitShard yields the chunks of a whole shard, which is closed after the last of them. It
// returns errStopped if yield returned false.
func (w *batchWriter) splitShard(ctx context.Context, a *Array, cell []int64, v element.Values, yield func(ChunkWrite) bool) error {
	s, err := a.NewShardWriter(ctx, cell)
	if err != nil {
		return err
	}
	n := grid.Size(grid.GridShape(v.Shape(), s.layout.ChunkShape()))
	w.mu.Lock()
	w.shards[s] = n
	w.mu.Unlock()
	var failure error
	for c := range innerChunks(s.layout, v, &failure) {
		if !yield(ChunkWrite{Shard: s, Index: c.index, Values: c.values}) {
			return errStopped
		}
	}
	return failure
}
