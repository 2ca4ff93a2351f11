package cudabuf_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var poolKinds = []cudabuf.PoolKind{cudabuf.CachingPool, cudabuf.StreamOrderedPool, cudabuf.DirectPool}

// newPool returns a pool that is closed at the end of the test, when no buffer may be in
// use.
func newPool(t testing.TB, dev *cudabuf.Device, o cudabuf.PoolOptions) *cudabuf.Pool {
	t.Helper()
	p, err := dev.NewPool(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.Zero(t, p.Stats().InUse)
		assert.NoError(t, p.Close())
	})
	return p
}

// forEachPool runs a test on a pool of every kind on every device.
func forEachPool(t *testing.T, o cudabuf.PoolOptions, test func(t *testing.T, dev *cudabuf.Device, p *cudabuf.Pool)) {
	t.Helper()
	for _, kind := range poolKinds {
		t.Run(kind.String(), func(t *testing.T) {
			cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
				o.Kind = kind
				test(t, dev, newPool(t, dev, o))
			})
		})
	}
	t.Run("of a resource", func(t *testing.T) {
		cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
			o.Resource = newPool(t, dev, cudabuf.PoolOptions{})
			test(t, dev, newPool(t, dev, o))
		})
	})
}

func alloc(t testing.TB, p *cudabuf.Pool, n int64, s *cudabuf.Stream) *cudabuf.Buffer {
	t.Helper()
	var b *cudabuf.Buffer
	var err error
	if s == nil {
		b, err = p.Alloc(n)
	} else {
		b, err = p.AllocOn(n, s)
	}
	require.NoError(t, err)
	require.Equal(t, n, b.Len())
	return b
}

func fillOn(t testing.TB, b *cudabuf.Buffer, value byte, s *cudabuf.Stream) {
	t.Helper()
	require.NoError(t, b.FillAsync(value, s))
}

func assertFilled(t testing.TB, value byte, b *cudabuf.Buffer) {
	t.Helper()
	assertBytes(t, bytes.Repeat([]byte{value}, int(b.Len())), download(t, b))
}

