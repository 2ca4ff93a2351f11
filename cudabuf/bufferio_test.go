package cudabuf_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reader returns a reader of a new buffer, to which it holds the only reference.
func reader(t *testing.T, dev *cudabuf.Device, data []byte) *cudabuf.BufferReader {
	t.Helper()
	b, err := dev.FromHost(data)
	require.NoError(t, err)
	r, err := cudabuf.NewBufferReader(b)
	require.NoError(t, err)
	b.Release()
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return r
}

func TestBufferReaderImplementsReader(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, size := range []int{0, 1, 2, 100, 1000} {
			data := pattern(size)
			r := reader(t, dev, data)
			assert.EqualValues(t, size, r.Size())
			assert.NoError(t, iotest.TestReader(r, data), "%d bytes", size)
		}
	})
}

func TestBufferReaderReadsShortOnlyAtEnd(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(1000)
		r := reader(t, dev, data)
		for _, tt := range []struct {
			from int64
			want int
			err  error
		}{{950, 50, nil}, {925, 75, nil}, {900, 100, nil}, {899, 100, nil}, {999, 1, nil}, {1000, 0, io.EOF}} {
			pos, err := r.Seek(tt.from, io.SeekStart)
			require.NoError(t, err)
			assert.Equal(t, tt.from, pos)
			p := make([]byte, 100)
			n, err := r.Read(p)
			assert.Equal(t, tt.err, err)
			assert.Equal(t, tt.want, n)
			assert.Equal(t, data[tt.from:tt.from+int64(n)], p[:n])
			assert.EqualValues(t, tt.from+int64(n), tell(t, r))
		}
		n, err := r.Read(nil)
		assert.Zero(t, n)
		assert.NoError(t, err, "an empty read at the end")
	})
}

func tell(t testing.TB, s io.Seeker) int64 {
	t.Helper()
	pos, err := s.Seek(0, io.SeekCurrent)
	require.NoError(t, err)
	return pos
}

func TestSeekStaysWithinBuffer(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		r := reader(t, dev, pattern(100))
		b, err := dev.NewBuffer(100)
		require.NoError(t, err)
		defer b.Release()
		w, err := cudabuf.NewBufferWriter(b)
		require.NoError(t, err)
		defer func() { assert.NoError(t, w.Close()) }()
		for _, s := range []io.Seeker{r, w} {
			for _, tt := range []struct {
				offset int64
				whence int
				want   int64 // -1 if out of range
			}{
				{0, io.SeekStart, 0}, {60, io.SeekStart, 60}, {100, io.SeekStart, 100},
				{0, io.SeekCurrent, 40}, {-40, io.SeekCurrent, 0}, {60, io.SeekCurrent, 100},
				{0, io.SeekEnd, 100}, {-100, io.SeekEnd, 0}, {-1, io.SeekEnd, 99},
				{-1, io.SeekStart, -1}, {101, io.SeekStart, -1}, {math.MaxInt64, io.SeekStart, -1}, {math.MinInt64, io.SeekStart, -1},
				{-41, io.SeekCurrent, -1}, {61, io.SeekCurrent, -1}, {math.MaxInt64, io.SeekCurrent, -1}, {math.MinInt64, io.SeekCurrent, -1},
				{-101, io.SeekEnd, -1}, {1, io.SeekEnd, -1}, {math.MaxInt64, io.SeekEnd, -1}, {math.MinInt64, io.SeekEnd, -1},
			} {
				_, err := s.Seek(40, io.SeekStart)
				require.NoError(t, err)
				pos, err := s.Seek(tt.offset, tt.whence)
				if tt.want < 0 {
					assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "%T %v", s, tt)
					tt.want = 40
				} else {
					assert.NoError(t, err)
					assert.Equal(t, tt.want, pos, "%T %v", s, tt)
				}
				assert.Equal(t, tt.want, tell(t, s), "%T %v", s, tt)
			}
			_, err := s.Seek(0, 3)
			assert.ErrorIs(t, err, fs.ErrInvalid)
		}
	})
}

