package dissociated

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// BenchmarkStream moves a batch of 64 columns of float64, 64 MiB, from one
// goroutine to another: packed, located after a copy into a window ("located"),
// and located in a window already ("placed"). It measures batches of one stream,
// without its start.
func BenchmarkStream(b *testing.B) {
	devices := map[string]func() arrowbuf.Device{"cpu": arrowbuf.CPU}
	if cudatest.OnGPU() {
		d, err := cudabuf.Open()
		require.NoError(b, err)
		defer func() { require.NoError(b, d.Close()) }()
		devices["cuda"] = func() arrowbuf.Device {
			dev, err := d.Device(0)
			require.NoError(b, err)
			return dev
		}
	}
	const columns, size = 64, 64 << 20
	for name, open := range devices {
		for _, how := range []string{"packed", "located", "placed"} {
			b.Run(fmt.Sprintf("%s/%s", name, how), func(b *testing.B) {
				dev := open()
				batch := wideBatch(b, columns, size)
				there, err := arrowbuf.CopyTo(batch, dev)
				require.NoError(b, err)
				var o SendOptions
				if how != "packed" {
					o.Window = newWindow(b, dev, 3*size)
				}
				if how == "placed" {
					placed, err := o.Window.CopyBatch(context.Background(), there)
					require.NoError(b, err)
					there.Release()
					there = placed
				}
				defer there.Release()
				n := 0
				from := arrowbuf.NewReaderFunc(batch.Schema(), func() (arrow.RecordBatch, error) {
					n++
					there.Retain()
					return there, nil
				}, func() {})
				server, client := links(b, false)
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan error)
				o.FreeData = freeData
				go func() { done <- Send(ctx, server, from, o) }()
				r, err := Receive(context.Background(), client, endpointOf(o.Window), dev, ReceiveOptions{})
				require.NoError(b, err)
				b.SetBytes(size)
				for b.Loop() {
					require.True(b, r.Next(), "%v", r.Err())
				}
				cancel()
				r.Release()
				<-done
				from.Release()
			})
		}
	}
}

func wideBatch(b *testing.B, columns, size int) arrow.RecordBatch {
	fields, arrays := make([]arrow.Field, columns), make([]arrow.Array, columns)
	for i := range arrays {
		builder := array.NewFloat64Builder(memory.DefaultAllocator)
		builder.AppendValues(make([]float64, size/columns/8), nil)
		fields[i] = arrow.Field{Name: fmt.Sprint("c", i), Type: arrow.PrimitiveTypes.Float64}
		arrays[i] = builder.NewArray()
		defer arrays[i].Release()
		builder.Release()
	}
	batch := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(size/columns/8))
	b.Cleanup(batch.Release)
	return batch
}
