//go:build linux

package blas

import (
	"fmt"
	"runtime"

	"github.com/ebitengine/purego"
)

// openLibrary opens one library and finds a range of functions. missing is the reason why it cannot be opened; err
// reports that the opened library is not usable.
func openLibrary(path string, first, last function) (l *library, missing, err error) {
	runtime.LockOSThread() // the loader keeps its message, dlerror, per thread
	defer runtime.UnlockOSThread()
	handle, missing := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if missing != nil {
		return nil, missing, nil
	}
	l = &library{}
	for f := first; f <= last; f++ {
		if l.entries[f], err = purego.Dlsym(handle, functions[f]); err != nil {
			return nil, nil, fmt.Errorf("%s lacks %s: not cuBLAS, or older than version 12", path, functions[f])
		}
	}
	return l, nil, nil
}

// call calls one function. The directive keeps the memory that pointers in args refer to
// alive and in place until the call returns. The pointers must be converted to uintptr in
// the call expression itself.
//
//go:uintptrescapes
func (l *library) call(f function, args ...uintptr) error {
	// A cublasStatus_t is 32 bits; the upper half of the register is undefined.
	r, _, _ := purego.SyscallN(l.entries[f], args...)
	if code := int32(r); code != 0 {
		return &Error{Call: functions[f], Code: code}
	}
	return nil
}
