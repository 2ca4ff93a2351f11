//go:build linux

package arrowipc_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowbuf/internal/arraytest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// These benchmarks use IPC files on tmpfs. MB/s is 1e6 bytes of the file per second.

func speed(b *testing.B, run func(b *testing.B, dev *cudabuf.Device, size int64)) {
	b.Run("simulated", func(b *testing.B) { run(b, cudatest.NewDevice(b), 1<<20) })
	if !cudatest.OnGPU() {
		return
	}
	b.Run("cuda", func(b *testing.B) {
		driver, err := cudabuf.Open()
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, driver.Close()) })
		dev, err := driver.Device(0)
		require.NoError(b, err)
		run(b, dev, 1<<30)
	})
}

// wideFile writes a file of one batch of 64 columns with about size bytes.
func wideFile(b *testing.B, size int64) (path string) {
	batch, _ := arraytest.Wide(b, memory.DefaultAllocator, 64, size)
	path = filepath.Join(tmpfsDir(b), "wide.arrow")
	file, err := os.Create(path)
	require.NoError(b, err)
	w, err := ipc.NewFileWriter(file, ipc.WithSchema(batch.Schema()))
	require.NoError(b, err)
	require.NoError(b, w.Write(batch))
	require.NoError(b, w.Close())
	info, err := file.Stat()
	require.NoError(b, err)
	b.SetBytes(info.Size())
	require.NoError(b, file.Close())
	return path
}

func readOnce(b *testing.B, r *arrowipc.FileReader) {
	batch, err := r.RecordBatchAt(0)
	if err != nil {
		b.Fatal(err)
	}
	batch.Release()
}

// openFile opens a file for reading.
func openFile(b *testing.B, path string, dev arrowbuf.Device) *arrowipc.FileReader {
	file, err := os.Open(path)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, file.Close()) })
	info, err := file.Stat()
	require.NoError(b, err)
	r, err := arrowipc.NewFileReader(file, info.Size(), dev)
	require.NoError(b, err)
	b.Cleanup(r.Release)
	return r
}

// BenchmarkIPCRead reads the batch of a file of 1 GiB in the page cache to a device.
// It reads the file, maps it with the mapping page-locked in advance, and maps it
// with page-locking in each round.
func BenchmarkIPCRead(b *testing.B) {
	b.Run("pageable", func(b *testing.B) {
		speed(b, func(b *testing.B, dev *cudabuf.Device, size int64) {
			r := openFile(b, wideFile(b, size), dev)
			readOnce(b, r)
			for b.Loop() {
				readOnce(b, r)
			}
		})
	})
	b.Run("mapped", func(b *testing.B) {
		speed(b, func(b *testing.B, dev *cudabuf.Device, size int64) {
			r, err := arrowipc.MapFile(wideFile(b, size), dev)
			require.NoError(b, err)
			defer r.Release()
			readOnce(b, r)
			for b.Loop() {
				readOnce(b, r)
			}
		})
	})
	b.Run("mapped-once", func(b *testing.B) {
		speed(b, func(b *testing.B, dev *cudabuf.Device, size int64) {
			path := wideFile(b, size)
			for b.Loop() {
				r, err := arrowipc.MapFile(path, dev)
				if err != nil {
					b.Fatal(err)
				}
				readOnce(b, r)
				r.Release()
			}
		})
	})
}

