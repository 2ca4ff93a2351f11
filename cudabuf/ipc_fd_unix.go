//go:build unix

package cudabuf

import "syscall"

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }
