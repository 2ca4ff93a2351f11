package arrowzarr

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Report describes a finished conversion.
type Report struct {
	Input      string `json:"input"`
	Format     string `json:"format"`
	Output     string `json:"output"`
	Device     string `json:"device"`
	Codec      string `json:"codec"`                // as Options.AddCodec parses it; several are separated by spaces
	Compressor string `json:"compressor,omitempty"` // the codec's implementation: "libzstd 1.5.4" or "Go"
	// Codecs are those of all arrays by path, if they differ or a sample decided them.
	Codecs  map[string]string `json:"codecs,omitempty"`
	Rows    int64             `json:"rows"`
	Columns int               `json:"columns"`
	// Renamed has the names of columns that Zarr nodes cannot have, by the node's name.
	Renamed        map[string]string `json:"renamed,omitempty"`
	Skipped        []SkippedColumn   `json:"skipped,omitempty"` // see Options.SkipUnsupported
	Nested         int               `json:"nested,omitempty"`  // columns that are awkward arrays, assembled on the host
	ChunkRows      int64             `json:"chunk_rows"`
	ShardRows      int64             `json:"shard_rows,omitempty"`
	RawBytes       int64             `json:"raw_bytes"`    // of all arrays, uncompressed
	StoredBytes    int64             `json:"stored_bytes"` // of the chunks, as they are stored
	Seconds        float64           `json:"seconds"`
	BytesPerSecond float64           `json:"bytes_per_second"` // RawBytes over Seconds
	Stages         []Stage           `json:"stages"`
}

// Convert reads an Arrow IPC file, an Arrow IPC stream or a Parquet file and
// writes it as a Zarr v3 group with one child per column. The input "-" is an IPC
// stream on standard input. The package comment says what becomes of each type.
//
// The output appears at its path only when it is complete. If Convert fails, or its
// context ends, it leaves no output and no other file. The error is an *Error, or
// the cause of the context.
func Convert(ctx context.Context, input, outputPath string, options Options) (*Report, error) {
	start := time.Now()
	if outputPath == "-" {
		return nil, partErrorf(PartUsage, "a Zarr hierarchy is many files, so standard output cannot hold it: expected the name of the output")
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	host := &hostAllocator{Allocator: options.Device.HostAllocator()}
	src, err := openInput(ctx, input, options, host)
	if err != nil {
		return nil, err
	}
	chosen, err := chooseColumns(src.schema(), options)
	if err != nil {
		return nil, errors.Join(err, src.close())
	}
	out, err := newOutput(outputPath, options.Overwrite)
	if err != nil {
		return nil, errors.Join(err, src.close())
	}
	p := newPipeline(src, inputName(input), chosen.plans, chosen.fields, host, store.NewLocal(out.staging, store.InPlace()), options)
	err = p.run(ctx)
	if closing := p.close(); err == nil {
		err = markPart(PartInput, closing)
	}
	if err == nil {
		err = out.publish()
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx) // it made the stages fail
		}
		return nil, errors.Join(err, out.discard())
	}
	r := p.report(input, outputPath, options, time.Since(start))
	r.Skipped = chosen.skipped
	return r, nil
}

// inputName is the input as errors name it.
func inputName(input string) string {
	if input == "-" {
		return "standard input"
	}
	return withoutSecrets(input)
}

// openInput opens the source of a conversion. Opening reads the schema, which may
// never come.
func openInput(ctx context.Context, input string, options Options, host *hostAllocator) (source, error) {
	if options.reader != nil {
		return &readerSource{reader: options.reader}, nil
	}
	shares := divideMemory(options.MaxMemory)
	o := sourceOptions{
		allocator: host,
		maxBuffer: shares.batches,
		batchRows: options.ChunkRows,
		jobs:      options.Jobs,
		input:     options.Input,
	}
	if options.Device.Type() == arrowbuf.DeviceCPU {
		o.allowMapping = true
		o.allocator = newCachingAllocator(host, shares.batches, shares.cached)
	}
	var src source
	err := runUntilDone(ctx, func() (err error) {
		if src, err = openInputs(ctx, []string{input}, o); err != nil {
			return markPart(host.partOf(err), err)
		}
		return nil
	}, func() { _ = src.close() })
	if err != nil {
		return nil, err
	}
	return src, nil
}

