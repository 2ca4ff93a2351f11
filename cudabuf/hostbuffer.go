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

// HostBuffer is a range of page-locked host memory, which every GPU copies at the
// speed of its link. It implements arrowbuf.Buffer on the device that [Device.Host]
// returns. The program can access its bytes directly.
//
// Copies between a HostBuffer and a Buffer are ordered like those between Buffers; see
// [Stream]. This includes [Buffer.CopyFromHostAsync] and [Buffer.CopyToHostAsync] of
// its bytes, which are recognized by their address. A HostBuffer may therefore be
// released right after an Async operation.
//
// Direct accesses to [HostBuffer.HostBytes] are not ordered: call Wait first. The
// other methods wait by themselves.
type HostBuffer struct {
	memoryView
	bytes []byte
}

var _ arrowbuf.Buffer = (*HostBuffer)(nil)

// String returns length, address and device. Use HostBytes for the bytes.
func (h *HostBuffer) String() string {
	if h == nil {
		return "HostBuffer(nil)"
	}
	return h.describe("HostBuffer", hostDevice{h.dev})
}

// Device returns the device that Device.Host returns.
func (h *HostBuffer) Device() arrowbuf.Device { return h.dev.Host() }

// HostBytes returns the bytes themselves, or nil after the last Release.
func (h *HostBuffer) HostBytes() []byte {
	if h.refs.Load() <= 0 {
		return nil
	}
	return h.bytes
}

// DeviceAddress returns the address by which kernels of the HostBuffer's device access
// the memory (cuMemHostGetDevicePointer). It requires HostOptions.Mapped,
// RegisterOptions.Mapped, or a GPU with unified addressing, as all current ones are.
// Otherwise the error is arrowbuf.ErrDevice.
func (h *HostBuffer) DeviceAddress() (uintptr, error) { return h.addressOn(h.dev) }

// addressOn is DeviceAddress for any GPU of the same driver.
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
		return 0, fmt.Errorf("pinned memory that kernels of %v cannot access: %w: %w", d, arrowbuf.ErrDevice, err)
	}
	return address + (h.address - owner.address), nil
}

// Slice returns a *HostBuffer on bytes [offset, offset+length) of the same memory. The
// caller owns one reference. The memory stays until all slices are released.
func (h *HostBuffer) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	s := &HostBuffer{}
	if err := h.sliceInto(&s.memoryView, offset, length); err != nil {
		return nil, err
	}
	s.bytes = h.bytes[offset : offset+length : offset+length]
	return s, nil
}

// CopyFromHost copies src to the bytes from pos on.
func (h *HostBuffer) CopyFromHost(src []byte, pos int64) (int64, error) {
	dst, err := h.retainIdleBytes(pos, int64(len(src)), writes)
	if err != nil {
		return 0, err
	}
	defer h.Release()
	return int64(copy(dst, src)), nil
}

// CopyToHost fills dst from the bytes from pos on.
func (h *HostBuffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	src, err := h.retainIdleBytes(pos, int64(len(dst)), reads)
	if err != nil {
		return 0, err
	}
	defer h.Release()
	return int64(copy(dst, src)), nil
}

// CopyFromDevice copies src, which may be on any device, to the bytes from pos on.
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

// CopyFromDeviceAsync is CopyFromDevice in the order of a stream of the source's
// device, which must be a GPU of the same Driver.
func (h *HostBuffer) CopyFromDeviceAsync(src *Buffer, pos int64, s *Stream) (int64, error) {
	if err := checkStream("HostBuffer.CopyFromDeviceAsync", s); err != nil {
		return 0, err
	}
	if src == nil {
		return 0, errNilBuffer
	}
	if src.dev.driver != h.dev.driver {
		return 0, fmt.Errorf("cudabuf.CopyFromDeviceAsync: source of another driver: got %v, want the driver of %v: %w", src.dev, h.Device(), arrowbuf.ErrDevice)
	}
	if err := h.retainRangeToWrite(pos, src.length); err != nil {
		return 0, err
	}
	defer h.Release()
	return src.CopyToHostAsync(h.bytes[pos:pos+src.length], 0, s)
}

// retainIdleBytes adds a reference and returns a range of the bytes when no stream
// uses the memory. The caller releases the reference.
func (h *HostBuffer) retainIdleBytes(pos, n int64, mode accessMode) ([]byte, error) {
	retainRange := h.retainRange
	if mode == writes {
		retainRange = h.retainRangeToWrite
	}
	if err := retainRange(pos, n); err != nil {
		return nil, err
	}
	if err := h.Wait(); err != nil {
		h.Release()
		return nil, err
	}
	return h.bytes[pos : pos+n], nil
}

