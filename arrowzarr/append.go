package arrowzarr

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// AppendReport describes rows that were appended to a table.
type AppendReport struct {
	Input          string  `json:"input"`
	Format         string  `json:"format"`
	Output         string  `json:"output"`
	Device         string  `json:"device"`
	Appended       int64   `json:"appended"` // rows
	Rows           int64   `json:"rows"`     // of the whole table
	Columns        int     `json:"columns"`
	ChunkRows      int64   `json:"chunk_rows"`
	ShardRows      int64   `json:"shard_rows,omitempty"`
	RawBytes       int64   `json:"raw_bytes"`    // of what was written, uncompressed
	StoredBytes    int64   `json:"stored_bytes"` // of the chunks that were written
	Seconds        float64 `json:"seconds"`
	BytesPerSecond float64 `json:"bytes_per_second"` // RawBytes over Seconds
	Stages         []Stage `json:"stages"`
}

// Append appends the rows of an input to a table that Convert has written, in a folder or
// an object store. The table is then that of Convert for the old inputs and the new one,
// with the codecs and the chunks that it had. A table of one chunk gets chunks as Convert
// would choose them, or of Options.ChunkRows.
//
// The input must have the columns of the table, in any order; Options.Columns and
// Options.Exclude leave others out. The metadata of the root change last. If Append fails,
// or its context ends, the table is as it was. If the process is killed, readers of the
// root see the table as it was. The next Append to a folder deletes what is left; for an
// object store Abort does. Of two at once, one is refused.
//
// Of the options Device, Columns, Exclude, Input, ChunkRows, Jobs, MaxMemory,
// StoreConcurrency and Progress count. The error is an *Error, or the cause of the context.
func Append(ctx context.Context, input, output string, options Options) (*AppendReport, error) {
	start := time.Now()
	a, err := openAppending(ctx, input, output, options)
	if err != nil {
		return nil, err
	}
	p, err := a.run(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx) // it made the stages fail
		}
		return nil, errors.Join(err, markPart(PartOutput, a.undo(context.WithoutCancel(ctx))), a.close())
	}
	if err := errors.Join(a.finish(context.WithoutCancel(ctx), p), a.close()); err != nil {
		return nil, err
	}
	r := &AppendReport{
		Input: input, Format: a.format, Output: a.plan.Output, Device: a.options.Device.String(),
		Appended: p.state.Rows - a.existing.rows, Rows: p.state.Rows, Columns: len(a.chosen.columns),
		ChunkRows: p.state.ChunkRows, ShardRows: p.state.ShardRows,
		RawBytes: p.state.RawBytes, StoredBytes: p.state.Stored, Seconds: time.Since(start).Seconds(), Stages: p.stats.report(),
	}
	r.BytesPerSecond = float64(r.RawBytes) / r.Seconds
	return r, nil
}

// AppendReader is [Append] for the record batches of a reader, as ConvertReader is Convert.
func AppendReader(ctx context.Context, r array.RecordReader, output string, options Options) (*AppendReport, error) {
	if r == nil {
		return nil, partErrorf(PartUsage, "arrowzarr.AppendReader: nil reader")
	}
	options.reader = r
	return Append(ctx, source.ReaderName, output, options)
}

// appending is a conversion whose rows follow those of a table.
type appending struct {
	*conversion
	existing *existingTable
}

