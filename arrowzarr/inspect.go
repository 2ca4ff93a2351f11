package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/inputs"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/parquet"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Contents describes an input or a hierarchy. A number that is not known without reading
// values is -1.
type Contents struct {
	Path        string `json:"path"`
	Format      string `json:"format"`
	Rows        int64  `json:"rows"`
	StoredBytes int64  `json:"stored_bytes"`
	RawBytes    int64  `json:"raw_bytes"`
	// Columns are those of an input, or the arrays of a hierarchy.
	Columns []ColumnStats `json:"columns"`
	// Table are the columns of the table that a hierarchy is, if it is one: with the
	// names and types that Restore writes.
	Table []ColumnStats `json:"table,omitempty"`
}

// ColumnStats describes one column of Arrow or Parquet, or one array of Zarr.
type ColumnStats struct {
	Name        string      `json:"name"` // the path of an array
	Type        string      `json:"type"`
	Shape       []int64     `json:"shape"`
	Nulls       int64       `json:"nulls"`
	Chunks      []int64     `json:"chunks"` // the chunk shape of an array
	Shards      []int64     `json:"shards,omitempty"`
	Codecs      []string    `json:"codecs"`
	StoredBytes int64       `json:"stored_bytes"`
	RawBytes    int64       `json:"raw_bytes"`
	Becomes     *ZarrForm   `json:"becomes,omitempty"` // of a column of an input
	Values      *ValueStats `json:"values,omitempty"`  // see InspectOptions.Stats
}

// ZarrForm is what Convert makes of a column.
type ZarrForm struct {
	// Node is the name in Zarr: that of the column, unless a node cannot have it.
	Node string `json:"node,omitempty"`
	// Form describes the arrays, for people. It is "" if the column is left out.
	Form string `json:"form,omitempty"`
	// Codec is that of the values.
	Codec string `json:"codec,omitempty"`
	// Refused says why Convert refuses the column.
	Refused string `json:"refused,omitempty"`
}

// InspectOptions are the options of Inspect.
type InspectOptions struct {
	// Convert are the options of the conversion that ColumnStats.Becomes is about.
	Convert Options
	// Stats reads all values and sets ColumnStats.Values.
	Stats bool
}

