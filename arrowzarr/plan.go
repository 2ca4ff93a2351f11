package arrowzarr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// PlanReport describes a plan.
type PlanReport struct {
	Input      string          `json:"input"`
	Output     string          `json:"output"`
	Rows       int64           `json:"rows"`
	Columns    int             `json:"columns"`
	Skipped    []SkippedColumn `json:"skipped,omitempty"` // see Options.SkipUnsupported
	ChunkRows  int64           `json:"chunk_rows"`
	ShardRows  int64           `json:"shard_rows,omitempty"`
	Partitions int             `json:"partitions"`
	Seconds    float64         `json:"seconds"`
}

// maxPartitions bounds the size of a plan.
const maxPartitions = 1 << 20

// Plan divides a conversion into partitions of about the same number of rows, which
// RunPartition writes and Finalize makes into the output. A partition has whole chunks, or
// whole shards, so some may have no rows. The output is locked for other conversions
// until Finalize or Abort.
//
// Plan reads metadata, the first batch, and all of the columns that are nested or
// dictionaries: where a partition begins in their arrays depends on all rows before. The
// input must be readable under its absolute path wherever partitions run.
//
// With Options.Resume, a plan of the output is kept, with the partitions that are done.
// The input, the options and the number of partitions must be those of the plan. A local
// plan that a killed process left without partitions is made again; in an object store, it
// must be aborted first.
func Plan(ctx context.Context, input, output string, partitions int, options Options) (*PlanReport, error) {
	start := time.Now()
	if partitions < 1 || partitions > maxPartitions {
		return nil, partErrorf(PartUsage, "partitions: %d, expected 1 to %d", partitions, maxPartitions)
	}
	input, err := absolutePath(input)
	options.Input.More = slices.Clone(options.Input.More)
	for i, more := range options.Input.More {
		var failed error
		options.Input.More[i], failed = absolutePath(more)
		err = errors.Join(err, failed)
	}
	if err != nil {
		return nil, markPart(PartInput, err)
	}
	c, err := openConversion(ctx, input, output, options)
	if err != nil {
		return nil, err
	}
	var total int64
	kept := false
	if c.plan, err = c.newPlan(ctx); err == nil {
		c.plan.Planned = true
		if options.Resume {
			kept, err = c.keepPlan(ctx, partitions)
		}
		if err == nil && !kept {
			err = c.target.create(ctx, c.plan, c.options.Overwrite)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	if kept {
		total = c.plan.rows()
	} else if total, err = c.planPartitions(ctx, int64(partitions)); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = errors.Join(err, c.target.discard(context.WithoutCancel(ctx)))
	}
	if err := errors.Join(err, c.close()); err != nil {
		return nil, err
	}
	return &PlanReport{
		Input: input, Output: output, Rows: total, Columns: len(c.chosen.columns), Skipped: c.chosen.skipped,
		ChunkRows: c.plan.ChunkRows, ShardRows: c.plan.ShardRows, Partitions: len(c.plan.Partitions),
		Seconds: time.Since(start).Seconds(),
	}, nil
}

// keepPlan takes over the plan of an unfinished output, and reports whether there is one.
func (c *conversion) keepPlan(ctx context.Context, partitions int) (bool, error) {
	t := c.target
	before, err := readPlan(ctx, t.store)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, markPart(PartOutput, err)
	}
	if before.Planned && len(before.Partitions) == 0 && t.renames() {
		return false, markPart(PartOutput, t.removeUnfinished(ctx, true))
	}
	switch {
	case len(before.Partitions) == 0:
		err = fmt.Errorf("%s is unfinished: another process plans or converts it, or was interrupted (arrow2zarr abort %s deletes it)", t.location, t.location)
	case len(before.Partitions) != partitions:
		err = fmt.Errorf("%s is planned in %d partitions, expected %d", t.location, len(before.Partitions), partitions)
	default:
		err = c.plan.checkSame(before)
	}
	c.plan = before
	return true, markPart(PartOutput, err)
}

// absolutePath returns the absolute path of a local input, since partitions may run in
// another directory.
func absolutePath(input string) (string, error) {
	if input == "-" || strings.Contains(input, "://") {
		return input, nil
	}
	return filepath.Abs(input)
}

