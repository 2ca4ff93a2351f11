package cdevice

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Schema is struct ArrowSchema: a type, or the fields of a batch.
type Schema struct {
	format, name, metadata uintptr
	flags                  int64
	nChildren              int64
	children, dictionary   uintptr
	release, private       uintptr
}

// The flags of a Schema.
const (
	flagOrdered  = 1 // of a dictionary
	flagNullable = 2
	flagSorted   = 4 // of a map's keys
)

// DeviceArray is struct ArrowDeviceArray: an array, or the rows of a batch, and
// the device that its buffers are on.
type DeviceArray struct {
	array      Array
	deviceID   int64
	deviceType int32
	event      uintptr // of a CUevent
	reserved   [3]int64
}

// Array is struct ArrowArray: an array, or the rows of a batch, on the CPU, or part
// of a DeviceArray. Addresses are numbers: buffers may be a device's.
type Array struct {
	length, nulls, offset         int64
	nBuffers, nChildren           int64
	buffers, children, dictionary uintptr
	release, private              uintptr
}

// DeviceStream is struct ArrowDeviceArrayStream: batches of one schema that come
// one after another.
type DeviceStream struct {
	deviceType                       int32
	getSchema, getNext, getLastError uintptr
	release, private                 uintptr
}

// Stream is struct ArrowArrayStream: batches of one schema, on the CPU, that come
// one after another.
type Stream struct {
	getSchema, getNext, getLastError uintptr
	release, private                 uintptr
}

// Released tells whether there is nothing in the struct: it was released, or
// moved elsewhere.
func (s *Schema) Released() bool { return s.release == 0 }

// Released tells whether there is nothing in the struct: it was released, or
// moved elsewhere, or it ends a stream.
func (a *Array) Released() bool { return a.release == 0 }

// Released tells whether there is nothing in the struct: it was released, or
// moved elsewhere, or it ends a stream.
func (a *DeviceArray) Released() bool { return a.array.release == 0 }

// Released tells whether there is nothing in the struct: it was released, or
// moved elsewhere.
func (s *Stream) Released() bool { return s.release == 0 }

// Released tells whether there is nothing in the struct: it was released, or
// moved elsewhere.
func (s *DeviceStream) Released() bool { return s.release == 0 }

// Release gives the struct back to its producer, as a consumer does. It does
// nothing to one that is released.
func (s *Schema) Release() { callRelease(s.release, unsafe.Pointer(s)) }

// Release gives the struct back to its producer, as a consumer does. It does
// nothing to one that is released.
func (a *Array) Release() { callRelease(a.release, unsafe.Pointer(a)) }

// Release gives the struct back to its producer, as a consumer does. It does
// nothing to one that is released.
func (a *DeviceArray) Release() { callRelease(a.array.release, unsafe.Pointer(a)) }

// Release gives the struct back to its producer, as a consumer does. It does
// nothing to one that is released.
func (s *Stream) Release() { callRelease(s.release, unsafe.Pointer(s)) }

// Release gives the struct back to its producer, as a consumer does. It does
// nothing to one that is released.
func (s *DeviceStream) Release() { callRelease(s.release, unsafe.Pointer(s)) }

// callRelease calls the release of a struct.
func callRelease(release uintptr, self unsafe.Pointer) {
	if release != 0 {
		call(release, uintptr(self))
	}
	runtime.KeepAlive(self)
}

// Device is where the array's buffers are: the type and the number of the
// device, -1 where the producer names none.
func (a *DeviceArray) Device() (arrowbuf.DeviceType, int64) {
	return arrowbuf.DeviceType(a.deviceType), a.deviceID
}

// DeviceType is the kind of device that all arrays of the stream are on.
func (s *DeviceStream) DeviceType() arrowbuf.DeviceType { return arrowbuf.DeviceType(s.deviceType) }

// move takes what is in a struct, so that its owner sees it released.
func move[T Schema | Array | DeviceArray | Stream | DeviceStream](from *T) *T {
	moved := *from
	switch s := any(from).(type) {
	case *Schema:
		s.release = 0
	case *Array:
		s.release = 0
	case *Stream:
		s.release = 0
	case *DeviceArray:
		s.array.release = 0
	case *DeviceStream:
		s.release = 0
	}
	return &moved
}

// pointer is an address of memory that is not Go's, or that is pinned. The
// indirection says to vet that it is meant.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// readPointers copies an array of n pointers.
func readPointers(address uintptr, n int64) []uintptr {
	if n == 0 {
		return nil
	}
	return append([]uintptr{}, unsafe.Slice((*uintptr)(pointer(address)), n)...)
}

// cString copies a string that ends with a zero; there may be none.
func cString(address uintptr) string {
	if address == 0 {
		return ""
	}
	start := (*byte)(pointer(address))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(start), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(start, n))
}

// addressOf is the address of memory that stays where it is while it is used: of
// C's, or what is pinned.
func addressOf[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// pinSlice pins a slice for C, which gets its address, 0 if there is nothing in it.
func pinSlice[T any](pinned *runtime.Pinner, s []T) uintptr {
	if len(s) == 0 {
		return 0
	}
	pinned.Pin(unsafe.SliceData(s))
	return addressOf(unsafe.SliceData(s))
}

// exported is what C has: by the number in the private_data of a struct, since the
// consumer may move the struct itself.
var (
	handles    sync.Map // uintptr -> *schemaNode, *arrayNode or *source
	lastHandle atomic.Uintptr
)

func newHandle(what any) (private uintptr) {
	private = lastHandle.Add(1)
	handles.Store(private, what)
	return private
}

// removeHandle ends what was given, once.
func removeHandle[T any](private uintptr) (what T, ok bool) {
	found, ok := handles.LoadAndDelete(private)
	if !ok {
		return what, false
	}
	what, ok = found.(T)
	return what, ok
}
