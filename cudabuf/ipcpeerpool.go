package cudabuf

import (
	"errors"
	"fmt"
	"os"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// PeerPool is a SharedPool of another process. Nothing is allocated from it. It
// may be used from any goroutine.
type PeerPool struct {
	crossPool
	pool *importedPool
}

// OpenPoolFD opens the pool that a file of another process's SharedPool.ExportFD
// names (cuMemPoolImportFromShareableHandle, cuMemPoolSetAccess). The file stays
// the caller's and may be closed afterwards. The caller closes the pool. It may be
// open several times, but through one Driver: CUDA knows it once a process.
func (d *Device) OpenPoolFD(file *os.File) (*PeerPool, error) {
	p := &PeerPool{}
	err := d.withFD(file, func(fd int) (err error) {
		p.pool, err = d.driver.imported.open(d, fd)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening a pool of another process on %v: %w", d, err)
	}
	p.crossPool = crossPool{dev: d, handle: p.pool.handle, destroy: func() error { return p.pool.leave(d) }}
	d.shares.begin()
	return p, nil
}

// Open returns the buffer that a handle names (cuMemPoolImportPointer): exactly
// its region, which must lie within the allocation. An allocation is opened
// once, however many handles name it. One of more than 1 GiB is
// arrowbuf.ErrOutOfRange.
func (p *PeerPool) Open(h PoolHandle) (*Buffer, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	if h.AllocationSize > maxPooled {
		return nil, fmt.Errorf("opening %d bytes of another process's pool, at most %d are: %w", h.AllocationSize, maxPooled, arrowbuf.ErrOutOfRange)
	}
	if h.Length == 0 {
		return newBuffer(p.dev, nil, 0, 0), nil
	}
	var memory *allocation
	err := p.use(func() (err error) {
		memory, err = p.pool.opened.get(h.Pointer, func(closed func()) (*allocation, error) {
			return p.openPointer(h.Pointer, closed)
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening memory of another process's pool: %w", err)
	}
	return p.dev.part(memory, h.Region)
}

func (p *PeerPool) openPointer(pointer driver.PoolPointer, closed func()) (*allocation, error) {
	d := p.dev
	s := sharing{way: byPool, imported: true}
	err := d.do(func() (err error) {
		if s.base, err = d.api.MemPoolImportPointer(p.handle, pointer); err != nil {
			return err
		}
		_, s.size, err = d.api.MemGetAddressRange(s.base)
		return err
	})
	if err != nil {
		if s.base != 0 {
			err = errors.Join(err, d.freeNow(s.base))
		}
		return nil, err
	}
	if err := p.pool.enter(s.base); err != nil {
		return nil, err // and freeing it would end the other
	}
	return d.newShared(s, func() error {
		defer closed()
		return errors.Join(d.freeNow(s.base), p.pool.exit(d, s.base))
	}), nil
}