func TestPoolAllocates(t *testing.T) {
	forEachPool(t, cudabuf.PoolOptions{}, func(t *testing.T, dev *cudabuf.Device, p *cudabuf.Pool) {
		assert.Same(t, dev, p.Device())
		s := stream(t, dev)
		var held []*cudabuf.Buffer
		for i, n := range []int64{1, 511, 513, 1 << 16, 1<<21 - 1, 1 << 21, 3<<20 + 7} {
			a, b := alloc(t, p, n, nil), alloc(t, p, n, s)
			assert.Zero(t, a.Address()%512)
			require.NoError(t, a.Fill(byte(2*i)))
			fillOn(t, b, byte(2*i+1), s)
			held = append(held, a, b)
		}
		for i, b := range held {
			assertFilled(t, byte(i), b)
			b.Release()
		}
		empty := alloc(t, p, 0, s)
		assert.Zero(t, empty.Address())
		empty.Release()
		_, err := p.Alloc(-1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		_, err = p.AllocOn(math.MaxInt64, s)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
	})
}

func TestPoolIsSafeForGoroutinesAndStreams(t *testing.T) {
	forEachPool(t, cudabuf.PoolOptions{Stacks: true}, func(t *testing.T, dev *cudabuf.Device, p *cudabuf.Pool) {
		var wg sync.WaitGroup
		for g := range 4 {
			streams := []*cudabuf.Stream{nil, stream(t, dev), stream(t, dev)}
			wg.Go(func() {
				random := rand.New(rand.NewPCG(5, uint64(g)))
				type filledBuffer struct {
					b     *cudabuf.Buffer
					value byte
				}
				var held []filledBuffer
				release := func(i int) {
					if random.IntN(3) > 0 { // otherwise it is released while it is being filled
						assertFilled(t, held[i].value, held[i].b)
					}
					held[i].b.Release()
					held[i] = held[len(held)-1]
					held = held[:len(held)-1]
				}
				for i := range 60 {
					s := streams[random.IntN(3)]
					l := filledBuffer{alloc(t, p, 1+random.Int64N(1<<(1+random.IntN(14))), s), byte(16*g + i%16)}
					if other := streams[random.IntN(3)]; other != nil {
						fillOn(t, l.b, l.value, other)
					} else {
						assert.NoError(t, l.b.Fill(l.value))
					}
					if held = append(held, l); len(held) > 6 {
						release(random.IntN(len(held)))
					}
				}
				for len(held) > 0 {
					release(0)
				}
			})
		}
		wg.Wait()
		assert.Empty(t, p.Leaks())
	})
}

func TestPoolReusesMemoryWithoutHostWait(t *testing.T) {
	const n = 4 << 20
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for name, same := range map[string]bool{"on the same stream": true, "on another": false} {
			t.Run(name, func(t *testing.T) {
				p := newPool(t, dev, cudabuf.PoolOptions{Limit: n})
				first, second := stream(t, dev), stream(t, dev)
				if same {
					second = first
				}
				a := alloc(t, p, n, first)
				open := gate(t, first)
				fillOn(t, a, 1, first)
				address := a.Address()
				a.Release()
				b := alloc(t, p, n, second)
				assert.Equal(t, address, b.Address(), "the limit allows one buffer")
				fillOn(t, b, 2, second)
				open()
				assertFilled(t, 2, b)
				b.Release()
			})
		}
		t.Run("but not without a stream", func(t *testing.T) {
			p := newPool(t, dev, cudabuf.PoolOptions{})
			s := stream(t, dev)
			idle := alloc(t, p, n, nil) // allocating from the driver may wait for streams
			a := alloc(t, p, n, s)
			idle.Release()
			open := gate(t, s)
			fillOn(t, a, 1, s)
			address := a.Address()
			a.Release()
			b := alloc(t, p, n, nil)
			assert.NotEqual(t, address, b.Address())
			open()
			require.NoError(t, s.Synchronize())
			c := alloc(t, p, n, nil)
			assert.Equal(t, address, c.Address(), "the stream is done")
			b.Release()
			c.Release()
		})
	})
}

// Earlier work of its stream may still use the memory of a buffer of AllocOn. Other
// streams must wait for that work.
func TestOtherStreamsWaitForAllocation(t *testing.T) {
	const n = 4 << 20
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		p := newPool(t, dev, cudabuf.PoolOptions{Limit: n})
		first, second := stream(t, dev), stream(t, dev)
		a := alloc(t, p, n, first)
		open := gate(t, first)
		fillOn(t, a, 1, first)
		a.Release()
		b := alloc(t, p, n, first)
		fillOn(t, b, 2, second)
		open()
		assertFilled(t, 2, b)
		b.Release()
	})
}

// A copy to another device runs on that device's stream. The memory cannot be freed on that
// stream.
func TestMemoryReadByAnotherDeviceIsNotReusedEarly(t *testing.T) {
	const n = 4 << 20
	for _, kind := range []cudabuf.PoolKind{cudabuf.CachingPool, cudabuf.StreamOrderedPool} {
		t.Run(kind.String(), func(t *testing.T) {
			cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
				p := newPool(t, device(t, d, 0), cudabuf.PoolOptions{Kind: kind})
				here, there := stream(t, device(t, d, 0)), stream(t, device(t, d, 1))
				dst, src := newBuffer(t, device(t, d, 1), n), alloc(t, p, n, nil)
				require.NoError(t, src.Fill(1))
				open := gate(t, there)
				_, err := dst.CopyFromDeviceAsync(src, 0, there)
				require.NoError(t, err)
				src.Release()
				for range 3 {
					next := alloc(t, p, n, here)
					fillOn(t, next, 2, here)
					next.Release()
				}
				open()
				assertFilled(t, 1, dst)
				require.NoError(t, here.Synchronize())
			})
		})
	}
}

