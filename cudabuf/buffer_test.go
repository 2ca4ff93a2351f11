package cudabuf_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBufferCopiesAtPosition(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, size := range []int{1, 3, 511, 512, 513, 4096, 1 << 20} {
			data := pattern(size)
			b := upload(t, dev, data)
			assert.NotZero(t, b.Address())
			assert.EqualValues(t, size, b.Len())
			assert.Same(t, dev, b.Device())
			assertBytes(t, data, download(t, b))

			half := int64(size / 2)
			n, err := b.CopyFromHost([]byte{0xff}, half)
			require.NoError(t, err)
			assert.EqualValues(t, 1, n)
			data[half] = 0xff
			part := make([]byte, int64(size)-half)
			_, err = b.CopyToHost(part, half)
			require.NoError(t, err)
			assertBytes(t, data[half:], part)
			b.Release()
		}
	})
}

func TestBufferRefusesOutOfRange(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		_, err := dev.Alloc(-1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		_, err = dev.NewBuffer(-1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		b := upload(t, dev, pattern(10))
		defer b.Release()
		for _, r := range []struct{ pos, n int64 }{
			{-1, 1}, {10, 1}, {11, 0}, {0, 11}, {5, 6}, {math.MaxInt64, 1}, {math.MinInt64, 1},
		} {
			host := make([]byte, r.n)
			n, err := b.CopyToHost(host, r.pos)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "to host %v", r)
			assert.Zero(t, n)
			_, err = b.CopyFromHost(host, r.pos)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "from host %v", r)
			_, err = b.Slice(r.pos, r.n)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "slice %v", r)
			src := upload(t, dev, host)
			_, err = b.CopyFromDevice(src, r.pos)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "from device %v", r)
			src.Release()
		}
		_, err = b.Slice(3, -1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		_, err = b.Slice(5, math.MaxInt64)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		assertBytes(t, pattern(10), download(t, b))
	})
}

func TestEmptyBufferHasNoAddress(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := upload(t, dev, nil)
		defer b.Release()
		whole := upload(t, dev, pattern(8))
		defer whole.Release()
		end, err := whole.Slice(8, 0)
		require.NoError(t, err)
		defer end.Release()
		for _, empty := range []arrowbuf.Buffer{b, end} {
			assert.Zero(t, empty.Address())
			assert.Zero(t, empty.Len())
			assert.Empty(t, download(t, empty))
			_, err := whole.CopyFromDevice(empty, 8)
			assert.NoError(t, err)
			_, err = empty.CopyFromDevice(b, 0)
			assert.NoError(t, err)
			assert.NoError(t, empty.(*cudabuf.Buffer).Fill(1))
			same, err := empty.Equal(b)
			assert.NoError(t, err)
			assert.True(t, same)
		}
	})
}

func TestEmptyBufferMakesNoDriverCall(t *testing.T) {
	dev, calls := countAllCalls(t)
	before := calls()
	b := upload(t, dev, nil)
	_ = download(t, b)
	require.NoError(t, b.(*cudabuf.Buffer).Fill(1))
	b.Release()
	assert.Equal(t, before, calls())
}

func TestBufferImplementsReaderAtAndWriterAt(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(1000)
		b := upload(t, dev, data)
		defer b.Release()
		assert.NoError(t, iotest.TestReader(io.NewSectionReader(b, 0, b.Len()), data))

		p := make([]byte, 20)
		n, err := b.ReadAt(p, 990)
		assert.Equal(t, 10, n)
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, data[990:], p[:10])
		n, err = b.ReadAt(p[:10], 990)
		assert.Equal(t, 10, n)
		assert.NoError(t, err)
		for _, off := range []int64{1000, 2000, math.MaxInt64} {
			n, err = b.ReadAt(p, off)
			assert.Zero(t, n)
			assert.Equal(t, io.EOF, err)
		}
		_, err = b.ReadAt(p, -1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)

		n, err = b.WriteAt([]byte("quiver"), 500)
		assert.NoError(t, err)
		assert.Equal(t, 6, n)
		n, err = b.WriteAt(p, 990)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		assert.Less(t, n, len(p))
		_, err = b.WriteAt(p, -1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		copy(data[500:], "quiver")
		assertBytes(t, data, download(t, b))
	})
}

