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
	flagSorted   = 4 // of the keys of a map
)

// DeviceArray is struct ArrowDeviceArray: an array, or the rows of a batch, and the
// device of its buffers.
type DeviceArray struct {
	array      Array
	deviceID   int64
	deviceType int32
	event      uintptr // address of a CUevent
	reserved   [3]int64
}

// Array is struct ArrowArray: an array, or the rows of a batch, on the CPU or within
// a DeviceArray. Addresses are integers, because buffers may be on a device.
type Array struct {
	length, nulls, offset         int64
	nBuffers, nChildren           int64
	buffers, children, dictionary uintptr
	release, private              uintptr
}

// DeviceStream is struct ArrowDeviceArrayStream: a sequence of batches of one
// schema.
type DeviceStream struct {
	deviceType                       int32
	getSchema, getNext, getLastError uintptr
	release, private                 uintptr
}

// Stream is struct ArrowArrayStream: a sequence of batches of one schema, on the
// CPU.
type Stream struct {
	getSchema, getNext, getLastError uintptr
	release, private                 uintptr
}

// Released reports whether the struct is nil or empty: released, or moved elsewhere.
func (s *Schema) Released() bool { return s == nil || s.release == 0 }

// Released reports whether the struct is nil or empty: released, moved elsewhere, or the
// end of a stream.
func (a *Array) Released() bool { return a == nil || a.release == 0 }

// Released reports whether the struct is nil or empty: released, moved elsewhere, or the
// end of a stream.
func (a *DeviceArray) Released() bool { return a == nil || a.array.release == 0 }

// Released reports whether the struct is nil or empty: released, or moved elsewhere.
func (s *Stream) Released() bool { return s == nil || s.release == 0 }

// Released reports whether the struct is nil or empty: released, or moved elsewhere.
func (s *DeviceStream) Released() bool { return s == nil || s.release == 0 }

// Release calls the producer's release. It does nothing if the struct is nil or released.
func (s *Schema) Release() {
	if !s.Released() {
		callRelease(s.release, unsafe.Pointer(s))
	}
}

// Release calls the producer's release. It does nothing if the struct is nil or released.
func (a *Array) Release() {
	if !a.Released() {
		callRelease(a.release, unsafe.Pointer(a))
	}
}

// Release calls the producer's release. It does nothing if the struct is nil or released.
func (a *DeviceArray) Release() {
	if !a.Released() {
		callRelease(a.array.release, unsafe.Pointer(a))
	}
}

// Release calls the producer's release. It does nothing if the struct is nil or released.
func (s *Stream) Release() {
	if !s.Released() {
		callRelease(s.release, unsafe.Pointer(s))
	}
}

// Release calls the producer's release. It does nothing if the struct is nil or released.
func (s *DeviceStream) Release() {
	if !s.Released() {
		callRelease(s.release, unsafe.Pointer(s))
	}
}

// callRelease calls the release function of the struct at self.
func callRelease(release uintptr, self unsafe.Pointer) {
	call(release, uintptr(self))
	runtime.KeepAlive(self)
}

// Device returns the device of the array's buffers: its type, and its id, which is
// -1 if the producer names none. The type is 0 if a is nil.
func (a *DeviceArray) Device() (arrowbuf.DeviceType, int64) {
	if a == nil {
		return 0, -1
	}
	return arrowbuf.DeviceType(a.deviceType), a.deviceID
}

// DeviceType returns the type of the device of all arrays of the stream, or 0 if s is
// nil.
func (s *DeviceStream) DeviceType() arrowbuf.DeviceType {
	if s == nil {
		return 0
	}
	return arrowbuf.DeviceType(s.deviceType)
}

// move moves the content of a struct to a new one. The owner of the old struct sees
// it released.
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

// pointer converts an address of memory that is not Go's, or is pinned. The
// indirection tells vet that the conversion is intended.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// readPointers copies an array of n pointers.
func readPointers(address uintptr, n int64) []uintptr {
	if n == 0 {
		return nil
	}
	return append([]uintptr{}, unsafe.Slice((*uintptr)(pointer(address)), n)...)
}

// cString copies a zero-terminated string, which may be NULL.
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

// addressOf returns the address of memory that does not move while it is used: C's,
// or pinned.
func addressOf[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// pinSlice pins a slice for C and returns its address, or 0 if it is empty.
func pinSlice[T any](pinned *runtime.Pinner, s []T) uintptr {
	if len(s) == 0 {
		return 0
	}
	pinned.Pin(unsafe.SliceData(s))
	return addressOf(unsafe.SliceData(s))
}

// handles are the exported objects by the integer in private_data of their struct.
// The consumer may move the struct, so its address cannot identify the object.
var (
	handles    sync.Map // uintptr -> *schemaNode, *arrayNode or *exportedStream
	lastHandle atomic.Uintptr
)

// newHandle registers an exported object.
func newHandle(what any) (private uintptr) {
	private = lastHandle.Add(1)
	handles.Store(private, what)
	return private
}

// removeHandle returns and unregisters an exported object. It returns false if the
// object was removed before.
func removeHandle[T any](private uintptr) (what T, ok bool) {
	found, ok := handles.LoadAndDelete(private)
	if !ok {
		return what, false
	}
	what, ok = found.(T)
	return what, ok
}
