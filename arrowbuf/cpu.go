package arrowbuf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/internal/hostmem"
)

// CPU returns the host's memory as a device. The host may access its buffers in
// place, with HostBytes. Their addresses are multiples of 64, as the Arrow columnar
// format recommends.
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
		return nil, fmt.Errorf("cpu: allocating %d bytes: want at least 0: %w", n, ErrOutOfRange)
	}
	if err := CheckHostMemory(n); err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	if n < minRecycled {
		host := memory.NewResizableBuffer(d.mem)
		host.Resize(int(n))
		return newCPUBuffer(host, host.Bytes()), nil
	}
	k := new(recycler)
	host := memory.NewResizableBuffer(k)
	host.Resize(int(n))
	b := newCPUBuffer(host, host.Bytes())
	b.recycler = k
	return b, nil
}

// CheckHostMemory returns an error wrapping ErrOutOfMemory if the system reports that n
// bytes of host memory cannot be allocated, and ErrOutOfRange if n is negative. Callers check large sizes before they
// allocate: Go's allocator ends the program if the system refuses memory, and panics
// if no address space is that large.
func CheckHostMemory(n int64) error {
	if n < 0 {
		return fmt.Errorf("arrowbuf.CheckHostMemory: negative size: got %d bytes: %w", n, ErrOutOfRange)
	}
	const addressable = 1 << 46
	err := errAddressable
	if n <= addressable {
		err = probeMemory(n)
	}
	if err != nil {
		return fmt.Errorf("allocating %d bytes of host memory: %w: %w", n, ErrOutOfMemory, err)
	}
	return nil
}

var errAddressable = errors.New("more than the address space")

// WrapHost returns a CPU buffer over the memory of an arrow-go buffer, without a
// copy. The result holds a reference to b. WrapHost returns an error wrapping
// ErrDevice if the host cannot access the memory. A nil b is an error.
func WrapHost(b *memory.Buffer) (Buffer, error) {
	if b == nil {
		return nil, errors.New("arrowbuf.WrapHost: nil buffer")
	}
	if !OnHost(b) {
		return nil, fmt.Errorf("arrowbuf.WrapHost: the buffer is not on the host: %w", ErrDevice)
	}
	b.Retain()
	return newCPUBuffer(b, b.Bytes()), nil
}

var errNilBuffer = fmt.Errorf("cpu: nil buffer: %w", ErrDevice)

// cpuBuffer is a range of an arrow-go buffer, which owns the memory.
type cpuBuffer struct {
	refs     atomic.Int64
	owner    *memory.Buffer
	data     []byte
	recycler *recycler // the owner's allocator, nil for small buffers
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
	return addressOf(b.data)
}

// checkAccess returns an error unless the buffer is alive and has bytes [offset,
// offset+length).
func (b *cpuBuffer) checkAccess(offset, length int64) error {
	if b.refs.Load() <= 0 {
		return fmt.Errorf("cpu: %w", ErrReleased)
	}
	return CheckRange(offset, length, b.Len())
}

func (b *cpuBuffer) Slice(offset, length int64) (Buffer, error) {
	if err := b.checkAccess(offset, length); err != nil {
		return nil, err
	}
	b.owner.Retain()
	slice := newCPUBuffer(b.owner, b.data[offset:offset+length:offset+length])
	slice.recycler = b.recycler
	return slice, nil
}

func (b *cpuBuffer) CopyFromHost(src []byte, pos int64) (int64, error) {
	if err := b.checkAccess(pos, int64(len(src))); err != nil {
		return 0, err
	}
	return int64(copy(b.data[pos:], src)), nil
}

func (b *cpuBuffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	if err := b.checkAccess(pos, int64(len(dst))); err != nil {
		return 0, err
	}
	return int64(copy(dst, b.data[pos:])), nil
}

func (b *cpuBuffer) CopyFromDevice(src Buffer, pos int64) (int64, error) {
	if src == nil {
		return 0, errNilBuffer
	}
	if err := b.checkAccess(pos, src.Len()); err != nil {
		return 0, err
	}
	return src.CopyToHost(b.data[pos:pos+src.Len()], 0)
}

