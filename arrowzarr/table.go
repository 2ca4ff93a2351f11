package arrowzarr

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Table reads the table in a Zarr group as record batches: one that Convert wrote, or any
// group of arrays of one length. Of the latter, each array is a column, and so are
// anndata's nullable and categorical groups.
//
// A Table is not safe for concurrent use.
type Table struct {
	schema  *arrow.Schema
	rows    int64
	columns []*tableColumn
	options TableOptions
	store   store.Store // nil unless Close closes it
	// remote says that each read of the store takes a round trip, and Jobs is the default.
	remote   bool
	requests int   // see requestsAtOnce; 0 before it is known
	rowBytes int64 // the most memory of a row of a batch so far, on average
}

// TableOptions are the options of OpenTable.
type TableOptions struct {
	// Device is where the batches are. Columns of fixed width are decoded on it, except
	// booleans, 32-bit dates and times, and runs. Others are copied there. Nil is the CPU.
	Device arrowbuf.Device
	// Jobs is the number of chunks that are read and decoded at once. 0 means GOMAXPROCS, or
	// up to DefaultStoreConcurrency if each read of the store takes a round trip: their chunks
	// have no more than 4 times BatchBytes.
	Jobs int
	// BatchRows is the most rows of a batch of a reader. 0 means as many as take about
	// BatchBytes, in whole chunks unless those are far larger.
	BatchRows int64
	// BatchBytes is about the memory of a batch of a reader. 0 means 64 MiB.
	BatchBytes int64
	// Columns and Exclude choose the columns of the table, as those of [Options] do. The
	// arrays of others are not opened.
	Columns, Exclude []string
}

func (o TableOptions) withDefaults() (TableOptions, error) {
	if o.Device == nil {
		o.Device = arrowbuf.CPU()
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = targetBytes
	}
	if o.Jobs < 0 || o.BatchRows < 0 || o.BatchBytes < 0 {
		return o, partErrorf(PartUsage, "jobs %d, batch rows %d and batch bytes %d, expected at least 1", o.Jobs, o.BatchRows, o.BatchBytes)
	}
	return o, nil
}

// OpenTable opens the table in the Zarr group at a location: a directory, a ZIP file or a
// URL of [store.Open]. It reads metadata only. The caller must close the table. The error
// is an *Error, or the cause of the context.
func OpenTable(ctx context.Context, location string, options TableOptions) (*Table, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := openLocation(ctx, location)
	if err != nil {
		return nil, markPart(PartInput, err)
	}
	t, err := NewTable(ctx, s, options)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, markPart(partOf(err, PartInput), errors.Join(fmt.Errorf("%s: %w", location, err), store.Close(s)))
	}
	t.store = s
	return t, nil
}

// NewTable opens the table in the group at the root of a store, which must stay open.
// The caller must close the table. The error is an *Error.
func NewTable(ctx context.Context, s store.Store, options TableOptions) (*Table, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	remote := options.Jobs == 0 && store.TakesRoundTrips(s)
	if options.Jobs == 0 {
		options.Jobs = runtime.GOMAXPROCS(0)
	}
	t, err := openTable(ctx, s, options)
	if err != nil {
		return nil, markPart(partOf(err, PartInput), err)
	}
	t.options, t.remote = options, remote
	return t, nil
}

// Schema returns the schema of all columns: of a table that Convert wrote the schema of
// its input, with all metadata.
func (t *Table) Schema() *arrow.Schema { return t.schema }

// NumRows returns the number of rows.
func (t *Table) NumRows() int64 { return t.rows }

// Read returns rows [from, to) of columns, in the table's order, as one record batch. The
// columns are names, or patterns as of Options.Columns; none means all. Only chunks with
// these rows and columns are read. The caller must release the batch.
//
// If the rows have more elements than Arrow's offsets can count, Read returns an error;
// a Reader returns them in several batches. The error is an *Error, or the cause of the
// context.
func (t *Table) Read(ctx context.Context, from, to int64, columns ...string) (arrow.RecordBatch, error) {
	part, err := t.choose(from, to, columns)
	if err != nil {
		return nil, err
	}
	batch, err := part.readAll(ctx, from, to)
	return batch, tableError(ctx, err)
}

