//go:build linux && !gorgonia

package libcuda

import (
	"runtime"
	"sync"

	"github.com/ebitengine/purego"
)

// openLibrary opens a library and returns its handle.
func openLibrary(path string) (uintptr, error) {
	runtime.LockOSThread() // the loader keeps its message, dlerror, per thread
	defer runtime.UnlockOSThread()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// lookupSymbol returns the address of a function in a library, or 0.
func lookupSymbol(library uintptr, name string) uintptr {
	entry, err := purego.Dlsym(library, name)
	if err != nil {
		return 0
	}
	return entry
}

// hostFuncEntry returns the C address of runHostFunc.
var hostFuncEntry = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(number uintptr) uintptr { runHostFunc(number); return 0 })
})
