package cudabuf

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// MemHandle names memory of this process for another one on the same machine.
// It is plain data, to be sent as MarshalBinary writes it, or MarshalPyArrow.
//
// CUDA's own handle names an allocation, whatever address in it was exported,
// so the region goes with it.
type MemHandle struct {
	Handle [64]byte // CUipcMemHandle
	Region
}

// ipcBlockSize is the size of the blocks that cuMemAlloc cuts. A handle opens
// whole blocks to the peer: an allocation that fills its own shows no other.
const ipcBlockSize = 2 << 20

// NewIPCBuffer returns a buffer of n bytes with undefined contents, for
// ExportIPC: an allocation of its own of a multiple of 2 MiB (cuMemAlloc), which
// the device's pool neither gives nor keeps.
func (d *Device) NewIPCBuffer(n int64) (*Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("%v: allocating %d bytes: %w", d, n, arrowbuf.ErrOutOfRange)
	}
	if n == 0 {
		return newBuffer(d, nil, 0, 0), nil
	}
	size, err := roundUp(n, ipcBlockSize)
	if err != nil {
		return nil, err
	}
	var address uintptr
	err = d.retryAfterTrim(func() (err error) { address, err = d.api.MemAlloc(size); return err })
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes to share: %w", size, err)
	}
	memory := d.newSharedAllocation(sharing{method: byHandle, base: address, size: size}, func() error { return d.memFree(address) })
	return newBuffer(d, memory, address, n), nil
}

// ExportIPC returns a handle by which another process opens the buffer, which
// is one of NewIPCBuffer or a slice of it (cuIpcGetMemHandle). Any other memory
// is ErrNotShareable, as is what was itself opened by a handle. A buffer of
// length 0 costs no driver call.
//
// The handle is good while the memory is there, and does not keep it: the last
// Release frees it here, and what CUDA does with those who still have it open is
// undefined. Work on streams is not waited for; see Wait and Event.ExportIPC.
func (b *Buffer) ExportIPC() (MemHandle, error) {
	return b.exportIPC(func() error {
		_, err := b.checkShareable(byHandle)
		return err
	})
}

// ExportIPCWhole is ExportIPC for any memory of cuMemAlloc, that of NewBuffer
// and other libraries' included. The handle opens the whole allocation to the
// peer, with all other buffers that lie in it, now and later.
func (b *Buffer) ExportIPCWhole() (MemHandle, error) {
	return b.exportIPC(func() error {
		if b.memory.sharing == nil {
			return nil
		}
		_, err := b.checkShareable(byHandle)
		return err
	})
}

func (b *Buffer) exportIPC(allowed func() error) (MemHandle, error) {
	if err := b.retain(); err != nil {
		return MemHandle{}, err
	}
	defer b.Release()
	if b.length == 0 {
		return MemHandle{Region: Region{Device: b.dev.uuid}}, nil
	}
	if err := allowed(); err != nil {
		return MemHandle{}, err
	}
	var h MemHandle
	err := b.dev.withContext(func() error {
		base, size, err := b.dev.api.MemGetAddressRange(b.address)
		if err != nil {
			return err
		}
		h.Region = b.region(base, size)
		if err := h.validate(); err != nil {
			return err // foreign memory that reaches beyond its allocation
		}
		h.Handle, err = b.dev.api.IpcGetMemHandle(base)
		return err
	})
	if err != nil {
		return MemHandle{}, fmt.Errorf("exporting %d bytes: %w", b.length, err)
	}
	return h, nil
}

// OpenIPC returns the buffer that a handle of another process names
// (cuIpcOpenMemHandle): exactly its region, which must lie within the
// allocation. An allocation is opened once, however many handles name it, and
// closed when the last buffer of it is released (cuIpcCloseMemHandle). A handle
// of another GPU is arrowbuf.ErrDevice; length 0 costs no driver call.
//
// The process that exported a handle cannot open it: CUDA answers
// CUDA_ERROR_INVALID_CONTEXT (201).
func (d *Device) OpenIPC(h MemHandle) (*Buffer, error) {
	if err := h.validate(); err != nil {
		return nil, err
	}
	if h.Device != (UUID{}) && h.Device != d.uuid {
		return nil, fmt.Errorf("memory of GPU-%v opened on %v, which is GPU-%v: %w", h.Device, d, d.uuid, arrowbuf.ErrDevice)
	}
	if h.Length == 0 {
		return newBuffer(d, nil, 0, 0), nil
	}
	memory, err := d.sharedObjects.imports.get(h.Handle, func(closed func()) (*allocation, error) {
		return d.openHandle(h.Handle, closed)
	})
	if err != nil {
		return nil, fmt.Errorf("opening memory of another process: %w", explainOwnHandle(err))
	}
	return d.newRegionBuffer(memory, h.Region)
}