// Reader returns a reader of rows [from, to) of columns, which are those of Read. It
// reads a batch when Next is called; where each read of the store takes a round trip, it may
// read several, of about BatchBytes, whose memory a batch keeps until all are released. The
// caller must release the reader before the table is closed.
func (t *Table) Reader(ctx context.Context, from, to int64, columns ...string) (array.RecordReader, error) {
	part, err := t.choose(from, to, columns)
	if err != nil {
		return nil, err
	}
	rows, err := part.rowsPerBatch(ctx, t.options.BatchRows)
	if err != nil {
		return nil, tableError(ctx, err)
	}
	var read arrow.RecordBatch // rows before from that are not returned yet
	next := func() (arrow.RecordBatch, error) {
		for {
			batch, rest := firstRows(read, rows)
			if read = rest; batch != nil {
				return batch, nil
			}
			if from >= to {
				return nil, io.EOF
			}
			block, err := part.blockRows(ctx, rows)
			if err == nil {
				read, err = part.read(ctx, from, min(from+block, to))
			}
			if err != nil {
				return nil, tableError(ctx, err)
			}
			from += read.NumRows()
		}
	}
	return arrowbuf.NewReaderFunc(part.schema, next, func() {
		if read != nil {
			read.Release()
		}
	}), nil
}

// Close releases what the table keeps, and closes the store if OpenTable opened it.
func (t *Table) Close() error {
	for _, c := range t.columns {
		c.release()
	}
	s := t.store
	if t.store = nil; s == nil {
		return nil
	}
	return markPart(PartInput, store.Close(s))
}

// tableError is an error of reading a table.
func tableError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return markPart(partOf(err, PartInput), err)
}

// choose returns a table of some columns, and checks the range of rows.
func (t *Table) choose(from, to int64, patterns []string) (*Table, error) {
	if from < 0 || to < from || to > t.rows {
		return nil, partErrorf(PartUsage, "rows [%d, %d) of a table of %d", from, to, t.rows)
	}
	if len(patterns) == 0 {
		return t, nil
	}
	return t.columnsOf(patterns, nil)
}

// columnsOf returns a table of the columns that patterns choose.
func (t *Table) columnsOf(columns, exclude []string) (*Table, error) {
	chosen, err := chooseFrom(t.schema, columns, exclude)
	if err != nil {
		return nil, err
	}
	part := &Table{rows: t.rows, options: t.options, remote: t.remote}
	var fields []arrow.Field
	for i, c := range t.columns {
		if chosen[i] {
			part.columns, fields = append(part.columns, c), append(fields, t.schema.Field(i))
		}
	}
	metadata := t.schema.Metadata()
	part.schema = arrow.NewSchemaWithEndian(fields, &metadata, t.schema.Endianness())
	return part, nil
}

// chooseFrom returns which columns of a table patterns choose. A pattern that matches none
// is an error.
func chooseFrom(schema *arrow.Schema, columns, exclude []string) ([]bool, error) {
	chosen, unmatched := markChosen(schema, columns, exclude)
	if err := errors.Join(unmatched...); err != nil {
		return nil, partErrorf(PartUsage, "%w\nexpected some of %s", err, columnNames(schema))
	}
	if len(chosen) > 0 && !slices.Contains(chosen, true) {
		return nil, errNothingLeft(nil)
	}
	return chosen, nil
}

// forEachBatch calls f with the batches of rows [from, to), of at most a number of rows;
// 0 means as many as targetRows says. The next batches are read during the call of f.
func (t *Table) forEachBatch(ctx context.Context, from, to, rows int64, f func(arrow.RecordBatch) error) error {
	rows, err := t.rowsPerBatch(ctx, rows)
	if err != nil {
		return tableError(ctx, err)
	}
	return t.forEachBlock(ctx, from, to, rows, func(block arrow.RecordBatch) error {
		block.Retain()
		var err error
		for block != nil {
			batch, rest := firstRows(block, rows)
			if err == nil {
				err = f(batch)
			}
			batch.Release()
			block = rest
		}
		return err
	})
}

// forEachBlock is forEachBatch, but f gets all rows that are read at once.
func (t *Table) forEachBlock(ctx context.Context, from, to, rows int64, f func(arrow.RecordBatch) error) error {
	type read struct {
		batch arrow.RecordBatch
		err   error
	}
	rows, err := t.rowsPerBatch(ctx, rows)
	if err != nil {
		return tableError(ctx, err)
	}
	next := make(chan read, 1)
	readNext := func() {
		block, err := t.blockRows(ctx, rows)
		if err != nil {
			next <- read{err: err}
			return
		}
		from, to := from, min(from+block, to)
		go func() {
			debug.SetPanicOnFault(true) // see startStage
			var r read
			r.err = arrowdata.CatchPanic(func() (err error) {
				if err = context.Cause(ctx); err == nil {
					r.batch, err = t.read(ctx, from, to)
				}
				return err
			})
			next <- r
		}()
	}
	if from < to {
		readNext()
	}
	for from < to {
		r := <-next
		if r.err != nil {
			return tableError(ctx, r.err)
		}
		if from += r.batch.NumRows(); from < to {
			readNext()
		}
		err := f(r.batch)
		r.batch.Release()
		if err != nil {
			if from < to {
				if r := <-next; r.batch != nil {
					r.batch.Release()
				}
			}
			return err
		}
	}
	return nil
}

