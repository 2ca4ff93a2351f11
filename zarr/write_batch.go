package zarr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// Chunks that a GPU encodes pass through stages that are all at work at the same time:
//
//	gather → encode → copy to the host → store
//
// A goroutine gathers a batch and runs its kernels. Several do so in turns: the kernels of
// one batch leave a GPU idle in part, and while one is stored, others are encoded. Encodings
// cross the link in pieces, of which few are in memory. All batches share the goroutines
// that store chunks.

// writeBatch is the bytes of chunks at which a batch is complete, and minWriteBatch that of
// an array of few batches. A batch takes about four
// times its size of device memory while it is encoded. Tests make it smaller.
var writeBatch, minWriteBatch int64 = 128 << 20, 64 << 20

const (
	// encodeInFlight is the number of batches whose kernels run.
	encodeInFlight = 3
	// writeInFlight is the number of batches that are encoded or stored.
	writeInFlight = 6
)

// ChunkWrite is a chunk that [WriteChunks] stores.
type ChunkWrite struct {
	// Array has the chunk at Index. It is not used if Shard is not nil.
	Array *Array
	// Shard, if not nil, has the chunk at Index of its own grid.
	Shard *ShardWriter
	Index []int64
	// Values are those of the chunk, which fill values pad.
	Values element.Values
	// Stored, if not nil, is called when the chunk is stored, possibly from several
	// goroutines at the same time. Values are not used afterwards. Its error ends the write.
	Stored func(ctx context.Context) error
}

