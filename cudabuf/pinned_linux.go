package cudabuf

import (
	"golang.org/x/sys/unix"
)

// hostPages is memory of the process at a multiple of hugePage.
type hostPages struct {
	mapped []byte // by the system
	bytes  []byte // the part that is used
}

// newHostPages maps n bytes, in huge pages where the system has them.
func newHostPages(n int64) (hostPages, error) {
	mapped, err := unix.Mmap(-1, 0, int(n)+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return hostPages{}, err
	}
	skip := -addressOf(mapped) & (hugePage - 1)
	p := hostPages{mapped: mapped, bytes: mapped[skip:][:n:n]}
	_ = unix.Madvise(p.bytes, unix.MADV_HUGEPAGE) // small pages are slower, but not wrong
	touch(p.bytes)
	return p, nil
}

func (p hostPages) unmap() error { return unix.Munmap(p.mapped) }
