//go:build gorgonia

package cudabuf

import (
	"unsafe"

	"gorgonia.org/cu"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/quiver-gpu/quiver/cudabuf/internal/gorgonia"
)

// Gorgonia tells whether this is a build with the tag gorgonia, which calls the
// driver by way of gorgonia.org/cu.
const Gorgonia = true

// openDriver opens the driver that this build calls.
var openDriver = gorgonia.Open

// WrapCU returns a device that works in a context of gorgonia.org/cu, see
// WrapContext. It exists in builds with the tag gorgonia.
func (d *Driver) WrapCU(c cu.CUContext) (*Device, error) {
	return d.WrapContext(*(*uintptr)(unsafe.Pointer(&c)))
}

// CU is the device's context as gorgonia.org/cu has it.
func (d *Device) CU() cu.CUContext { return *(*cu.CUContext)(unsafe.Pointer(&d.context)) }

// WrapCUStream makes a Stream of one of gorgonia.org/cu, see WrapStream.
func (d *Device) WrapCUStream(s cu.Stream) (*Stream, error) {
	return d.WrapStream(*(*uintptr)(unsafe.Pointer(&s)))
}

// CU is the stream as gorgonia.org/cu has it. It is good until Close.
func (s *Stream) CU() cu.Stream { return *(*cu.Stream)(unsafe.Pointer(&s.handle)) }

// WrapExternalCU returns a buffer over memory of gorgonia.org/cu, see Foreign.
func (d *Device) WrapExternalCU(p cu.DevicePtr, n int64, release func()) (*Buffer, error) {
	return d.WrapExternal(p.Uintptr(), n, release)
}

// CU is the address as gorgonia.org/cu has it. It is good while the buffer is
// held.
func (b *Buffer) CU() cu.DevicePtr { return cu.DevicePtr(b.Address()) }

// A handle of cu is one pointer, as the driver's are. Of another size, it would
// be an index here that does not compile.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(driver.Context(0))-unsafe.Sizeof(cu.CUContext{})]
	_ = [1]struct{}{}[unsafe.Sizeof(driver.Stream(0))-unsafe.Sizeof(cu.Stream{})]
)