// openAppending opens the input and locks the table. If it fails, it has changed nothing.
func openAppending(ctx context.Context, input, output string, options Options) (*appending, error) {
	if options.ShardRows != 0 {
		return nil, partErrorf(PartUsage, "shard rows: %d, but a table keeps its shards", options.ShardRows)
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	t, err := openExistingTarget(ctx, output)
	if err != nil {
		return nil, err
	}
	a := &appending{conversion: &conversion{options: options, input: input, target: t, host: &hostAllocator{Allocator: options.Device.HostAllocator()}}}
	if a.src, err = openInput(ctx, input, options, a.host); err != nil {
		return nil, errors.Join(err, a.close())
	}
	a.format = a.src.Info().Format
	a.plan = &plan{
		Version: planVersion, ID: rand.Text(), Input: input, Format: a.format, Output: t.location,
		Fingerprint: a.src.Info().Fingerprint, Options: options, Append: true,
	}
	if err := t.lockTable(ctx, a.plan); err != nil {
		return nil, errors.Join(markPart(PartOutput, err), a.close())
	}
	if err := a.open(ctx); err != nil {
		return nil, errors.Join(err, markPart(PartOutput, t.unlock(context.WithoutCancel(ctx))), a.close())
	}
	return a, nil
}

// openExistingTarget returns the target of a table that exists. It changes nothing.
func openExistingTarget(ctx context.Context, output string) (*target, error) {
	if output == "-" {
		return nil, partErrorf(PartUsage, "rows are appended to a Zarr table: expected its name")
	}
	t, err := openTarget(ctx, output)
	if err != nil {
		return nil, err
	}
	if t.isRemote() {
		exists, err := store.Exists(ctx, t.store, "zarr.json")
		if err == nil && !exists {
			err = fmt.Errorf("%s has no table (arrow2zarr convert creates one)", t.location)
		}
		if err != nil {
			return nil, errors.Join(markPart(PartOutput, err), t.close())
		}
		return t, nil
	}
	err = func() error {
		if t.zip {
			return fmt.Errorf("%s is a ZIP file, to which rows cannot be appended (convert all inputs again, to a folder)", t.path)
		}
		if _, err := os.Stat(t.staging); err == nil {
			return fmt.Errorf("%s is being converted again, or that was interrupted, in %s", t.location, t.staging)
		}
		_, err := os.Stat(filepath.Join(t.path, "zarr.json"))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s has no table (arrow2zarr convert creates one)", t.location)
		}
		return err
	}()
	if err != nil {
		return nil, errors.Join(markPart(PartOutput, err), t.close())
	}
	t.staging, t.store = "", store.NewLocal(t.path)
	return t, nil
}

// lockTable locks an existing table. In a folder, it deletes what an append has left that
// was killed.
func (t *target) lockTable(ctx context.Context, p *plan) (err error) {
	document, err := json.Marshal(p)
	if err != nil {
		return err
	}
	busy := fmt.Errorf("another process appends to %s", t.location)
	if t.isRemote() {
		err := store.SetIfNotExists(ctx, t.store, planKey, document)
		if errors.Is(err, store.ErrExists) {
			return fmt.Errorf("%w, or that was interrupted (arrow2zarr abort %s restores the table as it was)", busy, t.location)
		}
		return err
	}
	t.lock, err = lockDirectory(t.path, true)
	if errors.Is(err, errLocked) || errors.Is(err, fs.ErrNotExist) {
		return busy
	}
	if err != nil {
		return fmt.Errorf("locking %s: %w", t.location, err)
	}
	left, err := readPlan(ctx, t.store)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return err
	case !left.Append:
		return fmt.Errorf("%s/%s is not of an append", t.location, planKey)
	default:
		if err := restoreTable(ctx, t.store); err != nil {
			return err
		}
	}
	return t.store.Set(ctx, planKey, document)
}

// restoreTable makes a table as its root says: it deletes what an append has left.
func restoreTable(ctx context.Context, s store.Store) error {
	existing, err := openExisting(ctx, s, 1)
	if err != nil {
		return err
	}
	return existing.restore(ctx, s)
}

// unlock ends an append: the plan is deleted.
func (t *target) unlock(ctx context.Context) error {
	return store.DeleteAll(ctx, t.store, workPrefix)
}

// undo makes the table as it was.
func (a *appending) undo(ctx context.Context) error {
	if err := restoreTable(ctx, a.target.store); err != nil {
		return err // the plan still says that the append did not end
	}
	return a.target.unlock(ctx)
}

