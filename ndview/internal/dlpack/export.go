//go:build linux || darwin

package dlpack

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// exports are the tensors that C code holds, by address.
var exports sync.Map // uintptr -> *export

// export is the memory of a tensor until its deleter is called.
type export struct {
	versioned      Versioned
	legacy         Legacy
	shape, strides []int64
	pinned         runtime.Pinner
	release        func()
}

// deleter returns the C address of the deleter of all exported tensors.
var deleter = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(self uintptr) uintptr {
		if e, ok := exports.LoadAndDelete(self); ok {
			e.(*export).free()
		}
		return 0
	})
})

func (e *export) free() {
	e.pinned.Unpin()
	e.release()
}

// Export exports a Versioned tensor, whose deleter calls release once. keep is pinned
// until then; it is a byte of the Go memory that the tensor refers to, or nil.
func Export(t Tensor, shape, strides []int64, flags uint64, keep *byte, release func()) unsafe.Pointer {
	e := newExport(shape, strides, keep, release)
	e.versioned = Versioned{Major: Major, Minor: Minor, Deleter: deleter(), Flags: flags, Tensor: e.complete(t)}
	return e.register(unsafe.Pointer(&e.versioned), &e.versioned.Context)
}

// ExportLegacy is Export for a Legacy tensor, which has no flags.
func ExportLegacy(t Tensor, shape, strides []int64, keep *byte, release func()) unsafe.Pointer {
	e := newExport(shape, strides, keep, release)
	e.legacy = Legacy{Deleter: deleter(), Tensor: e.complete(t)}
	return e.register(unsafe.Pointer(&e.legacy), &e.legacy.Context)
}

func newExport(shape, strides []int64, keep *byte, release func()) *export {
	e := &export{shape: shape, strides: strides, release: release}
	e.pinned.Pin(e)
	if len(shape) > 0 {
		e.pinned.Pin(&shape[0])
		e.pinned.Pin(&strides[0])
	}
	if keep != nil {
		e.pinned.Pin(keep)
	}
	return e
}

// complete sets the shape and strides of a tensor.
func (e *export) complete(t Tensor) Tensor {
	t.NDim = int32(len(e.shape))
	if t.NDim > 0 {
		t.Shape, t.Strides = uintptr(unsafe.Pointer(&e.shape[0])), uintptr(unsafe.Pointer(&e.strides[0]))
	}
	return t
}

func (e *export) register(self unsafe.Pointer, context *uintptr) unsafe.Pointer {
	*context = uintptr(self)
	exports.Store(uintptr(self), e)
	return self
}

// Delete calls the tensor's deleter. It must be called at most once.
func (t *Imported) Delete() {
	if t.deleter != 0 {
		purego.SyscallN(t.deleter, uintptr(t.self))
	}
}

// Supported returns nil if C functions can be called on this platform.
func Supported() error { return nil }