// Inspect describes an input of Convert, or a Zarr hierarchy in a directory, a ZIP file or
// at a URL. Without Stats, it reads only the metadata of Parquet and Zarr, but all of other
// inputs. The error is an *Error, or the cause of the context.
func Inspect(ctx context.Context, path string, options InspectOptions) (*Contents, error) {
	s, err := openHierarchy(ctx, path)
	if err != nil {
		return nil, markPart(PartInput, err)
	}
	if s != nil {
		c, err := inspectZarr(ctx, s, path, options)
		if err = errors.Join(err, store.Close(s)); err != nil {
			return nil, markPart(PartInput, err)
		}
		return c, nil
	}
	var c *Contents
	err = runUntilDone(ctx, func() (err error) { c, err = inspectFile(ctx, path, options); return err }, func() {})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func inspectFile(ctx context.Context, path string, options InspectOptions) (*Contents, error) {
	convert, err := options.Convert.withDefaults()
	if err != nil {
		return nil, err
	}
	src, err := inputs.Open(ctx, []string{path}, source.Options{Allocator: arrowbuf.CPU().HostAllocator(), AllowMapping: true, MaxBuffer: DefaultMaxMemory, BatchRows: DefaultChunkRows, Jobs: 1, Text: convert.Input.text()})
	if err != nil {
		return nil, markPart(PartInput, err)
	}
	var c *Contents
	info := src.Info()
	parquet, ok := src.(*parquet.Source)
	if ok && !options.Stats {
		c, err = inspectParquet(parquet)
	} else {
		err = arrowdata.CatchPanic(func() (err error) { c, err = inspectArrow(ctx, src, options.Stats); return err })
	}
	if ok && options.Stats && err == nil { // what is stored is in the footer
		var stored *Contents
		if stored, err = inspectParquet(parquet); err == nil {
			c.addStored(stored)
		}
	}
	if err == nil {
		err = c.addForms(info.Schema, convert)
	}
	if err = errors.Join(err, src.Close()); err != nil {
		return nil, markPart(PartInput, err)
	}
	c.Path, c.Format = path, info.Format
	return c, nil
}

// addStored adds what a footer says of the stored columns.
func (c *Contents) addStored(stored *Contents) {
	c.StoredBytes = stored.StoredBytes
	for i := range c.Columns {
		c.Columns[i].StoredBytes, c.Columns[i].Codecs = stored.Columns[i].StoredBytes, stored.Columns[i].Codecs
	}
}

// addForms adds what each column of an input becomes.
func (c *Contents) addForms(schema *arrow.Schema, o Options) error {
	o.SkipUnsupported = true
	chosen, err := newChosenColumns(schema, o)
	if err != nil {
		return err
	}
	for i := range c.Columns {
		c.Columns[i].Becomes = &ZarrForm{}
	}
	for i, column := range chosen.columns {
		stats := &c.Columns[chosen.fields[i]]
		*stats.Becomes = ZarrForm{Node: column.name, Form: column.form(stats.Nulls), Codec: column.codecs.byClass[column.class()].String()}
	}
	for _, s := range chosen.skipped {
		c.Columns[s.field].Becomes.Refused = s.Reason
	}
	return nil
}

// form describes the arrays of the column, for people. The number of nulls is -1 if it is
// not known.
func (c *column) form(nulls int64) string {
	values := typeName(c.dataType())
	for _, d := range c.layout.row {
		values += fmt.Sprintf("[%d]", d)
	}
	switch {
	case c.kind == kindNull:
		return "missing rows"
	case c.kind == kindNested:
		return "awkward array"
	case c.kind == kindDictionary:
		return fmt.Sprintf("categorical of %s codes", values)
	case nulls > 0:
		return values + " and mask"
	case nulls < 0 && c.field.Nullable:
		return values + ", and mask if rows are null"
	}
	return values
}

// inspectArrow reads all batches of an input.
func inspectArrow(ctx context.Context, src source.Source, stats bool) (*Contents, error) {
	schema := src.Info().Schema
	c := &Contents{Columns: make([]ColumnStats, schema.NumFields())}
	fields := make([]int, schema.NumFields())
	for i, f := range schema.Fields() {
		fields[i] = i
		c.Columns[i] = ColumnStats{Name: f.Name, Type: f.Type.String(), StoredBytes: -1}
	}
	if err := src.Open(ctx, fields, source.WholeInput); err != nil {
		return nil, err
	}
	scanners := newColumnScanners(schema, stats)
	for {
		l, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		err = c.addBatch(c.Columns, l.Record, scanners)
		l.Record.Release()
		if err != nil {
			return nil, err
		}
	}
	for i := range c.Columns {
		c.Columns[i].Shape = []int64{c.Rows}
		c.Columns[i].Values = scanners[i].result()
		c.RawBytes += c.Columns[i].RawBytes
	}
	c.StoredBytes, _ = src.Position()
	return c, nil
}

// addBatch adds the rows, nulls, bytes and values of a batch of columns.
func (c *Contents) addBatch(columns []ColumnStats, batch arrow.RecordBatch, scanners []*columnScanner) error {
	if err := countNulls(batch); err != nil {
		return err
	}
	for i, values := range batch.Columns() {
		columns[i].Nulls += int64(max(values.NullN(), 0))
		columns[i].RawBytes += arrowdata.ArrayBytes(values.Data(), arrowdata.BufferLen)
		if err := scanners[i].add(values); err != nil {
			return fmt.Errorf("column %q: %w", columns[i].Name, err)
		}
	}
	c.Rows += batch.NumRows()
	return nil
}

// inspectParquet describes the columns that a footer lists.
func inspectParquet(src *parquet.Source) (*Contents, error) {
	stored, err := src.StoredColumns()
	if err != nil {
		return nil, err
	}
	info := src.Info()
	c := &Contents{Rows: info.Rows}
	_, c.StoredBytes = src.Position()
	for i, field := range info.Schema.Fields() {
		s := stored[i]
		c.Columns = append(c.Columns, ColumnStats{
			Name: field.Name, Type: field.Type.String(), Shape: []int64{c.Rows},
			Nulls: s.Nulls, Codecs: s.Codecs, StoredBytes: s.StoredBytes, RawBytes: s.RawBytes,
		})
		c.RawBytes += s.RawBytes
	}
	return c, nil
}
