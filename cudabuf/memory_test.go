package cudabuf_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestAllocFailsWhenTheDeviceIsFull(t *testing.T) {
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

func TestAllocOfMoreThanAnyGPUHasIsOutOfMemory(t *testing.T) {
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

func TestIdleMemoryGoesBackBeforeAnAllocationFails(t *testing.T) {
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

func TestFreedMemoryIsUsedAgainWithinTheLimit(t *testing.T) {
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

func TestTrimGivesAllIdleMemoryBack(t *testing.T) {
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

func TestAllocationsOfManyGoroutinesDoNotOverlap(t *testing.T) {
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
