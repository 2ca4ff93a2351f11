package cudabuf

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// HostBuffer is a run of page-locked memory of the host, from and to which every
// GPU copies at the speed of its link. It is an arrowbuf.Buffer on the device
// that [Device.Host] returns, and its bytes are ordinary memory to the program.
//
// Copies between a HostBuffer and a Buffer are ordered like those between
// Buffers, see [Stream]; also when the HostBuffer's bytes are passed to
// [Buffer.CopyFromHostAsync] or [Buffer.CopyToHostAsync], since they are known
// by their address. So it may be released right after an Async operation. Only
// the program's own reads and writes of [HostBuffer.HostBytes] are not ordered:
// call Wait before them. The other methods do so by themselves.
type HostBuffer struct {
	memoryView
	bytes []byte
}

var _ arrowbuf.Buffer = (*HostBuffer)(nil)

// Device is the one that Device.Host returns.
func (h *HostBuffer) Device() arrowbuf.Device { return h.dev.Host() }

// HostBytes are the bytes themselves, nil after the last Release.
func (h *HostBuffer) HostBytes() []byte {
	if h.refs.Load() <= 0 {
		return nil
	}
	return h.bytes
}

// DeviceAddress is the address by which kernels of the HostBuffer's device
// reach the memory (cuMemHostGetDevicePointer). That takes HostOptions.Mapped or
// RegisterOptions.Mapped, or a GPU with unified addressing, as all are today;
// memory that kernels do not reach is arrowbuf.ErrDevice.
func (h *HostBuffer) DeviceAddress() (uintptr, error) { return h.addressOn(h.dev) }

// addressOn is DeviceAddress for another GPU of the same driver.
func (h *HostBuffer) addressOn(d *Device) (address uintptr, err error) {
	if err := h.retain(); err != nil {
		return 0, err
	}
	defer h.Release()
	if h.length == 0 {
		return 0, nil
	}
	owner := &h.memoryView
	for owner.slicedFrom != nil {
		owner = owner.slicedFrom
	}
	err = d.withContext(func() (err error) { address, err = d.api.MemHostGetDevicePointer(owner.address); return err })
	if err != nil {
		return 0, fmt.Errorf("pinned memory that kernels of %v do not reach: %w: %w", d, arrowbuf.ErrDevice, err)
	}
	return address + (h.address - owner.address), nil
}

// Slice returns a part of the same memory, which stays until the part is
// released too. The result is a *HostBuffer.
func (h *HostBuffer) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	s := &HostBuffer{}
	if err := h.sliceInto(&s.memoryView, offset, length); err != nil {
		return nil, err
	}
	s.bytes = h.bytes[offset : offset+length : offset+length]
	return s, nil
}

// CopyFromHost copies all of src to the bytes that start at pos.
func (h *HostBuffer) CopyFromHost(src []byte, pos int64) (int64, error) {
	dst, err := h.retainIdleBytes(pos, int64(len(src)), writes)
	if err != nil {
		return 0, err
	}
	defer h.Release()
	return int64(copy(dst, src)), nil
}

// CopyToHost fills dst from the bytes that start at pos.
func (h *HostBuffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	src, err := h.retainIdleBytes(pos, int64(len(dst)), reads)
	if err != nil {
		return 0, err
	}
	defer h.Release()
	return int64(copy(dst, src)), nil
}

// CopyFromDevice copies all of src, which may live on any device, to the bytes
// that start at pos.
func (h *HostBuffer) CopyFromDevice(src arrowbuf.Buffer, pos int64) (int64, error) {
	if src == nil {
		return 0, errNilBuffer
	}
	dst, err := h.retainIdleBytes(pos, src.Len(), writes)
	if err != nil {
		return 0, err
	}
	defer h.Release()
	return src.CopyToHost(dst, 0)
}

// CopyFromDeviceAsync is CopyFromDevice in the order of a stream, which is one
// of the source's device; that is a GPU of the same Driver.
func (h *HostBuffer) CopyFromDeviceAsync(src *Buffer, pos int64, s *Stream) (int64, error) {
	if src.dev.driver != h.dev.driver {
		return 0, fmt.Errorf("from another driver's %v to %v: %w", src.dev, h.Device(), arrowbuf.ErrDevice)
	}
	if err := h.retainRangeToWrite(pos, src.length); err != nil {
		return 0, err
	}
	defer h.Release()
	return src.CopyToHostAsync(h.bytes[pos:pos+src.length], 0, s)
}