func TestAllocOnRefusesUnusableStreams(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		p := newPool(t, device(t, d, 0), cudabuf.PoolOptions{})
		_, err := p.AllocOn(1, stream(t, device(t, d, 1)))
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		assert.ErrorIs(t, device(t, d, 1).SetPool(p), arrowbuf.ErrDevice)
	})
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		_, err = dev.Pool().AllocOn(1, s)
		assert.ErrorIs(t, err, cudabuf.ErrClosed)
		_, err = dev.Capture(func(s *cudabuf.Stream) error {
			_, err := dev.Pool().AllocOn(1, s)
			return err
		})
		assert.ErrorIs(t, err, errors.ErrUnsupported)
	})
}

func TestSetPoolChangesDevicePool(t *testing.T) {
	forEachPool(t, cudabuf.PoolOptions{}, func(t *testing.T, dev *cudabuf.Device, p *cudabuf.Pool) {
		own := dev.Pool()
		require.NoError(t, dev.SetPool(p))
		assert.Same(t, p, dev.Pool())
		a := upload(t, dev, pattern(1000))
		assert.EqualValues(t, 1024, p.Stats().InUse)
		require.NoError(t, dev.SetPool(nil))
		assert.Same(t, own, dev.Pool())
		b := upload(t, dev, pattern(100))
		assert.EqualValues(t, []int64{1024, 512}, []int64{p.Stats().InUse, own.Stats().InUse})
		assert.EqualValues(t, 1536, dev.MemoryStats().InUse, "of all pools")
		assertBytes(t, pattern(1000), download(t, a))
		a.Release()
		b.Release()

		require.NoError(t, dev.SetPool(p))
		require.NoError(t, p.Close())
		require.NoError(t, p.Close())
		assert.Same(t, own, dev.Pool(), "after the other pool is closed")
		assert.ErrorIs(t, dev.SetPool(p), cudabuf.ErrClosed)
		_, err := p.Alloc(1)
		assert.ErrorIs(t, err, cudabuf.ErrClosed)
		require.NoError(t, own.Close(), "does nothing")
		upload(t, dev, pattern(10)).Release()
	})
}

func leak(t *testing.T, p *cudabuf.Pool) *cudabuf.Buffer { return alloc(t, p, 1000, nil) }

func TestCloseListsLeaks(t *testing.T) {
	d := cudatest.New(cudatest.Config{})
	dev := device(t, d, 0)
	p, err := dev.NewPool(cudabuf.PoolOptions{Stacks: true})
	require.NoError(t, err)
	b := leak(t, p)
	leaks := p.Leaks()
	require.Len(t, leaks, 1)
	assert.Equal(t, b.Address(), leaks[0].Address)
	assert.EqualValues(t, 1000, leaks[0].Size)
	for what, err := range map[string]error{"pool": p.Close(), "driver": d.Close()} {
		assert.ErrorContains(t, err, "cuda:0: still in use: 1024 bytes of device memory", what)
		assert.ErrorContains(t, err, "cudabuf_test.leak\n", what)
	}
	b.Release()
	assert.Empty(t, p.Leaks())
	assert.Empty(t, dev.Pool().Leaks(), "without Stacks")
	assert.NoError(t, d.Close(), "closes its pools")
	_, err = p.Alloc(1)
	assert.ErrorIs(t, err, cudabuf.ErrClosed)
}