func TestSlicesShareMemoryAndOutliveParent(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(1000)
		whole := upload(t, dev, data)
		a, err := whole.Slice(100, 500)
		require.NoError(t, err)
		b, err := a.Slice(50, 100)
		require.NoError(t, err)
		assert.Equal(t, whole.Address()+150, b.Address())
		_, err = b.CopyFromHost([]byte("written through"), 0)
		require.NoError(t, err)
		copy(data[150:], "written through")
		assertBytes(t, data, download(t, whole))
		whole.Release()
		a.Release()
		assert.NotZero(t, dev.MemoryStats().InUse)
		assertBytes(t, data[150:250], download(t, b))
		b.Release()
		assert.Zero(t, dev.MemoryStats().InUse)
	})
}

func TestReleasedBufferReturnsErrReleased(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		other := upload(t, dev, pattern(4))
		defer other.Release()
		for _, size := range []int{0, 4} {
			b := upload(t, dev, pattern(size)).(*cudabuf.Buffer)
			b.Retain()
			b.Release()
			b.Release()
			for name, use := range map[string]func() error{
				"CopyToHost":     func() error { _, err := b.CopyToHost(nil, 0); return err },
				"CopyFromHost":   func() error { _, err := b.CopyFromHost(nil, 0); return err },
				"CopyFromDevice": func() error { _, err := b.CopyFromDevice(other, 0); return err },
				"as a source":    func() error { _, err := other.CopyFromDevice(b, 0); return err },
				"Slice":          func() error { _, err := b.Slice(0, 0); return err },
				"Equal":          func() error { _, err := b.Equal(other); return err },
				"Equal to it":    func() error { _, err := other.Equal(b); return err },
				"ReadAt":         func() error { _, err := b.ReadAt(make([]byte, 1), 0); return err },
				"ReadAt the end": func() error { _, err := b.ReadAt(nil, 9); return err },
				"WriteAt":        func() error { _, err := b.WriteAt(nil, 0); return err },
				"Fill":           func() error { return b.Fill(0) },
			} {
				assert.ErrorIs(t, use(), arrowbuf.ErrReleased, name)
			}
			assert.Panics(t, b.Release)
			assert.Panics(t, b.Retain)
			assert.Panics(t, func() { b.Arrow() })
		}
	})
}

func TestReferencesAreCountedAcrossGoroutines(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(1 << 12)
		b := upload(t, dev, data)
		var wg sync.WaitGroup
		for i := range 16 {
			b.Retain()
			wg.Go(func() {
				defer b.Release()
				part, err := b.Slice(int64(i), 100)
				if assert.NoError(t, err) {
					assertBytes(t, data[i:i+100], download(t, part))
					part.Release()
				}
			})
		}
		b.Release()
		wg.Wait()
		assert.Zero(t, dev.MemoryStats().InUse)
	})
}

func TestUseDuringLastReleaseIsSafe(t *testing.T) {
	dev := cudatest.NewDevice(t)
	require.NoError(t, dev.SetIdleLimit(0)) // a late copy would access freed memory
	for range 50 {
		b := upload(t, dev, pattern(64))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := b.CopyToHost(make([]byte, 64), 0); err != nil {
					assert.ErrorIs(t, err, arrowbuf.ErrReleased)
				}
			})
		}
		b.Release()
		wg.Wait()
	}
	assert.Zero(t, dev.MemoryStats())
}

