//go:build unix

package arrowbuf

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// checkRoom asks what there is at most, and the kernel whether it would map n bytes now.
func checkRoom(n int64) error {
	const large = 1 << 30
	if n < large {
		return nil
	}
	if most := mostMemory(); n > most {
		return fmt.Errorf("there are %d bytes", most)
	}
	m, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	return unix.Munmap(m)
}
