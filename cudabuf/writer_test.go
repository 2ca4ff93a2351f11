package cudabuf_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// writer returns a writer to a buffer of zeros, which is released, and the
// writer closed, when the test ends.
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

func TestWritesOfAnySizeArrive(t *testing.T) {
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

func TestWhatIsBufferedAtTheEdges(t *testing.T) {
	type step struct {
		resize   int // before writing, 0 for not
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
				assert.Equal(t, step.buffered, w.Buffered(), "%s: asking for the position does not flush", name)
				want := make([]byte, len(data))
				copy(want, data[:step.arrived])
				assertBytes(t, want, download(t, b))
			}
			require.NoError(t, w.Flush())
			assertBytes(t, data[:pos], download(t, b)[:pos])
		}
	})
}

func TestNothingIsWrittenBeyondTheEnd(t *testing.T) {
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
			want := runs(100, 0, 90, 1, 10, 2, 100, 0)
			assertBytes(t, want, download(t, whole))
		}
	})
}

// runs makes runs of bytes, each given by its length and value.
func runs(lengthsAndValues ...int) (b []byte) {
	for run := range slices.Chunk(lengthsAndValues, 2) {
		b = append(b, bytes.Repeat([]byte{byte(run[1])}, run[0])...)
	}
	return b
}

func TestWriteAtComesAfterWhatIsCollected(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, collect := range []int{0, 64, 1000} {
			b, w := writer(t, dev, 100)
			require.NoError(t, w.SetBufferSize(collect))
			write(t, w, runs(60, 1))
			n, err := w.WriteAt(runs(25, 2), 10)
			require.NoError(t, err)
			assert.Equal(t, 25, n)
			assert.Zero(t, w.Buffered())
			assert.EqualValues(t, 60, tell(t, w), "the position is not WriteAt's")
			write(t, w, runs(40, 3))
			_, err = w.WriteAt([]byte{4}, 99)
			require.NoError(t, err)
			require.NoError(t, w.Flush())
			assertBytes(t, runs(10, 1, 25, 2, 25, 1, 39, 3, 1, 4), download(t, b))
		}
	})
}

func TestSeekPutsWhatIsCollectedInItsPlace(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b, w := writer(t, dev, 100)
		require.NoError(t, w.SetBufferSize(64))
		write(t, w, runs(20, 1))
		_, err := w.Seek(101, io.SeekStart)
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		assert.Equal(t, 20, w.Buffered(), "a seek that fails does not flush")
		_, err = w.Seek(-30, io.SeekEnd)
		require.NoError(t, err)
		assert.Zero(t, w.Buffered())
		write(t, w, runs(30, 2))
		_, err = w.Seek(10, io.SeekStart)
		require.NoError(t, err)
		write(t, w, runs(5, 3))
		require.NoError(t, w.SetBufferSize(0))
		assert.Zero(t, w.Buffered())
		assertBytes(t, runs(10, 1, 5, 3, 5, 1, 50, 0, 30, 2), download(t, b))
	})
}

func TestWritersInManyGoroutines(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b, w := writer(t, dev, 8*64+8*64)
		require.NoError(t, w.SetBufferSize(100))
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				_, err := w.Write(runs(64, i+1))
				assert.NoError(t, err)
			})
			wg.Go(func() {
				_, err := w.WriteAt(runs(64, i+1), int64(512+64*i))
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		require.NoError(t, w.Flush())
		got := download(t, b)
		seen := map[byte]bool{}
		for part := range slices.Chunk(got[:512], 64) {
			seen[part[0]] = true
			assertBytes(t, runs(64, int(part[0])), part)
		}
		assert.Len(t, seen, 8, "each Write is in one piece")
		for i := range 8 {
			assertBytes(t, runs(64, i+1), got[512+64*i:512+64*(i+1)])
		}
	})
}

func TestCloseFlushesAndEverythingAnswersErrClosed(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := upload(t, dev, make([]byte, 100)).(*cudabuf.Buffer)
		w, err := cudabuf.NewBufferWriter(b)
		require.NoError(t, err)
		require.NoError(t, w.SetBufferSize(64))
		write(t, w, runs(20, 1))
		require.NoError(t, w.Close())
		require.NoError(t, w.Close())
		assertBytes(t, runs(20, 1, 80, 0), download(t, b))
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

func TestWritingPassesOnWhatTheDriverSays(t *testing.T) {
	dev, fail := failing(t)
	b, w := writer(t, dev, 100)
	assert.ErrorIs(t, w.SetBufferSize(-1), arrowbuf.ErrOutOfRange)
	fail("cuMemHostAlloc", 1)
	assert.ErrorContains(t, w.SetBufferSize(50), "cuMemHostAlloc: CUDA_ERROR_INVALID_VALUE")
	assert.Zero(t, w.BufferSize())
	require.NoError(t, w.SetBufferSize(50))

	write(t, w, runs(20, 1))
	for name, use := range map[string]func() error{
		"Flush":         w.Flush,
		"Write":         func() error { _, err := w.Write(runs(40, 2)); return err },
		"WriteAt":       func() error { _, err := w.WriteAt([]byte{2}, 0); return err },
		"Seek":          func() error { _, err := w.Seek(0, io.SeekStart); return err },
		"SetBufferSize": func() error { return w.SetBufferSize(10) },
	} {
		fail("cuMemcpyHtoDAsync", 2)
		assert.ErrorIs(t, use(), arrowbuf.ErrOutOfMemory, name)
		assert.Equal(t, 20, w.Buffered(), "%s: it stays collected", name)
		assert.EqualValues(t, 20, tell(t, w), name)
	}
	require.NoError(t, w.Flush())
	assertBytes(t, runs(20, 1, 80, 0), download(t, b))

	write(t, w, runs(20, 1))
	fail("cuMemcpyHtoDAsync", 2)
	assert.ErrorIs(t, w.Close(), arrowbuf.ErrOutOfMemory)
	_, err := w.Write(nil)
	assert.ErrorIs(t, err, fs.ErrClosed)
}
