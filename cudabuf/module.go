package cudabuf

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Dim3 is the size of a grid in blocks, or of a block in threads. Zero in Y or
// Z counts as 1.
type Dim3 = driver.Dim3

// HostKernel does the work of a kernel in Go where there is no GPU: one call does
// what the whole grid does. A GPU never runs it.
type HostKernel = driver.HostKernel

// HostLaunch is what a Twin gets: the sizes of the launch, its arguments by
// number and type (Int32(1), Pointer(0), ...), and device memory as bytes
// (Memory). Reading what was not passed, or memory that is not the device's,
// fails the launch as it would on a GPU.
type HostLaunch = driver.HostLaunch

// Elements returns n values at a device address, for a Twin to read and write.
func Elements[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64](l *HostLaunch, address uintptr, n int64) []T {
	return driver.Elements[T](l, address, n)
}

// Module is a loaded image of kernels.
type Module struct {
	dev    *Device
	handle driver.Module
}

// LoadModule loads an image of kernels: PTX text, a cubin or a fat binary
// (cuModuleLoadData). The twins, by kernel name, are for the soft device of
// package cudatest, which cannot run an image; a GPU ignores them.
func (d *Device) LoadModule(image []byte, twins map[string]HostKernel) (*Module, error) {
	if len(image) == 0 {
		return nil, &Error{Call: "cuModuleLoadData", Code: driver.InvalidImage, Detail: "it is empty"}
	}
	m := &Module{dev: d}
	err := d.do(func() (err error) { m.handle, err = d.api.ModuleLoadData(image, twins); return err })
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Close unloads the module. Its kernels must not be launched afterwards.
func (m *Module) Close() error {
	return m.dev.do(func() error { return m.dev.api.ModuleUnload(m.handle) })
}

// Kernel finds a kernel by the name that the image exports
// (cuModuleGetFunction). The result is good until the module is closed; keep it
// rather than looking it up again.
func (m *Module) Kernel(name string) (*Kernel, error) {
	k := &Kernel{dev: m.dev, name: name}
	err := m.dev.do(func() (err error) { k.handle, err = m.dev.api.ModuleGetFunction(m.handle, name); return err })
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	return k, nil
}
