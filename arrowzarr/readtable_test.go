package arrowzarr_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"
)

// readTable reads an input with arrow-go alone.
func readTable(tb testing.TB, path string) table {
	tb.Helper()
	content, err := os.ReadFile(path)
	require.NoError(tb, err)
	switch {
	case bytes.HasPrefix(content, []byte("ARROW1")):
		r, err := ipc.NewFileReader(bytes.NewReader(content))
		require.NoError(tb, err)
		t := table{schema: r.Schema()}
		for i := range r.NumRecords() {
			b, err := r.RecordBatchAt(i)
			require.NoError(tb, err)
			t.batches = append(t.batches, b)
		}
		return t
	case bytes.HasPrefix(content, []byte("PAR1")):
		r, err := file.NewParquetReader(bytes.NewReader(content))
		require.NoError(tb, err)
		arrows, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		require.NoError(tb, err)
		whole, err := arrows.ReadTable(context.Background())
		require.NoError(tb, err)
		t := table{schema: whole.Schema()}
		for batches := array.NewTableReader(whole, whole.NumRows()); batches.Next(); {
			b := batches.RecordBatch()
			b.Retain()
			t.batches = append(t.batches, b)
		}
		return t
	}
	r, err := ipc.NewReader(bytes.NewReader(content))
	require.NoError(tb, err)
	t := table{schema: r.Schema()}
	for r.Next() {
		b := r.RecordBatch()
		b.Retain()
		t.batches = append(t.batches, b)
	}
	require.NoError(tb, r.Err())
	return t
}

// recorder is a test where there is none, in a child process: it keeps what
// fails, and panics with itself where a test would end.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Context() context.Context { return context.Background() }

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) FailNow() { panic(r) }
