package arrowzarr

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Report is what a conversion did.
type Report struct {
	Input          string  `json:"input"`
	Format         string  `json:"format"`
	Output         string  `json:"output"`
	Device         string  `json:"device"`
	Codec          string  `json:"codec"`
	Compressor     string  `json:"compressor,omitempty"` // what does the codec's work: "libzstd 1.5.4" or "Go"
	Rows           int64   `json:"rows"`
	Columns        int     `json:"columns"`
	ChunkRows      int64   `json:"chunk_rows"`
	ShardRows      int64   `json:"shard_rows,omitempty"`
	RawBytes       int64   `json:"raw_bytes"`    // of all arrays, as if nothing were compressed
	StoredBytes    int64   `json:"stored_bytes"` // of the chunks, as they are stored
	Seconds        float64 `json:"seconds"`
	BytesPerSecond float64 `json:"bytes_per_second"` // raw bytes over seconds
	Stages         []Stage `json:"stages"`
}

// Convert reads an Arrow IPC file, an Arrow IPC stream or a Parquet file and
// writes it as a Zarr v3 group with one child a column. The input "-" is an IPC
// stream on standard input. The package comment says what becomes of each type.
//
// The output appears under its name only when it is whole. When Convert fails,
// or its context ends, there is no output and nothing else is left behind. The
// error is an *Error, or the context's.
func Convert(ctx context.Context, input, outputPath string, options Options) (*Report, error) {
	start := time.Now()
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &conversion{options: options, input: input, progress: options.Progress, memory: newBudget(options.MaxMemory / heldShare), work: work{budget: newBudget(options.MaxMemory / workShare)}, shelf: shelf{most: options.MaxMemory / heldShare}}
	if input == "-" {
		c.input = "standard input"
	}
	if c.progress == nil {
		c.progress = &Progress{}
	}
	err = runUntilDone(ctx, func() error { return c.open(input) }, func() { _ = c.src.close() })
	if err != nil {
		return nil, err
	}
	out, err := newOutput(outputPath, options.Overwrite)
	if err != nil {
		return nil, errors.Join(err, c.src.close())
	}
	c.store = store.NewLocal(out.staging, store.InPlace())
	if err = c.run(ctx); err == nil {
		err = c.finish(ctx)
	}
	if err != nil {
		c.abort()
	}
	if closing := c.close(); err == nil {
		err = markPart(PartInput, closing)
	}
	if err == nil {
		err = out.publish()
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx) // what failed, failed for that reason
		}
		return nil, errors.Join(err, out.discard())
	}
	return c.report(input, outputPath, time.Since(start)), nil
}

func (c *conversion) report(input, outputPath string, took time.Duration) *Report {
	r := &Report{
		Input: input, Format: c.src.format(), Output: outputPath,
		Device: c.options.Device.String(), Codec: c.options.Codec.String(),
		Compressor: c.options.Codec.implementation(),
		Rows:       c.cutter.taken, Columns: len(c.columns),
		ChunkRows: c.grid.chunkRows, ShardRows: c.grid.shardRows,
		RawBytes: c.progress.raw.Load(), StoredBytes: c.stages.write.bytes,
		Seconds: took.Seconds(), Stages: c.stages.report(),
	}
	r.BytesPerSecond = float64(r.RawBytes) / r.Seconds
	return r
}

// conversion is the state of one Convert.
type conversion struct {
	options  Options
	input    string // as errors name it
	progress *Progress
	src      source
	columns  []*column
	fields   []int
	store    store.Store
	host     hostAllocator
	grid     rowGrid
	begun    bool // the arrays are made
	writers  []*columnWriter
	reading  *ahead
	cutter   cutter
	memory   *budget // of held batches
	work     work    // of the jobs
	tables   float64 // see plan
	shelf    shelf   // of the categories
	stages   pipelineStats
}

// open recognises the input and plans its columns.
func (c *conversion) open(input string) (err error) {
	c.host.Allocator = c.options.Device.HostAllocator()
	r := sourceOptions{
		allocator: &c.host,
		maxBuffer: c.options.MaxMemory / heldShare,
		batchRows: c.options.ChunkRows,
		jobs:      c.options.Jobs,
	}
	if c.options.Device.Type() == arrowbuf.DeviceCPU {
		r.allowMapping = true
		// The more Go's heap holds, the more often its collector comes.
		c.memory.ample /= 2
		r.allocator = newCachingAllocator(r.allocator, c.options.MaxMemory/heldShare, c.options.MaxMemory/idleShare)
	}
	if c.src, err = openSource(input, r); err != nil {
		return markPart(c.host.part(err), err)
	}
	c.columns, c.fields, err = planColumns(c.src.schema(), c.options.Columns)
	if err != nil {
		return errors.Join(err, c.src.close())
	}
	for _, plan := range c.columns {
		c.writers = append(c.writers, newColumnWriter(plan, &c.shelf))
	}
	c.grid = rowGrid{chunkRows: c.options.ChunkRows, shardRows: c.options.ShardRows}
	c.progress.rowsTotal.Store(c.src.rows())
	return nil
}

// run reads the input, cuts it into chunks, and writes them, several at a time.
func (c *conversion) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	jobs := make(chan job)
	group.Go(func() error {
		defer close(jobs)
		defer c.cutter.drop()
		return c.dispatch(ctx, jobs)
	})
	for range c.options.Jobs {
		group.Go(func() error {
			// The input may be mapped memory of a file that someone truncates:
			// let that be an error.
			debug.SetPanicOnFault(true)
			for j := range jobs {
				if err := c.do(ctx, j); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// dispatch reads batches and hands out their chunks. When it fails, whoever
// waits for jobs finds the channel closed.
func (c *conversion) dispatch(ctx context.Context, jobs chan<- job) error {
	debug.SetPanicOnFault(true) // as in run
	c.reading = c.readAhead(ctx)
	for {
		r := c.reading.next(ctx)
		if errors.Is(r.err, io.EOF) {
			<-c.reading.stopped
			break
		}
		if r.err != nil {
			return r.err
		}
		if err := c.take(r); err != nil {
			return err
		}
		for c.cutter.rows >= c.grid.chunkRows {
			if err := c.send(ctx, jobs, false); err != nil {
				return err
			}
		}
		c.memory.wait(c.cutter.bytes)
	}
	if err := c.beginArrays(true); err != nil {
		return err
	}
	for c.cutter.rows > 0 {
		if err := c.send(ctx, jobs, true); err != nil {
			return err
		}
	}
	return nil
}

// send cuts one chunk and hands out its columns.
func (c *conversion) send(ctx context.Context, jobs chan<- job, atEnd bool) error {
	if err := c.beginArrays(atEnd); err != nil {
		return err
	}
	chunk := c.cutter.cut(c.rowsAtOnce(), len(c.columns))
	if len(c.columns) == 0 {
		chunk.done()
	}
	for i := range c.columns {
		if err := c.sendColumn(ctx, jobs, job{column: i, rows: chunk}); err != nil {
			for range len(c.columns) - i {
				chunk.done()
			}
			return err
		}
	}
	return nil
}

// sendColumn hands out one column of a chunk when there is room to work on it.
func (c *conversion) sendColumn(ctx context.Context, jobs chan<- job, j job) (err error) {
	if err = c.plan(&j); err != nil {
		return err
	}
	if err = c.work.begin(ctx, j.bytes+int64(c.src.mapping().retain(j.spans))*outside(windowBytes)); err != nil {
		return err
	}
	select {
	case jobs <- j:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
