//go:build linux || darwin

package cdevice

import (
	"sync"

	"github.com/ebitengine/purego"
)

// callbacks are the functions of the structs that are handed out. C calls them,
// on any thread.
type callbacks struct {
	releaseSchema, releaseArray              uintptr
	getSchema, getNext, getLastError, finish uintptr
}

var (
	registered sync.Once
	registry   callbacks
)

// functions are the callbacks, of which a process can have only so many.
func functions() callbacks {
	registered.Do(func() { registry = register() })
	return registry
}

func register() callbacks {
	return callbacks{
		releaseSchema: purego.NewCallback(func(self uintptr) uintptr {
			endSchema((*Schema)(pointer(self)))
			return 0
		}),
		releaseArray: purego.NewCallback(func(self uintptr) uintptr {
			endArray((*cArray)(pointer(self)))
			return 0
		}),
		getSchema: purego.NewCallback(func(self, out uintptr) uintptr {
			return uintptr(sourceOf(self).getSchema((*Schema)(pointer(out))))
		}),
		getNext: purego.NewCallback(func(self, out uintptr) uintptr {
			return uintptr(sourceOf(self).getNext((*DeviceArray)(pointer(out))))
		}),
		getLastError: purego.NewCallback(func(self uintptr) uintptr { return sourceOf(self).lastError() }),
		finish: purego.NewCallback(func(self uintptr) uintptr {
			endStream((*DeviceStream)(pointer(self)))
			return 0
		}),
	}
}

// supported is nil where C code can be called.
func supported() error { return nil }

// call calls a function of C.
//
//go:uintptrescapes
func call(function uintptr, args ...uintptr) uintptr {
	result, _, _ := purego.SyscallN(function, args...)
	return result
}