// pipeline connects the stages of a conversion:
//
//	source → prefetcher → rechunker → worker → writer → store
type pipeline struct {
	prefetcher *prefetcher
	rechunker  *rechunker
	worker     *worker
	writer     *writer

	jobs     int // goroutines of worker and writer
	rows     chan columnRows
	chunks   chan writeTask
	progress *Progress
	stats    pipelineStats
}

func newPipeline(src source, input string, columns []*column, fields []int, host *hostAllocator, s store.Store, options Options) *pipeline {
	p := &pipeline{
		jobs: options.Jobs, progress: options.Progress,
		rows: make(chan columnRows), chunks: make(chan writeTask),
	}
	if p.progress == nil {
		p.progress = &Progress{}
	}
	p.progress.rowsTotal.Store(src.rows())
	shares := divideMemory(options.MaxMemory)
	readAhead := shares.batches
	if options.Device.Type() == arrowbuf.DeviceCPU {
		// Batches lie in Go's heap. The fuller it is, the more often it is collected.
		readAhead /= 2
	}
	batches := newBatchMemory(shares.batches, readAhead)
	p.prefetcher = newPrefetcher(src, input, fields, host, batches, &p.stats.read)
	values := newCategoryMemory(shares.batches)
	p.rechunker = &rechunker{
		in: p.prefetcher, columns: columns, categories: newCategories(columns, values),
		device: options.Device, memory: batches, mapping: src.mapping(),
		progress: p.progress, stats: &p.stats.h2d, out: p.rows,
		sizer: chunkSizer{automatic: options.ChunkRows == 0, shares: shares, jobs: options.Jobs, codec: options.codecs()},
		grid:  rowGrid{chunkRows: options.ChunkRows, shardRows: options.ShardRows},
	}
	p.worker = &worker{
		columns: columns, device: options.Device, codec: options.codecs(),
		memory: newChunkMemory(shares.chunks, options.Jobs, src.mapping()), maxBytes: shares.batches,
		stats: &p.stats.kernels, in: p.rows, out: p.chunks,
	}
	p.writer = newWriter(columns, s, options, p.progress, &p.stats, p.chunks)
	grid := rowGrid{chunkRows: streamRows(columns, options, shares), shardRows: options.ShardRows}
	p.rechunker.nested = p.writer.addNested(grid, options.ChunkRows == 0, p.worker.memory, values, p.chunks)
	return p
}

// run runs the stages until all chunks are written, and finishes the output.
func (p *pipeline) run(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	p.prefetcher.start(groupCtx)
	startStage(group, 1, func() error { return p.rechunker.run(groupCtx) }, func() { close(p.rows) })
	startStage(group, p.jobs, func() error { return p.worker.run(groupCtx) }, func() { close(p.chunks) })
	startStage(group, p.jobs, func() error { return p.writer.run(groupCtx) }, func() {})
	err := group.Wait()
	if err == nil {
		r := p.rechunker
		err = p.writer.finish(ctx, selectSchema(p.prefetcher.src.schema(), p.prefetcher.fields), r.grid, r.rows, r.categories)
	}
	if err != nil {
		p.writer.abort()
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

// close releases what the stages own, and closes the source.
func (p *pipeline) close() error {
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
	return p.prefetcher.close()
}

func (p *pipeline) report(input, output string, options Options, took time.Duration) *Report {
	r := &Report{
		Input: input, Format: p.prefetcher.src.format(), Output: output,
		Device: options.Device.String(), Codec: strings.Join(options.codecRules(), " "),
		Compressor: options.codecs().implementation(),
		Rows:       p.rechunker.rows, Columns: len(p.rechunker.columns),
		ChunkRows: p.rechunker.grid.chunkRows, ShardRows: p.rechunker.grid.shardRows,
		RawBytes: p.progress.raw.Load(), StoredBytes: p.stats.write.bytes,
		Seconds: took.Seconds(), Stages: p.stats.report(),
	}
	for _, c := range p.rechunker.columns {
		if c.kind == kindNested {
			r.Nested++
		}
		if c.name != c.field.Name {
			if r.Renamed == nil {
				r.Renamed = map[string]string{}
			}
			r.Renamed[c.name] = c.field.Name
		}
	}
	if rules := options.codecs(); len(rules) > 1 || rules[0].Name == "auto" {
		r.Codecs = codecsOfNodes(p.writer.nodes)
	}
	r.BytesPerSecond = float64(r.RawBytes) / r.Seconds
	return r
}
