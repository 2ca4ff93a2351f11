package arrowzarr

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/inputs"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Report describes a finished conversion.
type Report struct {
	Input  string `json:"input"`
	Format string `json:"format"`
	Output string `json:"output"`
	Device string `json:"device"`
	// DeviceReason says why Device is not that of the options.
	DeviceReason string `json:"device_reason,omitempty"`
	Codec        string `json:"codec"`                // as Options.AddCodec parses it; several are separated by spaces
	Compressor   string `json:"compressor,omitempty"` // the codec's implementation: "libzstd 1.5.4" or "Go"
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
	// Engines says where the codecs encoded the chunks: on the host, or on the device.
	Engines []codec.StepCount `json:"engines"`
}

// Convert reads an input and writes it as a Zarr v3 group with one child per column.
// docs/arrow-to-zarr.md lists what becomes of each type.
//
// The input is a path or a URL of an Arrow IPC file, an IPC stream, a Parquet file, CSV or
// JSON lines, or a folder or a pattern of some. The input "-" is standard input, which may
// be what can be read in order. Options.Input has more inputs, and says what their content
// does not.
//
// The output is the path of a folder or of a ZIP file, whose name ends in .zip, or a URL
// of [store.Open]. A local output appears at its path only when it is complete. In an
// object store the root's metadata are written last. If Convert fails, or its context
// ends, it leaves no output and no other file. With Options.Resume, the end of the context
// keeps what is written. The error is an *Error, or the cause of the context.
func Convert(ctx context.Context, input, output string, options Options) (*Report, error) {
	start := time.Now()
	c, err := openConversion(ctx, input, output, options)
	if err != nil {
		return nil, err
	}
	last, err := c.begin(ctx)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	p, err := c.convert(ctx, last)
	if err == nil {
		err = c.target.publish(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx) // it made the stages fail
			if c.options.Resume {
				return nil, errors.Join(err, c.close())
			}
		}
		return nil, errors.Join(err, c.target.discard(context.WithoutCancel(ctx)), c.close())
	}
	if err := c.close(); err != nil {
		return nil, err
	}
	return c.report(p, time.Since(start)), nil
}

// conversion is an input, an output, and what becomes of each column.
type conversion struct {
	options Options
	input   string
	host    *hostAllocator
	src     source.Source // nil after it is closed
	format  string
	target  *target
	chosen  *chosenColumns
	schema  *arrow.Schema // of the columns
	plan    *plan
}

