package cudalib

import (
	"fmt"
	"runtime"

	"github.com/ebitengine/purego"
)

// Symbols opens the library of a path, and sets the address of each function that has a
// name. missing is the reason why it cannot be opened. err names a function that the opened
// library lacks; wanted says what it should be, such as "not NCCL, or older than 2.23".
func Symbols(path string, names []string, addresses []uintptr, wanted string) (missing, err error) {
	runtime.LockOSThread() // the loader keeps its message, dlerror, per thread
	defer runtime.UnlockOSThread()
	handle, missing := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if missing != nil {
		return missing, nil
	}
	for i, name := range names {
		if addresses[i], err = purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("%s lacks %s: %s", path, name, wanted)
		}
	}
	return nil, nil
}
