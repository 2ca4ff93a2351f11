package arrowzarr

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// partitionResult is what a partition that is written leaves for Finalize.
type partitionResult struct {
	Plan     string  `json:"plan"` // its ID
	Rows     int64   `json:"rows"`
	Missing  []bool  `json:"missing"`         // by column: some row is missing
	Elements []bool  `json:"element_missing"` // by column: some element is missing
	Pieces   []piece `json:"pieces,omitempty"`
	RawBytes int64   `json:"raw_bytes"`
	Stored   int64   `json:"stored_bytes"`
}

const resultsPrefix = workPrefix + "/results"

func resultKey(number int) string { return fmt.Sprintf("%s/%d.json", resultsPrefix, number) }

// piecesFolder is the prefix of the pieces of a partition.
func piecesFolder(number int) string { return fmt.Sprintf("%s/parts/%d", workPrefix, number) }

// PartitionReport describes a partition that is written.
type PartitionReport struct {
	Output      string  `json:"output"`
	Partition   int     `json:"partition"`
	Rows        int64   `json:"rows"`
	RawBytes    int64   `json:"raw_bytes"`
	StoredBytes int64   `json:"stored_bytes"`
	Done        bool    `json:"done"` // it had been written before, so nothing was done
	Seconds     float64 `json:"seconds"`
}

// RunPartition writes one partition of an output that Plan has planned. Partitions may be
// written in any order, at once, by any processes, and again: a partition that is done is
// not written again, and two processes that write one partition write the same bytes.
//
// Of the options only Device, Jobs, MaxMemory, StoreConcurrency and Progress count; the
// others are those of the plan. The error is an *Error, or the cause of the context.
func RunPartition(ctx context.Context, output string, number int, options Options) (*PartitionReport, error) {
	start := time.Now()
	t, planned, err := openPlanned(ctx, output)
	if err != nil {
		return nil, err
	}
	c := &conversion{target: t, plan: planned}
	r, err := c.runPartition(ctx, number, options)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err = errors.Join(err, c.close()); err != nil {
		return nil, err
	}
	r.Output, r.Partition, r.Seconds = output, number, time.Since(start).Seconds()
	return r, nil
}

// openPlanned opens the target of a plan. The process shares it with others.
func openPlanned(ctx context.Context, output string) (*target, *plan, error) {
	t, err := openTarget(ctx, output)
	if err != nil {
		return nil, nil, err
	}
	p, err := func() (*plan, error) {
		if t.renames() {
			t.lock, err = lockDirectory(t.staging, false)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil, noPlan(output)
			case errors.Is(err, errLocked):
				return nil, partErrorf(PartOutput, "%s is being written by one process, in %s", output, t.staging)
			case err != nil:
				return nil, markPart(PartOutput, err)
			}
		}
		p, err := readPlan(ctx, t.store)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, noPlan(output)
		case err != nil:
			return nil, partErrorf(PartOutput, "%s: %w", output, err)
		case len(p.Partitions) == 0:
			return nil, partErrorf(PartUsage, "%s has no partitions: arrow2zarr convert writes it, or arrow2zarr plan has not ended", output)
		}
		return p, nil
	}()
	if err != nil {
		return nil, nil, errors.Join(err, t.close())
	}
	return t, p, nil
}

func noPlan(output string) error {
	return partErrorf(PartUsage, "%s has no plan: expected arrow2zarr plan before", output)
}

// withPlan returns the options of the plan, with those of another process that do not
// change the output.
func (o Options) withPlan(p *plan) Options {
	merged := p.Options
	merged.Device, merged.Jobs, merged.MaxMemory = o.Device, o.Jobs, o.MaxMemory
	merged.StoreConcurrency, merged.Progress = o.StoreConcurrency, o.Progress
	return merged
}

func (c *conversion) runPartition(ctx context.Context, number int, options Options) (_ *PartitionReport, err error) {
	if number < 0 || number >= len(c.plan.Partitions) {
		return nil, partErrorf(PartUsage, "partition %d: expected 0 to %d", number, len(c.plan.Partitions)-1)
	}
	if done, err := c.readResult(ctx, number); err == nil {
		return &PartitionReport{Rows: done.Rows, RawBytes: done.RawBytes, StoredBytes: done.Stored, Done: true}, nil
	} else if !errors.Is(err, store.ErrNotFound) {
		return nil, markPart(PartOutput, err)
	}
	if c.options, err = options.withPlan(c.plan).withDefaults(); err != nil {
		return nil, err
	}
	if err := c.openPlannedInput(ctx); err != nil {
		return nil, err
	}
	p, err := c.newPipeline(ctx, c.plan.segment(number))
	if err != nil {
		return nil, err
	}
	err = p.run(ctx)
	if err == nil {
		err = c.plan.checkEnd(number, p.state)
	}
	p.release()
	c.src = nil
	if closing := p.close(); err == nil {
		err = markPart(PartInput, closing)
	}
	if err != nil {
		return nil, err
	}
	result := &partitionResult{
		Plan: c.plan.ID, Rows: p.state.Rows - c.plan.Partitions[number].From,
		RawBytes: p.state.RawBytes, Stored: p.state.Stored,
	}
	for i, s := range p.state.Columns {
		result.Missing, result.Elements = append(result.Missing, s.Missing), append(result.Elements, s.ElementMissing)
		if n := p.rechunker.nested[i]; n != nil {
			for _, s := range n.streams {
				result.Pieces = append(result.Pieces, s.pieces...)
			}
		}
	}
	if err := c.writeResult(ctx, number, result); err != nil {
		return nil, markPart(PartOutput, err)
	}
	return &PartitionReport{Rows: result.Rows, RawBytes: result.RawBytes, StoredBytes: result.Stored}, nil
}

