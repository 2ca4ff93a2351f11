//go:build linux && gorgonia

package libcuda

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef uintptr_t word;

// A function gets as many words as the longest call has; in the calling
// conventions of Linux it does not see those that it has no parameters for.
static int call(word function, word *given, int n) {
	word a[14] = {0};
	for (int i = 0; i < n; i++)
		a[i] = given[i];
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

// load opens a library.
func openLibrary(path string) (uintptr, error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	library := C.open_library(text)
	if library == 0 {
		return 0, errors.New(C.GoString(C.dlerror()))
	}
	return uintptr(library), nil
}

// lookup finds a function in a library, 0 where there is none.
func lookupSymbol(library uintptr, name string) uintptr {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return uintptr(C.find_function(C.word(library), text))
}

func invokeBuffer(function uintptr, words []uintptr) int32 {
	var first *C.word
	if len(words) > 0 {
		first = (*C.word)(unsafe.Pointer(&words[0]))
	}
	return int32(C.call(C.word(function), first, C.int(len(words))))
}

// hostFuncEntry is runHostFunc as C calls it.
func hostFuncEntry() uintptr { return uintptr(C.run_host_func()) }
