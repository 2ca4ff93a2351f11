package arrowzarr_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// table is an input: a schema, and batches of it.
type table struct {
	schema  *arrow.Schema
	batches []arrow.RecordBatch
}

// newTable makes a table of batches, each given as its columns.
func newTable(fields []arrow.Field, batches ...[]arrow.Array) table {
	t := table{schema: arrow.NewSchema(fields, nil)}
	for _, columns := range batches {
		rows := int64(0)
		if len(columns) > 0 {
			rows = int64(columns[0].Len())
		}
		t.batches = append(t.batches, array.NewRecordBatch(t.schema, columns, rows))
	}
	return t
}

// single is a table of one column, one array a batch.
func single(name string, batches ...arrow.Array) table {
	columns := make([][]arrow.Array, len(batches))
	for i, b := range batches {
		columns[i] = []arrow.Array{b}
	}
	return newTable([]arrow.Field{{Name: name, Type: batches[0].DataType(), Nullable: true}}, columns...)
}

// column is the arrays of one column.
func (t table) column(i int) []arrow.Array {
	var chunks []arrow.Array
	for _, b := range t.batches {
		chunks = append(chunks, b.Column(i))
	}
	return chunks
}

func (t table) rows() int64 {
	var n int64
	for _, b := range t.batches {
		n += b.NumRows()
	}
	return n
}

// stream is the table as an Arrow IPC stream.
func (t table) stream(tb testing.TB, options ...ipc.Option) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, append(options, ipc.WithSchema(t.schema))...)
	for _, b := range t.batches {
		require.NoError(tb, w.Write(b))
	}
	require.NoError(tb, w.Close())
	return buf.Bytes()
}

// file is the table as an Arrow IPC file.
func (t table) file(tb testing.TB, options ...ipc.Option) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w, err := ipc.NewFileWriter(&buf, append(options, ipc.WithSchema(t.schema))...)
	require.NoError(tb, err)
	for _, b := range t.batches {
		require.NoError(tb, w.Write(b))
	}
	require.NoError(tb, w.Close())
	return buf.Bytes()
}

// parquet is the table as a Parquet file, one row group a batch.
func (t table) parquet(tb testing.TB, options ...parquet.WriterProperty) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(t.schema, &buf, parquet.NewWriterProperties(options...), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	require.NoError(tb, err)
	for _, b := range t.batches {
		require.NoError(tb, w.Write(b))
	}
	require.NoError(tb, w.Close())
	return buf.Bytes()
}

// inputFile puts an input into a folder of its own, so that the folder that an
// output goes to has nothing else in it.
func inputFile(tb testing.TB, content []byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "input")
	require.NoError(tb, os.WriteFile(path, content, 0o666))
	return path
}

// convert converts an input, checks that nothing but the output is left, and
// returns the output and what was said of it.
func convert(tb testing.TB, input []byte, options arrowzarr.Options) (string, *arrowzarr.Report) {
	tb.Helper()
	return convertFile(tb, inputFile(tb, input), options)
}

func convertFile(tb testing.TB, input string, options arrowzarr.Options) (string, *arrowzarr.Report) {
	tb.Helper()
	output := filepath.Join(tb.TempDir(), "output.zarr")
	report, err := arrowzarr.Convert(tb.Context(), input, output, options)
	require.NoError(tb, err)
	requireOnly(tb, filepath.Dir(output), filepath.Base(output))
	return output, report
}

// refuse converts an input that must fail in one part, checks that nothing is
// left, and returns the error's text.
func refuse(tb testing.TB, part arrowzarr.Part, input string, options arrowzarr.Options) string {
	tb.Helper()
	output := filepath.Join(tb.TempDir(), "output.zarr")
	report, err := arrowzarr.Convert(tb.Context(), input, output, options)
	require.Error(tb, err)
	assert.Nil(tb, report)
	requirePart(tb, part, err)
	requireOnly(tb, filepath.Dir(output))
	return err.Error()
}

func requirePart(tb testing.TB, part arrowzarr.Part, err error) {
	tb.Helper()
	var failure *arrowzarr.Error
	require.ErrorAs(tb, err, &failure)
	require.Equal(tb, part, failure.Part, "the part that %q is blamed on", err)
}

// requireOnly checks that a directory holds just these entries.
func requireOnly(tb testing.TB, dir string, names ...string) {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(tb, err)
	found := []string{}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	require.ElementsMatch(tb, names, found, "entries of the output's directory")
}

// noGoroutinesLeft fails the test when it ends with more goroutines than it
// has now. Such a test must not run beside others.
func noGoroutinesLeft(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		stacks := make([]byte, 1<<20)
		ok := assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 5*time.Millisecond) // Eventually's own
		if !ok {
			t.Logf("goroutines:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
	})
}

// choose is the table with some columns.
func (t table) choose(indices ...int) table {
	var fields []arrow.Field
	for _, i := range indices {
		fields = append(fields, t.schema.Field(i))
	}
	chosen := table{schema: arrow.NewSchema(fields, nil)}
	for _, b := range t.batches {
		var columns []arrow.Array
		for _, i := range indices {
			columns = append(columns, b.Column(i))
		}
		chosen.batches = append(chosen.batches, array.NewRecordBatch(chosen.schema, columns, b.NumRows()))
	}
	return chosen
}