func TestHostAccessToDeviceMemoryFaults(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := upload(t, dev, pattern(100))
		defer b.Release()
		arrow := b.Arrow()
		defer arrow.Release()
		for name, touch := range map[string]func(p []byte){
			"read":  func(p []byte) { assert.Zero(t, p[7]) },
			"write": func(p []byte) { p[7]++ },
			"copy":  func(p []byte) { copy(make([]byte, 93), p[7:]) },
		} {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			func() {
				defer func() {
					fault, ok := recover().(interface{ Addr() uintptr })
					if assert.True(t, ok, "%s does not fault", name) {
						assert.GreaterOrEqual(t, fault.Addr(), b.Address()+7)
						assert.Less(t, fault.Addr(), b.Address()+100)
					}
				}()
				touch(arrow.Bytes())
			}()
		}
	})
}

func TestFromArrowFindsDeviceBuffer(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(300)
		b := upload(t, dev, data)
		whole := b.Arrow()
		b.Release()
		assert.False(t, arrowbuf.OnHost(whole))
		part := sliceArrow(sliceArrow(whole, 100, 150), 20, 30)
		found, ok := arrowbuf.FromArrow(part)
		require.True(t, ok)
		assert.Same(t, dev, found.Device())
		assertBytes(t, data[120:150], download(t, found))
		part.Release()
		assert.Equal(t, data[120:150], download(t, found), "it has its own reference")
		found.Release()
		whole.Release()
		assert.Zero(t, dev.MemoryStats().InUse)
	})
}

func TestFillSetsOnlyTheSlice(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(600)
		b := upload(t, dev, data)
		defer b.Release()
		part, err := b.Slice(10, 550)
		require.NoError(t, err)
		defer part.Release()
		require.NoError(t, part.(*cudabuf.Buffer).Fill(0x5a))
		copy(data[10:], bytes.Repeat([]byte{0x5a}, 550))
		assertBytes(t, data, download(t, b))
	})
}

func TestBufferViewsAndCopies(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := upload(t, dev, []byte("hello, world")).(*cudabuf.Buffer)
		defer b.Release()
		text, err := b.Hex()
		require.NoError(t, err)
		assert.Equal(t, strings.ToLower(fmt.Sprintf("%x", "hello, world")), text)
		assert.Nil(t, b.Parent())
		assert.True(t, b.Mutable())

		clipped, err := b.SliceClamped(7, 100)
		require.NoError(t, err)
		defer clipped.Release()
		assert.Same(t, b, clipped.Parent())
		got, err := clipped.Bytes()
		require.NoError(t, err)
		assert.Equal(t, "world", string(got))
		for _, bad := range [][2]int64{{-1, 1}, {13, 0}, {0, -1}} {
			_, err := b.SliceClamped(bad[0], bad[1])
			assert.Error(t, err, "%v", bad)
		}

		view, err := b.ReadOnly()
		require.NoError(t, err)
		defer view.Release()
		part, err := view.Slice(0, 5)
		require.NoError(t, err)
		defer part.Release()
		for _, ro := range []*cudabuf.Buffer{view, part.(*cudabuf.Buffer)} {
			assert.False(t, ro.Mutable())
			assert.ErrorIs(t, ro.Fill(0), cudabuf.ErrReadOnly)
			_, err = ro.CopyFromHost([]byte("x"), 0)
			assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
			_, err = ro.CopyFromDevice(clipped, 0)
			assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
			_, err = ro.WriteAt([]byte("x"), 0)
			assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
		}
		assert.Equal(t, "hello, world", string(download(t, b)))

		copied, err := dev.CopyOf(clipped)
		require.NoError(t, err)
		defer copied.Release()
		assert.NotEqual(t, clipped.Address(), copied.Address())
		equal, err := copied.Equal(clipped)
		require.NoError(t, err)
		assert.True(t, equal)
		fromHost, err := dev.FromHost(bytes.Repeat([]byte{1}, 3))
		require.NoError(t, err)
		defer fromHost.Release()
		assert.Equal(t, []byte{1, 1, 1}, download(t, fromHost))
	})
}

