package cudabuf_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// useSmallParts makes a device divide copies of a few pages into many parts.
func useSmallParts(t testing.TB, dev *cudabuf.Device) {
	t.Helper()
	require.NoError(t, dev.SetStaging(4096, 4096, 8192, 3))
}

func TestStagedCopyOfAnySize(t *testing.T) {
	test := func(t *testing.T, dev *cudabuf.Device, sizes ...int) {
		s := stream(t, dev)
		for _, size := range sizes {
			data := pattern(size + 3)[3:] // at an odd address
			b := newBuffer(t, dev, int64(size)+5)
			n, err := b.CopyFromHost(data, 5)
			require.NoError(t, err)
			assert.EqualValues(t, size, n)
			got := make([]byte, size)
			n, err = b.CopyToHost(got, 5)
			require.NoError(t, err)
			assert.EqualValues(t, size, n)
			assertBytes(t, data, got)

			require.NoError(t, b.FillAsync(0, s))
			_, err = b.CopyFromHostAsync(data, 2, s)
			require.NoError(t, err)
			_, err = b.CopyToHostAsync(got, 2, s)
			require.NoError(t, err)
			assertBytes(t, data, got)
			edges := make([]byte, 5)
			_, err = b.CopyToHost(edges[:2], 0)
			require.NoError(t, err)
			_, err = b.CopyToHost(edges[2:], int64(size)+2)
			require.NoError(t, err)
			assert.Equal(t, make([]byte, 5), edges, "no other bytes are written")
		}
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		test(t, dev, 1<<20-1, 1<<20, 1<<20+1, 9<<20+4097)
		if cudatest.OnGPU() {
			test(t, dev, 300<<20+12345)
		}
		useSmallParts(t, dev)
		test(t, dev, 4095, 4096, 4097, 8192, 100_001, 1<<20)
	})
}

func TestOnlyLargeOrdinaryMemoryIsStaged(t *testing.T) {
	const size = 1 << 16
	registered := make([]byte, size)
	for name, tt := range map[string]struct {
		host   func(t *testing.T, dev *cudabuf.Device) []byte
		copies int
	}{
		"ordinary": {func(*testing.T, *cudabuf.Device) []byte { return make([]byte, size) }, size / 8192},
		"little":   {func(*testing.T, *cudabuf.Device) []byte { return make([]byte, 4095) }, 1},
		"of the allocator": {func(t *testing.T, dev *cudabuf.Device) []byte {
			b := dev.HostAllocator().Allocate(size)
			t.Cleanup(func() { dev.HostAllocator().Free(b) })
			return b
		}, 1},
		"of a HostBuffer": {func(t *testing.T, dev *cudabuf.Device) []byte { return pinnedBuffer(t, dev, size).HostBytes() }, 1},
		"registered": {func(t *testing.T, dev *cudabuf.Device) []byte {
			h, err := dev.RegisterHost(registered, cudabuf.RegisterOptions{})
			require.NoError(t, err)
			t.Cleanup(h.Release)
			return registered[1 : size-1]
		}, 1},
		"registered in part": {func(t *testing.T, dev *cudabuf.Device) []byte {
			h, err := dev.RegisterHost(registered[:size/2], cudabuf.RegisterOptions{})
			require.NoError(t, err)
			t.Cleanup(h.Release)
			return registered
		}, size / 8192},
	} {
		t.Run(name, func(t *testing.T) {
			dev, calls := countCalls(t)
			useSmallParts(t, dev)
			host, b := tt.host(t, dev), newBuffer(t, dev, size)
			calls("cuPointerGetAttribute")
			_, err := b.CopyFromHost(host, 0)
			require.NoError(t, err)
			assert.Equal(t, tt.copies, calls("cuMemcpyHtoDAsync"))
			_, err = b.CopyToHost(host, 0)
			require.NoError(t, err)
			assert.Equal(t, tt.copies, calls("cuMemcpyDtoHAsync"))
			if tt.copies == 1 {
				assert.Zero(t, calls("cuPointerGetAttribute"), "no query for known memory")
			}
		})
	}
	t.Run("of another library", func(t *testing.T) {
		dev, calls := countCalls(t)
		useSmallParts(t, dev)
		host, free, err := dev.PinElsewhere(size)
		require.NoError(t, err)
		defer free()
		_, err = newBuffer(t, dev, size).CopyFromHost(host, 0)
		require.NoError(t, err)
		assert.Equal(t, 1, calls("cuMemcpyHtoDAsync"))
	})
}

