//go:build !linux

package arrowbuf

// useLargePages cannot ask this system.
func useLargePages([]byte) {}
