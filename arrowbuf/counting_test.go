package arrowbuf_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowbuftest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// countingDevice counts what another device is asked to do, and can fail. To
// CopyTo it is a device of its own.
type countingDevice struct {
	arrowbuf.Device
	allocs, up, down      atomic.Int64 // calls
	bytesUp, bytesDown    atomic.Int64
	failAlloc, failCopies atomic.Bool
}

var errBroken = errors.New("the device is broken")

func counted(dev arrowbuf.Device) *countingDevice { return &countingDevice{Device: dev} }

// onDevices runs a test on each kind of device, which is counted. The test
// fails if it leaves memory there, or releases it too often.
func onDevices(t *testing.T, test func(t *testing.T, dev *countingDevice)) {
	t.Helper()
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) { test(t, counted(arrowbuftest.Checked(t, dev))) })
}

func (d *countingDevice) Alloc(n int64) (arrowbuf.Buffer, error) {
	if d.failAlloc.Load() {
		return nil, arrowbuf.ErrOutOfMemory
	}
	d.allocs.Add(1)
	return d.wrap(d.Device.Alloc(n))
}

func (d *countingDevice) wrap(b arrowbuf.Buffer, err error) (arrowbuf.Buffer, error) {
	if err != nil {
		return nil, err
	}
	return &countingBuffer{b, d}, nil
}

type countingBuffer struct {
	arrowbuf.Buffer
	dev *countingDevice
}

func (b *countingBuffer) Device() arrowbuf.Device { return b.dev }
func (b *countingBuffer) Arrow() *memory.Buffer   { return arrowbuf.WrapArrow(b) }

func (b *countingBuffer) Slice(offset, n int64) (arrowbuf.Buffer, error) {
	return b.dev.wrap(b.Buffer.Slice(offset, n))
}

func (b *countingBuffer) CopyFromHost(src []byte, pos int64) (int64, error) {
	if b.dev.failCopies.Load() {
		return 0, errBroken
	}
	b.dev.up.Add(1)
	b.dev.bytesUp.Add(int64(len(src)))
	return b.Buffer.CopyFromHost(src, pos)
}

func (b *countingBuffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	if b.dev.failCopies.Load() {
		return 0, errBroken
	}
	b.dev.down.Add(1)
	b.dev.bytesDown.Add(int64(len(dst)))
	return b.Buffer.CopyToHost(dst, pos)
}

func (b *countingBuffer) CopyFromDevice(src arrowbuf.Buffer, pos int64) (int64, error) {
	return b.Buffer.CopyFromDevice(uncounted(src), pos)
}

func (b *countingBuffer) Equal(other arrowbuf.Buffer) (bool, error) {
	return b.Buffer.Equal(uncounted(other))
}

func uncounted(b arrowbuf.Buffer) arrowbuf.Buffer {
	if c, ok := b.(*countingBuffer); ok {
		return c.Buffer
	}
	return b
}