// WriteChunks stores chunks of any arrays, each as [Array.WriteChunk] does, or
// [ShardWriter.WriteChunk]. A GPU encodes those whose values it has in batches, as far as
// it has kernels for their codecs: only encoded bytes cross the link, while other batches
// are encoded and stored. It needs device memory of about four times 384 MiB, or less if
// little is free. WriteChunks uses jobs goroutines to store, or GOMAXPROCS if jobs is not
// positive. The same chunk must not be written twice.
//
// WriteChunks receives chunks until the channel is closed, and returns when all are stored.
// It returns early with the first error, or the cause of the context. Then some of the
// chunks are stored, and the channel may still have others.
func WriteChunks(ctx context.Context, chunks <-chan ChunkWrite, jobs int) error {
	return newBatchWriter(jobs, 0).run(ctx, func(ctx context.Context, out *gatherer) error {
		for i := 0; ; i++ {
			c, ok, err := out.receive(ctx, chunks)
			if err != nil || !ok {
				return err
			}
			if err := c.check(); err != nil {
				return fmt.Errorf("zarr.WriteChunks: chunk %d: %w", i, err)
			}
			if err := out.add(ctx, c); err != nil {
				return err
			}
		}
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

// isWhole returns the codecs of the chunk, and reports whether the values are all that it
// has, so that it need not be read.
func (c ChunkWrite) isWhole() (*codec.Chain, bool, error) {
	chain, err := c.chain()
	if err == nil {
		err = chain.CheckValues(c.Values)
	}
	if err != nil {
		return nil, false, c.wrap(err)
	}
	if c.Shard != nil {
		return chain, true, nil
	}
	cell := c.Array.chunkGrid().Box(c.Index)
	box := grid.Box{Origin: cell.Origin, Shape: c.Values.Shape()}
	return chain, slices.Equal(box.Shape, cell.Shape) || c.Array.hasAll(cell, box), nil
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
		return c.Shard.addEncoded(ctx, c.Index, enc, wholePiece)
	}
	a, key := c.Array, c.Array.chunkKey(c.Index)
	unlock, err := a.writing.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	return a.replaceChunk(ctx, key, enc, wholePiece)
}

// batchWriter writes chunks. Those that a GPU encodes pass through its stages; others are
// encoded where they are stored.
type batchWriter struct {
	jobs      int
	batch     int64               // bytes at which a batch is complete
	running   chan struct{}       // has a value for each goroutine that stores or encodes on the host
	encoding  *semaphore.Weighted // a batch each whose kernels run
	pieces    codec.HostPieces    // released at the end of run
	encoded   chan struct{}       // has a value after no batch is left to encode
	unencoded atomic.Int64        // batches that are complete and not encoded

	mu     sync.Mutex
	shards map[*ShardWriter]int64 // chunks that are left of those that the writer closes
}

// newBatchWriter returns a writer of some bytes in all, or of any number if that is 0.
func newBatchWriter(jobs int, total int64) *batchWriter {
	jobs = parallelism(jobs)
	batch := writeBatch
	if total > 0 { // the first should begin early, and the last be small
		batch = min(max(total/(2*encodeInFlight+2), minWriteBatch), writeBatch)
	}
	return &batchWriter{
		jobs: jobs, batch: batch, shards: map[*ShardWriter]int64{},
		running: make(chan struct{}, jobs), encoding: semaphore.NewWeighted(encodeInFlight),
		encoded: make(chan struct{}, 1),
	}
}

// run writes the chunks that a function adds to a gatherer, until its error or the first of
// a chunk.
func (w *batchWriter) run(ctx context.Context, produce func(ctx context.Context, out *gatherer) error) error {
	defer w.pieces.Release()
	group, groupCtx := errgroup.WithContext(ctx)
	batches := make(chan []ChunkWrite)
	for range writeInFlight {
		group.Go(func() error {
			for batch := range batches {
				if err := w.write(groupCtx, batch); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(batches)
		g := &gatherer{writer: w, group: group, out: batches}
		if err := produce(groupCtx, g); err != nil {
			return err
		}
		return g.flush(groupCtx)
	})
	return group.Wait()
}

// gatherer puts the chunks that a GPU encodes into batches. A single goroutine uses it: a
// batch has thousands of small chunks, which must not pass from one to another each.
type gatherer struct {
	writer *batchWriter
	group  *errgroup.Group
	out    chan<- []ChunkWrite

	batch    []ChunkWrite
	bytes    int64
	complete int64 // bytes at which the batch is
}

// receive returns the next chunk of a channel, and false after the last. While it waits for
// one, a batch that is not complete is encoded as soon as the kernels of those before have
// ended: the caller may need the memory of its chunks to make the next one.
func (g *gatherer) receive(ctx context.Context, chunks <-chan ChunkWrite) (c ChunkWrite, ok bool, err error) {
	for ctx.Err() == nil {
		select {
		case c, ok = <-chunks:
			return c, ok, nil
		default:
		}
		if g.writer.unencoded.Load() == 0 {
			if err := g.flush(ctx); err != nil {
				return c, false, err
			}
		}
		select {
		case c, ok = <-chunks:
			return c, ok, nil
		case <-g.writer.encoded:
		case <-ctx.Done():
		}
	}
	return c, false, context.Cause(ctx)
}

// add adds a chunk to the batch. It begins to write a chunk that no GPU encodes.
func (g *gatherer) add(ctx context.Context, c ChunkWrite) error {
	chain, whole, err := c.isWhole()
	if err != nil {
		return err
	}
	if !whole || !isOnGPU(c.Values) || !chain.EncodesOnDevice() {
		return g.writer.begin(ctx, g.group, c)
	}
	if len(g.batch) == 0 {
		if g.complete, err = g.writer.batchSize(c.Values); err != nil {
			return err
		}
	}
	g.batch, g.bytes = append(g.batch, c), g.bytes+valuesBytes(c.Values)
	if g.bytes < g.complete {
		return nil
	}
	return g.flush(ctx)
}

// flush sends the batch, if it has chunks.
func (g *gatherer) flush(ctx context.Context) error {
	if len(g.batch) == 0 {
		return nil
	}
	g.writer.unencoded.Add(1)
	select {
	case g.out <- g.batch:
		g.batch, g.bytes = nil, 0
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin encodes and stores a chunk by itself, in a goroutine of the group.
func (w *batchWriter) begin(ctx context.Context, group *errgroup.Group, c ChunkWrite) error {
	select {
	case w.running <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	group.Go(func() error {
		defer func() { <-w.running }()
		if err := c.write(ctx); err != nil {
			return err
		}
		return w.stored(ctx, c)
	})
	return nil
}

// write encodes and stores the chunk by itself.
func (c ChunkWrite) write(ctx context.Context) error {
	if c.Shard != nil {
		return c.Shard.WriteChunk(ctx, c.Index, c.Values)
	}
	return c.Array.WriteChunk(ctx, c.Index, c.Values)
}

// batchSize returns the bytes at which a batch is complete: less than usual on a GPU that
// has little free memory.
func (w *batchWriter) batchSize(v element.Values) (int64, error) {
	nd, ok := v.(*ndview.NDBuffer)
	if !ok {
		return w.batch, nil
	}
	dev, ok := arrowbuf.As[*cudabuf.Device](nd.Device())
	if !ok {
		return w.batch, nil
	}
	free, _, err := dev.MemInfo()
	return min(w.batch, free/(8*encodeInFlight)), err
}

// write encodes and stores a batch.
func (w *batchWriter) write(ctx context.Context, batch []ChunkWrite) error {
	if err := w.encoding.Acquire(ctx, 1); err != nil {
		return err
	}
	items := make([]codec.EncodeItem, len(batch))
	var raw int64
	for i, c := range batch {
		chain, err := c.chain()
		if err != nil {
			w.encoding.Release(1)
			return c.wrap(err)
		}
		a := c.array()
		items[i] = codec.EncodeItem{Chain: chain, Values: c.Values, KeepEmpty: a.WriteEmptyChunks, Stats: a.Stats}
		raw += valuesBytes(c.Values)
	}
	var took time.Duration // of the kernels
	start := time.Now()
	options := codec.BatchOptions{
		Jobs: w.jobs, Running: w.running, Pieces: &w.pieces,
		OnEncoded: func() {
			took = time.Since(start)
			w.encoding.Release(1)
			if w.unencoded.Add(-1) == 0 {
				select {
				case w.encoded <- struct{}{}:
				default: // it has a value
				}
			}
		},
		OnHostCopy: func(bytes int64, took time.Duration) {
			if trace := batch[0].array().Trace; trace != nil && trace.ToHost != nil {
				trace.ToHost(bytes, took)
			}
		},
	}
	return codec.EncodeBatch(items, options, func(i int, encoded []byte, err error) error {
		c := batch[i]
		if err != nil {
			return c.wrap(err)
		}
		if trace := c.array().Trace; trace != nil && trace.Encode != nil {
			n := valuesBytes(c.Values)
			trace.Encode(n, int64(len(encoded)), time.Duration(float64(took)*float64(n)/float64(max(raw, 1))))
		}
		if err := c.store(ctx, encoded); err != nil {
			return err
		}
		return w.stored(ctx, c)
	})
}

// stored reports that a chunk is stored, and closes its shard if that was its last one.
func (w *batchWriter) stored(ctx context.Context, c ChunkWrite) error {
	if c.Stored != nil {
		if err := c.Stored(ctx); err != nil {
			return err
		}
	}
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

// writesBoxOnDevice reports whether a GPU encodes the chunks of a box of values.
func (a *Array) writesBoxOnDevice(box grid.Box, v element.Values) bool {
	if !isOnGPU(v) || valuesBytes(v) < minDeviceBytes {
		return false
	}
	for index := range a.chunkGrid().Chunks(box) {
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
	w := newBatchWriter(jobs, valuesBytes(v))
	var views []element.Values
	defer func() {
		for _, v := range views {
			v.Release()
		}
	}()
	err := w.run(ctx, func(ctx context.Context, out *gatherer) error {
		for cell := range a.chunkGrid().Chunks(box) {
			chunk := a.chunkGrid().Box(cell)
			part, _ := chunk.Intersect(box)
			values, err := element.SliceBox(v, part.RelativeTo(box.Origin).Origin, part.Shape)
			if err != nil {
				return err
			}
			views = append(views, values)
			inside, ok := chunk.Intersect(grid.WholeBox(a.Shape()))
			switch {
			case !ok || !part.Contains(inside):
				err = a.writeBoxOfChunk(ctx, cell, part, values, jobs)
			case a.isSharded(cell):
				err = w.splitShard(ctx, a, cell, values, func(c ChunkWrite) error {
					views = append(views, c.Values)
					return out.add(ctx, c)
				})
			default:
				err = out.add(ctx, ChunkWrite{Array: a, Index: cell, Values: values})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
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

// splitShard sends the chunks of a whole shard, which is closed after the last of them.
func (w *batchWriter) splitShard(ctx context.Context, a *Array, cell []int64, v element.Values, send func(ChunkWrite) error) error {
	s, err := a.NewShardWriter(ctx, cell)
	if err != nil {
		return err
	}
	n := grid.Size(grid.GridShape(v.Shape(), s.layout.ChunkShape()))
	w.mu.Lock()
	w.shards[s] = n
	w.mu.Unlock()
	return s.layout.Split(v, func(inner []int64, chunk element.Values) error {
		chunk.Retain()
		return send(ChunkWrite{Shard: s, Index: slices.Clone(inner), Values: chunk})
	})
}