func TestPoolKeepsItsLimit(t *testing.T) {
	forEachPool(t, cudabuf.PoolOptions{Limit: 8 << 20}, func(t *testing.T, dev *cudabuf.Device, p *cudabuf.Pool) {
		assert.EqualValues(t, 8<<20, p.Limit())
		a := alloc(t, p, 6<<20, nil)
		_, err := p.Alloc(4 << 20)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		assert.ErrorContains(t, err, "allocating 4194304 bytes: 4194304 bytes wanted, 6291456 in use, 6291456 held, limit 8388608: limit reached")
		p.SetLimit(0)
		assert.Zero(t, p.Limit())
		b := alloc(t, p, 4<<20, nil)
		a.Release()
		b.Release()

		_, total, err := dev.MemInfo()
		require.NoError(t, err)
		require.NoError(t, p.SetLimitPercent(50))
		assert.InDelta(t, total/2, p.Limit(), 1)
		for _, bad := range []float64{0, -1, 100.5, math.NaN()} {
			assert.ErrorIs(t, p.SetLimitPercent(bad), arrowbuf.ErrOutOfRange)
		}
	})
}

func TestPoolStatsCountBuffers(t *testing.T) {
	forEachPool(t, cudabuf.PoolOptions{}, func(t *testing.T, dev *cudabuf.Device, p *cudabuf.Pool) {
		a := alloc(t, p, 1000, nil)
		p.PushScope()
		b := alloc(t, p, 3000, nil)
		a.Release()
		scope, ok := p.PopScope()
		assert.True(t, ok)
		assert.EqualValues(t, []int64{2048, 3072, 3072, 0, 1, 1}, []int64{scope.InUse, scope.Peak, scope.Total, scope.Count, scope.PeakCount, scope.TotalCount})
		s := p.Stats()
		assert.EqualValues(t, []int64{3072, 4096, 4096, 1, 2, 2}, []int64{s.InUse, s.Peak, s.Total, s.Count, s.PeakCount, s.TotalCount})
		assert.GreaterOrEqual(t, s.Held, s.InUse)
		assert.GreaterOrEqual(t, s.PeakHeld, s.Peak)
		p.ResetPeak()
		assert.EqualValues(t, 3072, p.Stats().Peak)
		_, ok = p.PopScope()
		assert.False(t, ok)
		b.Release()
	})
}

func TestTrimFreesIdleMemoryOfEveryKind(t *testing.T) {
	forEachPool(t, cudabuf.PoolOptions{}, func(t *testing.T, dev *cudabuf.Device, p *cudabuf.Pool) {
		for _, n := range []int64{1000, 5 << 20} {
			alloc(t, p, n, nil).Release()
		}
		require.NoError(t, dev.Synchronize())
		require.NoError(t, p.Trim())
		assert.Zero(t, p.Stats().Held)
		require.NoError(t, p.SetIdleLimit(0))
		alloc(t, p, 5<<20, nil).Release()
		require.NoError(t, dev.Synchronize())
		assert.Zero(t, p.Stats().Held)
	})
}

func TestLargestBlockCountsIdleMemory(t *testing.T) {
	dev := device(t, cudatest.Start(t, cudatest.Config{MemoryBytes: 16 << 20}), 0)
	require.NoError(t, dev.SetIdleLimit(16<<20))
	b := alloc(t, dev.Pool(), 12<<20, nil)
	n, err := dev.LargestBlock()
	require.NoError(t, err)
	assert.EqualValues(t, 4<<20, n)
	b.Release()
	n, err = dev.LargestBlock()
	require.NoError(t, err)
	assert.EqualValues(t, 12<<20, n)
}

func TestOutOfMemoryCallbackRetries(t *testing.T) {
	for _, kind := range poolKinds {
		t.Run(kind.String(), func(t *testing.T) {
			cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
				var spare *cudabuf.Buffer
				var asked []int64
				p := newPool(t, dev, cudabuf.PoolOptions{Kind: kind, Limit: 4 << 20, OutOfMemory: func(want int64) bool {
					asked = append(asked, want)
					if spare == nil {
						return false
					}
					spare.Release()
					spare = nil
					return true
				}})
				spare = alloc(t, p, 4<<20, nil)
				b := alloc(t, p, 3<<20, nil)
				_, err := p.Alloc(2 << 20)
				assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
				assert.Equal(t, []int64{3 << 20, 2 << 20}, asked)
				b.Release()
			})
		})
	}
}

