package cudabuf_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCopyFromDeviceAcceptsEveryDevice(t *testing.T) {
	const size = 5<<20 + 17 // more than one chunk through the host
	data := pattern(size)
	sources := map[string]func(t *testing.T, d *cudabuf.Driver) arrowbuf.Device{
		"the same": func(t *testing.T, d *cudabuf.Driver) arrowbuf.Device { return device(t, d, 0) },
		"the CPU":  func(*testing.T, *cudabuf.Driver) arrowbuf.Device { return arrowbuf.CPU() },
		"another driver's": func(t *testing.T, _ *cudabuf.Driver) arrowbuf.Device {
			return cudatest.NewDevice(t)
		},
		"another package": func(t *testing.T, _ *cudabuf.Driver) arrowbuf.Device { return otherDevice{arrowbuf.CPU()} },
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

func TestCopyHandlesOverlappingRanges(t *testing.T) {
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

func TestConcurrentCopiesDoNotInterfere(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		var wg sync.WaitGroup
		for g := range 2 * 8 { // more than the number of internal streams
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
	copy(pinned, "later") // a pending copy would read this
	got := dev.HostAllocator().Allocate(64)
	defer dev.HostAllocator().Free(got)
	_, err = b.CopyToHost(got, 0)
	require.NoError(t, err)
	assert.Equal(t, "first", string(got[:5]))
}

func TestFailedCallIsNamedAndDeviceStaysUsable(t *testing.T) {
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

// otherDevice is a device of another package, known only by the interfaces of arrowbuf.
type otherDevice struct{ arrowbuf.Device }

type otherBuffer struct {
	arrowbuf.Buffer
	dev arrowbuf.Device
}

func (d otherDevice) Type() arrowbuf.DeviceType { return 99 }

func (d otherDevice) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := d.Device.Alloc(n)
	return otherBuffer{b, d}, err
}

func (b otherBuffer) Device() arrowbuf.Device { return b.dev }

func TestStreamCopyAcceptsEveryKindOfBuffer(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, data := stream(t, dev), pattern(1000)
		cpu, err := arrowbuf.CPU().Alloc(1000)
		require.NoError(t, err)
		defer cpu.Release()
		pinned, err := dev.Host().Alloc(1000)
		require.NoError(t, err)
		defer pinned.Release()
		for name, src := range map[string]arrowbuf.Buffer{"cpu": cpu, "pinned": pinned, "gpu": newBuffer(t, dev, 1000)} {
			_, err := src.CopyFromHost(data, 0)
			require.NoError(t, err)
			dst, err := s.Alloc(1010)
			require.NoError(t, err)
			require.NoError(t, s.Copy(dst, 10, src), name)
			got := make([]byte, 1000)
			_, err = dst.CopyToHost(got, 10)
			require.NoError(t, err)
			assertBytes(t, data, got)
			assert.ErrorIs(t, s.Copy(dst, 11, src), arrowbuf.ErrOutOfRange, name)
			dst.Release()
		}
		assert.ErrorIs(t, s.Copy(cpu, 0, pinned), arrowbuf.ErrDevice)
		g, err := dev.Capture(func(s *cudabuf.Stream) error {
			there := newBuffer(t, dev, 1000)
			assert.ErrorIs(t, s.Copy(there, 0, pinned), errors.ErrUnsupported)
			_, err := s.Alloc(8)
			assert.ErrorIs(t, err, errors.ErrUnsupported)
			ran := false
			s.After(func() { ran = true })
			assert.True(t, ran)
			return there.FillAsync(1, s)
		})
		require.NoError(t, err)
		require.NoError(t, g.Close())
	})
}

// Ranges of ordinary and of pinned memory, of any length, set their parts of a buffer and
// no other bytes.
func TestCopyRangesWritesEachRange(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		useSmallParts(t, dev)
		rng := rand.New(rand.NewPCG(1, 2))
		for _, most := range []int{10, 500, 5000, 40_000} {
			for name, kinds := range map[string]int{"ordinary": 1, "mixed": 3} {
				want := bytes.Repeat([]byte{0xee}, 40)
				var ranges []arrowbuf.HostRange
				for i := range 50 {
					data := pattern(rng.IntN(most))
					host := data
					switch i % kinds {
					case 1:
						host = pinnedBuffer(t, dev, int64(len(data))).HostBytes()
					case 2:
						host = dev.HostAllocator().Allocate(len(data))
						t.Cleanup(func() { dev.HostAllocator().Free(host) })
					}
					for j := range data {
						data[j] ^= byte(i)
					}
					copy(host, data)
					ranges = append(ranges, arrowbuf.HostRange{Bytes: host, Pos: int64(len(want))})
					want = append(append(want, data...), bytes.Repeat([]byte{0xee}, rng.IntN(3))...)
				}
				rng.Shuffle(len(ranges), func(i, j int) { ranges[i], ranges[j] = ranges[j], ranges[i] })
				b := newBuffer(t, dev, int64(len(want)))
				require.NoError(t, b.Fill(0xee))
				require.NoError(t, b.CopyRangesFromHost(ranges), name)
				assertBytes(t, want, download(t, b))
			}
		}
	})
}