func TestConcurrentCopiesShareStagingBuffers(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		require.NoError(t, dev.SetStaging(4096, 4096, 4096, 1))
		var all sync.WaitGroup
		for g := range 12 {
			all.Go(func() {
				data := pattern(50_000 + 1000*g)
				for i := range data {
					data[i] ^= byte(g)
				}
				b := upload(t, dev, data)
				defer b.Release()
				for range 3 {
					assertBytes(t, data, download(t, b))
					_, err := b.CopyFromHost(data, 0)
					assert.NoError(t, err)
				}
			})
		}
		all.Wait()
	})
}

func TestStagedCopyWaitsForOtherStreams(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		useSmallParts(t, dev)
		const size = 100_000
		s, data := stream(t, dev), pattern(size)
		for _, on := range []*cudabuf.Stream{nil, stream(t, dev)} {
			b, got := newBuffer(t, dev, size), make([]byte, size)
			fill := func(value byte) {
				open := gate(t, s)
				require.NoError(t, b.FillAsync(value, s))
				go open()
			}
			toHost := func() (int64, error) { return b.CopyToHost(got, 0) }
			fromHost := func() (int64, error) { return b.CopyFromHost(data, 0) }
			if on != nil {
				toHost = func() (int64, error) { return b.CopyToHostAsync(got, 0, on) }
				fromHost = func() (int64, error) { return b.CopyFromHostAsync(data, 0, on) }
			}
			fill(7)
			_, err := toHost()
			require.NoError(t, err)
			assertBytes(t, bytes.Repeat([]byte{7}, size), got)
			fill(8)
			_, err = fromHost()
			require.NoError(t, err)
			require.NoError(t, b.FillAsync(9, s))
			assertBytes(t, bytes.Repeat([]byte{9}, size), download(t, b))
			_, err = fromHost()
			require.NoError(t, err)
			assertBytes(t, data, download(t, b))
		}
	})
}

func TestFinishedStagedCopyIsNotWaitedFor(t *testing.T) {
	dev, calls := recordCalls(t)
	useSmallParts(t, dev)
	b, s := newBuffer(t, dev, 100_000), stream(t, dev)
	_, err := b.CopyFromHost(make([]byte, 100_000), 0)
	require.NoError(t, err)
	calls()
	require.NoError(t, b.FillAsync(1, s))
	assert.Equal(t, "fill", calls())
}

func TestStagedCopyOnBlockedStreamDoesNotBlockOthers(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		useSmallParts(t, dev)
		const size = 100_000
		data := pattern(size)
		blocked := stream(t, dev)
		a, b := newBuffer(t, dev, size), newBuffer(t, dev, size)
		open := gate(t, blocked)
		var all sync.WaitGroup
		all.Go(func() {
			_, err := a.CopyFromHostAsync(data, 0, blocked)
			assert.NoError(t, err)
		})
		for range 5 {
			_, err := b.CopyFromHost(data, 0)
			require.NoError(t, err)
			assertBytes(t, data, download(t, b))
		}
		open()
		all.Wait()
		assertBytes(t, data, download(t, a))
	})
}