// planPartitions finds what partitions must know, and writes the plan with it. It returns
// the number of rows.
func (c *conversion) planPartitions(ctx context.Context, n int64) (int64, error) {
	counts, err := c.src.Count(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, partErrorf(PartUsage, "%s can be read only once, so it cannot be converted in partitions", inputName(c.input))
	}
	if err != nil {
		return 0, markPart(PartInput, err)
	}
	total, columns := counts.Rows, c.chosen.columns
	c.plan.ChunkRows, c.plan.ShardRows = c.options.ChunkRows, c.options.ShardRows
	if c.plan.ChunkRows == 0 || slices.ContainsFunc(columns, func(c *column) bool { return c.codecs.hasAuto() }) {
		if err := c.readFirstBatch(ctx, total); err != nil {
			return 0, err
		}
	}
	// Every partition should have a shard.
	if most := total / n / c.plan.ChunkRows * c.plan.ChunkRows; c.choosesShards() && c.plan.ShardRows > most {
		c.plan.ShardRows = most
	}
	if c.choosesShards() && c.plan.ShardRows <= c.plan.ChunkRows {
		c.plan.ShardRows = 0
	}
	grid := rowGrid{chunkRows: c.plan.ChunkRows, shardRows: c.plan.ShardRows}
	if err := c.sizer().checkShardIndexes(grid, len(columns)); err != nil {
		return 0, err
	}
	units := (total + grid.unit() - 1) / grid.unit()
	for i := range n {
		c.plan.Partitions = append(c.plan.Partitions, partition{From: min(units*i/n*grid.unit(), total), To: min(units*(i+1)/n*grid.unit(), total)})
	}
	if err := c.countPartitions(ctx); err != nil {
		return 0, err
	}
	document, err := json.Marshal(c.plan)
	if err != nil {
		return 0, err
	}
	return total, markPart(PartOutput, c.target.store.Set(ctx, planKey, document))
}

func (c *conversion) sizer() chunkSizer {
	shares := c.shares()
	_, _, shards := shares.forObjects(true)
	return chunkSizer{
		automatic: c.options.ChunkRows == 0, shares: shares, jobs: c.options.Jobs, codec: c.options.codecs(),
		shardMemory: shards, choosesShards: c.choosesShards(),
	}
}

// readFirstBatch chooses the rows of a chunk and the codecs by the first batch with rows,
// as Convert does. It closes the source.
func (c *conversion) readFirstBatch(ctx context.Context, total int64) error {
	if c.options.ChunkRows == 0 {
		c.allowStrips(rowGrid{shardRows: c.options.ShardRows}, c.sizer())
	}
	err := arrowdata.CatchPanic(func() error {
		if err := c.src.Open(ctx, c.chosen.fields, source.WholeInput); err != nil {
			return err
		}
		for {
			b, err := c.src.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			err = c.chooseByBatch(b)
			rows := b.Record.NumRows()
			b.Record.Release()
			if err != nil || rows > 0 {
				return err
			}
		}
	})
	if c.options.ChunkRows == 0 {
		if c.plan.ChunkRows == 0 {
			c.plan.ChunkRows = DefaultChunkRows
		}
		c.plan.ChunkRows = min(c.plan.ChunkRows, max(total, 1))
	}
	for _, p := range c.chosen.columns {
		c.plan.Codecs = append(c.plan.Codecs, p.codecs.chosen)
	}
	err = errors.Join(err, c.closeSource())
	return markPart(c.host.partOf(err), err)
}

// chooseByBatch chooses the rows of a chunk by a batch, and the codecs if it has rows.
func (c *conversion) chooseByBatch(b source.Batch) error {
	if b.Strip != nil {
		c.plan.ChunkRows, c.plan.ShardRows = b.Strip.ChunkRows, b.Strip.ShardRows
		return nil
	}
	batch := b.Record
	if err := countNulls(batch); err != nil {
		return err
	}
	if batch.NumRows() > 0 {
		if err := chooseCodecs(c.chosen.columns, batch, c.options.Jobs); err != nil {
			return err
		}
	}
	if c.plan.ChunkRows == 0 {
		grid := c.sizer().defaultGrid(c.chosen.columns, rowWidths(c.chosen.columns, batch), batch.NumRows(), c.src.Info().Mapping != nil && b.Bytes == 0)
		c.plan.ChunkRows, c.plan.ShardRows = grid.chunkRows, grid.shardRows
	}
	return nil
}