func TestCopyRangesOutOfRangeCopiesNothing(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := newBuffer(t, dev, 10)
		require.NoError(t, b.Fill(0xee))
		for _, bad := range []arrowbuf.HostRange{{Bytes: make([]byte, 2), Pos: 9}, {Bytes: make([]byte, 1), Pos: -1}, {Pos: 11}} {
			assert.ErrorIs(t, b.CopyRangesFromHost([]arrowbuf.HostRange{{Bytes: []byte{1}}, bad}), arrowbuf.ErrOutOfRange)
		}
		assert.Equal(t, bytes.Repeat([]byte{0xee}, 10), download(t, b))
		require.NoError(t, b.CopyRangesFromHost(nil))
		require.NoError(t, b.CopyRangesFromHost([]arrowbuf.HostRange{{Pos: 10}}))
		shown, err := b.ReadOnly()
		require.NoError(t, err)
		defer shown.Release()
		assert.ErrorIs(t, shown.CopyRangesFromHost(nil), cudabuf.ErrReadOnly)
		gone, err := dev.NewBuffer(4)
		require.NoError(t, err)
		gone.Release()
		assert.ErrorIs(t, gone.CopyRangesFromHost(nil), arrowbuf.ErrReleased)
	})
}

func TestCopyRangesWaitsForOtherStreams(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		useSmallParts(t, dev)
		for name, host := range map[string][]byte{"ordinary": pattern(50_000), "pinned": pinnedBuffer(t, dev, 50_000).HostBytes()} {
			copy(host, pattern(50_000))
			s, b := stream(t, dev), newBuffer(t, dev, 50_000)
			open := gate(t, s)
			require.NoError(t, b.FillAsync(7, s))
			go open()
			require.NoError(t, b.CopyRangesFromHost([]arrowbuf.HostRange{{Bytes: host[:30_000]}, {Bytes: host[30_000:], Pos: 30_000}}), name)
			assertBytes(t, host, download(t, b))
		}
	})
}

// Pinned ranges are enqueued together, and ordinary ranges are staged as one copy.
func TestCopyRangesWaitsOnce(t *testing.T) {
	dev, calls := countCalls(t)
	useSmallParts(t, dev)
	const each, n = 1024, 64
	b := newBuffer(t, dev, each*n)
	for name, host := range map[string][]byte{"ordinary": make([]byte, each*n), "pinned": pinnedBuffer(t, dev, each*n).HostBytes()} {
		var ranges []arrowbuf.HostRange
		for i := range n {
			ranges = append(ranges, arrowbuf.HostRange{Bytes: host[i*each:][:each], Pos: int64(i * each)})
		}
		calls("cuStreamSynchronize")
		calls("cuMemcpyHtoDAsync")
		calls("cuEventRecord")
		require.NoError(t, b.CopyRangesFromHost(ranges))
		if name == "pinned" {
			assert.Equal(t, n, calls("cuMemcpyHtoDAsync"))
		}
		assert.LessOrEqual(t, calls("cuStreamSynchronize"), 2, name)
		if name == "ordinary" {
			assert.Equal(t, each*n/8192, calls("cuMemcpyHtoDAsync"), "one copy per staging buffer")
			assert.Equal(t, each*n/8192, calls("cuEventRecord"), "one event per staging buffer")
		}
	}
}

func TestNilBufferReturnsErrDevice(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		onDevice, err := dev.Alloc(8)
		require.NoError(t, err)
		defer onDevice.Release()
		pinned, err := dev.NewHostBuffer(8, cudabuf.HostOptions{})
		require.NoError(t, err)
		defer pinned.Release()
		for _, b := range []arrowbuf.Buffer{onDevice, pinned} {
			_, err := b.CopyFromDevice(nil, 0)
			assert.ErrorIs(t, err, arrowbuf.ErrDevice)
			_, err = b.Equal(nil)
			assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		}
	})
}

// failingBuffer is a buffer that cannot be read from a position on.
type failingBuffer struct {
	arrowbuf.Buffer
	at int64
}

var errFailing = errors.New("no more bytes")

func (d failingBuffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	if pos >= d.at {
		return 0, errFailing
	}
	return d.Buffer.CopyToHost(dst, pos)
}

func TestCopyThroughHostStopsAtFirstError(t *testing.T) {
	dev, fail := failing(t)
	const size = 13 << 20
	src := failingBuffer{upload(t, arrowbuf.CPU(), make([]byte, size)), 8 << 20}
	defer src.Release()
	b := newBuffer(t, dev, size)
	n, err := b.CopyFromDevice(src, 0)
	assert.ErrorIs(t, err, errFailing)
	assert.EqualValues(t, 8<<20, n)
	require.NoError(t, b.Fill(0))
	_, err = b.Equal(src)
	assert.ErrorIs(t, err, errFailing)
	_, err = src.CopyFromHost([]byte{1}, 0)
	require.NoError(t, err)
	same, err := b.Equal(src)
	assert.NoError(t, err, "it stops reading at the first difference")
	assert.False(t, same)

	fail("cuMemcpyHtoDAsync", 1)
	_, err = b.CopyFromDevice(failingBuffer{src.Buffer, size}, 0)
	assert.True(t, err != nil && strings.Contains(err.Error(), "cuMemcpyHtoDAsync"), "%v", err)
	_, err = b.CopyFromDevice(failingBuffer{src.Buffer, size}, 0)
	assert.NoError(t, err)
}