func TestPoolLogsAllocations(t *testing.T) {
	var text strings.Builder
	forEachPool(t, cudabuf.PoolOptions{Log: &text}, func(t *testing.T, dev *cudabuf.Device, p *cudabuf.Pool) {
		s := stream(t, dev)
		alloc(t, p, 1000, s).Release()
		lines, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
		require.NoError(t, err)
		require.Len(t, lines, 3)
		assert.Equal(t, []string{"Time", "Action", "Address", "Size", "Stream"}, lines[0])
		assert.Equal(t, []string{"allocate", "1000"}, []string{lines[1][1], lines[1][3]})
		assert.Equal(t, "free", lines[2][1])
		assert.Equal(t, lines[1][2], lines[2][2])
		assert.NotEqual(t, "-", lines[1][4])
		text.Reset()
	})
}

func TestNewPoolRefusesUnknownKind(t *testing.T) {
	_, err := cudatest.NewDevice(t).NewPool(cudabuf.PoolOptions{Kind: 7})
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorContains(t, err, "PoolKind(7)")
}

func TestPoolCloseReportsFailedFree(t *testing.T) {
	for kind, call := range map[cudabuf.PoolKind]string{cudabuf.CachingPool: "cuMemFree", cudabuf.DirectPool: "cuMemFree", cudabuf.StreamOrderedPool: "cuMemFreeAsync"} {
		t.Run(kind.String(), func(t *testing.T) {
			broken := false
			d := cudatest.New(cudatest.Config{Fail: func(made string, _ int) cudabuf.Result {
				if broken && made == call {
					return 1
				}
				return 0
			}})
			dev := device(t, d, 0)
			p, err := dev.NewPool(cudabuf.PoolOptions{Kind: kind})
			require.NoError(t, err)
			require.NoError(t, p.SetIdleLimit(0))
			b := alloc(t, p, 1000, nil)
			broken = true
			b.Release() // returns no error
			broken = false
			assert.ErrorContains(t, p.Close(), call+": CUDA_ERROR_INVALID_VALUE")
			assert.NoError(t, p.Close())
			_ = d.Close() // the driver reports the leak
		})
	}
}

func TestAllocFailsOnFullDevice(t *testing.T) {
	dev := device(t, cudatest.Start(t, cudatest.Config{MemoryBytes: 1 << 20}), 0)
	all, err := dev.Alloc(1 << 20)
	require.NoError(t, err)
	_, err = dev.Alloc(1)
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
	assert.ErrorContains(t, err, "cuda:0: allocating 1 bytes: 512 bytes wanted, 1048576 in use, 1048576 held: ")
	assert.ErrorContains(t, err, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory")
	all.Release()
	b, err := dev.Alloc(1)
	require.NoError(t, err)
	b.Release()
}

func TestAllocOfTooMuchReturnsErrOutOfMemory(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		_, total, err := dev.MemInfo()
		require.NoError(t, err)
		for _, n := range []int64{total + 1, 1 << 50} {
			_, err := dev.Alloc(n)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "%d", n)
		}
		_, err = dev.Alloc(math.MaxInt64)
		assert.Error(t, err)
		assert.Zero(t, dev.MemoryStats().InUse)
		upload(t, dev, pattern(10)).Release()
	})
}

func TestAllocFreesIdleMemoryBeforeFailing(t *testing.T) {
	dev := device(t, cudatest.Start(t, cudatest.Config{MemoryBytes: 1 << 20}), 0)
	require.NoError(t, dev.SetIdleLimit(1<<20))
	var small []arrowbuf.Buffer
	for range 16 {
		small = append(small, upload(t, dev, pattern(1<<16)))
	}
	for _, b := range small {
		b.Release()
	}
	require.Equal(t, cudabuf.MemoryStats{Idle: 1 << 20}, dev.MemoryStats())
	b, err := dev.Alloc(1 << 20)
	require.NoError(t, err)
	assert.Equal(t, cudabuf.MemoryStats{InUse: 1 << 20}, dev.MemoryStats())
	b.Release()
}

