//go:build linux && !gorgonia

package libcuda

import (
	"sync"

	"github.com/ebitengine/purego"
)

// load opens a library.
func openLibrary(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// lookup finds a function in a library, 0 where there is none.
func lookupSymbol(library uintptr, name string) uintptr {
	entry, err := purego.Dlsym(library, name)
	if err != nil {
		return 0
	}
	return entry
}

// hostFuncEntry is runHostFunc as C calls it.
var hostFuncEntry = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(number uintptr) uintptr { runHostFunc(number); return 0 })
})
