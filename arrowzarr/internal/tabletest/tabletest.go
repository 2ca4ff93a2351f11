// Package tabletest has tables for the tests of arrowzarr and of the packages below it:
// Arrow arrays of given or random values, and the files of their record batches.
package tabletest

import (
	"bytes"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"
)

// Table is a schema and its batches.
type Table struct {
	Schema  *arrow.Schema
	Batches []arrow.RecordBatch
}

// New returns a table of batches, each given as its columns.
func New(fields []arrow.Field, batches ...[]arrow.Array) Table {
	t := Table{Schema: arrow.NewSchema(fields, nil)}
	for _, columns := range batches {
		rows := int64(0)
		if len(columns) > 0 {
			rows = int64(columns[0].Len())
		}
		t.Batches = append(t.Batches, array.NewRecordBatch(t.Schema, columns, rows))
	}
	return t
}

// Single returns a table of one column, with one batch per array.
func Single(name string, batches ...arrow.Array) Table {
	columns := make([][]arrow.Array, len(batches))
	for i, b := range batches {
		columns[i] = []arrow.Array{b}
	}
	return New([]arrow.Field{{Name: name, Type: batches[0].DataType(), Nullable: true}}, columns...)
}

// Column returns the arrays of one column, one per batch.
func (t Table) Column(i int) []arrow.Array {
	var chunks []arrow.Array
	for _, b := range t.Batches {
		chunks = append(chunks, b.Column(i))
	}
	return chunks
}

// Rows returns the number of rows.
func (t Table) Rows() int64 {
	var n int64
	for _, b := range t.Batches {
		n += b.NumRows()
	}
	return n
}

// Choose returns the table with only some columns.
func (t Table) Choose(indices ...int) Table {
	var fields []arrow.Field
	for _, i := range indices {
		fields = append(fields, t.Schema.Field(i))
	}
	chosen := Table{Schema: arrow.NewSchema(fields, nil)}
	for _, b := range t.Batches {
		var columns []arrow.Array
		for _, i := range indices {
			columns = append(columns, b.Column(i))
		}
		chosen.Batches = append(chosen.Batches, array.NewRecordBatch(chosen.Schema, columns, b.NumRows()))
	}
	return chosen
}

// Stream returns the table as an Arrow IPC stream.
func (t Table) Stream(tb testing.TB, options ...ipc.Option) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, append(options, ipc.WithSchema(t.Schema))...)
	for _, b := range t.Batches {
		require.NoError(tb, w.Write(b))
	}
	require.NoError(tb, w.Close())
	return buf.Bytes()
}

// File returns the table as an Arrow IPC file.
func (t Table) File(tb testing.TB, options ...ipc.Option) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w, err := ipc.NewFileWriter(&buf, append(options, ipc.WithSchema(t.Schema))...)
	require.NoError(tb, err)
	for _, b := range t.Batches {
		require.NoError(tb, w.Write(b))
	}
	require.NoError(tb, w.Close())
	return buf.Bytes()
}

// Parquet returns the table as a Parquet file, with one row group per batch.
func (t Table) Parquet(tb testing.TB, options ...parquet.WriterProperty) []byte {
	tb.Helper()
	return t.parquet(tb, options, pqarrow.WithStoreSchema())
}

// ParquetWithoutSchema returns the table as a Parquet file that does not store its Arrow
// schema.
func (t Table) ParquetWithoutSchema(tb testing.TB) []byte {
	tb.Helper()
	return t.parquet(tb, nil)
}

func (t Table) parquet(tb testing.TB, properties []parquet.WriterProperty, options ...pqarrow.WriterOption) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(t.Schema, &buf, parquet.NewWriterProperties(properties...), pqarrow.NewArrowWriterProperties(options...))
	require.NoError(tb, err)
	for _, b := range t.Batches {
		require.NoError(tb, w.Write(b))
	}
	require.NoError(tb, w.Close())
	return buf.Bytes()
}
