//go:build !linux && !darwin

package syslib

// Open returns false: libraries are opened on Linux and macOS only.
func Open(_, _ string, _ map[string]*uintptr) bool { return false }

// Call panics, since no library is open.
func Call(_ uintptr, _ ...uintptr) uintptr { panic("syslib.Call: no library is open") }

// CallFor panics, since no library is open.
func CallFor(_ int, _ uintptr, _ ...uintptr) uintptr { panic("syslib.CallFor: no library is open") }