// openTable opens the table in a store.
func openTable(ctx context.Context, s store.Store, options TableOptions) (*Table, error) {
	group, err := zarr.OpenGroup(ctx, s, "")
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("no Zarr group: it has neither zarr.json nor .zgroup: %w", store.ErrNotFound)
	case errors.Is(err, zarr.ErrNodeType):
		return nil, fmt.Errorf("an array, expected a group of arrays of one length: %w", zarr.ErrNodeType)
	case err != nil:
		return nil, err
	}
	text, ok := group.Metadata().Attributes[attrSchema].(string)
	if !ok {
		return openForeign(ctx, group, options)
	}
	t, err := openConverted(group, text, options.Jobs)
	if err != nil || len(options.Columns)+len(options.Exclude) == 0 {
		return t, err
	}
	return t.columnsOf(options.Columns, options.Exclude)
}

// openConverted opens a table that Convert wrote.
func openConverted(group *zarr.Group, schemaText string, jobs int) (*Table, error) {
	schema, err := parseSchema(schemaText)
	if err != nil {
		return nil, fmt.Errorf("attribute %s: %w", attrSchema, err)
	}
	chosen, err := chooseColumns(schema, Options{})
	if err != nil {
		return nil, err
	}
	columns := chosen.columns
	attributes := group.Metadata().Attributes
	t := &Table{schema: schema, rows: rowCount(attributes)}
	if t.rows < 0 {
		return nil, fmt.Errorf("attribute %s: %v, expected a number of rows: %w", attrRows, attributes[attrRows], arrowdata.ErrMalformed)
	}
	names, _ := attributes[attrColumns].([]any)
	if len(names) != len(columns) {
		return nil, fmt.Errorf("attribute %s has %d names, and the schema %d fields: %w", attrColumns, len(names), len(columns), arrowdata.ErrMalformed)
	}
	for i, column := range columns {
		name, ok := names[i].(string)
		if !ok || zarr.CheckName(name) != nil {
			return nil, fmt.Errorf("attribute %s: %v, expected the name of a node: %w", attrColumns, names[i], arrowdata.ErrMalformed)
		}
		column.name = name
		t.columns = append(t.columns, newTableColumn(group, column, jobs))
	}
	return t, nil
}

// parseSchema returns the schema of a base64 text.
func parseSchema(text string) (schema *arrow.Schema, err error) {
	message, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	metadata, err := arrowipc.ReadMetadata(bytes.NewReader(message))
	if err != nil {
		return nil, err
	}
	err = arrowdata.CatchPanic(func() error {
		d, err := arrowipc.NewDecoder(metadata, arrowbuf.CPU())
		if err != nil {
			return err
		}
		defer d.Release()
		schema = d.Schema()
		return nil
	})
	return schema, err
}

// rowsPerBatch returns the rows of a batch to read: at most a number, or as many as
// targetRows says if it is 0, and no more than run ends can count.
func (t *Table) rowsPerBatch(ctx context.Context, most int64) (int64, error) {
	if most == 0 {
		var err error
		if most, err = t.targetRows(ctx); err != nil {
			return 0, err
		}
	}
	for _, c := range t.columns {
		if limit := runLimit(c.column.field.Type); limit < most {
			most = limit
		}
	}
	return max(most, 1), nil
}

// targetBytes is about the memory of a batch that is read by default.
const targetBytes = 64 << 20

