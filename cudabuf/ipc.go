package cudabuf

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// ErrNotShareable means that memory cannot be exported by this method. The text says
// which method works or how to allocate.
var ErrNotShareable = errors.New("memory is not shareable this way")

// Region is the part of a shared allocation that a buffer views: bytes
// [Offset, Offset+Length) of AllocationSize, in the memory of one GPU.
type Region struct {
	Device         UUID  // zero if unknown
	AllocationSize int64 // bytes; zero if unknown
	Offset, Length int64 // bytes
}

// validate returns an error if no buffer can have this region.
func (r Region) validate() error {
	size := r.AllocationSize
	if size == 0 {
		size = math.MaxInt64
	}
	if err := arrowbuf.CheckRange(r.Offset, r.Length, size); err != nil {
		return fmt.Errorf("invalid region: %w", err)
	}
	return nil
}

// MemHandle identifies memory of this process for another process on the same
// machine. It is plain data; send it encoded by MarshalBinary or MarshalPyArrow.
//
// CUDA's handle identifies a whole allocation, so MemHandle adds the region.
type MemHandle struct {
	Handle [64]byte // CUipcMemHandle
	Region
}

// ipcBlockSize is the size in bytes of the blocks that cuMemAlloc divides. A handle
// opens whole blocks to the peer. An allocation of whole blocks shares no other memory.
const ipcBlockSize = 2 << 20

// NewIPCBuffer returns a buffer of n bytes with undefined contents for ExportIPC. It is
// an allocation of its own, of a multiple of 2 MiB (cuMemAlloc), and does not come from
// a Pool.
func (d *Device) NewIPCBuffer(n int64) (*Buffer, error) {
	if err := d.errManaged("allocating memory to share"); err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, fmt.Errorf("cudabuf.NewIPCBuffer: %v: negative size %d: %w", d, n, arrowbuf.ErrOutOfRange)
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

// ExportIPC returns a handle by which another process opens the buffer
// (cuIpcGetMemHandle). The buffer comes from NewIPCBuffer or is a slice of one. The
// error is ErrNotShareable for other memory, including memory that was opened by a
// handle. A buffer of length 0 costs no driver call.
//
// The handle does not keep the memory: the last Release frees it. CUDA leaves the
// behaviour of peers that still have it open undefined. ExportIPC does not wait for
// streams; see Wait and Event.ExportIPC.
func (b *Buffer) ExportIPC() (MemHandle, error) {
	return b.exportIPC(func() error {
		_, err := b.checkShareable(byHandle)
		return err
	})
}

// ExportIPCWhole is ExportIPC for any memory of cuMemAlloc, including that of NewBuffer
// and of other libraries. The handle opens the whole allocation to the peer, with all
// present and future buffers in it.
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
			return err // external memory that extends beyond its allocation
		}
		h.Handle, err = b.dev.api.IpcGetMemHandle(base)
		return err
	})
	if err != nil {
		return MemHandle{}, fmt.Errorf("exporting %d bytes: %w", b.length, err)
	}
	return h, nil
}