func TestReadBufferReturnsSlice(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(1000)
		r := reader(t, dev, data)
		whole, err := r.ReadBuffer(math.MaxInt64)
		require.NoError(t, err)
		assertBytes(t, data, download(t, whole))
		for _, tt := range []struct{ from, n, want int64 }{
			{0, 0, 0}, {0, 1, 1}, {10, 500, 500}, {900, 100, 100}, {900, 101, 100}, {1000, 7, 0}, {1000, 0, 0},
		} {
			_, err := r.Seek(tt.from, io.SeekStart)
			require.NoError(t, err)
			part, err := r.ReadBuffer(tt.n)
			require.NoError(t, err)
			assert.Equal(t, tt.want, part.Len(), "%v", tt)
			assert.Equal(t, tt.from+tt.want, tell(t, r))
			if tt.want > 0 {
				assert.Equal(t, whole.Address()+uintptr(tt.from), part.Address())
			}
			assertBytes(t, data[tt.from:tt.from+tt.want], download(t, part))
			part.Release()
		}
		before := tell(t, r)
		_, err = r.ReadBuffer(-1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		assert.Equal(t, before, tell(t, r))

		require.NoError(t, r.Close())
		assertBytes(t, data, download(t, whole)) // it outlives the reader
		whole.Release()
		assert.Zero(t, dev.MemoryStats().InUse)
	})
}

func TestBufferReaderOfEmptyBuffer(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		r := reader(t, dev, nil)
		_, err := r.Seek(0, io.SeekStart)
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		assert.Empty(t, data)
		part, err := r.ReadBuffer(10)
		require.NoError(t, err)
		defer part.Release()
		assert.Zero(t, part.Len())
		n, err := r.WriteTo(io.Discard)
		assert.Zero(t, n)
		assert.NoError(t, err)
	})
}

// failingWriter writes up to limit bytes and then fails with err, or returns a short
// count if err is nil.
type failingWriter struct {
	bytes.Buffer
	limit int
	err   error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.limit)
	w.limit -= n
	w.Buffer.Write(p[:n])
	if n < len(p) {
		return n, w.err
	}
	return n, nil
}

func TestWriteToWritesRemainingBytes(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(9 << 20) // several chunks
		r := reader(t, dev, data)
		_, err := r.Seek(1000, io.SeekStart)
		require.NoError(t, err)
		var out bytes.Buffer
		n, err := io.Copy(&out, r)
		require.NoError(t, err)
		assert.EqualValues(t, len(data)-1000, n)
		assertBytes(t, data[1000:], out.Bytes())
		assert.EqualValues(t, len(data), tell(t, r))

		full := errors.New("disk full")
		for _, tt := range []struct{ say, want error }{{full, full}, {nil, io.ErrShortWrite}} {
			_, err = r.Seek(7, io.SeekStart)
			require.NoError(t, err)
			w := &failingWriter{limit: 5 << 20, err: tt.say}
			n, err = r.WriteTo(w)
			assert.ErrorIs(t, err, tt.want)
			assert.EqualValues(t, 5<<20, n)
			assertBytes(t, data[7:7+5<<20], w.Bytes())
			assert.EqualValues(t, 7+5<<20, tell(t, r), "the position is where it failed")
		}
	})
}

// What pyarrow's NativeFile has as methods, packages io and bufio do for any reader and
// writer.
func TestReadersAndWritersWorkWithPackageIO(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		text := strings.Repeat("a line\nanother\n", 20_000)
		b, w := writer(t, dev, len(text))
		require.NoError(t, w.SetBufferSize(1<<16))
		n, err := io.CopyBuffer(w, struct{ io.Reader }{strings.NewReader(text)}, make([]byte, 1000)) // upload
		require.NoError(t, err)
		assert.EqualValues(t, len(text), n)
		require.NoError(t, w.Flush())

		r, err := cudabuf.NewBufferReader(b)
		require.NoError(t, err)
		defer func() { assert.NoError(t, r.Close()) }()
		lines := bufio.NewScanner(r) // readline, readlines and iteration
		for i := range 40_000 {
			require.True(t, lines.Scan())
			require.Equal(t, []string{"a line", "another"}[i%2], lines.Text())
		}
		assert.False(t, lines.Scan())
		require.NoError(t, lines.Err())

		part, err := io.ReadAll(io.NewSectionReader(r, 7, 8)) // get_stream
		require.NoError(t, err)
		assert.Equal(t, "another\n", string(part))
		_, err = r.Seek(-8, io.SeekEnd)
		require.NoError(t, err)
		all, err := io.ReadAll(r) // readall
		require.NoError(t, err)
		assert.Equal(t, "another\n", string(all))
		_, err = io.WriteString(w, "more")
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "the buffer is full")
	})
}

