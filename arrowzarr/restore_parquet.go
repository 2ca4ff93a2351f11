package arrowzarr

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/parquetencode"
)

// parquetWriter writes batches as Parquet, several columns at once. Parquet has no durations,
// views, small decimals, list_views, fixed_size_lists, runs and dictionaries of nested
// values. They are written as integers, as plain text and bytes, as decimals of 128 bits,
// as lists, and as the values, as other writers do. The file's Arrow schema has their types.
type parquetWriter struct {
	stored *arrow.Schema // of the batches as they are written
	jobs   int
	leaves []parquetLeaf
	file   *parquetencode.Writer
}

func newParquetWriter(schema *arrow.Schema, w io.Writer, jobs int) (*parquetWriter, error) {
	p := &parquetWriter{stored: parquetSchema(schema), jobs: jobs}
	// All types that cannot be written are named before the first batch is read.
	var refused []error
	for i, f := range p.stored.Fields() {
		err := catchPanic(func() error { // arrow-go panics for a decimal of negative scale
			_, err := pqarrow.ToParquet(arrow.NewSchema([]arrow.Field{f}, nil), parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
			return err
		})
		if err != nil {
			refused = append(refused, fmt.Errorf("column %q of type %s has no form in Parquet, expected an output that ends in .arrow or .arrows: %w", f.Name, schema.Field(i).Type, err))
		}
		p.leaves = append(p.leaves, parquetLeaves(i, f.Type, nil)...)
	}
	if len(refused) > 0 {
		return nil, errors.Join(refused...)
	}
	columns, err := pqarrow.ToParquet(p.stored, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	if columns.NumColumns() != len(p.leaves) {
		return nil, fmt.Errorf("%d columns of Parquet, expected %d", columns.NumColumns(), len(p.leaves))
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
	message, err := schemaMessage(mapTypes(schema, readableType))
	if err != nil {
		return nil, err
	}
	if err := pairs.Append(storedSchemaKey, base64.StdEncoding.EncodeToString(message)); err != nil {
		return nil, err
	}
	p.file, err = parquetencode.NewWriter(w, columns, pairs)
	return p, err
}

// Write writes a batch.
func (w *parquetWriter) Write(batch arrow.RecordBatch) error {
	for from := int64(0); from < batch.NumRows(); from += parquet.DefaultMaxRowGroupLen {
		part := batch.NewSlice(from, min(from+parquet.DefaultMaxRowGroupLen, batch.NumRows()))
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
	rows, err := w.file.NewGroup(int(batch.NumRows()))
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(w.jobs)
	for i, leaf := range w.leaves {
		group.Go(func() error {
			field := w.stored.Field(leaf.column)
			err := catchPanic(func() error {
				l, values, err := levelsOf(batch.Column(leaf.column), field, leaf.path)
				if err != nil {
					return err
				}
				defer values.Release()
				return rows.Encode(i, parquetencode.Leaf{Values: values, Definition: l.definition, Repetition: l.repetition})
			})
			if err != nil {
				return fmt.Errorf("column %q: %w", field.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return rows.Close()
}

// Close writes the end of the file.
func (w *parquetWriter) Close() error { return w.file.Close() }

// parquetSchema returns the schema with types that arrow-go can write.
func parquetSchema(schema *arrow.Schema) *arrow.Schema { return mapTypes(schema, parquetType) }

// mapTypes returns a schema whose fields have the types that f returns.
func mapTypes(schema *arrow.Schema, f func(arrow.DataType) arrow.DataType) *arrow.Schema {
	fields := schema.Fields()
	for i, field := range fields {
		if t := f(field.Type); !arrow.TypeEqual(t, field.Type) {
			fields[i].Type = t
		}
	}
	metadata := schema.Metadata()
	return arrow.NewSchema(fields, &metadata)
}

// readableType returns a type for the Arrow schema in a Parquet file: without runs and
// dictionaries of nested values, which no reader makes again, and which end polars.
func readableType(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.RunEndEncodedType:
		return readableType(t.Encoded())
	case *arrow.DictionaryType:
		if values := readableType(t.ValueType); !arrow.TypeEqual(values, t.ValueType) || isNested(values) {
			return values
		}
		return t
	}
	return mapChildren(t, readableType)
}

// isNested reports whether the storage of a type is nested.
func isNested(t arrow.DataType) bool {
	_, nested := storageType(t).(arrow.NestedType)
	return nested
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
	case *arrow.RunEndEncodedType:
		return parquetType(t.Encoded())
	case *arrow.DictionaryType:
		if values := parquetType(t.ValueType); isNested(values) || !arrow.TypeEqual(values, t.ValueType) {
			return values
		}
		return t
	}
	return viewsToLists(mapChildren(t, parquetType))
}
