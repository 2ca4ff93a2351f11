package arrowzarr

import (
	"encoding/base64"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// parquetWriter writes batches as Parquet. arrow-go cannot write durations, views, small
// decimals, list_views and missing lists of a fixed_size_list. They are written as
// integers, as plain text and bytes, as decimals of 128 bits, and as lists, as other
// writers do. The file's Arrow schema has their types.
type parquetWriter struct {
	*pqarrow.FileWriter
	stored *arrow.Schema // of the batches as they are written
}

func newParquetWriter(schema *arrow.Schema, w io.Writer) (*parquetWriter, error) {
	properties := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd))
	stored := parquetSchema(schema)
	// arrow-go would store the schema without the order of a map's keys.
	out, err := pqarrow.NewFileWriter(stored, w, properties, pqarrow.NewArrowWriterProperties())
	if err != nil {
		return nil, err
	}
	message, err := schemaMessage(schema)
	if err == nil {
		err = out.AppendKeyValueMetadata(storedSchemaKey, base64.StdEncoding.EncodeToString(message))
	}
	return &parquetWriter{out, stored}, err
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
	return w.FileWriter.Write(stored)
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
