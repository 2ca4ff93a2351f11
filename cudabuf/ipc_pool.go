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

// SharedPool is a pool of stream-ordered memory that other processes open once by a
// file. They then receive buffers of it by small handles. It may be used from any
// goroutine.
type SharedPool struct{ ipcPool }

// PoolHandle identifies memory of a SharedPool for a process that has opened the pool.
type PoolHandle struct {
	Pointer [64]byte // CUmemPoolPtrExportData
	Region
}

// maxPoolExport is the largest allocation, in bytes, that another process may open.
// Opening takes the driver 1.3 ms per GiB. At 8 GiB, though not at 5, it terminates the
// process. (cuMemPoolImportPointer on an H200 with driver 580.)
const maxPoolExport = 1 << 30

// NewSharedPool creates a pool (cuMemPoolCreate with
// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR). Freed memory stays in it until Trim or
// Close. The caller must close it.
func (d *Device) NewSharedPool() (*SharedPool, error) {
	if err := d.errManaged("creating a pool to share"); err != nil {
		return nil, err
	}
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
		return nil, fmt.Errorf("creating a shared pool: %w", err)
	}
	d.sharedObjects.add(0)
	return p, nil
}

// NewBuffer returns a buffer of n bytes with undefined contents for ExportPool
// (cuMemAllocFromPoolAsync). It is allocated in the order of a stream, or at once if s
// is nil. The last Release waits for the streams that use the memory
// (cuMemFreeAsync). Other processes must have released it before.
func (p *SharedPool) NewBuffer(n int64, s *Stream) (*Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("cudabuf.SharedPool.NewBuffer: %v: negative size %d: %w", p.dev, n, arrowbuf.ErrOutOfRange)
	}
	if n == 0 {
		return newBuffer(p.dev, nil, 0, 0), nil
	}
	if s != nil && s.capture != nil {
		return nil, fmt.Errorf("cudabuf.SharedPool.NewBuffer: %v: allocating %d bytes while capturing a graph: %w", p.dev, n, errors.ErrUnsupported)
	}
	sh := sharing{method: byPool, size: n, pool: p}
	err := p.withOpen(func() error {
		return p.dev.submit(s, nil, func(h driver.Stream) (err error) {
			sh.base, err = p.dev.api.MemAllocFromPoolAsync(n, p.handle, h)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes to share: %w", n, err)
	}
	memory := p.dev.newSharedAllocation(sh, func() error { return p.dev.freeAndWait(sh.base) })
	if s != nil {
		memory.accesses.writer = s.cudaStream // other streams wait for the allocation
	}
	return newBuffer(p.dev, memory, sh.base, n), nil
}

// ExportFD returns a file by which another process opens the pool
// (cuMemPoolExportToShareableHandle). The caller sends the file's descriptor and then
// closes the file.
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

// Trim frees idle memory until the pool has at most keep bytes (cuMemPoolTrimTo).
func (p *SharedPool) Trim(keep int64) error {
	if keep < 0 {
		return fmt.Errorf("cudabuf.SharedPool.Trim: %v: negative size %d: %w", p.dev, keep, arrowbuf.ErrOutOfRange)
	}
	return p.withOpen(func() error {
		return p.dev.withContext(func() error { return p.dev.api.MemPoolTrimTo(p.handle, keep) })
	})
}

// ExportPool returns a handle by which a process that has opened the pool opens the
// buffer (cuMemPoolExportPointer). The buffer comes from SharedPool.NewBuffer or is a
// slice of one. The pool must have been exported by ExportFD before. The error is
// ErrNotShareable for other memory and for allocations of more than 1 GiB, which the
// driver does not open reliably. ExportPool does not wait for streams, not even for the
// allocation; see Wait and Event.ExportIPC.
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
		return PoolHandle{}, fmt.Errorf("%v: allocation too large to export: got %d bytes, want at most %d: %w", b.dev, s.size, maxPoolExport, ErrNotShareable)
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

// SharedPool returns the pool by which another process opens the buffer's memory, or
// nil if ExportPool refuses the buffer.
func (b *Buffer) SharedPool() *SharedPool {
	if b.memory == nil || b.memory.sharing == nil || b.memory.sharing.size > maxPoolExport {
		return nil
	}
	return b.memory.sharing.pool
}

// freeAndWait frees memory of a pool that no stream uses. All processes see it freed
// when freeAndWait returns.
func (d *Device) freeAndWait(address uintptr) error {
	return d.submitAndWait(nil, func(h driver.Stream) error { return d.api.MemFreeAsync(address, h) })
}

// ipcPool is the common part of SharedPool and PeerPool.
type ipcPool struct {
	dev     *Device
	handle  driver.MemPool
	destroy func() error

	mu     sync.RWMutex // read-locked by users, locked by Close
	closed bool
}

// withOpen runs calls while the pool is open.
func (p *ipcPool) withOpen(calls func() error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return fmt.Errorf("%v: pool: %w", p.dev, ErrClosed)
	}
	return calls()
}

// Close destroys the pool (cuMemPoolDestroy). Its buffers remain valid; the memory is
// freed with the last of them. A second Close does nothing.
func (p *ipcPool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	err := p.destroy()
	p.dev.sharedObjects.remove(0, nil)
	return err
}

// PeerPool is a SharedPool of another process. It cannot allocate. It may be used from
// any goroutine.
type PeerPool struct {
	ipcPool
	imported *importedPool
}

// OpenPoolFD opens the pool of a file of another process's SharedPool.ExportFD
// (cuMemPoolImportFromShareableHandle, cuMemPoolSetAccess). The caller keeps the file
// and may close it afterwards, and must close the pool. A pool may be opened several
// times, but through one Driver only, since CUDA imports it once per process.
func (d *Device) OpenPoolFD(file *os.File) (*PeerPool, error) {
	if err := d.errManaged("opening a pool of another process"); err != nil {
		return nil, err
	}
	p := &PeerPool{}
	err := d.withFD(file, func(fd int) (err error) {
		p.imported, err = d.driver.imported.importPool(d, fd)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening a pool of another process on %v: %w", d, err)
	}
	p.ipcPool = ipcPool{dev: d, handle: p.imported.handle, destroy: func() error { return p.imported.release(d) }}
	d.sharedObjects.add(0)
	return p, nil
}

// Open returns the buffer that a handle identifies (cuMemPoolImportPointer). It is
// exactly the handle's region, which must lie within the allocation. An allocation is
// opened once for all handles that identify it. The error is arrowbuf.ErrOutOfRange for
// an allocation of more than 1 GiB.
func (p *PeerPool) Open(h PoolHandle) (*Buffer, error) {
	if err := h.validate(); err != nil {
		return nil, err
	}
	if h.AllocationSize > maxPoolExport {
		return nil, fmt.Errorf("cudabuf.PeerPool.Open: allocation too large: got %d bytes, want at most %d: %w", h.AllocationSize, maxPoolExport, arrowbuf.ErrOutOfRange)
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
		return nil, err // freeing it would end the other allocation
	}
	return d.newSharedAllocation(s, func() error {
		defer closed()
		return errors.Join(d.freeAndWait(s.base), p.imported.removeAllocation(d, s.base))
	}), nil
}

// importedPools holds the pools of other processes that a driver has open, by handle.
// CUDA returns the same handle for each import of a pool, and the same address for each
// import of a pointer. The first free of that address ends all imports. Imports are
// therefore shared and counted here.
//
// A pool cannot be destroyed while pointers of it are open. A process faults if it uses
// the pool after it has destroyed the first of several imports. (Observed on an H200
// with driver 580.)
type importedPools struct {
	mu  sync.Mutex
	all map[driver.MemPool]*importedPool
}

type importedPool struct {
	registry    *importedPools
	handle      driver.MemPool
	imports     importCache          // by exported pointer
	bases       map[uintptr]struct{} // of open allocations
	importCount int                  // each import is destroyed at the end
	refs        int                  // PeerPools and open allocations
}

// importPool imports a pool and gives the device access to it. The caller has bound the
// device's context, and must release the pool.
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

// addAllocation adds a reference for an allocation that was opened. It refuses an
// allocation at the address of another one that is still open. In the owner's pool,
// the new one has replaced the other; freeing one would end both.
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

// removeAllocation removes an allocation and releases its reference.
func (p *importedPool) removeAllocation(d *Device, base uintptr) error {
	p.registry.mu.Lock()
	delete(p.bases, base)
	p.registry.mu.Unlock()
	return p.release(d)
}

// release releases one reference. The last one destroys the pool. On a lost device it
// only forgets the pool.
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

// releaseLocked is release for a caller that holds the lock and has bound the context.
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

// poolDevice is a device whose Alloc allocates from a SharedPool.
type poolDevice struct {
	*Device
	pool *SharedPool
}

// AsDevice returns the pool's device with an Alloc that allocates from the pool, without
// a stream. Use it with arrowbuf.CopyTo and other functions that allocate. The buffers
// belong to the original device.
func (p *SharedPool) AsDevice() arrowbuf.Device { return poolDevice{p.dev, p} }

// Alloc is SharedPool.NewBuffer without a stream.
func (d poolDevice) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := d.pool.NewBuffer(n, nil)
	if err != nil {
		return nil, err
	}
	return b, nil
}