// openPlannedInput opens the input of the plan, which must not have changed.
func (c *conversion) openPlannedInput(ctx context.Context) (err error) {
	c.input, c.host = c.plan.Input, &hostAllocator{Allocator: c.options.Device.HostAllocator()}
	if c.src, err = openInput(ctx, c.input, c.options, c.host); err != nil {
		return err
	}
	if is := c.src.Info().Fingerprint; is != c.plan.Fingerprint {
		return partErrorf(PartInput, "%s has changed since it was planned: it was %s, and is %s", c.input, c.plan.Fingerprint, is)
	}
	if c.chosen, err = chooseColumns(c.src.Info().Schema, c.options); err != nil {
		return err
	}
	if err := c.checkMemory(); err != nil {
		return err
	}
	c.schema = arrowdata.SelectSchema(c.src.Info().Schema, c.chosen.fields)
	message, err := arrowdata.SchemaMessage(c.schema)
	if err != nil {
		return markPart(PartInput, err)
	}
	if base64.StdEncoding.EncodeToString(message) != c.plan.Schema {
		return partErrorf(PartInput, "%s has another schema than it was planned with", c.input)
	}
	return nil
}

// segment returns what a pipeline must know of a partition.
func (p *plan) segment(number int) segment {
	this := p.Partitions[number]
	state := &tableState{Rows: this.From, ChunkRows: p.ChunkRows, ShardRows: p.ShardRows}
	for i, nested := range this.Nested {
		state.Columns = append(state.Columns, columnState{Nested: nested, Codecs: p.codecs(i)})
	}
	return segment{
		rows: source.RowRange{From: this.From, To: this.To}, grid: state.grid(), state: state, categories: p.Categories,
		end: p.endOf(number), pieces: piecesFolder(number), complete: true,
	}
}

// endOf returns the state of the nested columns after a partition.
func (p *plan) endOf(number int) []*nestedState {
	if number+1 < len(p.Partitions) {
		return p.Partitions[number+1].Nested
	}
	return p.End
}

// checkEnd returns an error unless a partition ended where the plan says.
func (p *plan) checkEnd(number int, s *tableState) error {
	this := p.Partitions[number]
	if s.Rows != this.To {
		return partErrorf(PartInput, "partition %d has %d rows, expected %d: the input has changed", number, s.Rows-this.From, this.To-this.From)
	}
	for i, end := range p.endOf(number) {
		if is := s.Columns[i].Nested; end != nil && !reflect.DeepEqual(is.Lengths, end.Lengths) {
			return partErrorf(PartInput, "partition %d ends at the elements %v of nested column %d, expected %v: the input has changed", number, is.Lengths, i, end.Lengths)
		}
	}
	return nil
}

// writeResult says that a partition is done, unless the plan is gone.
func (c *conversion) writeResult(ctx context.Context, number int, result *partitionResult) error {
	document, err := json.Marshal(result)
	if err != nil {
		return err
	}
	now, err := readPlan(ctx, c.target.store)
	if errors.Is(err, store.ErrNotFound) || err == nil && now.ID != c.plan.ID {
		gone := fmt.Errorf("the plan of %s is gone: it was finalized or aborted while partition %d was written", c.target.location, number)
		if err == nil {
			return gone
		}
		// What was written after the end of the plan is of no use.
		if c.target.renames() {
			return errors.Join(gone, os.RemoveAll(c.target.staging))
		}
		return errors.Join(gone, store.DeleteAll(ctx, c.target.store, piecesFolder(number)))
	}
	if err != nil {
		return err
	}
	return c.target.store.Set(ctx, resultKey(number), document)
}

// readResult returns the result of a partition. The error wraps store.ErrNotFound if it is
// not done.
func (c *conversion) readResult(ctx context.Context, number int) (*partitionResult, error) {
	document, err := c.target.store.Get(ctx, resultKey(number), store.Range{})
	if err != nil {
		return nil, err
	}
	r := &partitionResult{}
	if err := json.Unmarshal(document, r); err != nil {
		return nil, fmt.Errorf("%s: %w", resultKey(number), err)
	}
	if r.Plan != c.plan.ID || len(r.Missing) != len(r.Elements) {
		return nil, fmt.Errorf("%s is not of the plan of %s: %w", resultKey(number), c.target.location, arrowdata.ErrMalformed)
	}
	return r, nil
}

// doneParts returns the numbers of the partitions that are done, in order.
func doneParts(ctx context.Context, t *target) ([]int, error) {
	keys, err := t.store.List(ctx, resultsPrefix)
	if err != nil {
		return nil, err
	}
	var done []int
	for _, key := range keys {
		name := strings.TrimSuffix(filepath.Base(key), ".json")
		if number, err := strconv.Atoi(name); err == nil {
			done = append(done, number)
		}
	}
	slices.Sort(done)
	return done, nil
}

// missingParts returns the numbers below n that are not in a sorted list.
func missingParts(done []int, n int) []int {
	var missing []int
	for number := range n {
		if _, found := slices.BinarySearch(done, number); !found {
			missing = append(missing, number)
		}
	}
	return missing
}

// numberRanges returns numbers as text, such as "1, 4-6".
func numberRanges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, strconv.Itoa(numbers[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", numbers[i], numbers[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
