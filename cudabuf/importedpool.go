package cudabuf

import (
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// importedPools are the pools of other processes that a driver has open. CUDA
// answers the same handle each time that it is given a pool, and the same address
// each time that it is given a pointer, whose first free ends them all: so what is
// open several times here shares it. Each import counts, but a pool cannot be
// destroyed while pointers of it are open, and faults where it is used after the
// first of several is. (Seen on an H200 with driver 580.)
type importedPools struct {
	mu  sync.Mutex
	all map[driver.MemPool]*importedPool
}

type importedPool struct {
	in      *importedPools
	handle  driver.MemPool
	opened  openings // by pointer
	imports int      // each of which is destroyed at the end
	users   int      // PeerPools and allocations
}

// open imports a pool, and gives the device access to it. The caller has entered
// the device, and leaves the pool.
func (i *importedPools) open(d *Device, fd int) (*importedPool, error) {
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
		p = &importedPool{in: i, handle: handle}
		i.all[handle] = p
	}
	p.imports++
	p.users++
	if err := d.api.MemPoolSetAccess(handle, d.handle); err != nil {
		_ = p.end(d)
		return nil, err
	}
	return p, nil
}

func (p *importedPool) enter() {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	p.users++
}

// leave destroys the pool with its last user.
func (p *importedPool) leave(d *Device) error {
	return d.do(func() error {
		p.in.mu.Lock()
		defer p.in.mu.Unlock()
		return p.end(d)
	})
}

// end is leave for who holds the lock and has entered the device.
func (p *importedPool) end(d *Device) (err error) {
	if p.users--; p.users > 0 {
		return nil
	}
	delete(p.in.all, p.handle)
	for ; p.imports > 0; p.imports-- {
		if failure := d.api.MemPoolDestroy(p.handle); err == nil {
			err = failure
		}
	}
	return err
}
