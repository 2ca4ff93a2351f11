package cudabuf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exchanger lists the methods by which a device or its Host exchanges memory.
type exchanger interface {
	arrowbuf.Device
	EventAfter(buffers ...arrowbuf.Buffer) (handle uintptr, done func(), err error)
	WrapExternalAfter(event, address uintptr, n int64, release func()) (arrowbuf.Buffer, error)
}

func TestEventAfterFollowsWritesToBuffers(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, s.Close()) }()
		b, err := dev.NewBuffer(64)
		require.NoError(t, err)
		defer b.Release()
		require.NoError(t, s.LaunchHostFunc(func() { time.Sleep(30 * time.Millisecond) }))
		require.NoError(t, b.FillAsync(1, s))
		part, err := b.Slice(8, 8)
		require.NoError(t, err)
		defer part.Release()
		empty, err := dev.Alloc(0)
		require.NoError(t, err)
		defer empty.Release()
		handle, done, err := dev.EventAfter(b, part, empty)
		require.NoError(t, err)
		defer done()
		e, err := dev.WrapEvent(handle)
		require.NoError(t, err)
		early, err := e.Done()
		require.NoError(t, err)
		assert.False(t, early)
		require.NoError(t, e.Synchronize())
		written, err := s.Done()
		require.NoError(t, err)
		assert.True(t, written)
	})
}

func TestFailedWrapExternalAfterDoesNotRelease(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		cpu, err := arrowbuf.CPU().Alloc(64)
		require.NoError(t, err)
		defer cpu.Release()
		for _, d := range []exchanger{dev, dev.Host().(exchanger)} {
			_, _, err = d.EventAfter(cpu)
			assert.ErrorIs(t, err, arrowbuf.ErrDevice)

			never := func() { t.Error("released") }
			_, err = d.WrapExternalAfter(0, cpu.Address(), 64, never)
			assert.ErrorIs(t, err, arrowbuf.ErrDevice)
			_, err = d.WrapExternalAfter(0, 1<<20, -1, never)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)

			b, err := d.Alloc(64)
			require.NoError(t, err)
			released := 0
			same, err := d.WrapExternalAfter(0, b.Address(), 64, func() { released++ })
			require.NoError(t, err)
			assert.Equal(t, b.Address(), same.Address())
			assert.Equal(t, arrowbuf.Device(d), same.Device())
			part, err := same.Slice(8, 8)
			require.NoError(t, err)
			same.Release()
			assert.Zero(t, released)
			part.Release()
			assert.Equal(t, 1, released)
			b.Release()
			_, _, err = d.EventAfter(b)
			assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		}
	})
}

func TestWrapExternalReleasesMemoryOnce(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		owner := upload(t, dev, pattern(256)).(*cudabuf.Buffer)
		released := 0
		b, err := dev.WrapExternal(owner.Address()+16, 100, func() { released++; owner.Release() })
		require.NoError(t, err)
		part, err := b.SliceClamped(4, 1000)
		require.NoError(t, err)
		b.Release()
		assert.Zero(t, released, "a slice keeps the memory")
		assertBytes(t, pattern(256)[20:116], download(t, part))
		part.Release()
		assert.Equal(t, 1, released)

		host := make([]byte, 8)
		_, err = dev.WrapExternal(addressOf(host), 8, nil)
		assert.ErrorContains(t, err, fmt.Sprintf("is not memory of %v", dev))
		empty, err := dev.WrapExternal(0, 0, nil)
		require.NoError(t, err)
		assert.Zero(t, empty.Len())
		empty.Release()
		_, err = dev.WrapExternal(owner.Address(), -1, nil)
		assert.Error(t, err)
	})
}

func TestDeviceAddressOfDeviceMemoryIsItself(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := upload(t, dev, pattern(1000))
		defer b.Release()
		for _, at := range []uintptr{b.Address(), b.Address() + 999} {
			got, err := dev.DeviceAddress(at)
			require.NoError(t, err)
			assert.Equal(t, at, got)
		}
		_, err := dev.DeviceAddress(1)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	})
}

func TestExternalMemoryIsReleasedAfterItsStreams(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, s.Close()) }()
		owner := upload(t, dev, pattern(64))
		var passed atomic.Bool
		b, err := dev.WrapExternal(owner.Address(), 64, func() {
			assert.True(t, passed.Load(), "release is called after the work is done")
			owner.Release()
		})
		require.NoError(t, err)
		gate := make(chan struct{})
		require.NoError(t, s.LaunchHostFunc(func() { <-gate; passed.Store(true) }))
		require.NoError(t, b.FillAsync(1, s))
		close(gate)
		b.Release()
		require.NoError(t, s.Synchronize())
	})
}

