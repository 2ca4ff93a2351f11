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
type SharedPool struct{ crossPool }

// PoolHandle names memory in a SharedPool for a process that has the pool open.
type PoolHandle struct {
	Pointer [64]byte // CUmemPoolPtrExportData
	Region
}

// maxPooled is the largest allocation of a pool that goes to another process. The
// driver takes 1.3 ms a GiB to open it, and ends the process at 8 GiB, though not at
// 5. (cuMemPoolImportPointer on an H200 with driver 580.)
const maxPooled = 1 << 30

// NewSharedPool makes a pool (cuMemPoolCreate with
// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR). What is freed stays in it until
// Trim or Close. The caller closes it.
func (d *Device) NewSharedPool() (*SharedPool, error) {
	p := &SharedPool{crossPool{dev: d}}
	p.destroy = func() error { return d.do(func() error { return d.api.MemPoolDestroy(p.handle) }) }
	err := d.do(func() (err error) {
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
	d.shares.begin()
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
	at := sharing{way: byPool, size: n, pool: p}
	err := p.use(func() error {
		return p.dev.give(s, nil, func(h driver.Stream) (err error) {
			at.base, err = p.dev.api.MemAllocFromPoolAsync(n, p.handle, h)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes to share: %w", n, err)
	}
	memory := p.dev.newShared(at, func() error { return p.dev.freeNow(at.base) })
	if s != nil {
		memory.uses.writer = s.queue // other streams wait for the allocation
	}
	return newBuffer(p.dev, memory, at.base, n), nil
}

// ExportFD returns a file by which another process opens the pool
// (cuMemPoolExportToShareableHandle). The caller closes the file, and sends its
// descriptor first.
func (p *SharedPool) ExportFD() (file *os.File, err error) {
	err = p.use(func() (err error) {
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
	return p.use(func() error {
		return p.dev.do(func() error { return p.dev.api.MemPoolTrimTo(p.handle, keep) })
	})
}

// ExportPool returns a handle by which a process that has the pool open opens
// the buffer, which is one of SharedPool.NewBuffer or a slice of it
// (cuMemPoolExportPointer). The pool has been exported before, by ExportFD. Any
// other memory is ErrNotShareable, as is an allocation of more than 1 GiB, which
// the driver does not open reliably. Work on streams is not waited for, the
// allocation included; see Wait and Event.ExportIPC.
func (b *Buffer) ExportPool() (PoolHandle, error) {
	if err := b.hold(); err != nil {
		return PoolHandle{}, err
	}
	defer b.Release()
	if b.length == 0 {
		return PoolHandle{Region: Region{Device: b.dev.uuid}}, nil
	}
	s, err := b.shareable(byPool)
	if err != nil {
		return PoolHandle{}, err
	}
	if s.size > maxPooled {
		return PoolHandle{}, fmt.Errorf("%v: %d bytes of a pool, at most %d are opened elsewhere: %w", b.dev, s.size, maxPooled, ErrNotShareable)
	}
	h := PoolHandle{Region: b.region(s.base, s.size)}
	err = b.dev.do(func() error {
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
	if b.memory == nil || b.memory.sharing == nil || b.memory.sharing.size > maxPooled {
		return nil
	}
	return b.memory.sharing.pool
}

// freeNow frees memory of a pool that no stream uses any more. It is free when
// freeNow returns, in every process's eyes.
func (d *Device) freeNow(address uintptr) error {
	return d.run(nil, func(h driver.Stream) error { return d.api.MemFreeAsync(address, h) })
}

// crossPool is what a pool here and one of a peer have in common.
type crossPool struct {
	dev     *Device
	handle  driver.MemPool
	destroy func() error

	mu     sync.RWMutex // held by users, and by Close alone
	closed bool
}

func (p *crossPool) use(calls func() error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return fmt.Errorf("%v: pool: %w", p.dev, ErrClosed)
	}
	return calls()
}

// Close gives the pool back (cuMemPoolDestroy). Buffers of it stay good; their
// memory goes with the last of them. A second Close does nothing.
func (p *crossPool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	err := p.destroy()
	p.dev.shares.end(nil)
	return err
}
