package soft

import (
	"errors"
	"fmt"
	"slices"
)

// granule is what allocations are rounded up to, as alignment and in size;
// granularity is the unit of virtual memory.
const (
	granule     = 512
	granularity = 2 << 20
)

// deviceMemory is what a device knows of memory.
type deviceMemory struct {
	arena *arena
	peers deviceSet // whose memory it reaches; guarded by space.mu
}

// arena is the memory of one device.
type arena struct {
	*space
	dev      *device
	size     int64
	used     int64    // guarded by space.mu, with pools and virtual memory
	leaked   []string // allocations that ended with their context
	ordinary *segment
	pool     *pool // the default pool
}

func newArena(sp *space, dev *device, size int64) (*arena, error) {
	f, err := newFile(deviceFile, dev.ordinal, pages(size))
	if err != nil {
		return nil, fmt.Errorf("memory of a soft device: %w", err)
	}
	s, err := newSegment(dev, ordinary, f.size, f, 0)
	if err != nil {
		_ = f.close()
		return nil, fmt.Errorf("mapping %d bytes of a soft device: %w", size, err)
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.add(s)
	return &arena{space: sp, dev: dev, size: size, ordinary: s}, nil
}

// take counts memory of the device as used, if there is so much.
func (a *arena) take(n int64) bool {
	if n > a.size-a.used {
		return false
	}
	a.used += n
	return true
}

// alloc answers false where the memory is used up.
func (a *arena) alloc(n int64, owner *context) (uintptr, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > a.size {
		return 0, false
	}
	b := a.ordinary.place(n, granule)
	if b == nil {
		return 0, false
	}
	if b.offset+b.length > a.size || !a.take(b.length) {
		a.ordinary.remove(b)
		return 0, false
	}
	b.owner = owner
	poison(a.ordinary.memory(b))
	return a.ordinary.address(b), true
}

// release gives a block of ordinary memory back, and its pages to the system.
func (a *arena) release(b *block) {
	a.ordinary.remove(b)
	a.ordinary.discard(b.offset, b.length)
	a.used -= b.length
	b.revoke()
}

// owned returns the memory that ends with a context. It takes the lock itself.
func (a *arena) owned(c *context) (blocks []*block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.ordinary.blocks {
		if b.owner == c {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// abandon gives memory back that nobody freed, and remembers it. It takes the lock
// itself.
func (a *arena) abandon(blocks []*block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range blocks {
		if slices.Contains(a.ordinary.blocks, b) {
			a.leaked = append(a.leaked, a.ordinary.name(b))
			a.release(b)
		}
	}
}

// bytes returns the memory behind n bytes at an address that the device
// reaches, which must lie within one allocation, for work that is issued now. It
// takes the lock itself.
func (a *arena) bytes(address uintptr, n int64) ([]byte, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.look(address, n)
}

// running is bytes for work that runs now, and may have been issued long ago.
func (a *arena) running(address uintptr, n int64) ([]byte, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, ok := a.look(address, n)
	if !ok && n >= 0 {
		if s := a.segment(address); s != nil && s.pool != nil {
			return s.pool.freed(a.dev, int64(address-s.base()), n)
		}
	}
	return b, ok
}

func (a *arena) look(address uintptr, n int64) ([]byte, bool) {
	if s := a.segment(address); s != nil {
		return s.bytes(a.dev, address, n)
	}
	if h := a.hostRange(address); h != nil {
		return h.bytes(address, n)
	}
	return nil, false
}

// inUse takes the lock itself.
func (a *arena) inUse() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// close gives everything of the device back. It takes the lock itself.
func (a *arena) close() error {
	a.retiring.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	var err error
	for _, s := range slices.Clone(a.segments) {
		if s.dev == a.dev {
			for _, b := range s.blocks {
				b.revoke()
				if b.physical != nil {
					err = errors.Join(err, b.physical.drop())
				}
			}
			f := s.file
			err = errors.Join(err, a.drop(s))
			if f != nil {
				err = errors.Join(err, f.close())
			}
		}
	}
	for h, p := range a.physical {
		if p.dev == a.dev {
			delete(a.physical, h)
			err = errors.Join(err, p.drop())
		}
	}
	if len(a.segments) == 0 {
		a.unregister()
	}
	return err
}