// openHandle opens an allocation of another process.
func (d *Device) openHandle(h driver.IPCMemHandle, closed func()) (*allocation, error) {
	s := sharing{method: byHandle, imported: true}
	err := d.withContext(func() (err error) {
		if s.base, err = d.api.IpcOpenMemHandle(h); err != nil {
			return err
		}
		base, size, err := d.api.MemGetAddressRange(s.base)
		if err != nil {
			return errors.Join(err, d.api.IpcCloseMemHandle(s.base))
		}
		s.size = int64(base-s.base) + size // from where the handle begins
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d.newSharedAllocation(s, func() error {
		defer closed()
		return d.withContext(func() error { return d.api.IpcCloseMemHandle(s.base) })
	}), nil
}

// explainOwnHandle says what CUDA means by its answer to a handle of the process
// itself.
func explainOwnHandle(err error) error {
	var call *Error
	if errors.As(err, &call) && call.Code == driver.InvalidContext {
		return fmt.Errorf("%w; CUDA answers so to the process that exported the handle, and to one of the same id in another PID namespace", err)
	}
	return err
}

// ErrNotShareable: the memory cannot be exported this way. The text says which
// way there is, or how to allocate.
var ErrNotShareable = errors.New("memory is not shareable this way")

// Region is the part of a shared allocation that a buffer is: bytes
// [Offset, Offset+Length) of AllocationSize, in the memory of one GPU.
type Region struct {
	Device         UUID  // zero where the sender did not say
	AllocationSize int64 // zero where the sender did not say
	Offset, Length int64
}

// validate returns an error for a region that no buffer can be.
func (r Region) validate() error {
	size := r.AllocationSize
	if size == 0 {
		size = math.MaxInt64
	}
	if err := arrowbuf.CheckRange(r.Offset, r.Length, size); err != nil {
		return fmt.Errorf("a shared region: %w", err)
	}
	return nil
}

// sharingMethod is how memory crosses to other processes.
type sharingMethod string

// The ways, named by the method that exports the memory, and the one that
// allocates it.
const (
	byHandle     sharingMethod = "ExportIPC, for memory of NewIPCBuffer"
	byDescriptor sharingMethod = "ExportFD, for memory of NewFDBuffer"
	byPool       sharingMethod = "ExportPool, for memory of a SharedPool"
)

// sharing is what is known of memory that was made to be shared, or comes from
// another process.
type sharing struct {
	method   sharingMethod
	base     uintptr
	size     int64
	imported bool
	physical driver.Physical // byDescriptor
	pool     *SharedPool     // byPool, of this process
}

// checkShareable returns how the buffer's memory is shared. It is an error unless
// the memory is of this process and made to be shared that way. The caller
// holds the buffer, which is not empty.
func (b *Buffer) checkShareable(way sharingMethod) (*sharing, error) {
	s := b.memory.sharing
	switch {
	case s == nil:
		return nil, fmt.Errorf("%v: %s: %w: other memory may lie in the same allocation", b.dev, way, ErrNotShareable)
	case s.imported:
		return nil, fmt.Errorf("%v: %w: only the process that it comes from can export it", b.dev, ErrNotShareable)
	case s.method != way:
		return nil, fmt.Errorf("%v: %s: %w: this is exported by %s", b.dev, way, ErrNotShareable, s.method)
	}
	return s, nil
}

// region is the buffer's part of an allocation.
func (b *Buffer) region(base uintptr, size int64) Region {
	return Region{Device: b.dev.uuid, AllocationSize: size, Offset: int64(b.address - base), Length: b.length}
}

// newSharedAllocation makes an allocation of memory that crosses processes. It is given
// back, with the last reference, when no stream uses it any more.
func (d *Device) newSharedAllocation(s sharing, free func() error) *allocation {
	d.sharedObjects.add()
	a := newAllocation(func(pending []*cudaStream) {
		synchronizeAll(pending)
		d.sharedObjects.remove(free())
	})
	a.sharing = &s
	return a
}

// newRegionBuffer returns the buffer that a region of another process's memory is. It
// takes over the memory.
func (d *Device) newRegionBuffer(a *allocation, r Region) (*Buffer, error) {
	if err := arrowbuf.CheckRange(r.Offset, r.Length, a.sharing.size); err != nil {
		a.release()
		return nil, fmt.Errorf("%v: opening memory of another process: %w", d, err)
	}
	return newBuffer(d, a, a.sharing.base+uintptr(r.Offset), r.Length), nil
}

// retryAfterTrim runs driver calls that allocate. When the GPU is full, it gives the
// memory that is kept back to the driver and tries once more.
func (d *Device) retryAfterTrim(calls func() error) error {
	err := d.withContext(calls)
	if errors.Is(err, arrowbuf.ErrOutOfMemory) {
		if trimmed := d.Trim(); trimmed == nil {
			err = d.withContext(calls)
		}
	}
	return err
}

// roundUp returns the least multiple of a granule that holds n > 0 bytes.
func roundUp(n, granule int64) (int64, error) {
	if n > math.MaxInt64-granule {
		return 0, fmt.Errorf("%d bytes: %w", n, arrowbuf.ErrOutOfMemory)
	}
	return (n + granule - 1) / granule * granule, nil
}

// sharedAccount are a device's memory and pools that cross processes.
type sharedAccount struct {
	imports importCache // by handle

	mu      sync.Mutex
	count   int
	failure error // the first of giving back; Release can tell nobody
}

func (s *sharedAccount) add() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
}

func (s *sharedAccount) remove(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	if s.failure == nil {
		s.failure = err
	}
}

// state returns how many there are, and the first failure.
func (s *sharedAccount) state() (count int, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count, s.failure
}

// importCache are allocations of other processes that are open here, by the 64
// bytes that name them. Each is opened once, however often it is asked for, and
// closed with the last reference: a second mapping would cost the driver as much
// as the first, and old drivers refuse it. Buffers of one allocation share its
// order of streams.
type importCache struct {
	mu      sync.Mutex
	entries map[[64]byte]*importEntry
}

type importEntry struct {
	memory *allocation
	closed chan struct{} // when the driver has closed it
}

// get returns an allocation with a reference for the caller. It calls open for
// one that is not open yet, and not before a former opening is closed. open
// gets what giving the allocation back ends with.
func (o *importCache) get(name [64]byte, open func(closed func()) (*allocation, error)) (*allocation, error) {
	for {
		o.mu.Lock()
		found, ok := o.entries[name]
		if !ok {
			defer o.mu.Unlock()
			return o.insert(name, open)
		}
		if found.memory.tryRetain() {
			o.mu.Unlock()
			return found.memory, nil
		}
		o.mu.Unlock()
		<-found.closed
	}
}

// insert opens an allocation. The caller holds mu.
func (o *importCache) insert(name [64]byte, open func(closed func()) (*allocation, error)) (*allocation, error) {
	added := &importEntry{closed: make(chan struct{})}
	memory, err := open(func() {
		o.mu.Lock()
		delete(o.entries, name)
		o.mu.Unlock()
		close(added.closed)
	})
	if err != nil {
		return nil, err
	}
	if o.entries == nil {
		o.entries = map[[64]byte]*importEntry{}
	}
	added.memory = memory
	o.entries[name] = added
	return memory, nil
}

// EventHandle names an event of this process for another one on the same
// machine (CUipcEventHandle).
type EventHandle [64]byte

// ExportIPC returns a handle by which another process opens the event, which
// has EventOptions.Interprocess (cuIpcGetEventHandle). Both then record it and
// wait for it. What CUDA does with those who have it open after Close here is
// undefined.
func (e *Event) ExportIPC() (EventHandle, error) {
	var h driver.IPCEventHandle
	err := e.withContext(func() (err error) { h, err = e.dev.api.IpcGetEventHandle(e.handle); return err })
	if err != nil {
		return EventHandle{}, fmt.Errorf("exporting an event: %w", err)
	}
	return EventHandle(h), nil
}

// OpenIPCEvent returns the event that a handle of another process names
// (cuIpcOpenEventHandle). It has no Timing. The caller closes it.
func (d *Device) OpenIPCEvent(h EventHandle) (*Event, error) {
	e := &Event{dev: d}
	err := d.withContext(func() (err error) { e.handle, err = d.api.IpcOpenEventHandle(driver.IPCEventHandle(h)); return err })
	if err != nil {
		return nil, fmt.Errorf("opening an event of another process: %w", explainOwnHandle(err))
	}
	return e, nil
}
