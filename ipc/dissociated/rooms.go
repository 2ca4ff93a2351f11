package dissociated

import (
	"context"
	"fmt"
	"sync"
)

// alignment is that of what lies in a window: a GPU's own allocations have it.
const alignment = 256

// rooms keeps the books of a window: which ranges of it are free, in order.
type rooms struct {
	size int64

	mu      sync.Mutex
	free    []span
	changed chan struct{} // closed when room comes back, where somebody waits
}

type span struct{ from, to int64 }

// newRooms leaves out the first bytes: a location at 0 is one of length 0.
func newRooms(size int64) *rooms {
	return &rooms{size: size - alignment, free: []span{{alignment, size}}}
}

// take finds room for n > 0 bytes, the first that is large enough, and waits for
// it where that is in use.
func (r *rooms) take(ctx context.Context, n int64) (offset int64, err error) {
	if n > r.size {
		return 0, fmt.Errorf("%d bytes in a window that has %d: %w", n, r.size, ErrTooLarge)
	}
	n = (n + alignment - 1) / alignment * alignment
	for {
		offset, changed := r.try(n)
		if changed == nil {
			return offset, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for %d free bytes of a window: %w", n, context.Cause(ctx))
		}
	}
}

// try is take, or the channel that tells when to try again.
func (r *rooms) try(n int64) (offset int64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.free {
		if one := &r.free[i]; one.to-one.from >= n {
			offset = one.from
			if one.from += n; one.from == one.to {
				r.free = append(r.free[:i], r.free[i+1:]...)
			}
			return offset, nil
		}
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return 0, r.changed
}

// give is the end of what take took.
func (r *rooms) give(offset, n int64) {
	n = (n + alignment - 1) / alignment * alignment
	r.mu.Lock()
	defer r.mu.Unlock()
	i := 0
	for i < len(r.free) && r.free[i].from < offset {
		i++
	}
	r.free = append(r.free, span{})
	copy(r.free[i+1:], r.free[i:])
	r.free[i] = span{offset, offset + n}
	if i+1 < len(r.free) && r.free[i].to == r.free[i+1].from {
		r.free[i].to = r.free[i+1].to
		r.free = append(r.free[:i+1], r.free[i+2:]...)
	}
	if i > 0 && r.free[i-1].to == r.free[i].from {
		r.free[i-1].to = r.free[i].to
		r.free = append(r.free[:i], r.free[i+1:]...)
	}
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// used is how many bytes are taken.
func (r *rooms) used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := r.size
	for _, one := range r.free {
		used -= one.to - one.from
	}
	return used
}
