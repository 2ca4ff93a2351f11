//go:build !linux

package ipctest

// MountProc does nothing: other systems have no PID namespaces.
func MountProc() error { return nil }
