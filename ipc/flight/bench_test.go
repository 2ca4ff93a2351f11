package flight_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	arrowgoipc "github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc/flight"
)

// BenchmarkTable reads a table of 8 columns of float64, 64 MiB in 4 batches, from
// a server in the same process: on the CPU device, on a GPU, and on the host with
// arrow-go's writer and reader.
func BenchmarkTable(b *testing.B) {
	const columns, batches, size = 8, 4, 64 << 20
	schema, table := wideTable(b, columns, batches, size)
	read := func(dev arrowbuf.Device) func(b *testing.B) {
		return func(b *testing.B) {
			catalog := newCatalog(b)
			var there []arrow.RecordBatch
			for _, batch := range table {
				one, err := arrowbuf.CopyTo(batch, dev)
				require.NoError(b, err)
				defer one.Release()
				there = append(there, one)
			}
			require.NoError(b, catalog.PublishTable("a", schema, there))
			client := serve(b, catalog, flight.ServerOptions{})
			b.SetBytes(size)
			for b.Loop() {
				r, err := client.Reader(context.Background(), "a", dev)
				require.NoError(b, err)
				require.Equal(b, batches, drain(r))
				require.NoError(b, r.Err())
				r.Release()
			}
		}
	}
	b.Run("cpu", read(arrowbuf.CPU()))
	if cudatest.OnGPU() {
		d, err := cudabuf.Open()
		require.NoError(b, err)
		defer func() { require.NoError(b, d.Close()) }()
		dev, err := d.Device(0)
		require.NoError(b, err)
		b.Run("cuda", read(dev))
	}
	b.Run("arrow-go", func(b *testing.B) {
		get := func(_ string, out arrowflight.FlightService_DoGetServer) error {
			w := arrowflight.NewRecordWriter(out, arrowgoipc.WithSchema(schema))
			for _, batch := range table {
				if err := w.Write(batch); err != nil {
					return err
				}
			}
			return w.Close()
		}
		client, err := arrowflight.NewClientWithMiddleware((&fakeServer{get: get}).serve(b), nil, nil,
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
		require.NoError(b, err)
		defer func() { require.NoError(b, client.Close()) }()
		b.SetBytes(size)
		for b.Loop() {
			stream, err := client.DoGet(context.Background(), &arrowflight.Ticket{})
			require.NoError(b, err)
			r, err := arrowflight.NewRecordReader(stream)
			require.NoError(b, err)
			require.Equal(b, batches, drain(r))
			r.Release()
		}
	})
}

func drain(r array.RecordReader) (count int) {
	for r.Next() {
		count++
	}
	return count
}

func wideTable(b *testing.B, columns, batches, size int) (*arrow.Schema, []arrow.RecordBatch) {
	fields := make([]arrow.Field, columns)
	for i := range fields {
		fields[i] = arrow.Field{Name: fmt.Sprint("c", i), Type: arrow.PrimitiveTypes.Float64}
	}
	schema := arrow.NewSchema(fields, nil)
	rows := size / batches / columns / 8
	table := make([]arrow.RecordBatch, batches)
	for k := range table {
		arrays := make([]arrow.Array, columns)
		for i := range arrays {
			builder := array.NewFloat64Builder(memory.DefaultAllocator)
			builder.AppendValues(make([]float64, rows), nil)
			arrays[i] = builder.NewArray()
			defer arrays[i].Release()
			builder.Release()
		}
		table[k] = array.NewRecordBatch(schema, arrays, int64(rows))
		b.Cleanup(table[k].Release)
	}
	return schema, table
}
