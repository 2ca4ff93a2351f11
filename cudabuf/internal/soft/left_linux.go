package soft

import (
	"fmt"
	"slices"
	"strings"
)

// leaks is an error that names what of the device was never given back.
func (dev *device) leaks() error {
	if left := dev.arena.left(); len(left) > 0 {
		return fmt.Errorf("cuda:%d: %d allocations never freed: %s", dev.ordinal, len(left), strings.Join(left, ", "))
	}
	return nil
}

// graphLeaks is an error where graphs were never destroyed.
func (d *Driver) graphLeaks() error {
	d.order.Lock()
	defer d.order.Unlock()
	if n := len(d.graphs) + len(d.execs); n > 0 {
		return fmt.Errorf("%d graphs never destroyed", n)
	}
	return nil
}

// left names what of the device was never given back. It takes the lock itself.
func (a *arena) left() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Clone(a.leaked)
	for _, s := range a.segments {
		if s.dev != a.dev {
			continue
		}
		switch s.kind {
		case ordinary, pooled:
			for _, b := range s.blocks {
				if b.freeing == nil {
					all = append(all, s.name(b))
				}
			}
		case virtual:
			all = append(all, fmt.Sprintf("%d reserved addresses from %#x on", len(s.device), s.base()))
		case imported:
			all = append(all, fmt.Sprintf("memory of another process at %#x", s.base()))
		}
	}
	for _, p := range a.pools {
		if p.dev == a.dev && p != a.pool && !p.destroyed {
			all = append(all, "a memory pool")
		}
	}
	for _, p := range a.physical {
		if p.dev == a.dev {
			all = append(all, fmt.Sprintf("%d bytes of MemCreate", p.file.size))
		}
	}
	return all
}

func (s *segment) name(b *block) string {
	return fmt.Sprintf("%d bytes at %#x", b.size, s.address(b))
}
