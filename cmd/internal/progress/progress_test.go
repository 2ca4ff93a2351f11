package progress

import (
	"bytes"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// The bar shows the progress that a conversion counts, while it counts.
func TestBarShowsRows(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	b.Field(0).(*array.Int8Builder).AppendValues(make([]int8, 8), nil)
	rows, err := array.NewRecordReader(schema, []arrow.RecordBatch{b.NewRecordBatch()})
	require.NoError(t, err)

	p := &arrowzarr.Progress{}
	drawn, w := io.Pipe()
	stop := Show(w, p)
	converted := make(chan error, 1)
	go func() {
		_, err := arrowzarr.ConvertReader(t.Context(), rows, t.TempDir()+"/output.zarr", arrowzarr.Options{Progress: p})
		converted <- err
	}()
	var shown []byte
	for buf := make([]byte, 1000); !bytes.Contains(shown, []byte("8 rows")); {
		n, err := drawn.Read(buf)
		require.NoError(t, err)
		shown = append(shown, buf[:n]...)
	}
	require.NoError(t, <-converted)
	go func() { _, _ = io.Copy(io.Discard, drawn) }() // until the bar stops
	stop()
	require.NoError(t, w.Close())
}
