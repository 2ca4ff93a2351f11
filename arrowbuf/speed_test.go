package arrowbuf_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// The benchmarks of copies of batches. MB/s are 1e6 bytes of columns a second.

func speed(b *testing.B, run func(b *testing.B, dev *cudabuf.Device)) {
	b.Run("soft", func(b *testing.B) { run(b, cudatest.NewDevice(b)) })
	if !cudatest.OnGPU() {
		return
	}
	b.Run("cuda", func(b *testing.B) {
		driver, err := cudabuf.Open()
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, driver.Close()) })
		dev, err := driver.Device(0)
		require.NoError(b, err)
		run(b, dev)
	})
}

// wideBatch makes a batch of about so many bytes: a quarter each of 64-bit
// integers, doubles with nulls, floats and strings.
func wideBatch(b *testing.B, mem memory.Allocator, columns int, bytes int64) (arrow.RecordBatch, int64) {
	rng := rand.New(rand.NewPCG(1, 1))
	rows := int(bytes/int64(columns)) / 8
	var fields []arrow.Field
	var arrays []arrow.Array
	var size int64
	for i := range columns {
		dtype := []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float32, arrow.BinaryTypes.String}[i%4]
		var column arrow.Array
		if dtype == arrow.BinaryTypes.String {
			column = shortStrings(mem, rows)
		} else {
			column = randomArray(b, mem, rng, dtype, rows, i%4 == 1)
		}
		defer column.Release()
		size += int64(column.Data().SizeInBytes())
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: dtype, Nullable: true})
		arrays = append(arrays, column)
	}
	made := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(rows))
	b.Cleanup(made.Release)
	return made, size
}

func shortStrings(mem memory.Allocator, n int) arrow.Array {
	builder := array.NewStringBuilder(mem)
	defer builder.Release()
	builder.Reserve(n)
	builder.ReserveData(4 * n)
	for range n {
		builder.Append("abcd")
	}
	return builder.NewArray()
}

// BenchmarkCopyTo copies a batch of 1 GiB to a device.
func BenchmarkCopyTo(b *testing.B) {
	for _, kind := range []string{"pageable", "pinned"} {
		b.Run(kind, func(b *testing.B) {
			speed(b, func(b *testing.B, dev *cudabuf.Device) {
				mem, size := memory.DefaultAllocator, int64(1<<30)
				if kind == "pinned" {
					mem = dev.HostAllocator()
				}
				if strings.HasSuffix(b.Name(), "/soft") {
					size = 1 << 20
				}
				batch, n := wideBatch(b, mem, 64, size)
				copyOnce(b, batch, dev)
				b.SetBytes(n)
				for b.Loop() {
					copyOnce(b, batch, dev)
				}
			})
		})
	}
}

func copyOnce(b *testing.B, batch arrow.RecordBatch, dev arrowbuf.Device) {
	moved, err := arrowbuf.CopyTo(batch, dev)
	if err != nil {
		b.Fatal(err)
	}
	moved.Release()
}

// BenchmarkCopyToSmall copies batches of 64 KiB, beside one allocation of the
// driver and one copy a buffer. An operation is one batch.
func BenchmarkCopyToSmall(b *testing.B) {
	for _, columns := range []int{8, 64} {
		b.Run(fmt.Sprintf("%dcolumns", columns), func(b *testing.B) {
			speed(b, func(b *testing.B, dev *cudabuf.Device) {
				batch, n := wideBatch(b, memory.DefaultAllocator, columns, 64<<10)
				copyOnce(b, batch, dev)
				b.SetBytes(n)
				for b.Loop() {
					copyOnce(b, batch, dev)
				}
			})
		})
		b.Run(fmt.Sprintf("%dcolumns-naive", columns), func(b *testing.B) {
			speed(b, func(b *testing.B, dev *cudabuf.Device) {
				batch, n := wideBatch(b, memory.DefaultAllocator, columns, 64<<10)
				pool, err := dev.NewPool(cudabuf.PoolOptions{Kind: cudabuf.DirectPool})
				require.NoError(b, err)
				defer func() { require.NoError(b, pool.Close()) }()
				b.SetBytes(n)
				for b.Loop() {
					copyNaively(b, batch, pool)
				}
			})
		})
	}
}

func copyNaively(b *testing.B, batch arrow.RecordBatch, pool *cudabuf.Pool) {
	var all []arrowbuf.Buffer
	for _, column := range batch.Columns() {
		for _, host := range column.Data().Buffers() {
			if host == nil || host.Len() == 0 {
				continue
			}
			there, err := pool.Alloc(int64(host.Len()))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := there.CopyFromHost(host.Bytes(), 0); err != nil {
				b.Fatal(err)
			}
			all = append(all, there)
		}
	}
	for _, one := range all {
		one.Release()
	}
}

// BenchmarkToHost brings a batch of 1 GiB back.
func BenchmarkToHost(b *testing.B) {
	speed(b, func(b *testing.B, dev *cudabuf.Device) {
		size := int64(1 << 30)
		if strings.HasSuffix(b.Name(), "/soft") {
			size = 1 << 20
		}
		batch, n := wideBatch(b, memory.DefaultAllocator, 64, size)
		moved, err := arrowbuf.CopyTo(batch, dev)
		require.NoError(b, err)
		defer moved.Release()
		b.SetBytes(n)
		for b.Loop() {
			copyOnce(b, moved, arrowbuf.CPU())
		}
	})
}
