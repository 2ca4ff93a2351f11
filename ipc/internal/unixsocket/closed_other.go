//go:build !unix

package unixsocket

import "syscall"

// Closed returns false, since this system cannot tell.
func Closed(syscall.Conn) bool { return false }
