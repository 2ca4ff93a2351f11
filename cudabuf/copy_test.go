package cudabuf_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestCopyFromDeviceTakesBuffersOfEveryDevice(t *testing.T) {
	const size = 5<<20 + 17 // more than one piece of the way through the host
	data := pattern(size)
	sources := map[string]func(t *testing.T, d *cudabuf.Driver) arrowbuf.Device{
		"the same": func(t *testing.T, d *cudabuf.Driver) arrowbuf.Device { return device(t, d, 0) },
		"the CPU":  func(*testing.T, *cudabuf.Driver) arrowbuf.Device { return arrowbuf.CPU() },
		"another driver's": func(t *testing.T, _ *cudabuf.Driver) arrowbuf.Device {
			return cudatest.NewDevice(t)
		},
		"a stranger": func(t *testing.T, _ *cudabuf.Driver) arrowbuf.Device { return stranger{arrowbuf.CPU()} },
	}
	for name, open := range sources {
		t.Run(name, func(t *testing.T) {
			cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
				copyAcross(t, open(t, d), device(t, d, 0), data)
			})
		})
	}
	t.Run("a peer", func(t *testing.T) {
		cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
			copyAcross(t, device(t, d, 1), device(t, d, 0), data)
		})
	})
	t.Run("a peer of a driver without peer copies", func(t *testing.T) {
		d := cudatest.Start(t, cudatest.Config{Devices: 2, Fail: func(call string, _ int) cudabuf.Result {
			if call == "cuMemcpyPeerAsync" {
				return 801
			}
			return 0
		}})
		copyAcross(t, device(t, d, 1), device(t, d, 0), data)
	})
}

func copyAcross(t *testing.T, from, to arrowbuf.Device, data []byte) {
	t.Helper()
	src := upload(t, from, data)
	defer src.Release()
	dst := upload(t, to, make([]byte, len(data)+10))
	defer dst.Release()
	n, err := dst.CopyFromDevice(src, 10)
	require.NoError(t, err)
	assert.EqualValues(t, len(data), n)
	assertBytes(t, append(make([]byte, 10), data...), download(t, dst))

	part, err := dst.Slice(10, int64(len(data)))
	require.NoError(t, err)
	defer part.Release()
	for _, pair := range [][2]arrowbuf.Buffer{{part, src}, {src, part}} {
		same, err := pair[0].Equal(pair[1])
		require.NoError(t, err)
		assert.True(t, same)
	}
	_, err = part.CopyFromHost([]byte{data[len(data)-1] + 1}, int64(len(data)-1))
	require.NoError(t, err)
	for _, pair := range [][2]arrowbuf.Buffer{{part, src}, {src, part}, {dst, src}} {
		same, err := pair[0].Equal(pair[1])
		require.NoError(t, err)
		assert.False(t, same)
	}
}

func TestCopyWithinABufferMovesOverlappingBytes(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, move := range []struct{ from, to, n int64 }{
			{0, 1, 999}, {1, 0, 999}, {0, 500, 500}, {300, 350, 400}, {350, 300, 400}, {7, 7, 100},
		} {
			data := pattern(1000)
			b := upload(t, dev, data)
			src, err := b.Slice(move.from, move.n)
			require.NoError(t, err)
			_, err = b.CopyFromDevice(src, move.to)
			require.NoError(t, err)
			copy(data[move.to:], data[move.from:move.from+move.n])
			assert.Equal(t, data, download(t, b), "%+v", move)
			src.Release()
			b.Release()
		}
	})
}

func TestCopiesOfManyGoroutinesKeepApart(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		var wg sync.WaitGroup
		for g := range 2 * 8 { // more than there are streams
			wg.Go(func() {
				for i := range 20 {
					data := pattern(1000*(i%3+1) + g)
					for j := range data {
						data[j] += byte(g)
					}
					b := upload(t, dev, data)
					c, err := dev.Alloc(b.Len())
					if !assert.NoError(t, err) {
						return
					}
					_, err = c.CopyFromDevice(b, 0)
					assert.NoError(t, err)
					b.Release()
					assertBytes(t, data, download(t, c))
					c.Release()
				}
			})
		}
		wg.Wait()
		require.NoError(t, dev.Synchronize())
		assert.Zero(t, dev.MemoryStats().InUse)
	})
}

func TestOperationsAreCompleteWhenTheyReturn(t *testing.T) {
	dev := device(t, cudatest.Start(t, cudatest.Config{CopyLatency: time.Millisecond}), 0)
	pinned := dev.HostAllocator().Allocate(64)
	defer dev.HostAllocator().Free(pinned)
	copy(pinned, "first")
	b, err := dev.Alloc(64)
	require.NoError(t, err)
	defer b.Release()
	_, err = b.CopyFromHost(pinned, 0)
	require.NoError(t, err)
	copy(pinned, "later") // a copy still to run would read this
	got := dev.HostAllocator().Allocate(64)
	defer dev.HostAllocator().Free(got)
	_, err = b.CopyToHost(got, 0)
	require.NoError(t, err)
	assert.Equal(t, "first", string(got[:5]))
}

func TestFailedCallsNameTheCallAndLeaveTheDeviceUsable(t *testing.T) {
	for _, call := range []string{"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemsetD8Async", "cuStreamCreateWithPriority", "cuStreamSynchronize", "cuCtxSetCurrent", "cuMemAlloc"} {
		t.Run(call, func(t *testing.T) {
			dev, fail := failing(t)
			work := func() error {
				a, err := dev.Alloc(1 << 10)
				if err != nil {
					return err
				}
				defer a.Release()
				b, err := dev.Alloc(1 << 10)
				if err != nil {
					return err
				}
				defer b.Release()
				if _, err := a.CopyFromHost(pattern(1<<10), 0); err != nil {
					return err
				}
				if err := b.(*cudabuf.Buffer).Fill(3); err != nil {
					return err
				}
				if _, err := b.CopyFromDevice(a, 0); err != nil {
					return err
				}
				got := make([]byte, 1<<10)
				if _, err := b.CopyToHost(got, 0); err != nil {
					return err
				}
				assert.Equal(t, pattern(1<<10), got)
				return nil
			}
			fail(call, 1)
			err := work()
			var cuda *cudabuf.Error
			require.ErrorAs(t, err, &cuda)
			assert.Equal(t, call, cuda.Call)
			assert.Equal(t, cudabuf.Result(1), cuda.Code)
			assert.ErrorContains(t, err, "cuda:0: "+call+": CUDA_ERROR_INVALID_VALUE (1): invalid argument")
			assert.NoError(t, work())
		})
	}
}

// stranger is a device of another package: nothing but arrowbuf's interfaces.
type stranger struct{ arrowbuf.Device }

type strangeBuffer struct {
	arrowbuf.Buffer
	dev arrowbuf.Device
}

func (d stranger) Type() arrowbuf.DeviceType { return 99 }

func (d stranger) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := d.Device.Alloc(n)
	return strangeBuffer{b, d}, err
}

func (b strangeBuffer) Device() arrowbuf.Device { return b.dev }

func device(t testing.TB, d *cudabuf.Driver, ordinal int) *cudabuf.Device {
	t.Helper()
	dev, err := d.Device(ordinal)
	require.NoError(t, err)
	return dev
}
