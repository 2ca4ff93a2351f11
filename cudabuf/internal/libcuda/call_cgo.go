//go:build linux && gorgonia

package libcuda

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef uintptr_t word;

// call passes the maximum number of arguments. In the calling conventions of
// Linux, a function ignores arguments that it has no parameters for.
static int call(word function, word *args, int n) {
	word a[14] = {0};
	for (int i = 0; i < n; i++)
		a[i] = args[i];
	return ((int (*)(word, word, word, word, word, word, word, word, word, word, word, word, word, word))function)(
		a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13]);
}

static word open_library(char *path) { return (word)dlopen(path, RTLD_NOW | RTLD_LOCAL); }
static word find_function(word library, char *name) { return (word)dlsym((void *)library, name); }

extern void quiverRunHostFunc(word number);
static word run_host_func(void) { return (word)quiverRunHostFunc; }
*/
import "C"

import (
	"errors"
	"unsafe"
)

// openLibrary opens a library and returns its handle.
func openLibrary(path string) (uintptr, error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	library := C.open_library(text)
	if library == 0 {
		return 0, errors.New(C.GoString(C.dlerror()))
	}
	return uintptr(library), nil
}

// lookupSymbol returns the address of a function in a library, or 0.
func lookupSymbol(library uintptr, name string) uintptr {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return uintptr(C.find_function(C.word(library), text))
}

// invokeBuffer calls a C function with arguments on the heap.
func invokeBuffer(function uintptr, args []uintptr) int32 {
	var first *C.word
	if len(args) > 0 {
		first = (*C.word)(unsafe.Pointer(&args[0]))
	}
	return int32(C.call(C.word(function), first, C.int(len(args))))
}

// hostFuncEntry returns the C address of runHostFunc.
func hostFuncEntry() uintptr { return uintptr(C.run_host_func()) }
