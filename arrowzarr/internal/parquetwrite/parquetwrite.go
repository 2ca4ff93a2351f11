package parquetwrite

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/parquetwrite/parquetencode"
)

// Table is the table that is written.
type Table interface {
	// Schema is the schema of all columns.
	Schema() *arrow.Schema
	// NumRows is the number of rows.
	NumRows() int64
	// ReadColumn returns rows [from, to) of a column. Several columns are read at once. The
	// caller must release the array. If the rows have too many elements for one array, the
	// error wraps arrowdata.ErrTooLong.
	ReadColumn(ctx context.Context, i int, from, to int64) (arrow.Array, error)
}

// Options are the options of Write.
type Options struct {
	GroupRows int64 // the most rows of a row group
	// GroupBytes is about the memory of a row group. Dictionaries whose values take four
	// times as much when they are written as plain values make it shorter.
	GroupBytes int64
	Jobs       int // columns that are read or encoded at once
}

// Write writes all rows of a table.
func Write(ctx context.Context, t Table, out io.Writer, o Options) error {
	var w *writer
	err := arrowdata.CatchPanic(func() (err error) {
		w, err = newWriter(t, out, o)
		return err
	})
	if err != nil {
		return fmt.Errorf("Parquet: %w", err)
	}
	return errors.Join(w.writeRows(ctx, o.GroupRows), arrowdata.CatchPanic(w.file.Close))
}

// writer writes a table as Parquet. Columns are read and encoded one after another, several at once, so that few are in
// memory at a time and what is encoded is in the processor's cache.
type writer struct {
	table  Table
	most   int64         // see Options.GroupBytes
	stored *arrow.Schema // of the columns as they are written
	leaves [][]leaf      // of each column
	mu     []sync.Mutex  // of each column, which one goroutine reads at a time
	slots  chan struct{} // one per goroutine that reads or encodes
	file   *parquetencode.Writer
}

func newWriter(t Table, w io.Writer, o Options) (*writer, error) {
	schema := t.Schema()
	p := &writer{
		table: t, most: o.GroupBytes, stored: arrowdata.MapTypes(schema, storedType), mu: make([]sync.Mutex, schema.NumFields()), slots: make(chan struct{}, o.Jobs),
	}
	// All types that cannot be written are named before the first batch is read.
	var refused []error
	for i, f := range p.stored.Fields() {
		err := arrowdata.CatchPanic(func() error { // arrow-go panics for a decimal of negative scale
			_, err := pqarrow.ToParquet(arrow.NewSchema([]arrow.Field{f}, nil), parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
			return err
		})
		if err != nil {
			refused = append(refused, fmt.Errorf("column %q of type %s has no form in Parquet, expected an output that ends in .arrow or .arrows, or --exclude for the column: %w", f.Name, schema.Field(i).Type, err))
		}
		p.leaves = append(p.leaves, leavesOf(f.Type, nil))
	}
	if len(refused) > 0 {
		return nil, errors.Join(refused...)
	}
	columns, err := pqarrow.ToParquet(p.stored, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	next := 0
	for _, leaves := range p.leaves {
		for i := range leaves {
			leaves[i].column = next
			next++
		}
	}
	if columns.NumColumns() != next {
		return nil, fmt.Errorf("%d columns of Parquet, expected %d", columns.NumColumns(), next)
	}
	pairs := metadata.NewKeyValueMetadata()
	for i, key := range schema.Metadata().Keys() {
		value := schema.Metadata().Values()[i]
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			continue // Parquet's metadata is text; the Arrow schema has all
		}
		if err := pairs.Append(key, value); err != nil {
			return nil, err
		}
	}
	message, err := arrowdata.SchemaMessage(arrowdata.MapTypes(schema, readableType))
	if err != nil {
		return nil, err
	}
	if err := pairs.Append(arrowdata.StoredSchemaKey, base64.StdEncoding.EncodeToString(message)); err != nil {
		return nil, err
	}
	p.file, err = parquetencode.NewWriter(w, columns, pairs)
	return p, err
}

// writeRows writes all rows in row groups of at most some rows. While one is written, the
// next is encoded.
func (w *writer) writeRows(ctx context.Context, rows int64) error {
	var last *group
	for from := int64(0); from < w.table.NumRows() || last != nil; {
		var next *group
		if from < w.table.NumRows() {
			next = w.startGroup(ctx, from, min(from+rows, w.table.NumRows()))
			from = next.to
		}
		if last != nil {
			err := last.finish()
			if err != nil && next != nil {
				next.cancel()
				_ = next.running.Wait() // it fails because of this error
			}
			if n := last.to - last.from; errors.Is(err, arrowdata.ErrTooLong) && n > 1 {
				from, rows, next, err = last.from, n/2, nil, nil
			}
			if err != nil {
				return err
			}
		}
		last = next
	}
	return nil
}

// group is a row group that is read and encoded.
type group struct {
	from, to int64
	rows     *parquetencode.Group
	running  *errgroup.Group
	cancel   context.CancelFunc
	err      error // of starting it
}

// finish waits until the row group is encoded, and writes it.
func (g *group) finish() error {
	defer g.cancel()
	if err := errors.Join(g.err, g.running.Wait()); err != nil {
		return err
	}
	return arrowdata.CatchPanic(g.rows.Close)
}

// startGroup begins to read and encode all columns of rows [from, to). It returns when
// the last one has begun.
func (w *writer) startGroup(ctx context.Context, from, to int64) *group {
	g := &group{from: from, to: to}
	ctx, g.cancel = context.WithCancel(ctx)
	g.running, ctx = errgroup.WithContext(ctx)
	if g.rows, g.err = w.file.NewGroup(int(to - from)); g.err != nil {
		return g
	}
	for i := range w.table.Schema().NumFields() {
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			g.err = context.Cause(ctx)
			return g
		}
		g.running.Go(func() error {
			defer func() { <-w.slots }()
			debug.SetPanicOnFault(true) // see startStage
			if err := arrowdata.CatchPanic(func() error { return w.writeColumn(ctx, g, i) }); err != nil {
				return fmt.Errorf("column %q: %w", w.stored.Field(i).Name, err)
			}
			return nil
		})
	}
	return g
}