func TestBufferReaderIsSafeForGoroutines(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(1 << 12)
		r := reader(t, dev, data)
		var wg sync.WaitGroup
		var mu sync.Mutex
		taken := map[int64]bool{}
		for i := range 8 {
			wg.Go(func() {
				p := make([]byte, 100)
				_, err := r.ReadAt(p, int64(i*50))
				assert.NoError(t, err)
				assert.Equal(t, data[i*50:i*50+100], p)
			})
			wg.Go(func() {
				part, err := r.ReadBuffer(512)
				if assert.NoError(t, err) {
					defer part.Release()
					mu.Lock()
					defer mu.Unlock()
					taken[int64(part.Address())] = true
				}
			})
		}
		wg.Wait()
		assert.Len(t, taken, 8, "each goroutine reads a different slice")
		assert.EqualValues(t, len(data), tell(t, r))
	})
}

func TestClosedReaderReturnsErrClosed(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b, err := dev.FromHost(pattern(10))
		require.NoError(t, err)
		r, err := cudabuf.NewBufferReader(b)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := r.ReadAt(make([]byte, 4), 0); err != nil {
					assert.ErrorIs(t, err, fs.ErrClosed)
				}
			})
		}
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		wg.Wait()
		for name, use := range map[string]func() error{
			"Read":       func() error { _, err := r.Read(make([]byte, 1)); return err },
			"ReadAt":     func() error { _, err := r.ReadAt(make([]byte, 1), 0); return err },
			"ReadBuffer": func() error { _, err := r.ReadBuffer(1); return err },
			"Seek":       func() error { _, err := r.Seek(0, io.SeekStart); return err },
			"WriteTo":    func() error { _, err := r.WriteTo(io.Discard); return err },
		} {
			assert.ErrorIs(t, use(), fs.ErrClosed, name)
		}
		assert.EqualValues(t, 10, r.Size())
		assertBytes(t, pattern(10), download(t, b)) // the caller still owns the buffer
		b.Release()
		assert.Zero(t, dev.MemoryStats().InUse)
		_, err = cudabuf.NewBufferReader(b)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
	})
}

func TestReaderReturnsDriverErrors(t *testing.T) {
	dev, fail := failing(t)
	r := reader(t, dev, pattern(100))
	fail("cuMemcpyDtoHAsync", 2)
	_, err := r.Read(make([]byte, 10))
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
	assert.Zero(t, tell(t, r))
	fail("cuMemcpyDtoHAsync", 2)
	n, err := r.WriteTo(io.Discard)
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
	assert.Zero(t, n)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	assertBytes(t, pattern(100), data)
}

// writer returns a writer to a buffer of zeros. Both are released at the end of the test.
func writer(t *testing.T, dev *cudabuf.Device, size int) (*cudabuf.Buffer, *cudabuf.BufferWriter) {
	t.Helper()
	b, err := dev.FromHost(make([]byte, size))
	require.NoError(t, err)
	w, err := cudabuf.NewBufferWriter(b)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, w.Close())
		b.Release()
	})
	return b, w
}

func write(t *testing.T, w io.Writer, p []byte) {
	t.Helper()
	n, err := w.Write(p)
	require.NoError(t, err)
	require.Equal(t, len(p), n)
}

func TestWriterWritesAnySize(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(1 << 16)
		for _, collect := range []int{0, 1, 999, 1000, 1001, 4096, 1 << 17} {
			b, w := writer(t, dev, len(data))
			require.NoError(t, w.SetBufferSize(collect))
			write(t, w, bytes.Repeat([]byte{7}, 1000))
			assert.EqualValues(t, 1000, tell(t, w))
			_, err := w.Seek(0, io.SeekStart)
			require.NoError(t, err)
			for part := range slices.Chunk(data, 1000) {
				write(t, w, part)
			}
			assert.EqualValues(t, len(data), tell(t, w))
			require.NoError(t, w.Flush())
			assertBytes(t, data, download(t, b))
		}
	})
}

