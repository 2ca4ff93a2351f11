//go:build gorgonia

package cudabuf

import (
	"unsafe"

	"gorgonia.org/cu"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/quiver-gpu/quiver/cudabuf/internal/gorgonia"
)

// Gorgonia reports whether this build has the tag gorgonia and calls the driver
// through gorgonia.org/cu.
const Gorgonia = true

// openDriver opens the driver implementation of this build.
var openDriver = gorgonia.Open

// WrapCU returns a device that uses a context of gorgonia.org/cu; see WrapContext.
// It exists only with the build tag gorgonia.
func (d *Driver) WrapCU(c cu.CUContext) (*Device, error) {
	return d.WrapContext(*(*uintptr)(unsafe.Pointer(&c)))
}

// CU returns the device's context as a type of gorgonia.org/cu.
func (d *Device) CU() cu.CUContext { return *(*cu.CUContext)(unsafe.Pointer(&d.context)) }

// WrapCUStream returns a Stream of a gorgonia.org/cu stream; see WrapStream.
func (d *Device) WrapCUStream(s cu.Stream) (*Stream, error) {
	return d.WrapStream(*(*uintptr)(unsafe.Pointer(&s)))
}

// CU returns the stream as a type of gorgonia.org/cu. It is valid until Close.
func (s *Stream) CU() cu.Stream { return *(*cu.Stream)(unsafe.Pointer(&s.handle)) }

// WrapExternalCU returns a buffer over memory of gorgonia.org/cu; see WrapExternal.
func (d *Device) WrapExternalCU(p cu.DevicePtr, n int64, release func()) (*Buffer, error) {
	return d.WrapExternal(p.Uintptr(), n, release)
}

// CU returns the address as a type of gorgonia.org/cu. It is valid until the last
// Release.
func (b *Buffer) CU() cu.DevicePtr { return cu.DevicePtr(b.Address()) }

// A handle of cu is one pointer, like the driver's. If the sizes differ, the index
// is out of range and this does not compile.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(driver.Context(0))-unsafe.Sizeof(cu.CUContext{})]
	_ = [1]struct{}{}[unsafe.Sizeof(driver.Stream(0))-unsafe.Sizeof(cu.Stream{})]
)