// open opens the table, and the input as rows that follow it.
func (a *appending) open(ctx context.Context) (err error) {
	if a.existing, err = openExisting(ctx, a.target.store, a.options.Jobs); err != nil {
		return partErrorf(PartOutput, "%s: %w", a.target.location, err)
	}
	if err := a.existing.chooseGrid(a.options.ChunkRows); err != nil {
		return err
	}
	if a.existing.grid.shardRows > 0 {
		a.options.ChunkRows, a.options.ShardRows = a.existing.grid.chunkRows, a.existing.grid.shardRows
	}
	schema, fields, err := a.matchSchemas()
	if err != nil {
		return err
	}
	a.schema = schema
	a.keepCodecs()
	if a.chosen, err = chooseColumns(schema, a.options.ofColumns(schema)); err != nil {
		return err
	}
	if err := a.checkMemory(); err != nil {
		return err
	}
	a.chosen.fields = fields
	for i, c := range a.existing.columns {
		a.chosen.columns[i].name = c.name
		a.plan.Grouped = append(a.plan.Grouped, c.grouped)
	}
	nameDimensions(a.chosen.columns)
	a.plan.StreamRows = streamRows(a.chosen.columns, a.options, a.shares())
	_, indexed := a.existing.attributes[attrIndex]
	a.options.NoIndex = !indexed
	a.src = newFollowingSource(a.src, a.existing)
	return nil
}

// keepCodecs makes the arrays that a column gets, such as a mask, have the codec of those
// that it has.
func (a *appending) keepCodecs() {
	a.options.Codec, a.options.ClassCodecs, a.options.ColumnCodecs = DefaultCodec, nil, map[string]Codec{}
	for i, c := range a.existing.columns {
		for _, name := range slices.Sorted(maps.Keys(c.arrays)) {
			if codec, ok := codecOf(c.arrays[name]); ok && codec.validate() == nil {
				a.options.ColumnCodecs[a.existing.table.schema.Field(i).Name] = codec
				break
			}
		}
	}
}

