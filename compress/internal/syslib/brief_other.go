//go:build darwin || (linux && !amd64)

package syslib

// callBriefly returns false: it is built for Linux on amd64 only.
func callBriefly(uintptr, []uintptr) (uintptr, bool) { return 0, false }