func TestAllocRetriesOnceAfterOutOfMemory(t *testing.T) {
	dev, fail := failing(t)
	fail("cuMemAlloc", 2)
	b, err := dev.Alloc(100)
	require.NoError(t, err)
	b.Release()
}

func TestReleasedMemoryIsKeptWithinIdleLimit(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, n := range []int{1000, 1001, 3 << 20, 3<<20 - 1} {
			upload(t, dev, pattern(n)).Release()
		}
		assert.Equal(t, cudabuf.MemoryStats{Idle: 12 << 20}, dev.MemoryStats(), "8 MiB for small buffers, 4 for a large one")

		require.NoError(t, dev.SetIdleLimit(4<<20))
		for _, n := range []int{1 << 20, 4 << 20, 2048, 5 << 20} {
			upload(t, dev, pattern(n)).Release()
			assert.LessOrEqual(t, dev.MemoryStats().Idle, int64(4<<20))
		}
		require.NoError(t, dev.SetIdleLimit(0))
		assert.Zero(t, dev.MemoryStats())
		upload(t, dev, pattern(10)).Release()
		assert.Zero(t, dev.MemoryStats())
	})
}

func TestTrimFreesAllIdleMemory(t *testing.T) {
	dev := cudatest.NewDevice(t)
	free, total, err := dev.MemInfo()
	require.NoError(t, err)
	assert.Equal(t, total, free)
	upload(t, dev, pattern(1<<16)).Release()
	dev.HostAllocator().Free(dev.HostAllocator().Allocate(10))
	now, _, err := dev.MemInfo()
	require.NoError(t, err)
	assert.Equal(t, free-8<<20, now)
	require.NoError(t, dev.Trim())
	assert.Zero(t, dev.MemoryStats())
	assert.Zero(t, dev.HostAllocator().(*cudabuf.PinnedAllocator).Stats())
	now, _, err = dev.MemInfo()
	require.NoError(t, err)
	assert.Equal(t, free, now)
}

func TestConcurrentAllocationsDoNotOverlap(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(g)))
				var held []arrowbuf.Buffer
				for range 100 {
					b, err := dev.Alloc(1 + random.Int64N(1<<14))
					if !assert.NoError(t, err) || !assert.NoError(t, b.(*cudabuf.Buffer).Fill(byte(g))) {
						return
					}
					if held = append(held, b); len(held) > 8 {
						i := random.IntN(len(held))
						assertBytes(t, bytes.Repeat([]byte{byte(g)}, int(held[i].Len())), download(t, held[i]))
						held[i].Release()
						held[i] = held[len(held)-1]
						held = held[:len(held)-1]
					}
				}
				for _, b := range held {
					assertBytes(t, bytes.Repeat([]byte{byte(g)}, int(b.Len())), download(t, b))
					b.Release()
				}
			})
		}
		wg.Wait()
		assert.Zero(t, dev.MemoryStats().InUse)
	})
}

func TestInUseCountsBuffersUntilLastRelease(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		before := dev.MemoryStats().InUse
		b := upload(t, dev, pattern(128))
		one := dev.MemoryStats().InUse
		assert.GreaterOrEqual(t, one-before, int64(128))
		part, err := b.Slice(64, 10)
		require.NoError(t, err)
		view, err := dev.WrapExternal(b.Address(), 128, nil)
		require.NoError(t, err)
		assert.Equal(t, one, dev.MemoryStats().InUse, "views allocate nothing")
		view.Release()
		b.Release()
		assert.Equal(t, one, dev.MemoryStats().InUse, "the slice keeps the memory")
		part.Release()
		assert.Equal(t, before, dev.MemoryStats().InUse)
	})
}
