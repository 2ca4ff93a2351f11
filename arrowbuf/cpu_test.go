package arrowbuf_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

func TestLargeHostBuffersAreAlignedAndSeparate(t *testing.T) {
	var buffers []arrowbuf.Buffer
	for i, n := range []int64{4<<20 - 1, 4 << 20, 4<<20 + 1, 9<<20 + 5} {
		b, err := arrowbuf.CPU().Alloc(n)
		require.NoError(t, err)
		assert.Zero(t, b.Address()%64)
		host, ok := arrowbuf.HostBytes(b)
		require.True(t, ok)
		require.Len(t, host, int(n))
		for j := range host {
			host[j] = byte(i + 1)
		}
		buffers = append(buffers, b)
		runtime.GC() // frees unreferenced memory, so that the next Alloc may reuse it
	}
	for i, b := range buffers {
		host, _ := arrowbuf.HostBytes(b)
		assert.Equal(t, len(host), bytes.Count(host, []byte{byte(i + 1)}))
		b.Release()
	}
}

func TestMemoryExposedToArrowIsNotReused(t *testing.T) {
	const n = 5 << 20
	b, err := arrowbuf.CPU().Alloc(n)
	require.NoError(t, err)
	seen := b.Arrow()
	values := seen.Bytes()
	for i := range values {
		values[i] = 7
	}
	seen.Release()
	b.Release()
	for range 3 {
		other, err := arrowbuf.CPU().Alloc(n)
		require.NoError(t, err)
		host, _ := arrowbuf.HostBytes(other)
		clear(host)
		defer other.Release()
	}
	assert.Equal(t, n, bytes.Count(values, []byte{7}))
}

func TestCPUBuffersAreAlignedHostMemory(t *testing.T) {
	for _, n := range []int{1, 63, 64, 100_000} {
		b := alloc(t, arrowbuf.CPU(), n)
		assert.Zero(t, b.Address()%64)
		host, ok := arrowbuf.HostBytes(b)
		require.True(t, ok)
		assert.True(t, bytes.Equal(sequence(0, n), host))
	}
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		_, ok := arrowbuf.HostBytes(alloc(t, dev.Device, 8))
		assert.False(t, ok)
	})
}

func TestWrapHostRetainsMemory(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	host := memory.NewResizableBuffer(mem)
	host.Resize(100)
	copy(host.Bytes(), sequence(0, 100))
	b, err := arrowbuf.WrapHost(host)
	require.NoError(t, err)
	host.Release()
	part, err := b.Slice(90, 10)
	require.NoError(t, err)
	b.Release()
	view := part.Arrow()
	part.Release()
	assert.Equal(t, sequence(90, 10), view.Bytes())
	assert.NotZero(t, mem.CurrentAlloc())
	view.Release()
	mem.AssertSize(t, 0)

	_, err = arrowbuf.WrapHost(nil)
	assert.Error(t, err)
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		view := alloc(t, dev.Device, 8).Arrow()
		defer view.Release()
		_, err := arrowbuf.WrapHost(view)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	})
}

func TestCPUDevice(t *testing.T) {
	cpu := arrowbuf.CPU()
	assert.Equal(t, arrowbuf.DeviceCPU, cpu.Type())
	assert.EqualValues(t, -1, cpu.ID())
	assert.Equal(t, "cpu", cpu.String())
	assert.NoError(t, cpu.Synchronize())
	assert.Len(t, cpu.HostAllocator().Allocate(10), 10)
}
