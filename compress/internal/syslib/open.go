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

// mostWork is the work of the largest brief call, which takes some milliseconds.
const mostWork = 5 << 19

// CallFor is [Call] for functions whose time is known, and which neither wait nor call back.
// work is the number of bytes that libzstd would compress at level 1 in that time, about 300
// in a microsecond.
//
// From a Call that lasts longer than 20 us the scheduler takes the processor, and it wakes
// threads to use it. A brief call with at most six arguments is made without the scheduler, as
// if it was Go code that cannot be interrupted, on Linux and amd64. docs/performance.md says what
// that gains. Its price: where all goroutines must stop, such as for a garbage collection, they
// stand still until the function returns, also if it waits for pages of a mapped file. A CPU
// profile has the function without its callers.
//
//go:uintptrescapes
func CallFor(work int, function uintptr, args ...uintptr) uintptr {
	if work <= mostWork {
		if result, ok := callBriefly(function, args); ok {
			return result
		}
	}
	return Call(function, args...)
}