// Equal reports whether the other buffer, on any device, holds the same bytes.
func (h *HostBuffer) Equal(other arrowbuf.Buffer) (bool, error) {
	if other == nil {
		return false, errNilBuffer
	}
	ours, err := h.retainIdleBytes(0, h.length, reads)
	if err != nil {
		return false, err
	}
	defer h.Release()
	if o, ok := arrowbuf.As[*HostBuffer](other); ok {
		if err := o.Wait(); err != nil {
			return false, err
		}
	}
	if theirs, ok := arrowbuf.HostBytes(other); ok {
		return bytes.Equal(ours, theirs), nil
	}
	return other.Equal(h)
}

// ReadAt implements io.ReaderAt.
func (h *HostBuffer) ReadAt(p []byte, off int64) (int, error) { return h.readAt(p, off, h.CopyToHost) }

// WriteAt implements io.WriterAt, but writes nothing if p does not fit whole.
func (h *HostBuffer) WriteAt(p []byte, off int64) (int, error) {
	n, err := h.CopyFromHost(p, off)
	return int(n), err
}

// Arrow returns the memory as an arrow buffer, whose bytes arrow-go may read and
// write. arrowbuf.FromArrow finds the HostBuffer again.
func (h *HostBuffer) Arrow() *memory.Buffer { return arrowbuf.WrapArrow(h) }

// Host returns the pinned host memory of this device as a device of its own, whose
// buffers are HostBuffers. Its type is arrowbuf.DeviceCUDAHost, its ordinal that of
// this device, and its name "cuda_host:" and the ordinal. All results for one device
// are equal.
//
// arrowbuf.CopyTo(batch, dev.Host()) copies a batch to pinned memory.
func (d *Device) Host() arrowbuf.Device { return hostDevice{d} }

// hostDevice is comparable, so that all values for one device are equal.
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

// HostOptions are the options of NewHostBuffer. The zero value allocates from
// Device.HostAllocator; any other makes a separate allocation.
type HostOptions struct {
	// WriteCombined memory bypasses the CPU caches. A GPU may read it faster, but
	// the host reads it very slowly (CU_MEMHOSTALLOC_WRITECOMBINED).
	WriteCombined bool
	// Mapped memory is accessible to kernels; see HostBuffer.DeviceAddress
	// (CU_MEMHOSTALLOC_DEVICEMAP).
	Mapped bool
}

// NewHostBuffer returns n bytes of memory that is pinned for every GPU, with undefined
// contents (cuMemHostAlloc with CU_MEMHOSTALLOC_PORTABLE). If there is no memory left,
// it frees the idle memory before it returns arrowbuf.ErrOutOfMemory.
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

// RegisterOptions are the options of RegisterHost.
type RegisterOptions struct {
	// Mapped memory is accessible to kernels; see HostBuffer.DeviceAddress
	// (CU_MEMHOSTREGISTER_DEVICEMAP).
	Mapped bool
	// ReadOnly is for memory that the program may only read, such as a file
	// mapped with PROT_READ and MAP_SHARED (CU_MEMHOSTREGISTER_READ_ONLY).
	// Writes to the result return ErrReadOnly.
	ReadOnly bool
}

// RegisterHost page-locks existing memory for every GPU until the last Release of the
// result (cuMemHostRegister with CU_MEMHOSTREGISTER_PORTABLE). Copies of any slice of
// the memory then find it pinned. Page-locking takes about 30 ms per GiB, which pays
// off if the memory is copied more than once.
//
// Go memory stays alive as long as the buffer. Other memory, such as a mapped file,
// must stay mapped as long. It is an error if the memory is page-locked already. Do
// not map the file with MAP_PRIVATE: its pages would be copied first.
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
		// The closure keeps b alive until here.
		return d.withContext(func() error { return d.api.MemHostUnregister(addressOf(b)) })
	}))
	h.readOnly = o.ReadOnly
	return h, nil
}

// RegisterReadOnly is RegisterHost with ReadOnly, for callers that do not depend on
// CUDA. No goroutine may write to the memory until the last Release.
func (d *Device) RegisterReadOnly(b []byte) (arrowbuf.Buffer, error) {
	h, err := d.RegisterHost(b, RegisterOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// allocPinned allocates pinned memory, which freePinned frees.
func (d *Device) allocPinned(n int64, flags uint32) (address uintptr, err error) {
	err = d.retryAfterTrim(func() (err error) { address, err = d.pinHost(n, flags); return err })
	if err != nil {
		return 0, fmt.Errorf("pinning %d bytes: %w", n, err)
	}
	return address, nil
}

// newHostBuffer returns a HostBuffer that owns pinned memory. free is called after the
// last release with the streams that may still use the memory.
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

// pinnedAccount counts the pinned memory of a device outside its PinnedAllocator.
type pinnedAccount struct {
	mu      sync.Mutex
	bytes   int64
	failure error // of freeing, since Release returns no error
}

// add counts n bytes. The result waits for the pending streams, frees the memory and
// subtracts the bytes.
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

// state returns the counted bytes and the errors of freeing.
func (p *pinnedAccount) state() (bytes int64, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes, p.failure
}
