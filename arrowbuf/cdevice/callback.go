//go:build linux || darwin

package cdevice

import (
	"sync"

	"github.com/ebitengine/purego"
)

// callbacks are addresses of C functions for the exported structs. C may call them
// on any thread.
type callbacks struct {
	releaseSchema, releaseArray                          uintptr
	getSchema, getNext, getLastError, finish             uintptr
	getCPUSchema, getCPUNext, getCPULastError, finishCPU uintptr
}

var (
	registered sync.Once
	registry   callbacks
)

// functions returns the callbacks. They are registered once, because a process can
// have only a limited number.
func functions() callbacks {
	registered.Do(func() { registry = register() })
	return registry
}

func register() callbacks {
	return callbacks{
		releaseSchema: purego.NewCallback(func(self uintptr) uintptr {
			releaseSchema((*Schema)(pointer(self)))
			return 0
		}),
		releaseArray: purego.NewCallback(func(self uintptr) uintptr {
			releaseArray((*Array)(pointer(self)))
			return 0
		}),
		getSchema: purego.NewCallback(func(self, out uintptr) uintptr {
			return uintptr(streamOfHandle(deviceStream(self).private).getSchema((*Schema)(pointer(out))))
		}),
		getNext: purego.NewCallback(func(self, out uintptr) uintptr {
			return uintptr(streamOfHandle(deviceStream(self).private).getNext((*DeviceArray)(pointer(out))))
		}),
		getLastError: purego.NewCallback(func(self uintptr) uintptr {
			return streamOfHandle(deviceStream(self).private).lastError()
		}),
		finish: purego.NewCallback(func(self uintptr) uintptr {
			s := deviceStream(self)
			releaseStream(s.private, &s.release)
			return 0
		}),
		getCPUSchema: purego.NewCallback(func(self, out uintptr) uintptr {
			return uintptr(streamOfHandle(cpuStream(self).private).getSchema((*Schema)(pointer(out))))
		}),
		getCPUNext: purego.NewCallback(func(self, out uintptr) uintptr {
			return uintptr(streamOfHandle(cpuStream(self).private).getCPUNext((*Array)(pointer(out))))
		}),
		getCPULastError: purego.NewCallback(func(self uintptr) uintptr {
			return streamOfHandle(cpuStream(self).private).lastError()
		}),
		finishCPU: purego.NewCallback(func(self uintptr) uintptr {
			s := cpuStream(self)
			releaseStream(s.private, &s.release)
			return 0
		}),
	}
}

func deviceStream(self uintptr) *DeviceStream { return (*DeviceStream)(pointer(self)) }
func cpuStream(self uintptr) *Stream          { return (*Stream)(pointer(self)) }

// checkSupported returns nil: C functions can be called.
func checkSupported() error { return nil }

// call calls a C function.
//
//go:uintptrescapes
func call(function uintptr, args ...uintptr) uintptr {
	result, _, _ := purego.SyscallN(function, args...)
	return result
}
