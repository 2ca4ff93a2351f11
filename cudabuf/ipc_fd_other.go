//go:build !unix

package cudabuf

// closeOnExec does nothing: drivers return no file descriptors on this system.
func closeOnExec(int) {}
