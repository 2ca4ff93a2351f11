package arrowbuf_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func newStream(t testing.TB, dev *cudabuf.Device) *cudabuf.Stream {
	t.Helper()
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// holdUp keeps a stream from its work until open is called, or the test ends.
func holdUp(t testing.TB, s *cudabuf.Stream) (open func()) {
	t.Helper()
	gate := make(chan struct{})
	opened := false
	open = func() {
		if !opened {
			close(gate)
		}
		opened = true
	}
	t.Cleanup(open)
	require.NoError(t, s.Do(func() { <-gate }))
	return open
}

func TestBatchesOfEveryTypeAreCopiedInTheOrderOfAStream(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s := newStream(t, dev)
		for name, mem := range map[string]memory.Allocator{"ordinary": memory.DefaultAllocator, "pinned": dev.HostAllocator()} {
			for _, rows := range []int{0, 1, 333, 20_000} {
				host := randomBatch(t, mem, rows, movable...)
				for _, options := range [][]arrowbuf.CopyOption{{arrowbuf.WithStream(s)}, {arrowbuf.WithStream(s), arrowbuf.SeparateAllocations}} {
					moved, err := arrowbuf.CopyTo(host, dev, options...)
					require.NoError(t, err, "%s, %d rows", name, rows)
					requireAligned(t, moved.(*arrowbuf.RecordBatch))
					requireSameBatch(t, host, moved.(*arrowbuf.RecordBatch))
					moved.Release()
				}
			}
		}
	})
}

// wideInts is a batch of a buffer too large to be gathered, and of small ones.
func wideInts(mem memory.Allocator, rows int) arrow.RecordBatch {
	fields := []arrow.Field{{Name: "long", Type: arrow.PrimitiveTypes.Int64}, {Name: "short", Type: arrow.PrimitiveTypes.Int8, Nullable: true}}
	b := array.NewRecordBuilder(mem, arrow.NewSchema(fields, nil))
	defer b.Release()
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		if i%3 == 0 {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.Int8Builder).Append(int8(i))
		}
	}
	return b.NewRecordBatch()
}

const wideRows = 30_000 // 240 KB of 64-bit integers

func TestACopyOnAStreamReturnsBeforeItIsDone(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		want := wideInts(memory.DefaultAllocator, wideRows)
		defer want.Release()
		pinned := memory.NewCheckedAllocator(dev.HostAllocator())
		host := wideInts(pinned, wideRows)
		s := newStream(t, dev)
		open := holdUp(t, s)

		moved, err := arrowbuf.CopyTo(host, dev, arrowbuf.WithStream(s))
		require.NoError(t, err)
		host.Release()
		done, err := s.Done()
		require.NoError(t, err)
		assert.False(t, done)
		assert.GreaterOrEqual(t, pinned.CurrentAlloc(), 8*wideRows, "the copy still reads what was released")

		// Whoever uses the batch waits: here on another stream, and the host.
		type result struct {
			batch arrow.RecordBatch
			err   error
		}
		back := make(chan result, 1)
		go func() {
			there, err := moved.(*arrowbuf.RecordBatch).ToHost()
			back <- result{there, err}
		}()
		select {
		case <-back:
			t.Error("the batch was read before it was there")
		case <-time.After(20 * time.Millisecond):
		}
		open()
		got := <-back
		require.NoError(t, got.err)
		defer got.batch.Release()
		assert.True(t, array.RecordEqual(want, got.batch))
		moved.Release()
		assert.Eventually(t, func() bool { return pinned.CurrentAlloc() == 0 }, 5*time.Second, time.Millisecond, "the memory that was read is free")
	})
}

func TestOrdinaryMemoryIsFreeWhenACopyOnAStreamReturns(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		want := wideInts(memory.DefaultAllocator, 100)
		defer want.Release()
		host := wideInts(memory.DefaultAllocator, 100)
		defer host.Release()
		s := newStream(t, dev)
		open := holdUp(t, s)
		moved, err := arrowbuf.CopyTo(host, dev, arrowbuf.WithStream(s))
		require.NoError(t, err)
		defer moved.Release()
		for _, column := range host.Columns() {
			clear(column.Data().Buffers()[1].Bytes())
		}
		open()
		requireSameBatch(t, want, moved.(*arrowbuf.RecordBatch))
	})
}

