package arrowzarr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
)

// VerifyReport is the result of Verify.
type VerifyReport struct {
	Input   string  `json:"input"`
	Zarr    string  `json:"zarr"`
	Rows    int64   `json:"rows"`
	Columns int     `json:"columns"`
	Seconds float64 `json:"seconds"`
	// Difference describes the first difference: the column, the row and both
	// values, or how the schemas differ. It is "" if the tables are equal.
	Difference string `json:"difference,omitempty"`
}

// errDifferent ends a comparison whose report has the difference.
var errDifferent = errors.New("the tables differ")

// Verify compares every value of an input of Convert with the Zarr group that
// Convert made of it, and the schemas with their metadata. Floats are equal if their
// bits are, and dictionaries and runs if their values are. A group of some columns of
// the input is compared with those.
//
// A difference is no error: see VerifyReport. The error is an *Error, or the cause of
// the context.
func Verify(ctx context.Context, input, zarrPath string, options Options) (*VerifyReport, error) {
	start := time.Now()
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	options.Device = arrowbuf.CPU()
	src, err := openInput(ctx, input, options, &hostAllocator{Allocator: options.Device.HostAllocator()})
	if err != nil {
		return nil, err
	}
	table, err := OpenTable(ctx, zarrPath, TableOptions{})
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	r := &VerifyReport{Input: input, Zarr: zarrPath, Columns: len(table.columns)}
	err = r.compare(ctx, src, table)
	err = errors.Join(err, src.Close(), table.Close())
	if errors.Is(err, errDifferent) {
		err = nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, markPart(PartInput, err)
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// differ records a difference.
func (r *VerifyReport) differ(format string, args ...any) error {
	r.Difference = fmt.Sprintf(format, args...)
	return errDifferent
}

func (r *VerifyReport) compare(ctx context.Context, src source.Source, t *Table) error {
	fields, err := r.matchSchemas(src.Info().Schema, t.schema)
	if err != nil {
		return err
	}
	if err := src.Open(ctx, fields, source.WholeInput); err != nil {
		return err
	}
	for {
		b, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		err = arrowdata.CatchPanic(func() error { return r.compareBatch(ctx, b.Record, t) })
		b.Record.Release()
		if err != nil {
			return err
		}
	}
	if r.Rows != t.rows {
		return r.differ("%d rows, expected %d", t.rows, r.Rows)
	}
	return nil
}

// matchSchemas returns the input's fields that the table has.
func (r *VerifyReport) matchSchemas(input, got *arrow.Schema) (fields []int, err error) {
	next := 0
	for _, f := range got.Fields() {
		for next < input.NumFields() && input.Field(next).Name != f.Name {
			next++
		}
		if next == input.NumFields() {
			return nil, r.differ("column %q is not in the input", f.Name)
		}
		if want := input.Field(next); !want.Equal(f) {
			return nil, r.differ("column %q: the field is %v, expected %v", f.Name, f, want)
		}
		fields = append(fields, next)
		next++
	}
	if want := input.Metadata(); !want.Equal(got.Metadata()) {
		return nil, r.differ("the schema's metadata is %v, expected %v", got.Metadata(), want)
	}
	return fields, nil
}

// compareBatch compares a batch of the input with the next rows of the table.
func (r *VerifyReport) compareBatch(ctx context.Context, want arrow.RecordBatch, t *Table) error {
	if err := countNulls(want); err != nil {
		return err
	}
	from := r.Rows
	r.Rows += want.NumRows()
	if r.Rows > t.rows {
		return r.differ("%d rows, expected more", t.rows)
	}
	if len(t.columns) == 0 {
		return nil
	}
	at := int64(0)
	return t.forEachBlock(ctx, from, r.Rows, 0, func(got arrow.RecordBatch) error {
		for i, column := range got.Columns() {
			part := array.NewSlice(want.Column(i), at, at+got.NumRows())
			err := r.compareColumn(t.columns[i].column, from+at, part, column)
			part.Release()
			if err != nil {
				return err
			}
		}
		at += got.NumRows()
		return nil
	})
}

// compareColumn compares rows of a column. The first is row of the table.
func (r *VerifyReport) compareColumn(c *column, row int64, want, got arrow.Array) error {
	name, appendKey := c.field.Name, appendValueKey
	if c.kind == kindFixed && c.isList() {
		appendKey = appendElementsKey
	}
	if want.Len() != got.Len() {
		return r.differ("column %q: %d rows, expected %d", name, got.Len(), want.Len())
	}
	if sameValues(want, got) {
		return nil
	}
	var a, b []byte
	for i := range want.Len() {
		var err error
		if a, err = appendKey(a[:0], want, i); err != nil {
			return err
		}
		if b, err = appendKey(b[:0], got, i); err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			return r.differ("column %q, row %d: %s, expected %s", name, row+int64(i), shortValue(got, i), shortValue(want, i))
		}
	}
	return nil
}

// sameValues reports whether arrays are equal by a comparison that may miss the equality
// of dictionaries and runs.
func sameValues(a, b arrow.Array) (same bool) {
	if slices.ContainsFunc([]arrow.Type{arrow.RUN_END_ENCODED, arrow.DICTIONARY}, func(id arrow.Type) bool { return arrowdata.StorageType(a.DataType()).ID() == id }) {
		return false
	}
	err := arrowdata.CatchPanic(func() error { same = arrowbuf.BitwiseEqual(a, b); return nil })
	return err == nil && same
}

// shortValue is a value as text of at most 200 bytes. It does not view the array.
func shortValue(a arrow.Array, i int) string {
	text := "null"
	if !isNullValue(a, i) {
		if err := arrowdata.CatchPanic(func() error { text = strings.Clone(arrowdata.Unwrap(a).ValueStr(i)); return nil }); err != nil {
			text = "?"
		}
	}
	if len(text) > 200 {
		text = truncate(text, 200) + "..."
	}
	return text
}