// Each driver call of a staged copy fails once, at the first time or later. The error names
// the call, no copy is running afterwards, and the device stays usable. A copy that has a
// staging buffer needs no other.
func TestFailedStagedCopyLeavesNoCopyRunning(t *testing.T) {
	const size = 200_000
	data := pattern(size)
	for _, call := range []string{"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuEventRecord", "cuEventQuery", "cuEventSynchronize", "cuEventCreate", "cuMemHostAlloc", "cuStreamSynchronize"} {
		for _, nth := range []int{1, 2, 9} {
			for _, code := range []cudabuf.Result{1, 719} { // 719 means that the device is lost
				t.Run(fmt.Sprintf("%s %d of %d", call, nth, code), func(t *testing.T) {
					var mu sync.Mutex
					left := 0
					dev := device(t, cudatest.Start(t, cudatest.Config{CopyLatency: 100 * time.Microsecond, Fail: func(name string, _ int) cudabuf.Result {
						mu.Lock()
						defer mu.Unlock()
						if name != call || left == 0 {
							return 0
						}
						if left--; left > 0 {
							return 0
						}
						return code
					}}), 0)
					useSmallParts(t, dev)
					b := newBuffer(t, dev, size)
					s, err := dev.NewStream(cudabuf.StreamOptions{}) // cannot be closed on a lost device
					require.NoError(t, err)
					work := func() error {
						got := make([]byte, size)
						_, err := b.CopyFromHostAsync(data, 0, s)
						if err == nil {
							_, err = b.CopyToHostAsync(got, 0, s)
						}
						if err == nil {
							assertBytes(t, data, got)
						}
						return err
					}
					mu.Lock()
					left = nth
					mu.Unlock()
					err = work()
					mu.Lock()
					happened := left == 0
					left = 0
					mu.Unlock()
					if !happened {
						require.NoError(t, err)
						return
					}
					if code == 719 {
						require.ErrorIs(t, err, cudabuf.ErrDeviceLost)
						assert.ErrorIs(t, work(), cudabuf.ErrDeviceLost)
						return
					}
					if err != nil || nth == 1 || call != "cuMemHostAlloc" && call != "cuEventCreate" {
						var failed *cudabuf.Error
						require.ErrorAs(t, err, &failed)
						assert.Equal(t, call, failed.Call)
					}
					done, err := s.Done()
					require.NoError(t, err)
					assert.True(t, done || call == "cuStreamSynchronize", "the other copy may still be running")
					require.NoError(t, work())
					require.NoError(t, s.Close())
				})
			}
		}
	}
}

func TestStagedCopyNeedsOneBuffer(t *testing.T) {
	dev := device(t, cudatest.Start(t, cudatest.Config{Fail: cudatest.FailFrom("cuMemHostAlloc", 2, 2)}), 0) // CUDA_ERROR_OUT_OF_MEMORY
	useSmallParts(t, dev)
	data := pattern(200_000)
	b := newBuffer(t, dev, int64(len(data)))
	for range 2 {
		require.NoError(t, b.Fill(0))
		require.NoError(t, b.CopyRangesFromReaders([]arrowbuf.ReadRange{bytesRange(0, data)}, 0))
		assertBytes(t, data, download(t, b))
		_, err := b.CopyFromHost(data, 0)
		require.NoError(t, err)
		assertBytes(t, data, download(t, b))
	}
}

// bytesRange returns a range of a buffer that is read from data.
func bytesRange(pos int64, data []byte) arrowbuf.ReadRange {
	return arrowbuf.ReadRange{Pos: pos, Length: int64(len(data)), Read: func(dst []byte, offset int64) error {
		copy(dst, data[offset:])
		return nil
	}}
}

func TestRangesAreFilledWithWhatIsRead(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, small := range []bool{false, true} {
			if small {
				useSmallParts(t, dev)
			}
			want := make([]byte, 300_000)
			b := newBuffer(t, dev, int64(len(want)))
			require.NoError(t, b.Fill(0))
			var ranges []arrowbuf.ReadRange
			pos := 3
			for i, n := range []int{0, 1, 4095, 4096, 4097, 100_001, 63, 64, 65, 0} {
				data := pattern(n + i)[i:]
				copy(want[pos:], data)
				ranges = append(ranges, bytesRange(int64(pos), data))
				pos += n + 7*i
			}
			require.NoError(t, b.CopyRangesFromReaders(ranges, 2))
			assertBytes(t, want, download(t, b))
		}
	})
}

func TestAFailedReadIsTheErrorOfTheRanges(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		useSmallParts(t, dev)
		data := pattern(200_000)
		b := newBuffer(t, dev, int64(len(data)))
		failure := errors.New("read error")
		bad := arrowbuf.ReadRange{Pos: 100_000, Length: 50_000, Read: func(_ []byte, offset int64) error {
			if offset > 20_000 {
				return failure
			}
			return nil
		}}
		assert.ErrorIs(t, b.CopyRangesFromReaders([]arrowbuf.ReadRange{bytesRange(0, data[:100_000]), bad}, 0), failure)
		require.NoError(t, b.CopyRangesFromReaders([]arrowbuf.ReadRange{bytesRange(0, data)}, 0), "no staging buffer is lost")
		assertBytes(t, data, download(t, b))

		outside := bytesRange(100_001, data[:100_000])
		assert.ErrorIs(t, b.CopyRangesFromReaders([]arrowbuf.ReadRange{bad, outside}, 0), arrowbuf.ErrOutOfRange)
		assert.ErrorIs(t, b.CopyRangesFromReaders([]arrowbuf.ReadRange{{Length: 1}}, 0), cudabuf.ErrNil)
		require.NoError(t, b.CopyRangesFromReaders(nil, 0))
	})
}

