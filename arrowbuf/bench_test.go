package arrowbuf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/internal/arraytest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// These benchmarks copy batches. MB/s is 1e6 bytes of columns per second.

func speed(b *testing.B, run func(b *testing.B, dev *cudabuf.Device)) {
	b.Run("simulated", func(b *testing.B) { run(b, cudatest.NewDevice(b)) })
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

func wideBatch(b *testing.B, mem memory.Allocator, columns int, bytes int64) (arrow.RecordBatch, int64) {
	return arraytest.Wide(b, mem, columns, bytes)
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
				if strings.HasSuffix(b.Name(), "/simulated") {
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

// BenchmarkCopyToSmall copies batches of 64 KiB, compared with one driver allocation
// and one copy per buffer. An operation is one batch.
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

// BenchmarkToHost copies a batch of 1 GiB to the host.
func BenchmarkToHost(b *testing.B) {
	speed(b, func(b *testing.B, dev *cudabuf.Device) {
		size := int64(1 << 30)
		if strings.HasSuffix(b.Name(), "/simulated") {
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

// BenchmarkCopyToCPU copies a host batch to the CPU device, which shares its columns.
// It is compared with arrow-go's ways to make a batch of columns: sharing them, and
// copying each.
func BenchmarkCopyToCPU(b *testing.B) {
	batch, n := wideBatch(b, memory.DefaultAllocator, 64, 64<<20)
	ways := []struct {
		name string
		make func() (arrow.RecordBatch, error)
	}{
		{"quiver", func() (arrow.RecordBatch, error) { return arrowbuf.CopyTo(batch, arrowbuf.CPU()) }},
		{"arrow-go-share", func() (arrow.RecordBatch, error) {
			return array.NewRecordBatch(batch.Schema(), batch.Columns(), batch.NumRows()), nil
		}},
		{"arrow-go-copy", func() (arrow.RecordBatch, error) { return copyByArrow(batch) }},
	}
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			b.SetBytes(n)
			for b.Loop() {
				made, err := way.make()
				if err != nil {
					b.Fatal(err)
				}
				made.Release()
			}
		})
	}
}

func copyByArrow(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	var columns []arrow.Array
	for _, column := range batch.Columns() {
		one, err := array.Concatenate([]arrow.Array{column}, memory.DefaultAllocator)
		if err != nil {
			return nil, err
		}
		defer one.Release()
		columns = append(columns, one)
	}
	return array.NewRecordBatch(batch.Schema(), columns, batch.NumRows()), nil
}
