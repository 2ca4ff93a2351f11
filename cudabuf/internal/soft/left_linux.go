package soft

import (
	"fmt"
	"slices"
)

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