// writeColumn reads and encodes a column of a row group.
func (w *writer) writeColumn(ctx context.Context, g *group, i int) error {
	values, err := w.readColumn(ctx, i, g.from, g.to)
	if err != nil {
		return err
	}
	defer values.Release()
	// The pages of a group are in memory until it is complete.
	if dictionaryValueBytes(arrowdata.Unwrap(values)) > 4*w.most && g.to-g.from > 1 {
		return arrowdata.ErrTooLong
	}
	var others errgroup.Group
	last := len(w.leaves[i]) - 1
	for _, leaf := range w.leaves[i][:max(last, 0)] {
		encode := func() error { return arrowdata.CatchPanic(func() error { return w.encode(g.rows, values, i, leaf) }) }
		select {
		case w.slots <- struct{}{}:
			others.Go(func() error {
				defer func() { <-w.slots }()
				debug.SetPanicOnFault(true)
				return encode()
			})
		default:
			if err = errors.Join(err, encode()); err != nil {
				return errors.Join(err, others.Wait())
			}
		}
	}
	for _, leaf := range w.leaves[i][max(last, 0):] {
		err = w.encode(g.rows, values, i, leaf)
	}
	return errors.Join(err, others.Wait())
}

// readColumn reads rows of a column, which one goroutine reads at a time.
func (w *writer) readColumn(ctx context.Context, i int, from, to int64) (arrow.Array, error) {
	w.mu[i].Lock()
	defer w.mu[i].Unlock()
	return w.table.ReadColumn(ctx, i, from, to)
}

// encode encodes a leaf of a column.
func (w *writer) encode(rows *parquetencode.Group, values arrow.Array, i int, leaf leaf) error {
	l, inner, err := levelsOf(values, w.stored.Field(i), leaf.path)
	if err == nil {
		defer inner.Release()
		err = rows.Encode(leaf.column, parquetencode.Leaf{Values: inner, Definition: l.definition, Repetition: l.repetition})
	}
	return err
}

