package arrowbuf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// CPU returns the host's own memory as a device. Its buffers are 64-byte
// aligned, as the Arrow columnar format recommends, and may be read and written
// in place by HostBytes.
func CPU() Device { return cpu }

var cpu = &cpuDevice{mem: memory.NewGoAllocator()}

type cpuDevice struct{ mem memory.Allocator }

func (d *cpuDevice) Type() DeviceType                { return DeviceCPU }
func (d *cpuDevice) ID() int64                       { return -1 }
func (d *cpuDevice) String() string                  { return "cpu" }
func (d *cpuDevice) Synchronize() error              { return nil }
func (d *cpuDevice) HostAllocator() memory.Allocator { return d.mem }

func (d *cpuDevice) Alloc(n int64) (Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("cpu: allocating %d bytes: %w", n, ErrOutOfRange)
	}
	if err := CheckRoom(n); err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	if n < leastLarge {
		host := memory.NewResizableBuffer(d.mem)
		host.Resize(int(n))
		return newCPUBuffer(host, host.Bytes()), nil
	}
	k := new(block)
	host := memory.NewResizableBuffer(k)
	host.Resize(int(n))
	b := newCPUBuffer(host, host.Bytes())
	b.block = k
	return b, nil
}

// CheckRoom answers ErrOutOfMemory where the host has no n bytes of memory to give, as
// far as its system tells. Go's allocator ends the program there, or panics where no
// memory is so large: large sizes are asked first.
func CheckRoom(n int64) error {
	const addressable = 1 << 46
	err := errAddressable
	if n <= addressable {
		err = checkRoom(n)
	}
	if err != nil {
		return fmt.Errorf("allocating %d bytes of the host's memory: %w: %w", n, ErrOutOfMemory, err)
	}
	return nil
}

var errAddressable = errors.New("more than can be addressed")

// WrapHost returns a CPU buffer over the memory of an arrow buffer without a
// copy, and takes a reference to it. For memory that the host cannot reach it
// answers an error that is ErrDevice.
func WrapHost(b *memory.Buffer) (Buffer, error) {
	if b == nil {
		return nil, errors.New("wrapping a buffer as host memory: there is no buffer")
	}
	if !OnHost(b) {
		return nil, fmt.Errorf("wrapping a buffer as host memory: %w", ErrDevice)
	}
	b.Retain()
	return newCPUBuffer(b, b.Bytes()), nil
}

var errNoBuffer = fmt.Errorf("cpu: there is no other buffer: %w", ErrDevice)

// cpuBuffer is a view of an arrow buffer, which owns the memory.
type cpuBuffer struct {
	refs  atomic.Int64
	owner *memory.Buffer
	data  []byte
	block *block // that the owner has, if so
}

func newCPUBuffer(owner *memory.Buffer, data []byte) *cpuBuffer {
	b := &cpuBuffer{owner: owner, data: data}
	b.refs.Store(1)
	return b
}

func (b *cpuBuffer) Device() Device    { return cpu }
func (b *cpuBuffer) Len() int64        { return int64(len(b.data)) }
func (b *cpuBuffer) HostBytes() []byte { return b.data }

func (b *cpuBuffer) Address() uintptr {
	if len(b.data) == 0 {
		return 0
	}
	return sliceAddress(b.data)
}

// check returns an error unless the buffer is alive and has bytes
// [offset, offset+length).
func (b *cpuBuffer) check(offset, length int64) error {
	if b.refs.Load() <= 0 {
		return fmt.Errorf("cpu: %w", ErrReleased)
	}
	return CheckRange(offset, length, b.Len())
}

func (b *cpuBuffer) Slice(offset, length int64) (Buffer, error) {
	if err := b.check(offset, length); err != nil {
		return nil, err
	}
	b.owner.Retain()
	part := newCPUBuffer(b.owner, b.data[offset:offset+length:offset+length])
	part.block = b.block
	return part, nil
}

func (b *cpuBuffer) CopyFromHost(src []byte, pos int64) (int64, error) {
	if err := b.check(pos, int64(len(src))); err != nil {
		return 0, err
	}
	return int64(copy(b.data[pos:], src)), nil
}

func (b *cpuBuffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	if err := b.check(pos, int64(len(dst))); err != nil {
		return 0, err
	}
	return int64(copy(dst, b.data[pos:])), nil
}

func (b *cpuBuffer) CopyFromDevice(src Buffer, pos int64) (int64, error) {
	if src == nil {
		return 0, errNoBuffer
	}
	if err := b.check(pos, src.Len()); err != nil {
		return 0, err
	}
	return src.CopyToHost(b.data[pos:pos+src.Len()], 0)
}

