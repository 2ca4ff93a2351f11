//go:build !linux

package hostmem

// useLargePages does nothing: this system has no such request.
func useLargePages([]byte) {}
