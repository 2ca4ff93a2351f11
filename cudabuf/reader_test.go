package cudabuf_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// reader returns a reader of a buffer that holds the bytes, and that only the
// reader keeps.
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

func TestBufferReaderKeepsIosContracts(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, size := range []int{0, 1, 2, 100, 1000} {
			data := pattern(size)
			r := reader(t, dev, data)
			assert.EqualValues(t, size, r.Size())
			assert.NoError(t, iotest.TestReader(r, data), "%d bytes", size)
		}
	})
}

func TestBufferReaderReadsShortOnlyAtTheEnd(t *testing.T) {
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
		assert.NoError(t, err, "nothing is wanted at the end")
	})
}

func tell(t testing.TB, s io.Seeker) int64 {
	t.Helper()
	pos, err := s.Seek(0, io.SeekCurrent)
	require.NoError(t, err)
	return pos
}

func TestSeekStaysWithinTheBuffer(t *testing.T) {
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
				want   int64 // -1 is out of range
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

func TestReadBufferIsASliceOfTheSameMemory(t *testing.T) {
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

func TestBufferReaderOfNothing(t *testing.T) {
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

// failingWriter takes so many bytes and then fails, or lies about it.
type failingWriter struct {
	bytes.Buffer
	room int
	err  error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.room)
	w.room -= n
	w.Buffer.Write(p[:n])
	if n < len(p) {
		return n, w.err
	}
	return n, nil
}

func TestWriteToWritesTheRest(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(9 << 20) // several pieces
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
			w := &failingWriter{room: 5 << 20, err: tt.say}
			n, err = r.WriteTo(w)
			assert.ErrorIs(t, err, tt.want)
			assert.EqualValues(t, 5<<20, n)
			assertBytes(t, data[7:7+5<<20], w.Bytes())
			assert.EqualValues(t, 7+5<<20, tell(t, r), "it goes on where it failed")
		}
	})
}

func TestReadersInManyGoroutines(t *testing.T) {
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
		assert.Len(t, taken, 8, "each gets a part of its own")
		assert.EqualValues(t, len(data), tell(t, r))
	})
}

func TestAClosedReaderAnswersErrClosed(t *testing.T) {
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
		assertBytes(t, pattern(10), download(t, b)) // the buffer is the caller's still
		b.Release()
		assert.Zero(t, dev.MemoryStats().InUse)
		_, err = cudabuf.NewBufferReader(b)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
	})
}

func TestReadingPassesOnWhatTheDriverSays(t *testing.T) {
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
