package arrowbuf_test

import (
	"errors"
	"io"
	"math"
	"testing"
	"testing/iotest"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestBufferImplementsReaderAt(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, n := range []int{0, 1, 1000} {
			b := alloc(t, dev, n)
			assert.NoError(t, iotest.TestReader(io.NewSectionReader(b, 0, b.Len()), sequence(0, n)))
			if n == 1000 {
				assert.NoError(t, iotest.TestReader(io.NewSectionReader(b, 37, 500), sequence(37, 500)))
			}
			got, err := b.ReadAt(make([]byte, 1), b.Len())
			assert.Zero(t, got)
			assert.ErrorIs(t, err, io.EOF)
			_, err = b.ReadAt(make([]byte, 1), -1)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			got, err = b.ReadAt(make([]byte, n+5), 0)
			assert.Equal(t, n, got)
			assert.ErrorIs(t, err, io.EOF)
		}
	})
}

func TestBufferImplementsWriterAt(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b := alloc(t, dev, 100)
		w := io.NewOffsetWriter(b, 10)
		n, err := w.Write([]byte("abc"))
		require.NoError(t, err)
		assert.Equal(t, 3, n)
		want := sequence(0, 100)
		copy(want[10:], "abc")
		assert.Equal(t, want, contents(t, b))
		for _, off := range []int64{-1, 99, 101, math.MaxInt64} {
			n, err := b.WriteAt([]byte("xy"), off)
			assert.Zero(t, n)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		}
		assert.Equal(t, want, contents(t, b))
	})
}

func TestBufferSliceAndCopyCheckBounds(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b := alloc(t, dev, 100)
		part, err := b.Slice(20, 50)
		require.NoError(t, err)
		defer part.Release()
		deeper, err := part.Slice(5, 10)
		require.NoError(t, err)
		defer deeper.Release()
		assert.Equal(t, sequence(25, 10), contents(t, deeper))
		assert.Equal(t, b.Address()+25, deeper.Address())
		assert.Same(t, dev, deeper.Device())
		_, err = deeper.CopyFromHost([]byte{1, 2}, 3)
		require.NoError(t, err)
		assert.Equal(t, []byte{27, 1, 2, 30}, contents(t, b)[27:31])
		for _, r := range [][2]int64{{-1, 1}, {0, 101}, {101, 0}, {99, 2}, {5, -1}, {5, math.MaxInt64}} {
			_, err := b.Slice(r[0], r[1])
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange, r)
		}
		for _, pos := range []int64{-1, 99, math.MaxInt64} {
			_, err := b.CopyFromHost(make([]byte, 2), pos)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			_, err = b.CopyToHost(make([]byte, 2), pos)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			_, err = b.CopyFromDevice(deeper, pos)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		}
	})
}

func TestBufferCopyAndEqualAcrossDevices(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, other := range []arrowbuf.Device{dev, arrowbuf.CPU()} {
			src, dst := alloc(t, other, 40), alloc(t, dev, 100)
			n, err := dst.CopyFromDevice(src, 60)
			require.NoError(t, err)
			assert.EqualValues(t, 40, n)
			assert.Equal(t, append(sequence(0, 60), sequence(0, 40)...), contents(t, dst))
			head, err := dst.Slice(0, 40)
			require.NoError(t, err)
			for _, pair := range [][2]arrowbuf.Buffer{{head, src}, {src, head}} {
				same, err := pair[0].Equal(pair[1])
				require.NoError(t, err)
				assert.True(t, same)
			}
			_, err = src.WriteAt([]byte{99}, 39)
			require.NoError(t, err)
			for _, pair := range [][2]arrowbuf.Buffer{{head, src}, {src, head}, {dst, src}, {src, dst}} {
				same, err := pair[0].Equal(pair[1])
				require.NoError(t, err)
				assert.False(t, same)
			}
			head.Release()
		}
	})
}

func TestEmptyBufferHasAddressZero(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		empty := alloc(t, dev, 0)
		cut, err := alloc(t, dev, 10).Slice(10, 0)
		require.NoError(t, err)
		defer cut.Release()
		for _, b := range []arrowbuf.Buffer{empty, cut} {
			assert.Zero(t, b.Len())
			assert.Zero(t, b.Address())
			assert.Empty(t, contents(t, b))
			view := b.Arrow()
			assert.Zero(t, view.Len())
			view.Release()
		}
	})
}

func TestAllocRejectsInvalidSizes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		_, err := dev.Alloc(-1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		for _, n := range []int64{1 << 50, math.MaxInt64} {
			_, err = dev.Alloc(n)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		}
	})
}

func TestReleasedBufferReturnsErrReleased(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b, err := dev.Alloc(10)
		require.NoError(t, err)
		b.Retain()
		b.Release()
		require.Len(t, contents(t, b), 10)
		b.Release()
		_, err = b.Slice(0, 0)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		_, err = b.CopyToHost(make([]byte, 1), 0)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		_, err = b.WriteAt(make([]byte, 1), 0)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		_, err = b.ReadAt(make([]byte, 1), 0)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		assert.Panics(t, b.Release)
	})
}

func TestFromArrowFindsBufferOfSlices(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		view := alloc(t, dev, 100).Arrow()
		defer view.Release()
		outer := memory.SliceBuffer(view, 10, 80)
		defer outer.Release()
		for _, c := range []struct{ from, n int }{{0, 80}, {0, 1}, {7, 20}, {79, 1}, {80, 0}, {30, 0}, {0, 0}} {
			inner := memory.SliceBuffer(outer, c.from, c.n)
			b, err := arrowbuf.BufferOf(inner)
			require.NoError(t, err)
			assert.Same(t, dev, b.Device())
			assert.Equal(t, sequence(10+c.from, c.n), contents(t, b))
			b.Release()
			found, ok := arrowbuf.FromArrow(inner)
			assert.Equal(t, dev != arrowbuf.CPU(), ok, "arrow-go's own memory is not found")
			if ok {
				assert.Equal(t, sequence(10+c.from, c.n), contents(t, found))
				found.Release()
			}
			assert.Equal(t, dev == arrowbuf.CPU(), arrowbuf.OnHost(inner))
			inner.Release()
		}
	})
}