func TestWriterBuffersUpToItsSize(t *testing.T) {
	type step struct {
		resize   int // buffer size to set before writing, if not 0
		write    int
		buffered int
		arrived  int // bytes on the device afterwards
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for name, steps := range map[string][]step{
			"Arrow's own sequence": {
				{resize: 100, write: 0, buffered: 0, arrived: 0},
				{write: 10, buffered: 10, arrived: 0},
				{resize: 200, write: 300, buffered: 0, arrived: 310},
				{write: 200, buffered: 0, arrived: 510},
				{write: 390, buffered: 0, arrived: 900},
				{write: 100, buffered: 100, arrived: 900},
			},
			"one byte less, and that byte": {
				{resize: 200, write: 199, buffered: 199, arrived: 0},
				{write: 1, buffered: 0, arrived: 200},
				{write: 100, buffered: 100, arrived: 200},
				{write: 99, buffered: 199, arrived: 200},
				{write: 2, buffered: 0, arrived: 401},
			},
			"smaller buffers": {
				{resize: 200, write: 150, buffered: 150, arrived: 0},
				{resize: 1, write: 0, buffered: 0, arrived: 150},
				{write: 1, buffered: 0, arrived: 151},
			},
		} {
			data := pattern(1000)
			b, w := writer(t, dev, len(data))
			assert.Zero(t, w.BufferSize())
			var pos int
			for i, step := range steps {
				name := fmt.Sprintf("%s, step %d", name, i)
				if step.resize > 0 {
					require.NoError(t, w.SetBufferSize(step.resize), name)
					assert.Equal(t, step.resize, w.BufferSize(), name)
					assert.Zero(t, w.Buffered(), name)
				}
				write(t, w, data[pos:pos+step.write])
				pos += step.write
				assert.EqualValues(t, pos, tell(t, w), name)
				assert.Equal(t, step.buffered, w.Buffered(), "%s: querying the position does not flush", name)
				want := make([]byte, len(data))
				copy(want, data[:step.arrived])
				assertBytes(t, want, download(t, b))
			}
			require.NoError(t, w.Flush())
			assertBytes(t, data[:pos], download(t, b)[:pos])
		}
	})
}

func TestWriterWritesNothingBeyondEnd(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		whole := upload(t, dev, make([]byte, 300)).(*cudabuf.Buffer)
		defer whole.Release()
		for _, collect := range []int{0, 50, 1000} {
			require.NoError(t, whole.Fill(0))
			part, err := whole.SliceClamped(100, 100)
			require.NoError(t, err)
			w, err := cudabuf.NewBufferWriter(part)
			require.NoError(t, err)
			part.Release()
			require.NoError(t, w.SetBufferSize(collect))
			for _, p := range [][]byte{make([]byte, 101), make([]byte, 1000)} {
				n, err := w.Write(p)
				assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
				assert.Zero(t, n)
			}
			write(t, w, bytes.Repeat([]byte{1}, 90))
			n, err := w.Write(make([]byte, 11))
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			assert.Zero(t, n)
			assert.EqualValues(t, 90, tell(t, w))
			write(t, w, bytes.Repeat([]byte{2}, 10))
			_, err = w.Write([]byte{3})
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			write(t, w, nil)
			for _, off := range []int64{-1, 100, 101, math.MaxInt64, math.MinInt64} {
				_, err = w.WriteAt([]byte{3}, off)
				assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			}
			_, err = w.WriteAt(make([]byte, 2), 99)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			require.NoError(t, w.Close())
			want := byteRuns(100, 0, 90, 1, 10, 2, 100, 0)
			assertBytes(t, want, download(t, whole))
		}
	})
}

// byteRuns returns runs of equal bytes, each given by its length and value.
func byteRuns(lengthsAndValues ...int) (b []byte) {
	for run := range slices.Chunk(lengthsAndValues, 2) {
		b = append(b, bytes.Repeat([]byte{byte(run[1])}, run[0])...)
	}
	return b
}

func TestWriteAtFlushesFirst(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, collect := range []int{0, 64, 1000} {
			b, w := writer(t, dev, 100)
			require.NoError(t, w.SetBufferSize(collect))
			write(t, w, byteRuns(60, 1))
			n, err := w.WriteAt(byteRuns(25, 2), 10)
			require.NoError(t, err)
			assert.Equal(t, 25, n)
			assert.Zero(t, w.Buffered())
			assert.EqualValues(t, 60, tell(t, w), "WriteAt does not move the position")
			write(t, w, byteRuns(40, 3))
			_, err = w.WriteAt([]byte{4}, 99)
			require.NoError(t, err)
			require.NoError(t, w.Flush())
			assertBytes(t, byteRuns(10, 1, 25, 2, 25, 1, 39, 3, 1, 4), download(t, b))
		}
	})
}

func TestSeekFlushesCollectedBytes(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b, w := writer(t, dev, 100)
		require.NoError(t, w.SetBufferSize(64))
		write(t, w, byteRuns(20, 1))
		_, err := w.Seek(101, io.SeekStart)
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		assert.Equal(t, 20, w.Buffered(), "a failed seek does not flush")
		_, err = w.Seek(-30, io.SeekEnd)
		require.NoError(t, err)
		assert.Zero(t, w.Buffered())
		write(t, w, byteRuns(30, 2))
		_, err = w.Seek(10, io.SeekStart)
		require.NoError(t, err)
		write(t, w, byteRuns(5, 3))
		require.NoError(t, w.SetBufferSize(0))
		assert.Zero(t, w.Buffered())
		assertBytes(t, byteRuns(10, 1, 5, 3, 5, 1, 50, 0, 30, 2), download(t, b))
	})
}