func TestBufferCopiesDataOfEveryKind(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(100)
		device := upload(t, dev, data).(*cudabuf.Buffer)
		defer device.Release()
		pinned := dev.HostAllocator().Allocate(100)
		defer dev.HostAllocator().Free(pinned)
		copy(pinned, data)
		host := memory.NewBufferBytes(data)
		defer host.Release()

		ofDevice := func(b *cudabuf.Buffer) func() (*cudabuf.Buffer, error) {
			return func() (*cudabuf.Buffer, error) {
				part, err := b.SliceClamped(10, 50)
				if err != nil {
					return nil, err
				}
				defer part.Release()
				return dev.CopyOf(part)
			}
		}
		arrowDevice := device.Arrow()
		defer arrowDevice.Release()
		for name, of := range map[string]func() (*cudabuf.Buffer, error){
			"host bytes":   func() (*cudabuf.Buffer, error) { return dev.FromHost(data[10:60]) },
			"pinned bytes": func() (*cudabuf.Buffer, error) { return dev.FromHost(pinned[10:60]) },
			"arrow's host": func() (*cudabuf.Buffer, error) { return dev.FromHost(host.Bytes()[10:60]) },
			"device":       ofDevice(device),
			"arrow's device": func() (*cudabuf.Buffer, error) {
				b, err := cudabuf.FromArrow(arrowDevice)
				if err != nil {
					return nil, err
				}
				defer b.Release()
				return ofDevice(b)()
			},
			"external": func() (*cudabuf.Buffer, error) {
				b, err := dev.WrapExternal(device.Address(), 100, nil)
				if err != nil {
					return nil, err
				}
				defer b.Release()
				return ofDevice(b)()
			},
		} {
			b, err := of()
			require.NoError(t, err, name)
			assert.EqualValues(t, 50, b.Len(), name)
			assert.NotEqual(t, device.Address()+10, b.Address(), "%s: it is a copy", name)
			assertBytes(t, data[10:60], download(t, b))
			b.Release()
		}
		_, err := cudabuf.FromArrow(host)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	})
}

func TestBuffersPrintWhereTheyAre(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := upload(t, dev, pattern(100)).(*cudabuf.Buffer)
		view, err := b.ReadOnly()
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("Buffer(100 bytes at %#x of cuda:0)", b.Address()), fmt.Sprint(b))
		assert.Equal(t, fmt.Sprintf("Buffer(100 bytes at %#x of cuda:0, read-only)", b.Address()), view.String())
		view.Release()
		b.Release()
		assert.Contains(t, b.String(), ", released)")
		host, err := dev.NewHostBuffer(10, cudabuf.HostOptions{})
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("HostBuffer(10 bytes at %#x of cuda_host:0)", host.Address()), host.String())
		host.Release()
	})
	assert.Equal(t, "Buffer(nil) HostBuffer(nil)", fmt.Sprint((*cudabuf.Buffer)(nil), (*cudabuf.HostBuffer)(nil)))
	assert.Equal(t, "Buffer(without a device)", new(cudabuf.Buffer).String())
}

func TestReadOnlySurvivesArrow(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := upload(t, dev, pattern(100)).(*cudabuf.Buffer)
		defer b.Release()
		view, err := b.ReadOnly()
		require.NoError(t, err)
		defer view.Release()
		for _, tt := range []struct {
			from    *cudabuf.Buffer
			mutable bool
		}{{b, true}, {view, false}} {
			seen := tt.from.Arrow()
			back, err := cudabuf.FromArrow(seen)
			require.NoError(t, err)
			assert.Equal(t, tt.mutable, back.Mutable())
			assert.Equal(t, tt.from.Address(), back.Address())
			back.Release()
			part := sliceArrow(seen, 10, 20)
			back, err = cudabuf.FromArrow(part)
			require.NoError(t, err)
			assert.Equal(t, tt.mutable, back.Mutable(), "a slice")
			assert.Equal(t, tt.from.Address()+10, back.Address())
			back.Release()
			part.Release()
			seen.Release()
		}
	})
}
