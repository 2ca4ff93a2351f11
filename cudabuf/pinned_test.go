package cudabuf_test

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func forEachPinned(t *testing.T, test func(t *testing.T, a *cudabuf.PinnedAllocator)) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a := dev.HostAllocator().(*cudabuf.PinnedAllocator)
		test(t, a)
		assert.Zero(t, a.Stats().InUse)
	})
}

func TestPinnedMemoryIsAligned(t *testing.T) {
	forEachPinned(t, func(t *testing.T, a *cudabuf.PinnedAllocator) {
		for range 2 { // the second time from idle memory
			for _, n := range []int{1, 63, 64, 65, 4096, 100_000, 3 << 20} {
				b := a.Allocate(n)
				require.Len(t, b, n)
				assert.Zero(t, uintptr(unsafe.Pointer(&b[0]))%64)
				a.Free(b)
			}
		}
	})
}

func TestPinnedReallocateKeepsContents(t *testing.T) {
	forEachPinned(t, func(t *testing.T, a *cudabuf.PinnedAllocator) {
		sizes := []int{20, 5000, 1 << 20, 7, 9000, 64}
		b := a.Allocate(10)
		copy(b, "0123456789")
		for _, n := range sizes {
			kept := min(len(b), n)
			want := bytes.Clone(b[:kept])
			b = a.Reallocate(n, b)
			require.Len(t, b, n)
			assertBytes(t, want, b[:kept])
		}
		b = a.Reallocate(0, b)
		assert.Empty(t, b)
		assert.Zero(t, a.Stats().InUse)
		b = a.Reallocate(100, b)
		assert.Len(t, b, 100)
		a.Free(b)
	})
}

func TestPinnedEmptyAllocationUsesNoMemory(t *testing.T) {
	forEachPinned(t, func(t *testing.T, a *cudabuf.PinnedAllocator) {
		b := a.Allocate(0)
		assert.NotNil(t, b)
		assert.Empty(t, b)
		assert.Zero(t, a.Stats())
		a.Free(b)
		a.Free(nil)
	})
}

func TestPinnedIdleMemoryStaysWithinLimit(t *testing.T) {
	forEachPinned(t, func(t *testing.T, a *cudabuf.PinnedAllocator) {
		require.NoError(t, a.SetIdleLimit(1<<20))
		for _, n := range []int{4 << 10, 512 << 10, 1 << 20, 2 << 20, 256 << 10} {
			b := a.Allocate(n)
			assert.Equal(t, int64(n), a.Stats().InUse)
			a.Free(b)
			assert.LessOrEqual(t, a.Stats().Idle, int64(1<<20))
		}
		assert.NotZero(t, a.Stats().Idle)
		require.NoError(t, a.Trim())
		assert.Zero(t, a.Stats())
	})
}

func TestPinnedAllocatorPanicsWithSentinelError(t *testing.T) {
	dev, fail := failing(t)
	a := dev.HostAllocator()
	fail("cuMemHostAlloc", 2)
	b := a.Allocate(10) // the retry
	fail("cuMemHostAlloc", 304)
	assert.Panics(t, func() { a.Allocate(1 << 20) })
	assertPanicIs(t, arrowbuf.ErrOutOfRange, func() { a.Allocate(-1) })
	assertPanicIs(t, arrowbuf.ErrOutOfRange, func() { a.Reallocate(-1, b) })
	a.Free(b)
	assertPanicIs(t, arrowbuf.ErrReleased, func() { a.Free(b) })
	assertPanicIs(t, arrowbuf.ErrReleased, func() { a.Free(make([]byte, 10)) })

	full := device(t, cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		if call == "cuMemHostAlloc" {
			return 2
		}
		return 0
	}}), 0)
	assertPanicIs(t, arrowbuf.ErrOutOfMemory, func() { full.HostAllocator().Allocate(10) })
	from, to := upload(t, otherDevice{arrowbuf.CPU()}, pattern(10)), upload(t, full, pattern(10))
	defer from.Release()
	defer to.Release()
	_, err := to.CopyFromDevice(from, 0)
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "functions that return an error do not panic")
}

func TestLargePinnedMemoryIsRegistered(t *testing.T) {
	forEachPinned(t, func(t *testing.T, a *cudabuf.PinnedAllocator) {
		for _, n := range []int{4<<20 - 1, 4 << 20, 5<<20 + 1, 32 << 20} {
			b := a.Allocate(n)
			require.Len(t, b, n)
			b[0], b[n-1] = 1, 2
			a.Free(b)
			require.NoError(t, a.Trim())
			require.Zero(t, a.Stats())
		}
	})
	dev, calls := countCalls(t)
	a := dev.HostAllocator()
	registered, unregistered := calls("cuMemHostRegister"), calls("cuMemHostUnregister")
	a.Free(a.Allocate(4 << 20))
	a.Free(a.Allocate(4 << 20))
	require.NoError(t, dev.Trim())
	assert.Equal(t, 1, calls("cuMemHostRegister")-registered, "it is reused")
	assert.Equal(t, 1, calls("cuMemHostUnregister")-unregistered)
}

func TestMemoryThatCannotBeRegisteredIsAllocatedByTheDriver(t *testing.T) {
	dev, fail := failing(t)
	a := dev.HostAllocator()
	fail("cuMemHostRegister", 801) // CUDA_ERROR_NOT_SUPPORTED
	b := a.Allocate(4 << 20)
	b[4<<20-1] = 1
	a.Free(b)
	require.NoError(t, dev.Trim())
	fail("cuMemHostRegister", 1) // CUDA_ERROR_INVALID_VALUE
	assert.Panics(t, func() { a.Allocate(4 << 20) })
}

func TestPinnedAllocatorServesArrowBuilders(t *testing.T) {
	forEachPinned(t, func(t *testing.T, a *cudabuf.PinnedAllocator) {
		checked := memory.NewCheckedAllocator(a)
		defer checked.AssertSize(t, 0)
		words := array.NewStringBuilder(checked)
		numbers := array.NewInt64Builder(checked)
		flags := array.NewBooleanBuilder(checked)
		for i := range 5000 {
			if i%7 == 0 {
				words.AppendNull()
				flags.AppendNull()
			} else {
				words.Append(string(rune('a' + i%26)))
				flags.Append(i%3 == 0)
			}
			numbers.Append(int64(i))
		}
		columns := []arrow.Array{words.NewArray(), numbers.NewArray(), flags.NewArray()}
		words.Release()
		numbers.Release()
		flags.Release()
		assert.Equal(t, 5000/7+1, columns[0].NullN())
		assert.Equal(t, "d", columns[0].(*array.String).Value(3))
		assert.Equal(t, int64(4999), columns[1].(*array.Int64).Value(4999))
		assert.True(t, columns[2].(*array.Boolean).Value(3))
		for _, c := range columns {
			c.Release()
		}
	})
}

func TestPinnedAllocatorIsSafeForGoroutines(t *testing.T) {
	forEachPinned(t, func(t *testing.T, a *cudabuf.PinnedAllocator) {
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(2, uint64(g)))
				b := a.Allocate(1)
				for range 200 {
					b = a.Reallocate(1+random.IntN(20_000), b)
					for i := range b {
						b[i] = byte(g)
					}
					again := bytes.Count(b, []byte{byte(g)})
					assert.Equal(t, len(b), again)
				}
				a.Free(b)
			})
		}
		wg.Wait()
	})
}

func assertPanicIs(t *testing.T, target error, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		err, ok := recover().(error)
		if assert.True(t, ok, "no panic with an error") {
			assert.ErrorIs(t, err, target)
		}
	}()
	f()
}
