package arrowbuf_test

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// fakeDevice is a device whose addresses the host may not touch: each
// allocation is mapped twice, once without access, which gives the address,
// and once for the device's own copies. It counts what it does.
type fakeDevice struct {
	name                  string
	live                  atomic.Int64 // buffers, slices included
	allocs                atomic.Int64
	toDevice, toHost      atomic.Int64 // copies
	bytesUp, bytesDown    atomic.Int64
	failAlloc, failCopies atomic.Bool
}

// newFake returns a device that fails the test if a buffer of it is left.
func newFake(t testing.TB) *fakeDevice {
	d := &fakeDevice{name: "fake:0"}
	t.Cleanup(func() { require.Zero(t, d.live.Load(), "buffers left on the device") })
	return d
}

var errFake = fmt.Errorf("the fake device fails")

func (d *fakeDevice) Type() arrowbuf.DeviceType       { return 100 }
func (d *fakeDevice) ID() int64                       { return 0 }
func (d *fakeDevice) String() string                  { return d.name }
func (d *fakeDevice) Synchronize() error              { return nil }
func (d *fakeDevice) HostAllocator() memory.Allocator { return memory.DefaultAllocator }

func (d *fakeDevice) Alloc(n int64) (arrowbuf.Buffer, error) {
	if n < 0 {
		return nil, arrowbuf.ErrOutOfRange
	}
	if d.failAlloc.Load() {
		return nil, fmt.Errorf("%s: %w", d, arrowbuf.ErrOutOfMemory)
	}
	d.allocs.Add(1)
	m := &mapping{}
	if n > 0 {
		if err := m.open(n); err != nil {
			return nil, err
		}
	}
	m.refs.Store(1)
	return d.buffer(m, 0, n), nil
}

func (d *fakeDevice) buffer(m *mapping, offset, n int64) *fakeBuffer {
	d.live.Add(1)
	b := &fakeBuffer{dev: d, m: m, offset: offset, n: n}
	b.refs.Store(1)
	return b
}

type mapping struct {
	refs    atomic.Int64
	outside unsafe.Pointer
	size    uintptr
	inside  []byte
}

func (m *mapping) open(n int64) error {
	fd, err := unix.MemfdCreate("fake", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, n); err != nil {
		return err
	}
	m.size = uintptr(n)
	if m.inside, err = unix.Mmap(fd, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	m.outside, err = unix.MmapPtr(fd, 0, nil, m.size, unix.PROT_NONE, unix.MAP_SHARED)
	return err
}

func (m *mapping) release() {
	if m.refs.Add(-1) == 0 && m.size > 0 {
		if err := unix.Munmap(m.inside); err != nil {
			panic(err)
		}
		if err := unix.MunmapPtr(m.outside, m.size); err != nil {
			panic(err)
		}
	}
}

type fakeBuffer struct {
	refs      atomic.Int64
	dev       *fakeDevice
	m         *mapping
	offset, n int64
}

func (b *fakeBuffer) Device() arrowbuf.Device { return b.dev }
func (b *fakeBuffer) Len() int64              { return b.n }
func (b *fakeBuffer) Arrow() *memory.Buffer   { return arrowbuf.WrapArrow(b) }
func (b *fakeBuffer) Retain()                 { b.refs.Add(1) }

func (b *fakeBuffer) Address() uintptr {
	if b.n == 0 {
		return 0
	}
	return uintptr(b.m.outside) + uintptr(b.offset)
}

func (b *fakeBuffer) Release() {
	switch n := b.refs.Add(-1); {
	case n == 0:
		b.dev.live.Add(-1)
		b.m.release()
	case n < 0:
		panic(arrowbuf.ErrReleased)
	}
}

func (b *fakeBuffer) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	if err := arrowbuf.CheckRange(offset, length, b.n); err != nil {
		return nil, err
	}
	b.m.refs.Add(1)
	return b.dev.buffer(b.m, b.offset+offset, length), nil
}

func (b *fakeBuffer) inside(pos, n int64) ([]byte, error) {
	if err := arrowbuf.CheckRange(pos, n, b.n); err != nil {
		return nil, err
	}
	if b.dev.failCopies.Load() {
		return nil, errFake
	}
	return b.m.inside[b.offset+pos : b.offset+pos+n], nil
}

func (b *fakeBuffer) CopyFromHost(src []byte, pos int64) (int64, error) {
	in, err := b.inside(pos, int64(len(src)))
	if err != nil {
		return 0, err
	}
	b.dev.toDevice.Add(1)
	b.dev.bytesUp.Add(int64(len(src)))
	return int64(copy(in, src)), nil
}

func (b *fakeBuffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	in, err := b.inside(pos, int64(len(dst)))
	if err != nil {
		return 0, err
	}
	b.dev.toHost.Add(1)
	b.dev.bytesDown.Add(int64(len(dst)))
	return int64(copy(dst, in)), nil
}

func (b *fakeBuffer) CopyFromDevice(src arrowbuf.Buffer, pos int64) (int64, error) {
	in, err := b.inside(pos, src.Len())
	if err != nil {
		return 0, err
	}
	return src.CopyToHost(in, 0)
}

func (b *fakeBuffer) Equal(other arrowbuf.Buffer) (bool, error) {
	if b.n != other.Len() {
		return false, nil
	}
	in, err := b.inside(0, b.n)
	if err != nil {
		return false, err
	}
	out := make([]byte, b.n)
	_, err = other.CopyToHost(out, 0)
	return bytes.Equal(in, out), err
}

func (b *fakeBuffer) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, arrowbuf.ErrOutOfRange
	}
	n := min(int64(len(p)), max(b.n-off, 0))
	if n > 0 {
		if _, err := b.CopyToHost(p[:n], off); err != nil {
			return 0, err
		}
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

func (b *fakeBuffer) WriteAt(p []byte, off int64) (int, error) {
	n, err := b.CopyFromHost(p, off)
	return int(n), err
}