func (b *cpuBuffer) Equal(other Buffer) (bool, error) {
	if other == nil {
		return false, errNilBuffer
	}
	if err := b.checkAccess(0, 0); err != nil {
		return false, err
	}
	if o, ok := other.(*cpuBuffer); ok {
		if err := o.checkAccess(0, 0); err != nil {
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
	if err := b.checkAccess(0, 0); err != nil {
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

// Arrow returns the owner or a slice of it: the memory is arrow-go's already.
func (b *cpuBuffer) Arrow() *memory.Buffer {
	if err := b.checkAccess(0, 0); err != nil {
		panic(fmt.Errorf("arrowbuf.Buffer.Arrow: %w", err))
	}
	if b.recycler != nil {
		b.recycler.exposed.Store(true)
	}
	if len(b.data) == b.owner.Len() {
		b.owner.Retain()
		return b.owner
	}
	if len(b.data) == 0 {
		return memory.NewBufferBytes(nil)
	}
	offset := int(addressOf(b.data) - addressOf(b.owner.Bytes()))
	return memory.SliceBuffer(b.owner, offset, len(b.data))
}

func (b *cpuBuffer) Retain() {
	if b.refs.Add(1) <= 1 {
		b.refs.Add(-1)
		panic(fmt.Errorf("arrowbuf.Buffer.Retain: %w", ErrReleased))
	}
}

func (b *cpuBuffer) Release() {
	switch n := b.refs.Add(-1); {
	case n == 0:
		b.owner.Release()
		b.owner, b.data = nil, nil
	case n < 0:
		panic(fmt.Errorf("arrowbuf.Buffer.Release: %w", ErrReleased))
	}
}

// WrapExternal returns a CPU buffer over memory that another library owns, without a
// copy. The memory must stay valid until release is called, once, after the last
// release of the buffer and its slices, unless it is nil. data is not checked.
func WrapExternal(data []byte, release func()) Buffer {
	return newCPUBuffer(memory.NewBufferWithAllocator(data, externalMemory(release)), data)
}

// externalMemory is the allocator of one buffer. arrow-go calls only its Free.
type externalMemory func()

func (f externalMemory) Allocate(int) []byte { panic("arrowbuf: external memory cannot grow in place") }
func (f externalMemory) Reallocate(int, []byte) []byte {
	panic("arrowbuf: external memory cannot be resized")
}
func (f externalMemory) Free([]byte) {
	if f != nil {
		f()
	}
}

// minRecycled is the size from which buffers are allocated by a recycler. Fresh
// memory is slow: clearing it and touching its pages for the first time takes longer
// than most kernels that use it.
const minRecycled = hostmem.LargeBytes

// recycler allocates large host memory, and is the allocator of the arrow-go buffer
// that owns it. The memory is not cleared, is in large pages if the system supports
// them, and is reused by a later recycler after its last release.
type recycler struct {
	// exposed is set once arrow-go code may have seen the memory. Users of arrow-go
	// may keep values, such as strings, after they release an array. Only the
	// garbage collector knows when these are dead, so the memory is not reused.
	exposed atomic.Bool
}

// recycled holds freed memory, as *[]byte, by the bit length of its size.
var recycled [bits.UintSize + 1]sync.Pool

// Allocate returns n undefined bytes, aligned to 64.
func (*recycler) Allocate(n int) []byte {
	pool := &recycled[bits.Len(uint(n))]
	if b, ok := pool.Get().(*[]byte); ok {
		if len(*b) >= n {
			return (*b)[:n]
		}
		pool.Put(b)
	}
	return hostmem.Undefined(n)
}

// Reallocate copies b to memory of n bytes, and frees b.
func (k *recycler) Reallocate(n int, b []byte) []byte {
	moved := k.Allocate(n)
	copy(moved, b)
	k.Free(b)
	return moved
}

// Free makes the memory available to other recyclers, unless it is exposed.
func (k *recycler) Free(b []byte) {
	if b = b[:cap(b)]; !k.exposed.Load() {
		recycled[bits.Len(uint(len(b)))].Put(&b)
	}
}

var _ memory.Allocator = (*recycler)(nil)