func TestBatchesGoFromDeviceToDeviceOnAStream(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		first, err := d.Device(0)
		require.NoError(t, err)
		second, err := d.Device(1)
		require.NoError(t, err)
		want := wideInts(memory.DefaultAllocator, wideRows)
		defer want.Release()
		there, behind := newStream(t, first), newStream(t, second)
		open := holdUp(t, there)
		moved, err := arrowbuf.CopyTo(want, first, arrowbuf.WithStream(there)) // not there yet when it goes on
		require.NoError(t, err)
		further, err := arrowbuf.CopyTo(moved, second, arrowbuf.WithStream(behind))
		moved.Release()
		open()
		require.NoError(t, err)
		defer further.Release()
		requireSameBatch(t, want, further.(*arrowbuf.RecordBatch))
		require.NoError(t, behind.Synchronize())
	})
}

func TestCopyOnAStreamRefusesOtherDevices(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		host := randomBatch(t, checked(t), 10, arrow.PrimitiveTypes.Int32)
		moved, err := arrowbuf.CopyTo(host, dev)
		require.NoError(t, err)
		defer moved.Release()
		other := cudatest.NewDevice(t)
		closed, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		require.NoError(t, closed.Close())
		for name, tt := range map[string]struct {
			batch arrow.RecordBatch
			to    arrowbuf.Device
			on    *cudabuf.Stream
			want  error
		}{
			"another GPU":            {host, other, newStream(t, dev), arrowbuf.ErrDevice},
			"the CPU":                {moved, arrowbuf.CPU(), newStream(t, dev), arrowbuf.ErrDevice},
			"pinned memory":          {moved, dev.Host(), newStream(t, dev), arrowbuf.ErrDevice},
			"from another driver's":  {moved, other, newStream(t, other), arrowbuf.ErrDevice},
			"a stream that is over":  {host, dev, closed, cudabuf.ErrClosed},
			"a device of the test's": {host, counted(dev), newStream(t, dev), arrowbuf.ErrDevice},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := arrowbuf.CopyTo(tt.batch, tt.to, arrowbuf.WithStream(tt.on))
				assert.ErrorIs(t, err, tt.want)
			})
		}
	})
}

func TestCopyOnAStreamThatCapturesIsRefused(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		host := randomBatch(t, checked(t), 10, arrow.PrimitiveTypes.Int32)
		g, err := dev.Capture(func(s *cudabuf.Stream) error {
			_, err := arrowbuf.CopyTo(host, dev, arrowbuf.WithStream(s))
			assert.ErrorIs(t, err, errors.ErrUnsupported)
			return nil
		})
		if err == nil {
			require.NoError(t, g.Close())
		}
	})
}

// Whichever call fails, all memory goes back.
func TestCopyOnAStreamThatFailsHoldsNothing(t *testing.T) {
	for n := 1; ; n++ {
		var armed, failed atomic.Bool
		fail := cudatest.FailAt(n, cudatest.OutOfMemory)
		machine := cudatest.New(cudatest.Config{Fail: func(call string, i int) (r cudabuf.Result) {
			if armed.Load() {
				r = fail(call, i)
			}
			if r != 0 {
				failed.Store(true)
			}
			return r
		}})
		dev, err := machine.Device(0)
		require.NoError(t, err)
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		pinned := memory.NewCheckedAllocator(dev.HostAllocator())
		host := wideInts(pinned, wideRows)
		armed.Store(true)
		moved, err := arrowbuf.CopyTo(host, dev, arrowbuf.WithStream(s))
		armed.Store(false)
		if err == nil {
			moved.Release()
		}
		host.Release()
		require.NoError(t, machine.Close(), "call %d", n)
		pinned.AssertSize(t, 0)
		if !failed.Load() {
			require.NoError(t, err)
			assert.Greater(t, n, 4)
			return
		}
	}
}