// retainIdleBytes holds the buffer and returns a range of its bytes when no stream uses
// them any more. The caller releases it.
func (h *HostBuffer) retainIdleBytes(pos, n int64, mode accessMode) ([]byte, error) {
	enter := h.retainRange
	if mode == writes {
		enter = h.retainRangeToWrite
	}
	if err := enter(pos, n); err != nil {
		return nil, err
	}
	if err := h.Wait(); err != nil {
		h.Release()
		return nil, err
	}
	return h.bytes[pos : pos+n], nil
}

// Equal tells whether the other buffer, on any device, holds the same bytes.
func (h *HostBuffer) Equal(other arrowbuf.Buffer) (bool, error) {
	if other == nil {
		return false, errNilBuffer
	}
	ours, err := h.retainIdleBytes(0, h.length, reads)
	if err != nil {
		return false, err
	}
	defer h.Release()
	if o, ok := other.(*HostBuffer); ok {
		if err := o.Wait(); err != nil {
			return false, err
		}
	}
	if theirs, ok := arrowbuf.HostBytes(other); ok {
		return bytes.Equal(ours, theirs), nil
	}
	return other.Equal(h)
}

// ReadAt reads as io.ReaderAt says.
func (h *HostBuffer) ReadAt(p []byte, off int64) (int, error) { return h.readAt(p, off, h.CopyToHost) }

// WriteAt writes as io.WriterAt says. What does not fit whole is not written at
// all.
func (h *HostBuffer) WriteAt(p []byte, off int64) (int, error) {
	n, err := h.CopyFromHost(p, off)
	return int(n), err
}

// Arrow returns the memory as arrow-go sees it, which may read and write its
// bytes; arrowbuf.FromArrow finds the way back.
func (h *HostBuffer) Arrow() *memory.Buffer { return arrowbuf.WrapArrow(h) }

// Host is the memory of the host that is page-locked by this device, as a device
// of its own: its buffers are HostBuffers. It is of type
// arrowbuf.DeviceCUDAHost and has this device's ordinal; its name is
// "cuda_host:" and the ordinal. All results for one device are equal.
//
// arrowbuf.CopyTo(batch, dev.Host()) puts a batch into pinned memory.
func (d *Device) Host() arrowbuf.Device { return hostDevice{d} }

// hostDevice is comparable, so that all that are made for one device are one.
type hostDevice struct{ dev *Device }

func (hostDevice) Type() arrowbuf.DeviceType         { return arrowbuf.DeviceCUDAHost }
func (h hostDevice) ID() int64                       { return h.dev.ID() }
func (h hostDevice) String() string                  { return fmt.Sprintf("%v:%d", h.Type(), h.dev.ordinal) }
func (h hostDevice) Synchronize() error              { return h.dev.Synchronize() }
func (h hostDevice) HostAllocator() memory.Allocator { return h.dev.HostAllocator() }

func (h hostDevice) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := h.dev.NewHostBuffer(n, HostOptions{})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// HostOptions says what pinned memory to make. The zero value comes from the
// pool of Device.HostAllocator; any other is an allocation of its own.
type HostOptions struct {
	// WriteCombined memory bypasses the processor's caches: a GPU may read it
	// faster, the host reads it very slowly (CU_MEMHOSTALLOC_WRITECOMBINED).
	WriteCombined bool
	// Mapped memory is reached by kernels, see HostBuffer.DeviceAddress
	// (CU_MEMHOSTALLOC_DEVICEMAP).
	Mapped bool
}

// NewHostBuffer returns n bytes of pinned memory with undefined contents, pinned
// for every GPU (cuMemHostAlloc with CU_MEMHOSTALLOC_PORTABLE). Without room for
// them, when all memory that is kept has gone back, the error is
// arrowbuf.ErrOutOfMemory.
func (d *Device) NewHostBuffer(n int64, o HostOptions) (*HostBuffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("%v: pinning %d bytes: %w", d, n, arrowbuf.ErrOutOfRange)
	}
	if n == 0 {
		return d.newHostBuffer([]byte{}, nil), nil
	}
	if o == (HostOptions{}) {
		block, err := d.pinned.get(n)
		if err != nil {
			return nil, err
		}
		return d.newHostBuffer(hostSlice(block.Address, n), func(pending []*cudaStream) { d.pinned.put(block, pending) }), nil
	}
	flags := driver.HostAllocPortable
	if o.WriteCombined {
		flags |= driver.HostAllocWriteCombined
	}
	if o.Mapped {
		flags |= driver.HostAllocDeviceMap
	}
	address, err := d.allocPinned(n, flags)
	if err != nil {
		return nil, err
	}
	return d.newHostBuffer(hostSlice(address, n), d.unpooledPinned.add(n, func() error { return d.freePinned(address) })), nil
}

