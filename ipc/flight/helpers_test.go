package flight_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/flight"
)

var schema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: arrow.MetadataFrom(map[string]string{"k": "v"})},
	{Name: "flag", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true},
	{Name: "code", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, Nullable: true},
}, nil)

// hostBatch returns a batch whose values depend on seed.
func hostBatch(t testing.TB, seed, rows int) arrow.RecordBatch {
	t.Helper()
	text := make([]string, rows)
	for i := range text {
		n := seed*1000 + i
		text[i] = fmt.Sprintf(`{"id": %d, "name": "row %d", "flag": %t, "list": [%d, 0.5], "code": "c%d"}`, n, n, n%3 == 0, n%100, n%5+seed%2)
		if n%7 == 3 {
			text[i] = fmt.Sprintf(`{"id": %d}`, n)
		}
	}
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader("["+strings.Join(text, ",")+"]"))
	require.NoError(t, err)
	t.Cleanup(batch.Release)
	return batch
}

func hostBatches(t testing.TB) []arrow.RecordBatch {
	t.Helper()
	long := hostBatch(t, 3, 500)
	slice := long.NewSlice(13, 257)
	t.Cleanup(slice.Release)
	return []arrow.RecordBatch{hostBatch(t, 1, 100), hostBatch(t, 2, 0), slice, long}
}

// serve serves a catalog until the end of the test and returns a client.
func serve(t testing.TB, catalog *ipc.Catalog, o flight.ServerOptions) *flight.Client {
	t.Helper()
	s, err := flight.Serve("127.0.0.1:0", catalog, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return dial(t, s.Address().String(), flight.DialOptions{})
}

func dial(t testing.TB, address string, o flight.DialOptions) *flight.Client {
	t.Helper()
	c, err := flight.Dial(context.Background(), address, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// publish copies batches to a device and publishes them.
func publish(t testing.TB, catalog *ipc.Catalog, name string, dev arrowbuf.Device, batches ...arrow.RecordBatch) {
	t.Helper()
	var there []arrow.RecordBatch
	for _, batch := range batches {
		one, err := arrowbuf.CopyTo(batch, dev)
		require.NoError(t, err)
		defer one.Release()
		there = append(there, one)
	}
	require.NoError(t, catalog.PublishTable(name, schema, there))
}

func newCatalog(t testing.TB) *ipc.Catalog {
	c := ipc.NewCatalog()
	t.Cleanup(c.Close)
	return c
}

// requireRows reads all batches and compares their rows; the batches may be
// split. It returns the number of batches.
func requireRows(t testing.TB, want []arrow.RecordBatch, r array.RecordReader) (count int) {
	t.Helper()
	var got []arrow.RecordBatch
	for r.Next() {
		count++
		host, err := arrowbuf.CopyTo(r.RecordBatch(), arrowbuf.CPU())
		require.NoError(t, err)
		defer host.Release()
		got = append(got, host)
	}
	require.NoError(t, r.Err())
	a, b := array.NewTableFromRecords(schema, want), array.NewTableFromRecords(schema, got)
	defer a.Release()
	defer b.Release()
	require.Equal(t, a.NumRows(), b.NumRows())
	require.True(t, array.TableEqual(a, b))
	return count
}
