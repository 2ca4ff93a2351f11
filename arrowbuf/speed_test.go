package arrowbuf_test

import (
	"encoding/binary"
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

// wideBatch makes a batch of about so many bytes, and tells how many they are: a
// quarter each of the columns are 64-bit integers, doubles with nulls, floats and
// strings of four letters.
func wideBatch(b *testing.B, mem memory.Allocator, columns int, bytes int64) (arrow.RecordBatch, int64) {
	rng := rand.New(rand.NewPCG(1, 1))
	rows := int(bytes/int64(columns)) / 7 // what four columns take of a row is 28 bytes and a bit
	var fields []arrow.Field
	var arrays []arrow.Array
	var size int64
	for i := range columns {
		var dtype arrow.DataType
		buffers, nulls := []*memory.Buffer{nil}, 0
		switch i % 4 {
		case 0:
			dtype = arrow.PrimitiveTypes.Int64
			buffers = append(buffers, randomWords(mem, rng, rows*8))
		case 1:
			dtype = arrow.PrimitiveTypes.Float64
			buffers = []*memory.Buffer{randomWords(mem, rng, (rows+7)/8), randomWords(mem, rng, rows*8)}
			nulls = array.UnknownNullCount
		case 2:
			dtype = arrow.PrimitiveTypes.Float32
			buffers = append(buffers, randomWords(mem, rng, rows*4))
		case 3:
			dtype = arrow.BinaryTypes.String
			buffers = append(buffers, shortOffsets(mem, rows), randomWords(mem, rng, rows*4))
		}
		data := array.NewData(dtype, rows, buffers, nil, nulls, 0)
		column := array.MakeFromData(data)
		data.Release()
		defer column.Release()
		for _, buffer := range buffers {
			if buffer != nil {
				size += int64(buffer.Len())
				buffer.Release()
			}
		}
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: dtype, Nullable: true})
		arrays = append(arrays, column)
	}
	made := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(rows))
	b.Cleanup(made.Release)
	return made, size
}

// randomWords is memory of n bytes, a word of eight at a time: benchmarks make
// gigabytes.
func randomWords(mem memory.Allocator, rng *rand.Rand, n int) *memory.Buffer {
	return newBuffer(mem, n, func(p []byte) {
		for ; len(p) >= 8; p = p[8:] {
			binary.LittleEndian.PutUint64(p, rng.Uint64()&0x7f7f7f7f7f7f7f7f) // of ASCII, and no NaN
		}
		for i := range p {
			p[i] = 'a'
		}
	})
}

func shortOffsets(mem memory.Allocator, n int) *memory.Buffer {
	return newBuffer(mem, 4*(n+1), func(p []byte) {
		for i := range n + 1 {
			binary.LittleEndian.PutUint32(p[4*i:], uint32(4*i))
		}
	})
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

// BenchmarkCopyToCPU takes a batch of the host to the CPU device, which shares its
// columns, beside what arrow-go has to make a batch of columns: one that shares
// them, and one that has a copy of each.
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