// matchSchemas returns the schema of the table after the append, and the indices of the
// input's fields in the table's order.
func (a *appending) matchSchemas() (*arrow.Schema, []int, error) {
	table, input := a.existing.table.schema, a.src.Info().Schema
	chosen, err := a.chosenFields(input)
	if err != nil {
		return nil, nil, err
	}
	name, other := inputName(a.input), a.target.location
	used := make([]bool, input.NumFields())
	fields := slices.Clone(table.Fields())
	indices := make([]int, len(fields))
	var problems []error
	for i, f := range fields {
		indices[i] = slices.IndexFunc(input.FieldIndices(f.Name), func(k int) bool { return chosen[k] && !used[k] })
		if indices[i] < 0 {
			problems = append(problems, fmt.Errorf("%s has no column %q of type %s, which %s has", name, f.Name, f.Type, other))
			continue
		}
		indices[i] = input.FieldIndices(f.Name)[indices[i]]
		used[indices[i]] = true
		got := input.Field(indices[i])
		if !arrow.TypeEqual(got.Type, f.Type) {
			problems = append(problems, fmt.Errorf("column %q of %s is %s, expected %s as in %s", f.Name, name, got.Type, f.Type, other))
		}
		fields[i].Nullable = f.Nullable || got.Nullable
	}
	for k, f := range input.Fields() {
		if chosen[k] && !used[k] {
			problems = append(problems, fmt.Errorf("%s has a column %q of type %s, which %s does not have (--exclude leaves it out)", name, f.Name, f.Type, other))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, nil, markPart(PartInput, err)
	}
	metadata := table.Metadata()
	return arrow.NewSchemaWithEndian(fields, &metadata, table.Endianness()), indices, nil
}

// chosenFields reports for each field of the input whether the options choose it.
func (a *appending) chosenFields(input *arrow.Schema) ([]bool, error) {
	chosen := make([]bool, input.NumFields())
	for i := range chosen {
		chosen[i] = len(a.options.Columns) == 0
	}
	var problems []error
	for _, pattern := range a.options.Columns {
		problems = append(problems, markColumns(input, pattern, chosen, true))
	}
	for _, pattern := range a.options.Exclude {
		problems = append(problems, markColumns(input, pattern, chosen, false))
	}
	return chosen, markPart(PartUsage, errors.Join(problems...))
}

// run writes the rows, and then the metadata. It closes the source.
func (a *appending) run(ctx context.Context) (*pipeline, error) {
	before := a.existing
	state := &tableState{Rows: before.from, Columns: make([]columnState, len(before.columns))}
	for i, c := range before.columns {
		state.Columns[i].Missing = c.arrays[arrayMask] != nil
		state.Columns[i].ElementMissing = c.arrays[arrayElements] != nil
		if a.chosen.columns[i].kind == kindNested {
			var err error
			if state.Columns[i].Nested, err = before.nestedStateOf(ctx, i); err != nil {
				return nil, partErrorf(PartOutput, "column %q: %w", a.chosen.columns[i].field.Name, err)
			}
		}
	}
	p, err := a.newPipeline(ctx, segment{
		rows: source.RowRange{From: before.from, To: -1}, grid: before.grid, automatic: before.grid.chunkRows == 0,
		state: state, existing: before,
	})
	if err == nil {
		err = p.run(ctx)
	}
	if err == nil {
		err = p.finalize(ctx, a.schema, nil)
	}
	p.release()
	a.src = nil
	if closing := p.close(); err == nil {
		err = markPart(PartInput, closing)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// finish deletes the chunks that the table does not use any more, and the plan. The root
// has changed, so no reader that opens it now needs them.
func (a *appending) finish(ctx context.Context, p *pipeline) error {
	now := &existingTable{nodes: p.hierarchy.nodes}
	var err error
	for _, path := range a.existing.changedPaths(now) {
		err = errors.Join(err, now.deleteStale(ctx, a.target.store, path))
	}
	if err == nil {
		err = a.target.unlock(ctx)
	}
	if err != nil {
		return partErrorf(PartOutput, "the rows are appended, but old chunks are left (arrow2zarr abort %s deletes them): %w", a.target.location, err)
	}
	return nil
}

// followingSource yields the rows of a table from some row on, and then those of an input.
// Nested columns of the former have no values: their arrays are read by themselves.
type followingSource struct {
	source.Source
	ctx       context.Context
	table     *Table
	flat      *Table        // the columns that are not nested
	fields    *arrow.Schema // of batches of the table
	at        int64         // the next row of the table
	batchRows int64
	first     bool // a batch must come, even if it has no rows: it has the dictionaries
}

func newFollowingSource(src source.Source, t *existingTable) *followingSource {
	s := &followingSource{Source: src, table: t.table, at: t.from}
	s.flat = &Table{rows: t.rows, options: t.table.options}
	var fields, all []arrow.Field
	for i, c := range t.table.columns {
		field := t.table.schema.Field(i)
		if c.column.kind == kindNested {
			all = append(all, arrow.Field{Name: field.Name, Type: arrow.Null, Nullable: true})
			continue
		}
		s.first = s.first || c.column.kind == kindDictionary
		s.flat.columns, fields, all = append(s.flat.columns, c), append(fields, field), append(all, field)
	}
	s.flat.schema, s.fields = arrow.NewSchema(fields, nil), arrow.NewSchema(all, nil)
	return s
}

func (s *followingSource) Open(ctx context.Context, fields []int, _ source.RowRange) (err error) {
	s.ctx = ctx
	if s.batchRows, err = s.flat.rowsPerBatch(ctx, 0); err != nil {
		return partErrorf(partOf(err, PartOutput), "%w", err)
	}
	return s.Source.Open(ctx, fields, source.WholeInput)
}

func (s *followingSource) Next() (source.Batch, error) {
	if s.at >= s.table.rows && !s.first {
		return s.Source.Next()
	}
	s.first = false
	flat, err := s.flat.read(s.ctx, s.at, min(s.at+s.batchRows, s.table.rows))
	if err != nil {
		return source.Batch{}, partErrorf(partOf(err, PartOutput), "reading the last rows of the table: %w", err)
	}
	defer flat.Release()
	columns := make([]arrow.Array, s.fields.NumFields())
	next := 0
	for i, c := range s.table.columns {
		if c.column.kind == kindNested {
			columns[i] = array.NewNull(int(flat.NumRows()))
			continue
		}
		columns[i] = flat.Column(next)
		next++
	}
	s.at += flat.NumRows()
	batch := array.NewRecordBatch(s.fields, columns, flat.NumRows())
	return source.Batch{Record: batch, Bytes: arrowdata.BatchBytes(batch, arrowdata.BufferLen)}, nil
}

func (s *followingSource) Info() source.Info {
	info := s.Source.Info()
	if info.Rows >= 0 {
		info.Rows += s.table.rows
	}
	return info
}

func (s *followingSource) Close() error { return errors.Join(s.Source.Close(), s.table.Close()) }
