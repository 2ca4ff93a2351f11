package arrowdata

import (
	"bytes"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// StorageType returns the storage type of an extension type, and any other type
// itself.
func StorageType(t arrow.DataType) arrow.DataType {
	for {
		ext, ok := t.(arrow.ExtensionType)
		if !ok {
			return t
		}
		t = ext.StorageType()
	}
}

// Unwrap returns the storage of extension arrays.
func Unwrap(a arrow.Array) arrow.Array {
	for {
		ext, ok := a.(array.ExtensionArray)
		if !ok {
			return a
		}
		a = ext.Storage()
	}
}

// UnwrapRuns returns the storage of extension arrays and the values of run-end encoded
// ones.
func UnwrapRuns(a arrow.Array) arrow.Array {
	for {
		a = Unwrap(a)
		runs, ok := a.(*array.RunEndEncoded)
		if !ok {
			return a
		}
		a = runs.Values()
	}
}

// SchemaMessage returns the schema as an encapsulated message of Arrow's IPC format,
// as at the start of a stream, or under ARROW:schema in a Parquet file.
func SchemaMessage(schema *arrow.Schema) ([]byte, error) {
	var buf bytes.Buffer
	w, err := arrowipc.NewWriter(&buf, schema)
	if err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// SelectColumns returns a batch of some columns. It releases the given batch.
func SelectColumns(batch arrow.RecordBatch, schema *arrow.Schema, fields []int) arrow.RecordBatch {
	defer batch.Release()
	columns := make([]arrow.Array, len(fields))
	for i, f := range fields {
		columns[i] = batch.Column(f)
	}
	return array.NewRecordBatch(schema, columns, batch.NumRows())
}

// SelectSchema returns a schema of the fields at some indices, with its metadata.
func SelectSchema(schema *arrow.Schema, fields []int) *arrow.Schema {
	chosen := make([]arrow.Field, len(fields))
	for i, f := range fields {
		chosen[i] = schema.Field(f)
	}
	metadata := schema.Metadata()
	return arrow.NewSchema(chosen, &metadata)
}

// ReleaseArrays releases each array.
func ReleaseArrays(arrays []arrow.Array) {
	for _, a := range arrays {
		a.Release()
	}
}

// StoredSchemaKey is the metadata key of the Arrow schema in a Parquet file.
const StoredSchemaKey = "ARROW:schema"

// MapTypes returns a schema whose fields have the types that f returns.
func MapTypes(schema *arrow.Schema, f func(arrow.DataType) arrow.DataType) *arrow.Schema {
	fields := schema.Fields()
	for i, field := range fields {
		if t := f(field.Type); !arrow.TypeEqual(t, field.Type) {
			fields[i].Type = t
		}
	}
	metadata := schema.Metadata()
	return arrow.NewSchema(fields, &metadata)
}