// RegisterOptions says how to page-lock memory that exists.
type RegisterOptions struct {
	// Mapped memory is reached by kernels, see HostBuffer.DeviceAddress
	// (CU_MEMHOSTREGISTER_DEVICEMAP).
	Mapped bool
	// ReadOnly is for memory that the program may only read, as a file that is
	// mapped with PROT_READ and MAP_SHARED (CU_MEMHOSTREGISTER_READ_ONLY). The
	// result refuses to be written to, with ErrReadOnly.
	ReadOnly bool
}

// RegisterHost page-locks memory where it is, for every GPU (cuMemHostRegister
// with CU_MEMHOSTREGISTER_PORTABLE), until the last Release of the result. That
// takes some 30 ms a GiB and pays where the memory is copied more than once;
// copies then find it pinned, whichever slice of it they are given.
//
// Go's memory stays alive as long as the buffer; other memory, such as a mapped
// file, must stay mapped as long. Memory that is page-locked already is an
// error. A file mapped MAP_PRIVATE is copied page by page first: don't.
func (d *Device) RegisterHost(b []byte, o RegisterOptions) (*HostBuffer, error) {
	n := int64(len(b))
	if n == 0 {
		return d.newHostBuffer([]byte{}, nil), nil
	}
	flags := driver.HostRegisterPortable
	if o.Mapped {
		flags |= driver.HostRegisterDeviceMap
	}
	if o.ReadOnly {
		flags |= driver.HostRegisterReadOnly
	}
	if err := d.retryAfterTrim(func() error { return d.api.MemHostRegister(b, flags) }); err != nil {
		return nil, fmt.Errorf("page-locking %d bytes: %w", n, err)
	}
	h := d.newHostBuffer(b[:n:n], d.unpooledPinned.add(n, func() error {
		// It names b, and so keeps it alive till here.
		return d.withContext(func() error { return d.api.MemHostUnregister(addressOf(b)) })
	}))
	h.readOnly = o.ReadOnly
	return h, nil
}

// RegisterReadOnly is RegisterHost of memory that nobody writes to, for who knows no
// CUDA.
func (d *Device) RegisterReadOnly(b []byte) (arrowbuf.Buffer, error) {
	h, err := d.RegisterHost(b, RegisterOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// allocPinned takes memory that hostFree gives back.
func (d *Device) allocPinned(n int64, flags uint32) (address uintptr, err error) {
	err = d.retryAfterTrim(func() (err error) { address, err = d.api.MemHostAlloc(n, flags); return err })
	if err != nil {
		return 0, fmt.Errorf("pinning %d bytes: %w", n, err)
	}
	return address, nil
}

// newHostBuffer takes over pinned memory. giveBack gets the queues that may
// still be using it.
func (d *Device) newHostBuffer(b []byte, free func(pending []*cudaStream)) *HostBuffer {
	h := &HostBuffer{bytes: b}
	if len(b) == 0 {
		h.init(d, nil, 0, 0)
		return h
	}
	address := addressOf(b)
	a := newAllocation(func(pending []*cudaStream) {
		d.driver.hostBuffers.remove(address)
		free(pending)
	})
	d.driver.hostBuffers.add(address, int64(len(b)), a)
	h.init(d, a, address, int64(len(b)))
	return h
}

// pinnedAccount counts the memory that a device has page-locked beside its pool.
type pinnedAccount struct {
	mu      sync.Mutex
	bytes   int64
	failure error // the first of giving back; Release can tell nobody
}

// add counts memory until it is given back, when no stream uses it any more.
func (p *pinnedAccount) add(n int64, free func() error) func(pending []*cudaStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += n
	return func(pending []*cudaStream) {
		synchronizeAll(pending)
		err := free()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.bytes -= n
		p.failure = errors.Join(p.failure, err)
	}
}

// state returns how much there is, and what failed.
func (p *pinnedAccount) state() (bytes int64, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes, p.failure
}