// targetRows is the rows of a batch that takes about BatchBytes, by the sizes of the
// columns' arrays, and at most one chunk of text, whose size is unknown. Batches end where
// chunks do, unless a chunk of all columns is far larger: a chunk in two batches is decoded
// twice.
func (t *Table) targetRows(ctx context.Context) (int64, error) {
	if len(t.columns) == 0 {
		return max(t.rows, 1), nil
	}
	target := t.options.BatchBytes
	rows, chunk, text := int64(DefaultChunkRows), int64(0), int64(math.MaxInt64)
	var total float64
	err := t.forEachArray(ctx, func(name string, m *zarr.ArrayMetadata) {
		if name != arrayCategories {
			if m.DataType.IsVLen() {
				text = min(text, max(chunkRowsOf(m), 1))
			}
			if m.Shape[0] == t.rows {
				chunk = max(chunk, chunkRowsOf(m))
			}
		}
		size := float64(max(m.DataType.Size(), 1))
		for _, d := range m.Shape {
			size *= float64(d)
		}
		total += size
	})
	if err != nil {
		return 0, err
	}
	perRow := total / float64(max(t.rows, 1))
	if perRow > 0 {
		rows = min(rows, max(int64(float64(target)/perRow), 1))
	}
	switch {
	case chunk == 0:
	case rows >= chunk:
		rows -= rows % chunk
	case float64(chunk)*perRow <= 4*float64(target):
		rows = chunk
	default:
		rows = ceilDiv(chunk, ceilDiv(chunk, rows))
	}
	return min(rows, text), nil
}

// forEachArray calls f with the metadata of each array of the columns, and with its name
// below the column. Of a group without consolidated metadata it opens them.
func (t *Table) forEachArray(ctx context.Context, f func(name string, m *zarr.ArrayMetadata)) error {
	if nodes := t.columns[0].group.Metadata().Consolidated; nodes != nil {
		names := map[string]bool{}
		for _, c := range t.columns {
			names[c.column.name] = true
		}
		for path, node := range nodes {
			column, name, _ := strings.Cut(path, "/")
			if m, ok := node.(*zarr.ArrayMetadata); ok && len(m.Shape) > 0 && names[column] {
				f(name, m)
			}
		}
		return nil
	}
	for _, c := range t.columns {
		for _, name := range c.arrayNames() {
			a, err := c.open(ctx, name)
			if err != nil {
				return fmt.Errorf("column %q: %w", c.column.field.Name, err)
			}
			if a != nil && len(a.Shape()) > 0 {
				f(name, a.Metadata())
			}
		}
	}
	return nil
}

func ceilDiv[T int | int64](a, b T) T { return (a + b - 1) / b }

// runLimit is the most elements that an array of a type can have, because of the run
// ends in it.
func runLimit(t arrow.DataType) int64 {
	t = arrowdata.StorageType(t)
	if runs, ok := t.(*arrow.RunEndEncodedType); ok {
		limit := map[arrow.Type]int64{arrow.INT16: math.MaxInt16, arrow.INT32: math.MaxInt32}[runs.RunEnds().ID()]
		if limit == 0 {
			limit = math.MaxInt64
		}
		return min(limit, runLimit(runs.Encoded()))
	}
	return math.MaxInt64
}

// read returns rows [from, to) as a record batch, or fewer of them if they do not fit
// one. The caller must release it.
func (t *Table) read(ctx context.Context, from, to int64) (arrow.RecordBatch, error) {
	for {
		batch, err := t.readAll(ctx, from, to)
		if !errors.Is(err, arrowdata.ErrTooLong) || to-from < 2 {
			if err == nil && t.remote && to > from {
				t.rowBytes = max(t.rowBytes, arrowdata.BatchBytes(batch, arrowdata.BufferLen)/(to-from)+1)
			}
			return batch, err
		}
		to = from + (to-from)/2
	}
}

func (t *Table) readAll(ctx context.Context, from, to int64) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, len(t.columns))
	defer func() { arrowdata.ReleaseArrays(columns) }()
	requests, err := t.shareRequests(ctx)
	if err != nil {
		return nil, err
	}
	onHost := t.onHost()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(1) // the order of a device's calls is that of the columns
	if onHost {
		group.SetLimit(requests)
	}
	for i, c := range t.columns {
		group.Go(func() error {
			debug.SetPanicOnFault(true) // see startStage
			err := arrowdata.CatchPanic(func() (err error) {
				if onHost {
					columns[i], err = c.read(groupCtx, from, to)
				} else {
					columns[i], err = c.readTo(groupCtx, t.options.Device, from, to)
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("column %q: %w", c.column.field.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if onHost {
		return array.NewRecordBatch(t.schema, columns, to-from), nil
	}
	batch, err := arrowbuf.NewRecordBatch(t.schema, columns, to-from)
	if err != nil {
		return nil, markPart(PartDevice, err) // not an interface that holds a nil pointer
	}
	return batch, nil
}
