//go:build linux || darwin

package syslib

import (
	"os"
	"runtime"

	"github.com/ebitengine/purego"
)

// Open opens a library by its names on Linux and macOS, and sets the addresses of its
// functions. It reports whether the system has the library with all of them.
func Open(linux, darwin string, functions map[string]*uintptr) bool {
	if os.Getenv(Disabled) != "" {
		return false
	}
	name := linux
	if runtime.GOOS == "darwin" {
		name = darwin
	}
	handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return false
	}
	for symbol, address := range functions {
		if *address, err = purego.Dlsym(handle, symbol); err != nil {
			return false
		}
	}
	return true
}

// Call calls a function of an open library and returns its result, of which a C int is
// the lower half. Memory whose address is converted to an argument in the call itself
// stays in place until Call returns.
//
//go:uintptrescapes
func Call(function uintptr, args ...uintptr) uintptr {
	result, _, _ := purego.SyscallN(function, args...)
	return result
}