func (b *cpuBuffer) Equal(other Buffer) (bool, error) {
	if other == nil {
		return false, errNoBuffer
	}
	if err := b.check(0, 0); err != nil {
		return false, err
	}
	if o, ok := other.(*cpuBuffer); ok {
		if err := o.check(0, 0); err != nil {
			return false, err
		}
	}
	if other.Len() != b.Len() {
		return false, nil
	}
	if host, ok := HostBytes(other); ok {
		return bytes.Equal(b.data, host), nil
	}
	return other.Equal(b)
}

func (b *cpuBuffer) ReadAt(p []byte, off int64) (int, error) {
	if err := b.check(0, 0); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, fmt.Errorf("reading at %d: %w", off, ErrOutOfRange)
	}
	if off >= b.Len() {
		return 0, io.EOF
	}
	n := copy(p, b.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (b *cpuBuffer) WriteAt(p []byte, off int64) (int, error) {
	n, err := b.CopyFromHost(p, off)
	return int(n), err
}

// Arrow needs no wrapper: the memory is arrow-go's already.
func (b *cpuBuffer) Arrow() *memory.Buffer {
	if err := b.check(0, 0); err != nil {
		panic(fmt.Errorf("arrowbuf: Arrow: %w", err))
	}
	if b.block != nil {
		b.block.seen.Store(true)
	}
	if len(b.data) == b.owner.Len() {
		b.owner.Retain()
		return b.owner
	}
	if len(b.data) == 0 {
		return memory.NewBufferBytes(nil)
	}
	offset := int(sliceAddress(b.data) - sliceAddress(b.owner.Bytes()))
	return memory.SliceBuffer(b.owner, offset, len(b.data))
}

func (b *cpuBuffer) Retain() {
	if b.refs.Add(1) <= 1 {
		b.refs.Add(-1)
		panic(fmt.Errorf("arrowbuf: Retain: %w", ErrReleased))
	}
}

func (b *cpuBuffer) Release() {
	switch n := b.refs.Add(-1); {
	case n == 0:
		b.owner.Release()
		b.owner, b.data = nil, nil
	case n < 0:
		panic(fmt.Errorf("arrowbuf: Release: %w", ErrReleased))
	}
}

// WrapExternal returns a CPU buffer over memory that another library keeps: not
// checked, and not copied. When the last reference goes, release is called,
// once; until then the owner must keep the memory.
func WrapExternal(data []byte, release func()) Buffer {
	return newCPUBuffer(memory.NewBufferWithAllocator(data, foreign(release)), data)
}

// foreign is the allocator of one buffer, which arrow-go asks for nothing but to
// free it.
type foreign func()

func (f foreign) Allocate(int) []byte           { panic("arrowbuf: foreign memory cannot grow in place") }
func (f foreign) Reallocate(int, []byte) []byte { panic("arrowbuf: foreign memory cannot be resized") }
func (f foreign) Free([]byte)                   { f() }

// leastLarge is from where on an allocation of host memory is a block. New memory
// is slow: to clear it and to use it for the first time, page by page, takes longer
// than most of what is done with it.
const leastLarge = 4 << 20

// block is large host memory. It is not cleared, is in large pages where the
// system has them, and after its last release the next block of its size, unless
// Go has collected it. It is the allocator of the arrow buffer that owns it.
type block struct {
	// seen by arrow-go, whose users may go on with values, such as strings, after
	// they release an array: only Go knows when they are done.
	seen atomic.Bool
}

// released are blocks that may be used again, as *[]byte, by the bits of their size.
var released [bits.UintSize + 1]sync.Pool

// Allocate returns undefined bytes, aligned to 64.
func (*block) Allocate(n int) []byte {
	pool := &released[bits.Len(uint(n))]
	if b, ok := pool.Get().(*[]byte); ok {
		if len(*b) >= n {
			return (*b)[:n]
		}
		pool.Put(b)
	}
	var uncleared strings.Builder // whose memory alone Go does not clear
	uncleared.Grow(n + 64)        // so that a pointer to the end is into it, too
	b := unsafe.Slice(unsafe.StringData(uncleared.String()), n)
	useLargePages(b)
	return b
}

// Reallocate moves bytes to memory of another size.
func (k *block) Reallocate(n int, b []byte) []byte {
	moved := k.Allocate(n)
	copy(moved, b)
	k.Free(b)
	return moved
}

// Free is called at the last release.
func (k *block) Free(b []byte) {
	if b = b[:cap(b)]; !k.seen.Load() {
		released[bits.Len(uint(len(b)))].Put(&b)
	}
}

var _ memory.Allocator = (*block)(nil)