// BenchmarkIPCWrite writes a batch of 1 GiB on a device as a file in pinned memory.
func BenchmarkIPCWrite(b *testing.B) {
	speed(b, func(b *testing.B, dev *cudabuf.Device, size int64) {
		batch, n := wideOn(b, dev, size)
		room, err := dev.NewHostBuffer(n+n/8, cudabuf.HostOptions{})
		require.NoError(b, err)
		defer room.Release()
		b.SetBytes(n)
		for b.Loop() {
			w, err := arrowipc.NewFileWriter(arrowipc.NewBufferWriter(room), batch.Schema())
			if err == nil {
				err = errors.Join(w.Write(batch), w.Close())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkIPCWriteFile writes the batch to a file on tmpfs: over a file of the same
// size, and to a new file.
func BenchmarkIPCWriteFile(b *testing.B) {
	for _, kind := range []string{"over", "new"} {
		b.Run(kind, func(b *testing.B) {
			speed(b, func(b *testing.B, dev *cudabuf.Device, size int64) {
				batch, n := wideOn(b, dev, size)
				writeFiles(b, batch, n)
			})
		})
	}
}

// BenchmarkFileWrite is the baseline of BenchmarkIPCWriteFile: one goroutine writes
// as much pinned memory to such files.
func BenchmarkFileWrite(b *testing.B) {
	for _, kind := range []string{"over", "new"} {
		b.Run(kind, func(b *testing.B) {
			speed(b, func(b *testing.B, dev *cudabuf.Device, size int64) {
				file, err := os.Create(filepath.Join(tmpfsDir(b), "plain"))
				require.NoError(b, err)
				defer file.Close()
				pinned := dev.HostAllocator().Allocate(int(size))
				defer dev.HostAllocator().Free(pinned)
				b.SetBytes(size)
				for b.Loop() {
					truncateFiles(b, file)
					if _, err := file.WriteAt(pinned, 0); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func wideOn(b *testing.B, dev arrowbuf.Device, size int64) (arrow.RecordBatch, int64) {
	host, n := arraytest.Wide(b, memory.DefaultAllocator, 64, size)
	batch, err := arrowbuf.CopyTo(host, dev)
	require.NoError(b, err)
	b.Cleanup(batch.Release)
	return batch, n
}

// truncateFiles empties the file of a benchmark that writes new files.
func truncateFiles(b *testing.B, file *os.File) {
	if strings.Contains(b.Name(), "/new") {
		b.StopTimer()
		require.NoError(b, file.Truncate(0))
		b.StartTimer()
	}
}

func writeFiles(b *testing.B, batch arrow.RecordBatch, n int64) {
	file, err := os.Create(filepath.Join(tmpfsDir(b), "wide.arrow"))
	require.NoError(b, err)
	defer file.Close()
	b.SetBytes(n)
	writeFile(b, file, batch)
	for b.Loop() {
		truncateFiles(b, file)
		writeFile(b, file, batch)
	}
}

func writeFile(b *testing.B, file *os.File, batch arrow.RecordBatch) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		b.Fatal(err)
	}
	w, err := arrowipc.NewFileWriter(file, batch.Schema())
	if err == nil {
		err = w.Write(batch)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkIPCReadCPU reads a file of 256 MiB in the page cache on the CPU, by
// reading and by a mapping, compared with arrow-go.
func BenchmarkIPCReadCPU(b *testing.B) {
	const size = 256 << 20
	b.Run("quiver", func(b *testing.B) {
		r := openFile(b, wideFile(b, size), arrowbuf.CPU())
		for b.Loop() {
			readOnce(b, r)
		}
	})
	b.Run("arrow-go", func(b *testing.B) {
		file, err := os.Open(wideFile(b, size))
		require.NoError(b, err)
		defer file.Close()
		r, err := ipc.NewFileReader(file, ipc.WithBodySizeLimit(0))
		require.NoError(b, err)
		defer func() { require.NoError(b, r.Close()) }()
		for b.Loop() {
			batch, err := r.RecordBatchAt(0)
			if err != nil {
				b.Fatal(err)
			}
			batch.Release()
		}
	})
}

// BenchmarkIPCWriteCPU writes a host batch of 256 MiB over a file on tmpfs, compared
// with arrow-go.
func BenchmarkIPCWriteCPU(b *testing.B) {
	const size = 256 << 20
	batch, n := arraytest.Wide(b, memory.DefaultAllocator, 64, size)
	b.Run("quiver", func(b *testing.B) { writeFiles(b, batch, n) })
	b.Run("arrow-go", func(b *testing.B) {
		file, err := os.Create(filepath.Join(tmpfsDir(b), "wide.arrow"))
		require.NoError(b, err)
		defer file.Close()
		b.SetBytes(n)
		for b.Loop() {
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				b.Fatal(err)
			}
			w, err := ipc.NewFileWriter(file, ipc.WithSchema(batch.Schema()))
			if err == nil {
				err = w.Write(batch)
			}
			if err == nil {
				err = w.Close()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