func TestArrowBufferKeepsBufferAlive(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		b, err := dev.Alloc(10)
		require.NoError(t, err)
		_, err = b.CopyFromHost(sequence(0, 10), 0)
		require.NoError(t, err)
		view := b.Arrow()
		b.Release()
		slice := memory.SliceBuffer(view, 2, 5)
		view.Release()
		found, ok := arrowbuf.FromArrow(slice)
		require.True(t, ok)
		slice.Release()
		assert.Equal(t, sequence(2, 5), contents(t, found))
		found.Release()
	})
}

func TestDeviceArrowBufferCannotGrow(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		view := alloc(t, dev, 10).Arrow()
		defer view.Release()
		assert.PanicsWithValue(t, "arrowbuf: a device buffer cannot be resized in place", func() { view.Resize(1000) })
		empty := alloc(t, dev, 0).Arrow()
		defer empty.Release()
		assert.PanicsWithValue(t, "arrowbuf: a device buffer cannot grow in place", func() { empty.Resize(1000) })
	})
}

func TestNilArrowBuffer(t *testing.T) {
	_, ok := arrowbuf.FromArrow(nil)
	assert.False(t, ok)
	_, err := arrowbuf.BufferOf(nil)
	assert.Error(t, err)
	assert.True(t, arrowbuf.OnHost(nil))
}

func TestSliceFromEndsWithBuffer(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b := alloc(t, dev, 10)
		for offset, want := range map[int64][]byte{0: sequence(0, 10), 7: {7, 8, 9}, 10: {}} {
			part, err := arrowbuf.SliceFrom(b, offset)
			require.NoError(t, err)
			assert.Equal(t, want, contents(t, part))
			part.Release()
		}
		for _, offset := range []int64{-1, 11} {
			_, err := arrowbuf.SliceFrom(b, offset)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		}
	})
}

func TestCopyBufferToHostUsesAllocator(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b := alloc(t, dev, 1000)
		for name, mem := range map[string]memory.Allocator{"of the device": dev.HostAllocator(), "Go's": memory.DefaultAllocator} {
			watched := memory.NewCheckedAllocator(mem)
			part, err := arrowbuf.SliceFrom(b, 300)
			require.NoError(t, err)
			host, err := arrowbuf.CopyBufferToHost(part, watched)
			part.Release()
			require.NoError(t, err, name)
			assert.Equal(t, sequence(300, 700), host.Bytes())
			assert.True(t, arrowbuf.OnHost(host))
			assert.GreaterOrEqual(t, watched.CurrentAlloc(), 700)
			host.Resize(2000)
			assert.Equal(t, sequence(300, 700), host.Bytes()[:700], "it grows in the allocator's memory")
			host.Release()
			watched.AssertSize(t, 0)
		}
		none, err := arrowbuf.SliceFrom(b, 1000)
		require.NoError(t, err)
		defer none.Release()
		empty, err := arrowbuf.CopyBufferToHost(none, memory.DefaultAllocator)
		require.NoError(t, err)
		assert.Zero(t, empty.Len())
		empty.Release()
		_, err = arrowbuf.CopyBufferToHost(b, exhausted{})
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		_, err = arrowbuf.CopyBufferToHost(b, nil)
		assert.Error(t, err)
		released, err := b.Slice(0, 10)
		require.NoError(t, err)
		released.Release()
		watched := memory.NewCheckedAllocator(memory.DefaultAllocator)
		_, err = arrowbuf.CopyBufferToHost(released, watched)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		watched.AssertSize(t, 0)
	})
}

// exhausted is an allocator without memory.
type exhausted struct{ memory.Allocator }

func (exhausted) Allocate(int) []byte { panic(arrowbuf.ErrOutOfMemory) }

// Each error that callers can act on is found by errors.Is, on every device.
func TestBufferErrorsAnswerErrorsIs(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b := alloc(t, dev, 10)
		released, err := dev.Alloc(10)
		require.NoError(t, err)
		released.Release()
		for name, c := range map[string]struct {
			call func() error
			want error
		}{
			"an allocation beyond the memory": {func() error { _, err := dev.Alloc(1 << 50); return err }, arrowbuf.ErrOutOfMemory},
			"a negative allocation":           {func() error { _, err := dev.Alloc(-1); return err }, arrowbuf.ErrOutOfRange},
			"a slice beyond the end":          {func() error { _, err := b.Slice(5, 6); return err }, arrowbuf.ErrOutOfRange},
			"a copy beyond the end":           {func() error { _, err := b.CopyFromHost(make([]byte, 2), 9); return err }, arrowbuf.ErrOutOfRange},
			"a released buffer":               {func() error { _, err := released.CopyToHost(make([]byte, 1), 0); return err }, arrowbuf.ErrReleased},
			"a nil buffer":                    {func() error { _, err := b.CopyFromDevice(nil, 0); return err }, arrowbuf.ErrDevice},
		} {
			for _, sentinel := range []error{arrowbuf.ErrOutOfMemory, arrowbuf.ErrOutOfRange, arrowbuf.ErrReleased, arrowbuf.ErrDevice, arrowbuf.ErrDeviceMemory} {
				assert.Equal(t, errors.Is(sentinel, c.want), errors.Is(c.call(), sentinel), "%s: %v", name, sentinel)
			}
		}
	})
}