// dictionaryValueBytes returns the bytes of the values of the large dictionaries in an
// array, of each element. It assumes that the elements use all values alike.
func dictionaryValueBytes(a arrow.Array) (n int64) {
	if d, ok := a.(*array.Dictionary); ok {
		values := d.Dictionary()
		if arrowdata.ArrayBytes(values.Data(), arrowdata.BufferLen) <= parquetencode.MaxDictionary {
			return 0
		}
		return int64(float64(a.Len()) * float64(arrowdata.ArrayBytes(values.Data(), arrowdata.BufferLen)) / float64(max(values.Len(), 1)))
	}
	for _, child := range a.Data().Children() {
		inner := array.MakeFromData(child)
		n += dictionaryValueBytes(arrowdata.Unwrap(inner))
		inner.Release()
	}
	return n
}

// readableType returns a type for the Arrow schema in a Parquet file: without runs and
// dictionaries of nested values, which no reader makes again, and which end polars;
// without lists of size 0, which pyarrow refuses to read; and without negative scales, by
// which Arrow's C++ reader would label other values.
func readableType(t arrow.DataType) arrow.DataType {
	if whole := wholeDecimal(t); whole != nil {
		return whole
	}
	switch t := t.(type) {
	case *arrowipc.EmptyListType:
		return readableType(t.StorageType())
	case *arrow.RunEndEncodedType:
		return readableType(t.Encoded())
	case *arrow.DictionaryType:
		if values := readableType(t.ValueType); !arrow.TypeEqual(values, t.ValueType) || isNested(values) {
			return values
		}
		return t
	}
	return arrowdata.MapChildren(t, readableType)
}

// isNested reports whether the storage of a type is nested.
func isNested(t arrow.DataType) bool {
	_, nested := arrowdata.StorageType(t).(arrow.NestedType)
	return nested
}

// wholeDecimal returns the type of scale 0 that has the values of decimals of a negative
// scale; nil for other types, and if that is too wide.
func wholeDecimal(t arrow.DataType) arrow.DataType {
	d, ok := t.(arrow.DecimalType)
	if !ok || d.GetScale() >= 0 {
		return nil
	}
	switch digits := d.GetPrecision() - d.GetScale(); {
	case digits <= decimal128.MaxPrecision:
		return &arrow.Decimal128Type{Precision: digits}
	case digits <= decimal256.MaxPrecision:
		return &arrow.Decimal256Type{Precision: digits}
	}
	return nil
}

// storedType returns the type as which Parquet has values of a type.
func storedType(t arrow.DataType) arrow.DataType {
	if whole := wholeDecimal(t); whole != nil {
		return whole
	}
	switch t := t.(type) {
	case *arrowipc.EmptyListType:
		return storedType(t.StorageType())
	case arrow.ExtensionType:
		storage := storedType(t.StorageType())
		if _, variant := t.(*extensions.VariantType); isNested(storage) && !variant || !arrow.TypeEqual(storage, t.StorageType()) {
			return storage
		}
		return t
	case *arrow.DurationType:
		return arrow.PrimitiveTypes.Int64
	case *arrow.Decimal32Type, *arrow.Decimal64Type:
		from := t.(arrow.DecimalType)
		return &arrow.Decimal128Type{Precision: from.GetPrecision(), Scale: from.GetScale()}
	case *arrow.StringViewType:
		return arrow.BinaryTypes.String
	case *arrow.BinaryViewType:
		return arrow.BinaryTypes.Binary
	case *arrow.FixedSizeListType:
		return arrow.ListOfField(arrowdata.MapChildren(t, storedType).(*arrow.FixedSizeListType).ElemField())
	case *arrow.RunEndEncodedType:
		return storedType(t.Encoded())
	case *arrow.DictionaryType:
		if values := storedType(t.ValueType); isNested(values) || !arrow.TypeEqual(values, t.ValueType) {
			return values
		}
		return t
	}
	return arrowdata.ViewsToLists(arrowdata.MapChildren(t, storedType))
}