func TestBufferWriterIsSafeForGoroutines(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b, w := writer(t, dev, 8*64+8*64)
		require.NoError(t, w.SetBufferSize(100))
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				_, err := w.Write(byteRuns(64, i+1))
				assert.NoError(t, err)
			})
			wg.Go(func() {
				_, err := w.WriteAt(byteRuns(64, i+1), int64(512+64*i))
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		require.NoError(t, w.Flush())
		got := download(t, b)
		seen := map[byte]bool{}
		for part := range slices.Chunk(got[:512], 64) {
			seen[part[0]] = true
			assertBytes(t, byteRuns(64, int(part[0])), part)
		}
		assert.Len(t, seen, 8, "each Write is contiguous")
		for i := range 8 {
			assertBytes(t, byteRuns(64, i+1), got[512+64*i:512+64*(i+1)])
		}
	})
}

func TestWriterCloseFlushes(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := upload(t, dev, make([]byte, 100)).(*cudabuf.Buffer)
		w, err := cudabuf.NewBufferWriter(b)
		require.NoError(t, err)
		require.NoError(t, w.SetBufferSize(64))
		write(t, w, byteRuns(20, 1))
		require.NoError(t, w.Close())
		require.NoError(t, w.Close())
		assertBytes(t, byteRuns(20, 1, 80, 0), download(t, b))
		for name, use := range map[string]func() error{
			"Write":         func() error { _, err := w.Write([]byte{1}); return err },
			"WriteAt":       func() error { _, err := w.WriteAt([]byte{1}, 0); return err },
			"Seek":          func() error { _, err := w.Seek(0, io.SeekStart); return err },
			"Flush":         w.Flush,
			"SetBufferSize": func() error { return w.SetBufferSize(10) },
		} {
			assert.ErrorIs(t, use(), fs.ErrClosed, name)
		}
		assert.Zero(t, w.BufferSize())
		assert.Zero(t, w.Buffered())

		shown, err := b.ReadOnly()
		require.NoError(t, err)
		_, err = cudabuf.NewBufferWriter(shown)
		assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
		shown.Release()
		b.Release()
		assert.Zero(t, dev.MemoryStats().InUse)
		_, err = cudabuf.NewBufferWriter(b)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
	})
}

func TestWriterReturnsDriverErrors(t *testing.T) {
	dev, fail := failing(t)
	b, w := writer(t, dev, 100)
	assert.ErrorIs(t, w.SetBufferSize(-1), arrowbuf.ErrOutOfRange)
	fail("cuMemHostAlloc", 1)
	assert.ErrorContains(t, w.SetBufferSize(50), "cuMemHostAlloc: CUDA_ERROR_INVALID_VALUE")
	assert.Zero(t, w.BufferSize())
	require.NoError(t, w.SetBufferSize(50))

	write(t, w, byteRuns(20, 1))
	for name, use := range map[string]func() error{
		"Flush":         w.Flush,
		"Write":         func() error { _, err := w.Write(byteRuns(40, 2)); return err },
		"WriteAt":       func() error { _, err := w.WriteAt([]byte{2}, 0); return err },
		"Seek":          func() error { _, err := w.Seek(0, io.SeekStart); return err },
		"SetBufferSize": func() error { return w.SetBufferSize(10) },
	} {
		fail("cuMemcpyHtoDAsync", 2)
		assert.ErrorIs(t, use(), arrowbuf.ErrOutOfMemory, name)
		assert.Equal(t, 20, w.Buffered(), "%s: the bytes stay collected", name)
		assert.EqualValues(t, 20, tell(t, w), name)
	}
	require.NoError(t, w.Flush())
	assertBytes(t, byteRuns(20, 1, 80, 0), download(t, b))

	write(t, w, byteRuns(20, 1))
	fail("cuMemcpyHtoDAsync", 2)
	assert.ErrorIs(t, w.Close(), arrowbuf.ErrOutOfMemory)
	_, err := w.Write(nil)
	assert.ErrorIs(t, err, fs.ErrClosed)
}

func TestNilBuffersAreErrors(t *testing.T) {
	dev := cudatest.NewDevice(t)
	_, err := dev.CopyOf(nil)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = cudabuf.NewBufferReader(nil)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	assert.ErrorContains(t, err, "nil buffer")
	_, err = cudabuf.NewBufferWriter(nil)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
}
