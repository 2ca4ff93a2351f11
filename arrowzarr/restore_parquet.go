package arrowzarr

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"golang.org/x/sync/errgroup"
)

// parquetWriter writes batches as Parquet. arrow-go cannot write durations, views, small
// decimals, list_views and missing lists of a fixed_size_list. They are written as
// integers, as plain text and bytes, as decimals of 128 bits, and as lists, as other
// writers do. The file's Arrow schema has their types.
type parquetWriter struct {
	schema *arrow.Schema
	stored *arrow.Schema // of the batches as they are written
	out    io.Writer
	jobs   int

	// One of them writes, from the first batch on. pqarrow encodes one column after the
	// other; file has no levels of nested columns.
	nested *pqarrow.FileWriter
	flat   *file.Writer
}

func newParquetWriter(schema *arrow.Schema, w io.Writer, jobs int) (*parquetWriter, error) {
	p := &parquetWriter{schema: schema, stored: parquetSchema(schema), out: w, jobs: jobs}
	// All types that cannot be written are named before the first batch is read.
	var refused []error
	for i, f := range p.stored.Fields() {
		alone := arrow.NewSchema([]arrow.Field{f}, nil)
		if _, err := pqarrow.ToParquet(alone, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps()); err != nil {
			refused = append(refused, fmt.Errorf("column %q of type %s has no form in Parquet, expected an output that ends in .arrow or .arrows: %w", f.Name, schema.Field(i).Type, err))
		}
	}
	return p, errors.Join(refused...)
}

// begin begins the file. Dictionaries are used where they pay by the first batch, which may be nil.
func (w *parquetWriter) begin(first arrow.RecordBatch) error {
	options := []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Zstd)}
	flat := true
	for i, f := range w.stored.Fields() {
		if !isFlat(f.Type) {
			flat = false
		} else if first != nil && !dictionaryPays(first.Column(i)) {
			options = append(options, parquet.WithDictionaryFor(f.Name, false))
		}
	}
	properties := parquet.NewWriterProperties(options...)
	message, err := schemaMessage(w.schema)
	if err != nil {
		return err
	}
	text := base64.StdEncoding.EncodeToString(message)
	if !flat {
		if w.nested, err = pqarrow.NewFileWriter(w.stored, w.out, properties, pqarrow.NewArrowWriterProperties()); err != nil {
			return err
		}
		return w.nested.AppendKeyValueMetadata(storedSchemaKey, text)
	}
	columns, err := pqarrow.ToParquet(w.stored, properties, pqarrow.DefaultWriterProps())
	if err != nil {
		return err
	}
	pairs := metadata.NewKeyValueMetadata()
	for i, key := range w.stored.Metadata().Keys() {
		if err := pairs.Append(key, w.stored.Metadata().Values()[i]); err != nil {
			return err
		}
	}
	if err := pairs.Append(storedSchemaKey, text); err != nil {
		return err
	}
	w.flat, err = file.NewParquetWriterWithError(w.out, columns.Root(), file.WithWriterProps(properties), file.WithWriteMetadata(pairs))
	return err
}

// isFlat reports whether a type is one column of Parquet without repetition levels.
func isFlat(t arrow.DataType) bool {
	t = storageType(t)
	if d, ok := t.(*arrow.DictionaryType); ok {
		t = d.ValueType
	}
	_, nested := t.(arrow.NestedType)
	return !nested && t.ID() != arrow.NULL
}

// dictionaryPays reports whether the different values of a column seem to fit the page of
// a dictionary. Those that do not would be hashed in vain.
func dictionaryPays(a arrow.Array) bool {
	a = unwrap(a)
	key, err := newKeyFunc(a)
	if err != nil || a.DataType().ID() == arrow.DICTIONARY {
		return true
	}
	const most = 4096
	seen := map[string]bool{}
	sampled, bytes := 0, 0
	for i := 0; i < a.Len(); i += a.Len()/most + 1 {
		if a.IsValid(i) {
			k := key(i)
			seen[string(k)] = true
			sampled, bytes = sampled+1, bytes+len(k)
		}
	}
	// Of d values that are equally frequent, two of a sample of s are equal s*s/2d times.
	equal := sampled - len(seen)
	distinct := min(float64(sampled)*float64(sampled)/float64(2*equal+1), float64(a.Len()))
	return distinct*float64(bytes) <= float64(sampled)*float64(parquet.DefaultDictionaryPageSizeLimit)
}

// Write writes a batch. Its columns have the types of the schema.
func (w *parquetWriter) Write(batch arrow.RecordBatch) error {
	columns := make([]arrow.Array, batch.NumCols())
	for i, column := range batch.Columns() {
		made, err := convertTo(column, w.stored.Field(i).Type, memory.DefaultAllocator)
		if err != nil {
			return err
		}
		defer made.Release()
		columns[i] = made
	}
	stored := array.NewRecordBatch(w.stored, columns, batch.NumRows())
	defer stored.Release()
	if w.nested == nil && w.flat == nil {
		if err := w.begin(stored); err != nil {
			return err
		}
	}
	if w.nested != nil {
		return w.nested.Write(stored)
	}
	for from := int64(0); from < stored.NumRows(); from += parquet.DefaultMaxRowGroupLen {
		part := stored.NewSlice(from, min(from+parquet.DefaultMaxRowGroupLen, stored.NumRows()))
		err := w.writeGroup(part)
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// writeGroup writes a batch as a row group, several columns at once.
func (w *parquetWriter) writeGroup(batch arrow.RecordBatch) error {
	rows, err := w.flat.AppendBufferedRowGroupChecked()
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(w.jobs)
	for i, column := range batch.Columns() {
		group.Go(func() error {
			err := catchPanic(func() error {
				out, err := rows.Column(i)
				if err != nil {
					return err
				}
				return writeFlat(out, column, w.stored.Field(i).Nullable)
			})
			if err != nil {
				return fmt.Errorf("column %q: %w", w.stored.Field(i).Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return rows.Close()
}

// writeFlat writes values that are not nested.
func writeFlat(out file.ColumnChunkWriter, values arrow.Array, nullable bool) error {
	properties := pqarrow.DefaultWriterProps()
	ctx := pqarrow.NewArrowWriteContext(context.Background(), &properties)
	values = unwrap(values)
	var levels []int16
	if nullable {
		levels = make([]int16, values.Len())
		for i := range levels {
			if values.IsValid(i) {
				levels[i] = 1
			}
		}
	}
	return pqarrow.WriteArrowToColumn(ctx, out, values, levels, nil, nullable)
}

// Close writes the end of the file.
func (w *parquetWriter) Close() error {
	if w.nested == nil && w.flat == nil {
		if err := w.begin(nil); err != nil {
			return err
		}
	}
	if w.nested != nil {
		return w.nested.Close()
	}
	return w.flat.Close()
}

// parquetSchema returns the schema with types that arrow-go can write.
func parquetSchema(schema *arrow.Schema) *arrow.Schema {
	fields := schema.Fields()
	for i, f := range fields {
		if t := parquetType(f.Type); !arrow.TypeEqual(t, f.Type) {
			fields[i].Type = t
		}
	}
	metadata := schema.Metadata()
	return arrow.NewSchema(fields, &metadata)
}

func parquetType(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case arrow.ExtensionType:
		if storage := parquetType(t.StorageType()); !arrow.TypeEqual(storage, t.StorageType()) {
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
		return arrow.ListOfField(mapChildren(t, parquetType).(*arrow.FixedSizeListType).ElemField())
	}
	return viewsToLists(mapChildren(t, parquetType))
}
