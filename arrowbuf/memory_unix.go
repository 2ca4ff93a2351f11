//go:build unix && !linux

package arrowbuf

import "golang.org/x/sys/unix"

// probeMemory returns an error if the kernel refuses to map n bytes now. The total
// memory is not a limit here: these systems swap to files that grow.
func probeMemory(n int64) error {
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
