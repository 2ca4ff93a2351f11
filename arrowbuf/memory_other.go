//go:build !unix

package arrowbuf

// checkRoom cannot ask this system.
func checkRoom(int64) error { return nil }

// useLargePages cannot ask this system.
func useLargePages([]byte) {}
