//go:build unix && !linux

package arrowbuf

import "golang.org/x/sys/unix"

// checkRoom asks the kernel whether it would map n bytes now. The size of the machine
// is not asked for: these systems swap to files that grow.
func checkRoom(n int64) error {
	const large = 1 << 30
	if n < large {
		return nil
	}
	m, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	return unix.Munmap(m)
}

// useLargePages cannot ask this system.
func useLargePages([]byte) {}
