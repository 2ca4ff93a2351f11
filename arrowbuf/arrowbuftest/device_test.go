package arrowbuftest_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowbuftest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// recorder is a testing.TB that records failures, and runs clean-ups on request.
type recorder struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) runCleanups() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	r.cleanups = nil
}

// onDevices runs a test on a checked device of each kind.
func onDevices(t *testing.T, test func(t *testing.T, r *recorder, dev arrowbuf.Device)) {
	t.Run("cpu", func(t *testing.T) {
		r := &recorder{TB: t}
		test(t, r, arrowbuftest.Checked(r, arrowbuf.CPU()))
	})
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		r := &recorder{TB: t}
		test(t, r, arrowbuftest.Checked(r, dev))
	})
}

func newBuffer(t *testing.T, dev arrowbuf.Device, n int64) arrowbuf.Buffer {
	t.Helper()
	b, err := dev.Alloc(n)
	require.NoError(t, err)
	return b
}

func ints(mem memory.Allocator) arrow.RecordBatch {
	b := array.NewRecordBuilder(mem, arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int32}}, nil))
	defer b.Release()
	b.Field(0).(*array.Int32Builder).AppendValues([]int32{1, 2, 3}, nil)
	return b.NewRecordBatch()
}

func TestLeakNamesAllocatingCall(t *testing.T) {
	onDevices(t, func(t *testing.T, r *recorder, dev arrowbuf.Device) {
		first := newBuffer(t, dev, 100)
		released := newBuffer(t, dev, 200)
		part, err := released.Slice(50, 10)
		require.NoError(t, err)
		released.Release()
		r.runCleanups()
		require.Len(t, r.failures, 2)
		at := " on " + dev.String() + ", "
		assert.Regexp(t, `^leak: 100 bytes`+at+`allocated by Alloc, called by arrowbuftest_test\.newBuffer \(device_test\.go:\d+\), called by arrowbuftest_test\.TestLeakNamesAllocatingCall\.func1 \(device_test\.go:\d+\)`, r.failures[0])
		assert.Regexp(t, `^leak: 10 bytes`+at+`sliced by Slice, called by arrowbuftest_test\.TestLeakNamesAllocatingCall\.func1 \(device_test\.go:\d+\)`, r.failures[1])
		part.Release()
		first.Release()
	})
}

func TestReleasedBuffersAreNoLeak(t *testing.T) {
	onDevices(t, func(t *testing.T, r *recorder, dev arrowbuf.Device) {
		b := newBuffer(t, dev, 100)
		b.Retain()
		seen := b.Arrow()
		part := memory.SliceBuffer(seen, 10, 20)
		found, ok := arrowbuf.FromArrow(part)
		require.True(t, ok)
		assert.Equal(t, dev, found.Device())
		b.Release()
		b.Release()
		seen.Release()
		part.Release()
		data := []byte("twenty bytes of text")
		_, err := found.CopyFromHost(data, 0)
		require.NoError(t, err)
		other := newBuffer(t, dev, 20)
		_, err = other.CopyFromDevice(found, 0)
		require.NoError(t, err)
		same, err := found.Equal(other)
		require.NoError(t, err)
		assert.True(t, same)
		found.Release()
		other.Release()
		newBuffer(t, dev, 0).Release()
		r.runCleanups()
		assert.Empty(t, r.failures)
	})
}

func TestUnreleasedBatchIsLeakOfItsCopy(t *testing.T) {
	onDevices(t, func(t *testing.T, r *recorder, dev arrowbuf.Device) {
		host := ints(memory.DefaultAllocator)
		defer host.Release()
		moved, err := arrowbuf.CopyTo(host, dev)
		require.NoError(t, err)
		column := moved.Column(0)
		column.Retain()
		moved.Release()
		r.runCleanups()
		require.Len(t, r.failures, 1)
		assert.Regexp(t, `allocated by arrowbuf\.CopyTo, called by arrowbuftest_test\.TestUnreleasedBatchIsLeakOfItsCopy`, r.failures[0])
		back, err := arrowbuf.CopyArrayTo(column, arrowbuf.CPU())
		require.NoError(t, err)
		assert.True(t, array.Equal(host.Column(0), back))
		back.Release()
		column.Release()
	})
}

func TestUnfreedHostMemoryIsLeak(t *testing.T) {
	onDevices(t, func(t *testing.T, r *recorder, dev arrowbuf.Device) {
		mem := dev.HostAllocator()
		kept := mem.Allocate(64)
		mem.Free(mem.Allocate(32))
		r.runCleanups()
		assert.NotEmpty(t, r.failures)
		mem.Free(kept)
	})
}