// countPartitions finds the state of nested columns at the start of each partition, and
// the values of all dictionaries. It reads those columns only.
func (c *conversion) countPartitions(ctx context.Context) error {
	var columns []*column
	var fields, numbers []int
	for i, p := range c.chosen.columns {
		if p.kind == kindNested || p.kind == kindDictionary {
			columns, fields, numbers = append(columns, p), append(fields, c.chosen.fields[i]), append(numbers, i)
		}
	}
	c.plan.End = make([]*nestedState, len(c.chosen.columns))
	for i := range c.plan.Partitions {
		c.plan.Partitions[i].Nested = make([]*nestedState, len(c.chosen.columns))
	}
	if len(columns) == 0 {
		return nil
	}
	if err := c.closeSource(); err != nil {
		return err
	}
	src, err := openInput(ctx, c.input, c.options, c.host)
	if err != nil {
		return err
	}
	values := newCategoryMemory(c.shares().batches)
	counter := &partitionCounter{columns: columns, numbers: numbers, plan: c.plan, categories: newCategories(columns, values), jobs: c.options.Jobs}
	for _, p := range columns {
		var n *nestedWriter
		if p.kind == kindNested {
			n = newNestedWriter(p.nested, &streamSink{counting: true, writer: &columnWriter{column: p}}, values)
		}
		counter.nested = append(counter.nested, n)
	}
	defer counter.release()
	// A read may block forever, on a file system over a network.
	err = runUntilDone(ctx, func() error {
		return arrowdata.CatchPanic(func() error { return counter.run(ctx, src, fields) })
	}, func() {})
	if err != nil {
		return errors.Join(markPart(c.host.partOf(err), fmt.Errorf("%s: %w", inputName(c.input), err)), src.Close())
	}
	if err := src.Close(); err != nil {
		return markPart(PartInput, err)
	}
	for _, d := range takeDeltas(counter.categories, counter.nested) {
		d.column = numbers[d.column]
		if c.plan.Categories, err = d.write(ctx, c.target.store, c.plan.Categories); err != nil {
			return markPart(PartOutput, err)
		}
	}
	return nil
}

// partitionCounter counts the elements of nested columns before each partition, and
// collects the values of dictionaries.
type partitionCounter struct {
	columns    []*column
	numbers    []int // of the columns among all that are converted
	plan       *plan
	categories []*categories   // by column; nil for nested ones
	nested     []*nestedWriter // by column; nil for others
	jobs       int

	rows int64 // so far
	next int   // the partition that begins next
}

func (p *partitionCounter) run(ctx context.Context, src source.Source, fields []int) error {
	if err := src.Open(ctx, fields, source.WholeInput); err != nil {
		return err
	}
	p.begin()
	for {
		b, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = p.add(ctx, b.Record)
			b.Record.Release()
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	for i, n := range p.nested {
		if n != nil {
			p.plan.End[p.numbers[i]] = n.state()
		}
	}
	if last := p.plan.Partitions[len(p.plan.Partitions)-1]; p.rows != last.To {
		return fmt.Errorf("%d rows, expected %d: %w", p.rows, last.To, arrowdata.ErrMalformed)
	}
	return nil
}

// begin records the state of the partitions that begin after the rows so far.
func (p *partitionCounter) begin() {
	for ; p.next < len(p.plan.Partitions) && p.plan.Partitions[p.next].From == p.rows; p.next++ {
		for i, n := range p.nested {
			if n != nil {
				p.plan.Partitions[p.next].Nested[p.numbers[i]] = n.state()
			}
		}
	}
}

// add counts the rows of a batch.
func (p *partitionCounter) add(ctx context.Context, batch arrow.RecordBatch) error {
	if err := countNulls(batch); err != nil {
		return err
	}
	if _, err := mapDictionaries(p.columns, p.categories, batch); err != nil {
		return err
	}
	for from := int64(0); from < batch.NumRows(); {
		to := batch.NumRows()
		if p.next < len(p.plan.Partitions) {
			to = min(to, from+p.plan.Partitions[p.next].From-p.rows)
		}
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(p.jobs)
		for i, n := range p.nested {
			if n == nil {
				continue
			}
			group.Go(func() error {
				return n.append(groupCtx, []columnSlice{{values: batch.Column(i), from: from, to: to}})
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		p.rows += to - from
		from = to
		p.begin()
	}
	return nil
}

func (p *partitionCounter) release() {
	for _, g := range p.categories {
		if g != nil {
			g.release()
		}
	}
	for _, n := range p.nested {
		if n != nil {
			n.root.release()
		}
	}
}