// openConversion opens the input and chooses its columns. It does not access the output.
func openConversion(ctx context.Context, input, output string, options Options) (*conversion, error) {
	if output == "-" {
		return nil, partErrorf(PartUsage, "a Zarr hierarchy is many files, so standard output cannot hold it: expected the name of the output")
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &conversion{options: options, input: input, host: &hostAllocator{Allocator: options.Device.HostAllocator()}}
	if c.src, err = openInput(ctx, input, options, c.host); err != nil {
		return nil, err
	}
	info := c.src.Info()
	c.format = info.Format
	if c.chosen, err = chooseColumns(info.Schema, options); err == nil {
		err = c.checkMemory()
	}
	if err == nil {
		c.schema = arrowdata.SelectSchema(info.Schema, c.chosen.fields)
		c.target, err = openTarget(ctx, output)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// close closes what is open. It may be called again.
func (c *conversion) close() error {
	err := c.closeSource()
	if c.target != nil {
		err = errors.Join(err, markPart(PartOutput, c.target.close()))
		c.target = nil
	}
	return err
}

func (c *conversion) closeSource() error {
	src := c.src
	c.src = nil
	if src == nil {
		return nil
	}
	return markPart(PartInput, src.Close())
}

// begin creates the output, or goes on with an unfinished one. It returns the last
// checkpoint of that, or nil.
func (c *conversion) begin(ctx context.Context) (*checkpoint, error) {
	fresh, err := c.newPlan(ctx)
	if err != nil {
		return nil, err
	}
	c.plan = fresh
	if c.options.Resume {
		last, resumed, err := c.resume(ctx)
		if resumed || err != nil {
			return last, err
		}
	}
	return nil, c.target.create(ctx, c.plan, c.options.Overwrite)
}

// resume takes over an unfinished output, if there is one.
func (c *conversion) resume(ctx context.Context) (last *checkpoint, resumed bool, err error) {
	if _, err := c.src.Count(ctx); errors.Is(err, errors.ErrUnsupported) {
		return nil, false, partErrorf(PartUsage, "%s cannot be read again, so there is nothing to resume", inputName(c.input))
	} else if err != nil {
		return nil, false, markPart(PartInput, err)
	}
	t := c.target
	if t.renames() {
		if err := t.checkLocalOutput(ctx, c.options.Overwrite); err != nil {
			return nil, false, markPart(PartOutput, err)
		}
		t.lock, err = lockDirectory(t.staging, true)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, false, nil
		case errors.Is(err, errLocked):
			return nil, false, partErrorf(PartOutput, "%s is being written by another process, in %s", t.location, t.staging)
		case err != nil:
			return nil, false, markPart(PartOutput, err)
		}
	}
	before, err := readPlan(ctx, t.store)
	if errors.Is(err, store.ErrNotFound) {
		// A process died before it had a plan, or after it had deleted it. Whatever there
		// is, is not known to be right.
		if t.renames() {
			err = errors.Join(t.lock.release(), t.discard(ctx))
			t.lock = nil
		} else {
			err = nil
		}
		return nil, false, markPart(PartOutput, err)
	}
	if err == nil {
		err = c.plan.checkResumable(before)
	}
	if err != nil {
		return nil, false, markPart(PartOutput, err)
	}
	c.plan = before
	if last, err = readCheckpoint(ctx, t.store); last == nil && err == nil && t.renames() {
		// The process died before its first checkpoint, or after it had deleted the last one.
		// In an object store, which has no locks, it may be alive, and chunks are whole.
		err = t.deleteExcept(ctx, planKey)
	}
	return last, true, markPart(PartOutput, err)
}

// convert writes the rows after a checkpoint, or all if it is nil, and the metadata. It
// closes the source.
func (c *conversion) convert(ctx context.Context, last *checkpoint) (*pipeline, error) {
	p, err := c.newPipeline(ctx, c.wholeInput(last))
	if err != nil {
		return nil, errors.Join(err, c.closeSource())
	}
	if rows := c.src.Info().Rows; last == nil && rows > 0 && c.options.Device.Type() != arrowbuf.DeviceCPU && p.hierarchy.needsIndex(c.schema) {
		p.early = rows
	}
	if last == nil || !last.Complete {
		err = p.run(ctx)
	}
	if err == nil {
		err = p.finalize(ctx, c.schema, nil)
	}
	p.release()
	c.src = nil
	if closing := p.close(); err == nil {
		err = markPart(PartInput, closing)
	}
	return p, err
}

// choosesShards reports whether the arrays of rows may have shards that the options do not
// say: if the output is in an object store, where few large objects are better.
func (c *conversion) choosesShards() bool { return c.target.isRemote() && c.options.ChunkRows == 0 }

// wholeInput returns the segment that goes from a checkpoint to the end.
func (c *conversion) wholeInput(last *checkpoint) segment {
	whole := segment{rows: source.WholeInput, grid: rowGrid{shardRows: c.options.ShardRows, chunkRows: c.options.ChunkRows}, automatic: c.options.ChunkRows == 0}
	if c.input != "-" && c.options.reader == nil && c.options.Checkpoint > 0 && !(c.options.ShardRows > 0 && slices.ContainsFunc(c.chosen.columns, func(c *column) bool { return c.kind == kindNested })) {
		whole.checkpoints = c.options.Checkpoint
	}
	if last != nil {
		whole.last = last
		whole.rows.From = last.State.Rows
		whole.state = &last.State
		whole.grid, whole.automatic = last.State.grid(), false
		whole.categories = last.Categories
	}
	return whole
}

// report describes the conversion.
func (c *conversion) report(p *pipeline, took time.Duration) *Report {
	state := p.state
	r := &Report{
		Input: c.input, Format: c.format, Output: c.plan.Output,
		Device: c.options.Device.String(), DeviceReason: c.options.deviceReason, Codec: strings.Join(c.options.codecRules(), " "),
		Compressor: c.options.codecs().implementation(),
		Rows:       state.Rows, Columns: len(c.chosen.columns), Skipped: c.chosen.skipped,
		ChunkRows: state.ChunkRows, ShardRows: state.ShardRows,
		RawBytes: state.RawBytes, StoredBytes: state.Stored,
		Seconds: took.Seconds(), Stages: p.stats.report(), Engines: p.stats.codecs.Counts(),
	}
	for _, column := range c.chosen.columns {
		if column.kind == kindNested {
			r.Nested++
		}
		if column.name != column.field.Name {
			if r.Renamed == nil {
				r.Renamed = map[string]string{}
			}
			r.Renamed[column.name] = column.field.Name
		}
	}
	if rules := c.options.codecs(); len(rules) > 1 || rules[0].Name == "auto" {
		r.Codecs = codecsOfNodes(p.hierarchy.nodes)
	}
	r.BytesPerSecond = float64(r.RawBytes) / r.Seconds
	return r
}

// inputName is the input as errors name it.
func inputName(input string) string {
	if input == "-" {
		return "standard input"
	}
	return inputs.WithoutSecrets(input)
}

// openInput opens the source of a conversion. Opening reads the schema, which may
// never come.
func openInput(ctx context.Context, input string, options Options, host *hostAllocator) (source.Source, error) {
	if options.reader != nil {
		return source.NewReader(options.reader), nil
	}
	shares := divideMemory(options.MaxMemory, 0)
	o := source.Options{
		Allocator:    host,
		AllowMapping: true,
		MaxBuffer:    shares.batches,
		BatchRows:    cmp.Or(options.ChunkRows, DefaultChunkRows),
		Jobs:         options.Jobs,
		Text:         options.Input.text(),
	}
	if options.Device.Type() == arrowbuf.DeviceCPU {
		o.Allocator = newCachingAllocator(host, shares.batches, shares.cached)
	}
	var src source.Source
	err := runUntilDone(ctx, func() (err error) {
		if src, err = inputs.Open(ctx, append([]string{input}, options.Input.More...), o); err != nil {
			return markPart(host.partOf(err), err)
		}
		return nil
	}, func() { _ = src.Close() })
	if err != nil {
		return nil, err
	}
	return src, nil
}

// runUntilDone runs f, which may block forever (on a terminal, or a stuck pipe). It
// returns f's error, or the cause of the context if that ends first. Then f continues
// in its goroutine, and cleanup is called if it succeeds.
func runUntilDone(ctx context.Context, f func() error, cleanup func()) error {
	done := make(chan error, 1)
	go func() {
		debug.SetPanicOnFault(true) // see startStage
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		go func() {
			if <-done == nil {
				cleanup()
			}
		}()
		return context.Cause(ctx)
	}
}

// ConvertReader is [Convert] for the record batches of a reader, such as one that a
// database driver returns or that the caller writes. The batches have the reader's
// schema, in memory of the host, and may have any length. Their memory is not part of
// Options.MaxMemory. The caller owns the reader, and must not use it until ConvertReader
// returns.
func ConvertReader(ctx context.Context, r array.RecordReader, output string, options Options) (*Report, error) {
	if r == nil {
		return nil, partErrorf(PartUsage, "arrowzarr.ConvertReader: nil reader")
	}
	options.reader = r
	return Convert(ctx, source.ReaderName, output, options)
}
