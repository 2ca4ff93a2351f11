//go:build linux || darwin

package dlpack

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// given are the tensors that C code has, by the address that it has them at.
var given sync.Map // uintptr -> *export

// export is what a tensor keeps until its deleter is called.
type export struct {
	versioned      Versioned
	legacy         Legacy
	shape, strides []int64
	pinned         runtime.Pinner
	release        func()
}

// entry is the deleter of every tensor, as C calls it.
var entry = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(self uintptr) uintptr {
		if e, ok := given.LoadAndDelete(self); ok {
			e.(*export).end()
		}
		return 0
	})
})

func (e *export) end() {
	e.pinned.Unpin()
	e.release()
}

// Give makes a Versioned tensor, whose deleter calls release, once. Host memory
// that is Go's is passed as keep, which stays where it is until then.
func Give(t Tensor, shape, strides []int64, flags uint64, keep *byte, release func()) unsafe.Pointer {
	e := newExport(shape, strides, keep, release)
	e.versioned = Versioned{Major: Major, Minor: Minor, Deleter: entry(), Flags: flags, Tensor: e.complete(t)}
	return e.give(unsafe.Pointer(&e.versioned), &e.versioned.Context)
}

// GiveLegacy is Give for a Legacy tensor, which has no flags.
func GiveLegacy(t Tensor, shape, strides []int64, keep *byte, release func()) unsafe.Pointer {
	e := newExport(shape, strides, keep, release)
	e.legacy = Legacy{Deleter: entry(), Tensor: e.complete(t)}
	return e.give(unsafe.Pointer(&e.legacy), &e.legacy.Context)
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

// complete lets a tensor point to its shape and strides.
func (e *export) complete(t Tensor) Tensor {
	t.NDim = int32(len(e.shape))
	if t.NDim > 0 {
		t.Shape, t.Strides = uintptr(unsafe.Pointer(&e.shape[0])), uintptr(unsafe.Pointer(&e.strides[0]))
	}
	return t
}

func (e *export) give(self unsafe.Pointer, context *uintptr) unsafe.Pointer {
	*context = uintptr(self)
	given.Store(uintptr(self), e)
	return self
}

// Delete gives the tensor back. It may be called once.
func (t *Taken) Delete() {
	if t.deleter != 0 {
		purego.SyscallN(t.deleter, uintptr(t.self))
	}
}

// Supported is nil where C code can be called.
func Supported() error { return nil }