// OpenIPC returns the buffer that a handle of another process identifies
// (cuIpcOpenMemHandle). It is exactly the handle's region, which must lie within the
// allocation. An allocation is opened once for all handles that identify it. It is
// closed when its last buffer is released (cuIpcCloseMemHandle). The error is
// arrowbuf.ErrDevice for a handle of another GPU. Length 0 costs no driver call.
//
// The process that exported a handle cannot open it: CUDA returns
// CUDA_ERROR_INVALID_CONTEXT (201).
func (d *Device) OpenIPC(h MemHandle) (*Buffer, error) {
	if err := d.errManaged("opening memory of another process"); err != nil {
		return nil, err
	}
	if err := h.validate(); err != nil {
		return nil, err
	}
	if h.Device != (UUID{}) && h.Device != d.uuid {
		return nil, fmt.Errorf("cudabuf.OpenIPC: %v: handle of another GPU: got GPU-%v, want GPU-%v: %w", d, h.Device, d.uuid, arrowbuf.ErrDevice)
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
		s.size = int64(base-s.base) + size // counted from the address that the handle maps
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

// explainOwnHandle adds to an error what CUDA means by INVALID_CONTEXT here.
func explainOwnHandle(err error) error {
	var call *driver.Error
	if errors.As(err, &call) && call.Code == driver.InvalidContext {
		return fmt.Errorf("%w; CUDA returns this error in the process that exported the handle, and in one of the same id in another PID namespace", err)
	}
	return err
}

// sharingMethod is how memory is shared with other processes.
type sharingMethod string

// The sharing methods. The text names the functions that export and allocate.
const (
	byHandle     sharingMethod = "ExportIPC, for memory of NewIPCBuffer"
	byDescriptor sharingMethod = "ExportFD, for memory of NewFDBuffer"
	byPool       sharingMethod = "ExportPool, for memory of a SharedPool"
)

// sharing describes an allocation that was made to be shared or that comes from
// another process.
type sharing struct {
	method   sharingMethod
	base     uintptr
	size     int64
	imported bool
	physical driver.Physical // byDescriptor
	pool     *SharedPool     // byPool, of this process
}

// checkShareable returns how the buffer's memory is shared. The error is
// ErrNotShareable unless this process allocated the memory for this method. The caller
// holds a reference to the buffer, which is not empty.
func (b *Buffer) checkShareable(method sharingMethod) (*sharing, error) {
	s := b.memory.sharing
	switch {
	case s == nil:
		return nil, fmt.Errorf("%v: %s: %w: the allocation may contain other buffers", b.dev, method, ErrNotShareable)
	case s.imported:
		return nil, fmt.Errorf("%v: %w: only the process that allocated the memory can export it", b.dev, ErrNotShareable)
	case s.method != method:
		return nil, fmt.Errorf("%v: %s: %w: this is exported by %s", b.dev, method, ErrNotShareable, s.method)
	}
	return s, nil
}

// region returns the buffer's part of an allocation.
func (b *Buffer) region(base uintptr, size int64) Region {
	return Region{Device: b.dev.uuid, AllocationSize: size, Offset: int64(b.address - base), Length: b.length}
}

// newSharedAllocation returns an allocation that is shared between processes. After the
// last release it waits for the streams that use the memory and calls free.
func (d *Device) newSharedAllocation(s sharing, free func() error) *allocation {
	var owned int64 // another process counts what it allocated
	if !s.imported {
		owned = s.size
	}
	d.sharedObjects.add(owned)
	a := newAllocation(func(pending []*cudaStream) {
		synchronizeAll(pending)
		d.sharedObjects.remove(owned, free())
	})
	a.sharing = &s
	return a
}

// newRegionBuffer returns the buffer of a region of another process's memory. It takes
// over the reference to the allocation.
func (d *Device) newRegionBuffer(a *allocation, r Region) (*Buffer, error) {
	if err := arrowbuf.CheckRange(r.Offset, r.Length, a.sharing.size); err != nil {
		a.release()
		return nil, fmt.Errorf("%v: opening memory of another process: %w", d, err)
	}
	return newBuffer(d, a, a.sharing.base+uintptr(r.Offset), r.Length), nil
}

// roundUp returns n > 0 rounded up to a multiple of granule.
func roundUp(n, granule int64) (int64, error) {
	if n > math.MaxInt64-granule {
		return 0, fmt.Errorf("%d bytes: %w", n, arrowbuf.ErrOutOfMemory)
	}
	return (n + granule - 1) / granule * granule, nil
}

// sharedAccount counts a device's allocations and pools that are shared between
// processes.
type sharedAccount struct {
	imports importCache // by handle

	mu      sync.Mutex
	count   int
	bytes   int64 // that this process allocated
	failure error // the first of freeing, since Release returns no error
}

func (s *sharedAccount) add(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	s.bytes += bytes
}

func (s *sharedAccount) remove(bytes int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	s.bytes -= bytes
	if s.failure == nil {
		s.failure = err
	}
}

// state returns the count and the first error.
func (s *sharedAccount) state() (count int, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count, s.failure
}

func (s *sharedAccount) inUse() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// importCache holds the open allocations of other processes, by CUDA's 64-byte name.
// Each is opened once and closed after the last reference. A second mapping would cost
// the driver as much as the first, and old drivers refuse it. All buffers of one
// allocation share its accessTracker.
type importCache struct {
	mu      sync.Mutex
	entries map[[64]byte]*importEntry
}

type importEntry struct {
	memory *allocation
	closed chan struct{} // closed when the driver has closed the allocation
}

// get returns an allocation with a reference for the caller. If it is not open, get
// calls open, which must arrange that closed is called after the allocation is closed.
// get waits if the allocation is being closed.
func (c *importCache) get(name [64]byte, open func(closed func()) (*allocation, error)) (*allocation, error) {
	for {
		c.mu.Lock()
		found, ok := c.entries[name]
		if !ok {
			defer c.mu.Unlock()
			return c.insert(name, open)
		}
		if found.memory.tryRetain() {
			c.mu.Unlock()
			return found.memory, nil
		}
		c.mu.Unlock()
		<-found.closed
	}
}

// insert opens an allocation and adds it. The caller holds mu.
func (c *importCache) insert(name [64]byte, open func(closed func()) (*allocation, error)) (*allocation, error) {
	added := &importEntry{closed: make(chan struct{})}
	memory, err := open(func() {
		c.mu.Lock()
		delete(c.entries, name)
		c.mu.Unlock()
		close(added.closed)
	})
	if err != nil {
		return nil, err
	}
	if c.entries == nil {
		c.entries = map[[64]byte]*importEntry{}
	}
	added.memory = memory
	c.entries[name] = added
	return memory, nil
}

// EventHandle identifies an event of this process for another process on the same
// machine (CUipcEventHandle).
type EventHandle [64]byte

// ExportIPC returns a handle by which another process opens the event, which must have
// EventOptions.Interprocess (cuIpcGetEventHandle). Both processes can record it and
// wait for it. CUDA leaves the behaviour undefined if this process closes the event
// while another has it open.
func (e *Event) ExportIPC() (EventHandle, error) {
	var h driver.IPCEventHandle
	err := e.withContext(func() (err error) { h, err = e.dev.api.IpcGetEventHandle(e.handle); return err })
	if err != nil {
		return EventHandle{}, fmt.Errorf("exporting an event: %w", err)
	}
	return EventHandle(h), nil
}

// OpenIPCEvent returns the event that a handle of another process identifies
// (cuIpcOpenEventHandle). It has no Timing. The caller must close it.
func (d *Device) OpenIPCEvent(h EventHandle) (*Event, error) {
	e := &Event{dev: d}
	err := d.withContext(func() (err error) { e.handle, err = d.api.IpcOpenEventHandle(driver.IPCEventHandle(h)); return err })
	if err != nil {
		return nil, fmt.Errorf("opening an event of another process: %w", explainOwnHandle(err))
	}
	return e, nil
}
