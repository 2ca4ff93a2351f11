package cudabuf

import (
	"fmt"
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

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
	in      *importedPools
	handle  driver.MemPool
	opened  openings             // by pointer
	bases   map[uintptr]struct{} // of what is open
	imports int                  // each of which is destroyed at the end
	users   int                  // PeerPools and allocations
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

// enter notes an allocation that was opened. One at the address of another that is
// still open is that one's follower in the owner's pool, under another name: the
// driver would end both with the first.
func (p *importedPool) enter(base uintptr) error {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	if _, open := p.bases[base]; open {
		return fmt.Errorf("another allocation at its address is still open here: %w", ErrNotShareable)
	}
	if p.bases == nil {
		p.bases = map[uintptr]struct{}{}
	}
	p.bases[base] = struct{}{}
	p.users++
	return nil
}

// exit is the end of an allocation that was entered.
func (p *importedPool) exit(d *Device, base uintptr) error {
	p.in.mu.Lock()
	delete(p.bases, base)
	p.in.mu.Unlock()
	return p.leave(d)
}

// leave destroys the pool with its last user. On a device that is lost it only
// forgets it.
func (p *importedPool) leave(d *Device) error {
	entered := false
	err := d.do(func() error {
		entered = true
		p.in.mu.Lock()
		defer p.in.mu.Unlock()
		return p.end(d)
	})
	if !entered {
		p.in.mu.Lock()
		defer p.in.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(p.in.all, p.handle)
		}
	}
	return err
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