// A goroutine that waits for the copy of the only buffer leaves the link idle meanwhile.
func TestStagedCopyTakesAnotherBufferWhileOneIsCopied(t *testing.T) {
	var allocated atomic.Int64
	dev := device(t, cudatest.Start(t, cudatest.Config{CopyLatency: 50 * time.Millisecond, Fail: func(call string, _ int) cudabuf.Result {
		if call == "cuMemHostAlloc" {
			allocated.Add(1)
		}
		return 0
	}}), 0)
	require.NoError(t, dev.SetStaging(4096, 4096, 4096, 1))
	data := pattern(4 * 4096)
	b := newBuffer(t, dev, int64(len(data)))
	require.NoError(t, b.CopyRangesFromReaders([]arrowbuf.ReadRange{bytesRange(0, data)}, 0))
	assertBytes(t, data, download(t, b))
	assert.EqualValues(t, 2, allocated.Load(), "two per worker")
}

// Copies that fail must put the buffers whose slices other goroutines fill.
func TestFailedReadsDoNotBlockOtherCopies(t *testing.T) {
	dev := device(t, cudatest.Start(t, cudatest.Config{Fail: cudatest.FailFrom("cuMemHostAlloc", 2, 2)}), 0) // one buffer
	require.NoError(t, dev.SetStaging(4096, 4096, 32768, 4))
	data := pattern(200_000)
	failure := errors.New("read error")
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			b := newBuffer(t, dev, int64(len(data)))
			for i := range 50 {
				fails := int64((i + g) % 4 * 60_000)
				err := b.CopyRangesFromReaders([]arrowbuf.ReadRange{{Length: b.Len(), Read: func(dst []byte, offset int64) error {
					if fails > 0 && offset >= fails {
						return failure
					}
					copy(dst, data[offset:])
					return nil
				}}}, 0)
				if fails > 0 {
					assert.ErrorIs(t, err, failure)
					continue
				}
				assert.NoError(t, err)
				assertBytes(t, data, download(t, b))
			}
		})
	}
	all.Wait()
}

func TestTrimFreesStagingBuffers(t *testing.T) {
	dev, calls := countCalls(t)
	useSmallParts(t, dev)
	data := pattern(100_000)
	b := upload(t, dev, data)
	defer b.Release()
	taken := calls("cuMemHostAlloc")
	assert.Positive(t, taken)
	assert.LessOrEqual(t, taken, 2*3, "two per worker")
	assertBytes(t, data, download(t, b))
	taken += calls("cuMemHostAlloc")
	assert.LessOrEqual(t, taken, 2*3, "the buffers are reused")
	require.NoError(t, dev.Trim())
	assert.Equal(t, taken, calls("cuMemFreeHost"))
	assertBytes(t, data, download(t, b))
	assert.Positive(t, calls("cuMemHostAlloc"))
}

func TestTrimKeepsStagingBuffersInUse(t *testing.T) {
	var dev *cudabuf.Device
	trimmed := make(chan error)
	dev = device(t, cudatest.Start(t, cudatest.Config{Fail: func(call string, n int) cudabuf.Result {
		if call == "cuMemcpyHtoDAsync" && n == 5 {
			go func() { trimmed <- dev.Trim() }()
			assert.NoError(t, <-trimmed)
		}
		return 0
	}}), 0)
	useSmallParts(t, dev)
	data := pattern(100_000)
	b := upload(t, dev, data)
	defer b.Release()
	assertBytes(t, data, download(t, b))
}

func TestTrimDuringCopies(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		useSmallParts(t, dev)
		data := pattern(200_000)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				b := upload(t, dev, data)
				defer b.Release()
				for range 5 {
					assertBytes(t, data, download(t, b))
				}
			})
		}
		for range 20 {
			assert.NoError(t, dev.Trim())
		}
		all.Wait()
	})
}