func TestExtraReleaseNamesPreviousRelease(t *testing.T) {
	onDevices(t, func(t *testing.T, r *recorder, dev arrowbuf.Device) {
		b := newBuffer(t, dev, 100)
		releaseInHelper(b)
		assert.Empty(t, r.failures)
		b.Release()
		require.Len(t, r.failures, 1)
		assert.Regexp(t, `^released too often by .*, called by arrowbuftest_test\.TestExtraReleaseNamesPreviousRelease\.func1 .*: 100 bytes on .*, allocated by .*; its last reference was released by .*, called by arrowbuftest_test\.releaseInHelper \(device_test\.go:\d+\)`, r.failures[0])
		b.Release()
		assert.Len(t, r.failures, 2, "each time")
		b.Retain()
		assert.Len(t, r.failures, 3)
		assert.Contains(t, r.failures[2], "retained after its last release")
		_, err := b.CopyFromHost(make([]byte, 8), 0)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		_, err = b.Slice(0, 1)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		r.runCleanups()
		assert.Len(t, r.failures, 3, "an over-released buffer is not a leak")
	})
}

func releaseInHelper(b arrowbuf.Buffer) { b.Release() }

func TestHostBytesOfCheckedBuffers(t *testing.T) {
	onDevices(t, func(t *testing.T, r *recorder, dev arrowbuf.Device) {
		b := newBuffer(t, dev, 3)
		_, err := b.CopyFromHost([]byte{1, 2, 3}, 0)
		require.NoError(t, err)
		bytes, ok := arrowbuf.HostBytes(b)
		assert.Equal(t, dev.Type() == arrowbuf.DeviceCPU, ok)
		if ok {
			assert.Equal(t, []byte{1, 2, 3}, bytes)
		}
		b.Release()
		r.runCleanups()
		assert.Empty(t, r.failures)
	})
}

func TestStreamCopiesToCheckedDevice(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, driver *cudabuf.Driver) {
		dev, err := driver.Device(0)
		require.NoError(t, err)
		stream, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		defer func() { require.NoError(t, stream.Close()) }()
		r := &recorder{TB: t}
		checked := arrowbuftest.Checked(r, dev)
		host := ints(memory.DefaultAllocator)
		defer host.Release()
		checkedStream, err := arrowbuftest.CheckedStream(checked, stream)
		require.NoError(t, err)
		moved, err := arrowbuf.CopyTo(host, checked, arrowbuf.WithStream(checkedStream))
		require.NoError(t, err)
		assert.Equal(t, checked, arrowbuf.DeviceOf(moved.Column(0)))
		copied, err := arrowbuf.CopyTo(moved, arrowbuftest.Checked(r, dev), arrowbuf.WithStream(stream))
		assert.ErrorIs(t, err, arrowbuf.ErrDevice, "a stream of the wrapped device")
		assert.Nil(t, copied)
		foreign, err := arrowbuftest.CheckedStream(arrowbuftest.Checked(r, arrowbuf.CPU()), stream)
		require.NoError(t, err)
		_, err = foreign.Alloc(1)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice, "a stream of another device")
		back, err := arrowbuf.ToHost(moved)
		require.NoError(t, err)
		assert.True(t, array.RecordEqual(host, back))
		back.Release()
		require.NoError(t, stream.Synchronize())
		for _, end := range r.cleanups {
			end()
		}
		require.Len(t, r.failures, 1)
		assert.Contains(t, r.failures[0], "allocated by arrowbuf.CopyTo, called by arrowbuftest_test.TestStreamCopiesToCheckedDevice")
		moved.Release()
		r.failures = nil
		r.runCleanups()
		assert.Empty(t, r.failures)
	})
}

func TestAsFindsWrappedDevicesAndBuffers(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		checked := arrowbuftest.Checked(t, arrowbuftest.Checked(t, dev))
		found, ok := arrowbuf.As[*cudabuf.Device](checked)
		assert.True(t, ok)
		assert.Same(t, dev, found)
		b := newBuffer(t, checked, 10)
		defer b.Release()
		inner, ok := arrowbuf.As[*cudabuf.Buffer](b)
		require.True(t, ok)
		assert.Equal(t, b.Address(), inner.Address())
		outer, ok := arrowbuf.As[arrowbuf.Buffer](b)
		assert.True(t, ok)
		assert.Equal(t, b, outer, "the value itself comes first")
		_, ok = arrowbuf.As[*cudabuf.Device](arrowbuf.CPU())
		assert.False(t, ok)
		_, ok = arrowbuf.As[*cudabuf.Device](nil)
		assert.False(t, ok)
	})
}