func TestRecordStreamOrdersExternalWork(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		owner, before := stream(t, dev), stream(t, dev)
		theirs, err := dev.WrapStream(owner.Handle())
		require.NoError(t, err)
		b := newBuffer(t, dev, 8)
		unseen, err := dev.WrapExternal(b.Address(), 8, nil) // another library's view of the memory
		require.NoError(t, err)
		defer unseen.Release()

		gate := make(chan struct{})
		require.NoError(t, before.LaunchHostFunc(func() { <-gate }))
		require.NoError(t, b.FillAsync(1, before))
		require.NoError(t, b.RecordStream(theirs))
		require.NoError(t, unseen.FillAsync(2, owner))
		close(gate)
		assert.Equal(t, bytes.Repeat([]byte{2}, 8), download(t, b), "after the earlier work and before the later work")

		gate = make(chan struct{})
		require.NoError(t, owner.LaunchHostFunc(func() { <-gate }))
		require.NoError(t, unseen.FillAsync(3, owner))
		require.NoError(t, b.FillAsync(4, before))
		close(gate)
		require.NoError(t, b.Wait())
		assert.Equal(t, bytes.Repeat([]byte{4}, 8), download(t, b), "later work of the stream counts too")
		require.NoError(t, theirs.Close())

		none := newBuffer(t, dev, 0)
		require.NoError(t, none.RecordStream(owner))
	})
}

func TestEnqueueOrdersWorkOfOtherLibraries(t *testing.T) {
	dev, calls := recordCalls(t)
	a, b := newBuffer(t, dev, 64), newBuffer(t, dev, 64)
	one, two := stream(t, dev), stream(t, dev)
	enqueue := func(s *cudabuf.Stream, memory ...cudabuf.Pointer) {
		t.Helper()
		called := 0
		require.NoError(t, s.Enqueue(func() error { called++; return nil }, memory...))
		assert.Equal(t, 1, called)
	}
	calls()
	enqueue(one, cudabuf.In(a, 8), cudabuf.InOut(b, 0), cudabuf.InOut(b, 32))
	enqueue(two, cudabuf.In(a, 0))
	assert.Empty(t, calls(), "readers do not wait")
	enqueue(two, cudabuf.In(b, 0))
	assert.Equal(t, "record wait", calls(), "a reader waits for a writer")
	require.NoError(t, a.FillAsync(1, one))
	assert.Equal(t, "record wait fill", calls(), "work of this package waits, too")
}

func TestFailedEnqueueIsNamed(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, b := stream(t, dev), newBuffer(t, dev, 64)
		mine := errors.New("mine")
		err := s.Enqueue(func() error { return mine }, cudabuf.In(b, 0))
		assert.ErrorIs(t, err, mine)
		assert.ErrorContains(t, err, dev.String())
		never := func() error { t.Error("called"); return nil }
		assert.ErrorIs(t, s.Enqueue(nil), cudabuf.ErrNil)
		assert.ErrorIs(t, s.Enqueue(never, cudabuf.In(b, 65)), arrowbuf.ErrOutOfRange)
		view, err := b.ReadOnly()
		require.NoError(t, err)
		defer view.Release()
		assert.ErrorIs(t, s.Enqueue(never, cudabuf.InOut(view, 0)), cudabuf.ErrReadOnly)
		gone, err := dev.NewBuffer(8)
		require.NoError(t, err)
		gone.Release()
		assert.ErrorIs(t, s.Enqueue(never, cudabuf.In(gone, 0)), arrowbuf.ErrReleased)
		closed, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		require.NoError(t, closed.Close())
		assert.ErrorIs(t, closed.Enqueue(never), cudabuf.ErrClosed)
	})
}

func TestGraphKeepsMemoryOfEnqueuedWork(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b, err := dev.NewBuffer(64)
		require.NoError(t, err)
		assert.False(t, stream(t, dev).Capturing())
		g, err := dev.Capture(func(s *cudabuf.Stream) error {
			assert.True(t, s.Capturing())
			return s.Enqueue(func() error { return nil }, cudabuf.InOut(b, 0))
		})
		require.NoError(t, err)
		b.Release()
		assert.Positive(t, dev.MemoryStats().InUse)
		require.NoError(t, g.Close())
		assert.Zero(t, dev.MemoryStats().InUse)
	})
}

type closer func() error

func (c closer) Close() error { return c() }

func TestLibrariesAreOpenedOnceAndClosedWithTheDevice(t *testing.T) {
	d := cudatest.New(cudatest.Config{})
	dev, err := d.Device(0)
	require.NoError(t, err)
	type first struct{}
	type second struct{}
	var log []string
	open := func(name string) func() (io.Closer, error) {
		return func() (io.Closer, error) {
			log = append(log, "open "+name)
			return closer(func() error { log = append(log, "close "+name); return nil }), nil
		}
	}
	mine := errors.New("mine")
	_, err = dev.Library(first{}, func() (io.Closer, error) { return nil, mine })
	assert.ErrorIs(t, err, mine)
	a, err := dev.Library(first{}, open("first"))
	require.NoError(t, err, "a failure is not remembered")
	_, err = dev.Library(second{}, open("second"))
	require.NoError(t, err)
	again, err := dev.Library(first{}, open("third"))
	require.NoError(t, err)
	assert.NotNil(t, a)
	assert.NotNil(t, again)
	_, err = dev.Library(nil, open("fourth"))
	assert.ErrorIs(t, err, cudabuf.ErrNil)
	_, err = dev.Library([]int{1}, open("fourth"))
	assert.ErrorIs(t, err, cudabuf.ErrArguments)
	_, err = dev.Library(first{}, nil)
	assert.ErrorIs(t, err, cudabuf.ErrNil)
	require.NoError(t, d.Close())
	assert.Equal(t, []string{"open first", "open second", "close second", "close first"}, log)
}
