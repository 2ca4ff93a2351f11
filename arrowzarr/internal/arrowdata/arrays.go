package arrowdata

import (
	"bytes"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

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

// ReleaseArrays releases arrays, of which some may be nil.
func ReleaseArrays(arrays []arrow.Array) {
	for _, a := range arrays {
		if a != nil {
			a.Release()
		}
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

// BatchBytes is the memory of a batch's buffers, each as size says.
func BatchBytes(batch arrow.RecordBatch, size func(*memory.Buffer) int64) int64 {
	var total int64
	for _, c := range batch.Columns() {
		total += ArrayBytes(c.Data(), size)
	}
	return total
}

// ArrayBytes is the memory of the buffers of an array and those inside of it, each as size
// says.
func ArrayBytes(data arrow.ArrayData, size func(*memory.Buffer) int64) int64 {
	var total int64
	for _, b := range data.Buffers() {
		if b != nil {
			total += size(b)
		}
	}
	for _, child := range data.Children() {
		total += ArrayBytes(child, size)
	}
	return total
}

// BufferLen is the size of what is in a buffer.
func BufferLen(b *memory.Buffer) int64 { return int64(b.Len()) }

// BufferCap is the allocated size of a buffer, which is larger than its length because
// arrow-go builds columns by appending.
func BufferCap(b *memory.Buffer) int64 { return int64(b.Cap()) }

// ValidBits are the validity bits of an array, nil if no element is null.
type ValidBits struct {
	Bits   []byte
	offset int64
}

// BitmapOf returns the validity bits of an array without counting its nulls, which would
// write the number into the array. Goroutines may therefore share the array.
func BitmapOf(a arrow.Array) (ValidBits, error) {
	buffers := a.Data().Buffers()
	if a.Data().NullN() == 0 || len(buffers) == 0 || buffers[0] == nil || buffers[0].Len() == 0 {
		return ValidBits{}, nil
	}
	v := ValidBits{Bits: buffers[0].Bytes(), offset: int64(a.Data().Offset())}
	if need := bitutil.BytesForBits(v.offset + int64(a.Len())); int64(len(v.Bits)) < need {
		return ValidBits{}, fmt.Errorf("%s array with a validity bitmap of %d bytes, expected %d: %w", a.DataType(), len(v.Bits), need, ErrMalformed)
	}
	return v, nil
}

// IsNull reports whether element i is null.
func (v ValidBits) IsNull(i int64) bool {
	i += v.offset
	return v.Bits != nil && v.Bits[i>>3]&(1<<(i&7)) == 0
}
