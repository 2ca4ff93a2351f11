package arrowzarr

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	parquetschema "github.com/apache/arrow-go/v18/parquet/schema"
	"golang.org/x/sync/errgroup"
)

// parquetWriter writes batches as Parquet, several columns at once. Parquet has no durations,
// views, small decimals, list_views, fixed_size_lists, runs and dictionaries of nested
// values. They are written as integers, as plain text and bytes, as decimals of 128 bits,
// as lists, and as the values, as other writers do. The file's Arrow schema has their types.
type parquetWriter struct {
	schema  *arrow.Schema
	stored  *arrow.Schema // of the batches as they are written
	out     io.Writer
	jobs    int
	columns *parquetschema.Schema
	leaves  []parquetLeaf // of columns
	file    *file.Writer  // nil before the first batch
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
		p.leaves = append(p.leaves, parquetLeaves(i, f.Type, nil)...)
	}
	if len(refused) > 0 {
		return nil, errors.Join(refused...)
	}
	var err error
	p.columns, err = pqarrow.ToParquet(p.stored, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err == nil && p.columns.NumColumns() != len(p.leaves) {
		err = fmt.Errorf("%d columns of Parquet, expected %d", p.columns.NumColumns(), len(p.leaves))
	}
	return p, err
}

// begin begins the file. Dictionaries are used where they pay by the first batch, which may be nil.
func (w *parquetWriter) begin(first arrow.RecordBatch) error {
	options := []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Zstd)}
	if first != nil {
		sampled := first.NewSlice(0, min(first.NumRows(), dictionarySample))
		defer sampled.Release()
		for i, leaf := range w.leaves {
			_, values, err := w.levels(leaf, sampled)
			if err != nil {
				return err
			}
			if !dictionaryPays(values, float64(first.NumRows())/float64(max(sampled.NumRows(), 1))) {
				options = append(options, parquet.WithDictionaryFor(w.columns.Column(i).Path(), false))
			}
			values.Release()
		}
	}
	pairs := metadata.NewKeyValueMetadata()
	for i, key := range w.stored.Metadata().Keys() {
		if err := pairs.Append(key, w.stored.Metadata().Values()[i]); err != nil {
			return err
		}
	}
	message, err := schemaMessage(w.schema)
	if err != nil {
		return err
	}
	if err := pairs.Append(storedSchemaKey, base64.StdEncoding.EncodeToString(message)); err != nil {
		return err
	}
	properties := parquet.NewWriterProperties(options...)
	w.file, err = file.NewParquetWriterWithError(w.out, w.columns.Root(), file.WithWriterProps(properties), file.WithWriteMetadata(pairs))
	return err
}

// levels returns the levels and the values of a leaf. The caller must release the values.
func (w *parquetWriter) levels(leaf parquetLeaf, batch arrow.RecordBatch) (*parquetLevels, arrow.Array, error) {
	field := w.stored.Field(leaf.column)
	l, values, err := levelsOf(batch.Column(leaf.column), field, leaf.path)
	if err != nil {
		return nil, nil, fmt.Errorf("column %q: %w", field.Name, err)
	}
	return l, values, nil
}

// dictionarySample is the rows from which it is decided whether dictionaries pay.
const dictionarySample = 1 << 16

// dictionaryPays reports whether the different values of a column seem to fit the page of
// a dictionary, in a row group of a multiple of the values. Those that do not would be
// hashed in vain.
func dictionaryPays(a arrow.Array, multiple float64) bool {
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
	distinct := min(float64(sampled)*float64(sampled)/float64(2*equal+1), float64(a.Len())*multiple)
	return distinct*float64(bytes) <= float64(sampled)*float64(parquet.DefaultDictionaryPageSizeLimit)
}

// Write writes a batch.
func (w *parquetWriter) Write(batch arrow.RecordBatch) error {
	if w.file == nil {
		if err := w.begin(batch); err != nil {
			return err
		}
	}
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
	rows, err := w.file.AppendBufferedRowGroupChecked()
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(w.jobs)
	for i, leaf := range w.leaves {
		group.Go(func() error {
			return catchPanic(func() error {
				out, err := rows.Column(i)
				if err != nil {
					return err
				}
				return w.writeLeaf(out, leaf, batch)
			})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return rows.Close()
}

// writeLeaf writes a leaf.
func (w *parquetWriter) writeLeaf(out file.ColumnChunkWriter, leaf parquetLeaf, batch arrow.RecordBatch) error {
	l, values, err := w.levels(leaf, batch)
	if err != nil {
		return err
	}
	defer values.Release()
	if out.Descr().MaxDefinitionLevel() == 0 {
		l.definition = nil
	}
	if out.Descr().MaxRepetitionLevel() == 0 {
		l.repetition = nil
	}
	properties := pqarrow.DefaultWriterProps()
	ctx := pqarrow.NewArrowWriteContext(context.Background(), &properties)
	if err := pqarrow.WriteArrowToColumn(ctx, out, values, l.definition, l.repetition, l.nullable); err != nil {
		return fmt.Errorf("column %q: %w", w.stored.Field(leaf.column).Name, err)
	}
	// Closing the row group would encode the last page of one column after the other.
	if pages, ok := out.(interface{ FlushCurrentPage() error }); ok {
		return pages.FlushCurrentPage()
	}
	return nil
}

// Close writes the end of the file.
func (w *parquetWriter) Close() error {
	if w.file == nil {
		if err := w.begin(nil); err != nil {
			return err
		}
	}
	return w.file.Close()
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
	case *arrow.RunEndEncodedType:
		return parquetType(t.Encoded())
	case *arrow.DictionaryType:
		values := parquetType(t.ValueType)
		if _, nested := storageType(values).(arrow.NestedType); nested || !arrow.TypeEqual(values, t.ValueType) {
			return values
		}
		return t
	}
	return viewsToLists(mapChildren(t, parquetType))
}
