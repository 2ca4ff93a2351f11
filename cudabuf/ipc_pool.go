package cudabuf

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// SharedPool is a pool of stream-ordered memory that another process opens once,
// by a file, and then receives buffers of, each by a few bytes. It may be used
// from any goroutine.
type SharedPool struct{ ipcPool }

// PoolHandle names memory in a SharedPool for a process that has the pool open.
type PoolHandle struct {
	Pointer [64]byte // CUmemPoolPtrExportData
	Region
}

// maxPoolExport is the largest allocation of a pool that goes to another process. The
// driver takes 1.3 ms a GiB to open it, and ends the process at 8 GiB, though not at
// 5. (cuMemPoolImportPointer on an H200 with driver 580.)
const maxPoolExport = 1 << 30

// NewSharedPool makes a pool (cuMemPoolCreate with
// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR). What is freed stays in it until
// Trim or Close. The caller closes it.
func (d *Device) NewSharedPool() (*SharedPool, error) {
	p := &SharedPool{ipcPool{dev: d}}
	p.destroy = func() error { return d.withContext(func() error { return d.api.MemPoolDestroy(p.handle) }) }
	err := d.withContext(func() (err error) {
		if p.handle, err = d.api.MemPoolCreate(d.handle, true); err != nil {
			return err
		}
		if err = d.api.MemPoolSetAttribute(p.handle, driver.PoolReleaseThreshold, math.MaxUint64); err != nil {
			return errors.Join(err, d.api.MemPoolDestroy(p.handle))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("making a pool to share: %w", err)
	}
	d.sharedObjects.add()
	return p, nil
}

// NewBuffer returns a buffer of n bytes with undefined contents, for ExportPool,
// that is there in the order of a stream, or at once where that is nil
// (cuMemAllocFromPoolAsync). Its last Release waits for the streams that use it
// (cuMemFreeAsync); other processes must have released it before.
func (p *SharedPool) NewBuffer(n int64, s *Stream) (*Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("%v: allocating %d bytes: %w", p.dev, n, arrowbuf.ErrOutOfRange)
	}
	if n == 0 {
		return newBuffer(p.dev, nil, 0, 0), nil
	}
	if s != nil && s.capture != nil {
		return nil, fmt.Errorf("%v: allocating %d bytes while a graph is captured: %w", p.dev, n, errors.ErrUnsupported)
	}
	at := sharing{method: byPool, size: n, pool: p}
	err := p.withOpen(func() error {
		return p.dev.submit(s, nil, func(h driver.Stream) (err error) {
			at.base, err = p.dev.api.MemAllocFromPoolAsync(n, p.handle, h)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes to share: %w", n, err)
	}
	memory := p.dev.newSharedAllocation(at, func() error { return p.dev.freeAndWait(at.base) })
	if s != nil {
		memory.accesses.writer = s.cudaStream // other streams wait for the allocation
	}
	return newBuffer(p.dev, memory, at.base, n), nil
}

// ExportFD returns a file by which another process opens the pool
// (cuMemPoolExportToShareableHandle). The caller closes the file, and sends its
// descriptor first.
func (p *SharedPool) ExportFD() (file *os.File, err error) {
	err = p.withOpen(func() (err error) {
		file, err = p.dev.exportFD(func() (int, error) { return p.dev.api.MemPoolExportToShareableHandle(p.handle) })
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("exporting a pool: %w", err)
	}
	return file, nil
}

// Trim gives freed memory back to the driver until the pool has no more than
// keep bytes (cuMemPoolTrimTo).
func (p *SharedPool) Trim(keep int64) error {
	if keep < 0 {
		return fmt.Errorf("%v: keeping %d bytes: %w", p.dev, keep, arrowbuf.ErrOutOfRange)
	}
	return p.withOpen(func() error {
		return p.dev.withContext(func() error { return p.dev.api.MemPoolTrimTo(p.handle, keep) })
	})
}

// ExportPool returns a handle by which a process that has the pool open opens
// the buffer, which is one of SharedPool.NewBuffer or a slice of it
// (cuMemPoolExportPointer). The pool has been exported before, by ExportFD. Any
// other memory is ErrNotShareable, as is an allocation of more than 1 GiB, which
// the driver does not open reliably. Work on streams is not waited for, the
// allocation included; see Wait and Event.ExportIPC.
func (b *Buffer) ExportPool() (PoolHandle, error) {
	if err := b.retain(); err != nil {
		return PoolHandle{}, err
	}
	defer b.Release()
	if b.length == 0 {
		return PoolHandle{Region: Region{Device: b.dev.uuid}}, nil
	}
	s, err := b.checkShareable(byPool)
	if err != nil {
		return PoolHandle{}, err
	}
	if s.size > maxPoolExport {
		return PoolHandle{}, fmt.Errorf("%v: %d bytes of a pool, at most %d are opened elsewhere: %w", b.dev, s.size, maxPoolExport, ErrNotShareable)
	}
	h := PoolHandle{Region: b.region(s.base, s.size)}
	err = b.dev.withContext(func() error {
		pointer, err := b.dev.api.MemPoolExportPointer(s.base)
		h.Pointer = pointer
		return err
	})
	if err != nil {
		return PoolHandle{}, fmt.Errorf("exporting %d bytes: %w", b.length, err)
	}
	return h, nil
}

// SharedPool is the pool by which another process opens the buffer's memory; nil
// for memory that ExportPool refuses, and where there is none.
func (b *Buffer) SharedPool() *SharedPool {
	if b.memory == nil || b.memory.sharing == nil || b.memory.sharing.size > maxPoolExport {
		return nil
	}
	return b.memory.sharing.pool
}

// freeAndWait frees memory of a pool that no stream uses any more. It is free when
// freeNow returns, in every process's eyes.
func (d *Device) freeAndWait(address uintptr) error {
	return d.submitAndWait(nil, func(h driver.Stream) error { return d.api.MemFreeAsync(address, h) })
}

// ipcPool is what a pool here and one of a peer have in common.
type ipcPool struct {
	dev     *Device
	handle  driver.MemPool
	destroy func() error

	mu     sync.RWMutex // held by users, and by Close alone
	closed bool
}

func (p *ipcPool) withOpen(calls func() error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return fmt.Errorf("%v: pool: %w", p.dev, ErrClosed)
	}
	return calls()
}

// Close gives the pool back (cuMemPoolDestroy). Buffers of it stay good; their
// memory goes with the last of them. A second Close does nothing.
func (p *ipcPool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	err := p.destroy()
	p.dev.sharedObjects.remove(nil)
	return err
}

// PeerPool is a SharedPool of another process. Nothing is allocated from it. It
// may be used from any goroutine.
type PeerPool struct {
	ipcPool
	imported *importedPool
}

// OpenPoolFD opens the pool that a file of another process's SharedPool.ExportFD
// names (cuMemPoolImportFromShareableHandle, cuMemPoolSetAccess). The file stays
// the caller's and may be closed afterwards. The caller closes the pool. It may be
// open several times, but through one Driver: CUDA knows it once a process.
func (d *Device) OpenPoolFD(file *os.File) (*PeerPool, error) {
	p := &PeerPool{}
	err := d.withFD(file, func(fd int) (err error) {
		p.imported, err = d.driver.imported.importPool(d, fd)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening a pool of another process on %v: %w", d, err)
	}
	p.ipcPool = ipcPool{dev: d, handle: p.imported.handle, destroy: func() error { return p.imported.release(d) }}
	d.sharedObjects.add()
	return p, nil
}

// Open returns the buffer that a handle names (cuMemPoolImportPointer): exactly
// its region, which must lie within the allocation. An allocation is opened
// once, however many handles name it. One of more than 1 GiB is
// arrowbuf.ErrOutOfRange.
func (p *PeerPool) Open(h PoolHandle) (*Buffer, error) {
	if err := h.validate(); err != nil {
		return nil, err
	}
	if h.AllocationSize > maxPoolExport {
		return nil, fmt.Errorf("opening %d bytes of another process's pool, at most %d are: %w", h.AllocationSize, maxPoolExport, arrowbuf.ErrOutOfRange)
	}
	if h.Length == 0 {
		return newBuffer(p.dev, nil, 0, 0), nil
	}
	var memory *allocation
	err := p.withOpen(func() (err error) {
		memory, err = p.imported.imports.get(h.Pointer, func(closed func()) (*allocation, error) {
			return p.openPointer(h.Pointer, closed)
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening memory of another process's pool: %w", err)
	}
	return p.dev.newRegionBuffer(memory, h.Region)
}

func (p *PeerPool) openPointer(pointer driver.PoolPointer, closed func()) (*allocation, error) {
	d := p.dev
	s := sharing{method: byPool, imported: true}
	err := d.withContext(func() (err error) {
		if s.base, err = d.api.MemPoolImportPointer(p.handle, pointer); err != nil {
			return err
		}
		_, s.size, err = d.api.MemGetAddressRange(s.base)
		return err
	})
	if err != nil {
		if s.base != 0 {
			err = errors.Join(err, d.freeAndWait(s.base))
		}
		return nil, err
	}
	if err := p.imported.addAllocation(s.base); err != nil {
		return nil, err // and freeing it would end the other
	}
	return d.newSharedAllocation(s, func() error {
		defer closed()
		return errors.Join(d.freeAndWait(s.base), p.imported.removeAllocation(d, s.base))
	}), nil
}

// importedPools are the pools of other processes that a driver has open. CUDA
// answers the same handle each time that it is given a pool, and the same address
// each time that it is given a pointer, whose first free ends them all: so what is
// open several times here shares it. Each import counts, but a pool cannot be
// destroyed while pointers of it are open, and a process that uses it after the
// first of several imports is destroyed faults. (Seen on an H200 with driver 580.)
type importedPools struct {
	mu  sync.Mutex
	all map[driver.MemPool]*importedPool
}

type importedPool struct {
	registry    *importedPools
	handle      driver.MemPool
	imports     importCache          // by pointer
	bases       map[uintptr]struct{} // of what is open
	importCount int                  // each of which is destroyed at the end
	refs        int                  // PeerPools and allocations
}

// importPool imports a pool, and gives the device access to it. The caller has entered
// the device, and leaves the pool.
func (i *importedPools) importPool(d *Device, fd int) (*importedPool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	handle, err := d.api.MemPoolImportFromShareableHandle(fd)
	if err != nil {
		return nil, err
	}
	p := i.all[handle]
	if p == nil {
		if i.all == nil {
			i.all = map[driver.MemPool]*importedPool{}
		}
		p = &importedPool{registry: i, handle: handle}
		i.all[handle] = p
	}
	p.importCount++
	p.refs++
	if err := d.api.MemPoolSetAccess(handle, d.handle); err != nil {
		_ = p.releaseLocked(d)
		return nil, err
	}
	return p, nil
}

// addAllocation notes an allocation that was opened. One at the address of another that is
// still open is that one's follower in the owner's pool, under another name: the
// driver would end both with the first.
func (p *importedPool) addAllocation(base uintptr) error {
	p.registry.mu.Lock()
	defer p.registry.mu.Unlock()
	if _, open := p.bases[base]; open {
		return fmt.Errorf("another allocation at its address is still open here: %w", ErrNotShareable)
	}
	if p.bases == nil {
		p.bases = map[uintptr]struct{}{}
	}
	p.bases[base] = struct{}{}
	p.refs++
	return nil
}

// removeAllocation is the end of an allocation that was entered.
func (p *importedPool) removeAllocation(d *Device, base uintptr) error {
	p.registry.mu.Lock()
	delete(p.bases, base)
	p.registry.mu.Unlock()
	return p.release(d)
}

// release destroys the pool with its last user. On a device that is lost it only
// forgets it.
func (p *importedPool) release(d *Device) error {
	entered := false
	err := d.withContext(func() error {
		entered = true
		p.registry.mu.Lock()
		defer p.registry.mu.Unlock()
		return p.releaseLocked(d)
	})
	if !entered {
		p.registry.mu.Lock()
		defer p.registry.mu.Unlock()
		if p.refs--; p.refs == 0 {
			delete(p.registry.all, p.handle)
		}
	}
	return err
}

// releaseLocked is leave for who holds the lock and has entered the device.
func (p *importedPool) releaseLocked(d *Device) (err error) {
	if p.refs--; p.refs > 0 {
		return nil
	}
	delete(p.registry.all, p.handle)
	for ; p.importCount > 0; p.importCount-- {
		if failure := d.api.MemPoolDestroy(p.handle); err == nil {
			err = failure
		}
	}
	return err
}

// poolDevice is a device that allocates from a pool.
type poolDevice struct {
	*Device
	pool *SharedPool
}

// AsDevice is the pool's device, but that Alloc takes memory of the pool, at once:
// for arrowbuf.CopyTo and whatever else allocates by itself. Its buffers are those
// of the device itself.
func (p *SharedPool) AsDevice() arrowbuf.Device { return poolDevice{p.dev, p} }

// Alloc is SharedPool.NewBuffer without a stream.
func (d poolDevice) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := d.pool.NewBuffer(n, nil)
	if err != nil {
		return nil, err
	}
	return b, nil
}
