//go:build !unix

package cudabuf

// closeOnExec has nothing to do where drivers answer no file descriptors.
func closeOnExec(int) {}
