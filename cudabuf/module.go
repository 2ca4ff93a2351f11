package cudabuf

import (
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Dim3 is the size of a grid in blocks, or of a block in threads. Zero in Y or
// Z counts as 1.
type Dim3 = driver.Dim3

// Twin does the work of a kernel in Go where there is no GPU: one call does
// what the whole grid does. A GPU never runs it.
type Twin = driver.Twin

// TwinLaunch is what a Twin gets: the sizes of the launch, its arguments by
// number and type (Int32(1), Pointer(0), ...), and device memory as bytes
// (Memory). Reading what was not passed, or memory that is not the device's,
// fails the launch as it would on a GPU.
type TwinLaunch = driver.TwinLaunch

// Elements returns n values at a device address, for a Twin to read and write.
func Elements[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64](l *TwinLaunch, address uintptr, n int64) []T {
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
func (d *Device) LoadModule(image []byte, twins map[string]Twin) (*Module, error) {
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

// Kernel is a function that runs on the device. It may be launched from any
// goroutine.
type Kernel struct {
	dev    *Device
	name   string
	handle driver.Function
}

// Launch runs the kernel and returns when it is done (cuLaunchKernel).
// sharedBytes is dynamic shared memory a block.
//
// Each argument has the Go type of the kernel's parameter: int32, uint32,
// int64, uint64, float32, float64, or for a pointer a uintptr or a *Buffer of
// this device, which is held until the kernel is done. CUDA checks neither
// number nor types; the soft device checks them where the twin reads them.
func (k *Kernel) Launch(grid, block Dim3, sharedBytes uint32, args ...any) error {
	values := make([]driver.Arg, len(args))
	for i, arg := range args {
		if b, ok := arg.(*Buffer); ok {
			if err := b.hold(); err != nil {
				return fmt.Errorf("kernel %s, argument %d: %w", k.name, i, err)
			}
			defer b.Release()
		}
		var err error
		if values[i], err = k.argument(arg); err != nil {
			return fmt.Errorf("kernel %s, argument %d: %w", k.name, i, err)
		}
	}
	err := k.dev.onStream(func(s driver.Stream) error {
		return k.dev.api.LaunchKernel(k.handle, flat(grid), flat(block), sharedBytes, s, values)
	})
	if err != nil {
		return fmt.Errorf("kernel %s: %w", k.name, err)
	}
	return nil
}

func (k *Kernel) argument(arg any) (driver.Arg, error) {
	switch v := arg.(type) {
	case int32:
		return driver.Arg{Kind: driver.Int32, Bits: uint64(uint32(v))}, nil
	case uint32:
		return driver.Arg{Kind: driver.Uint32, Bits: uint64(v)}, nil
	case float32:
		return driver.Arg{Kind: driver.Float32, Bits: uint64(math.Float32bits(v))}, nil
	case int64:
		return driver.Arg{Kind: driver.Int64, Bits: uint64(v)}, nil
	case uint64:
		return driver.Arg{Kind: driver.Uint64, Bits: v}, nil
	case float64:
		return driver.Arg{Kind: driver.Float64, Bits: math.Float64bits(v)}, nil
	case uintptr:
		return driver.Arg{Kind: driver.Pointer, Bits: uint64(v)}, nil
	case arrowbuf.Buffer:
		if v.Device() != arrowbuf.Device(k.dev) {
			return driver.Arg{}, fmt.Errorf("a buffer on %v for a kernel on %v: %w", v.Device(), k.dev, arrowbuf.ErrDevice)
		}
		return driver.Arg{Kind: driver.Pointer, Bits: uint64(v.Address())}, nil
	}
	return driver.Arg{}, fmt.Errorf("%T is no kernel argument: pass int32, uint32, int64, uint64, float32, float64, uintptr or a Buffer", arg)
}

func flat(d Dim3) Dim3 { return Dim3{X: d.X, Y: max(d.Y, 1), Z: max(d.Z, 1)} }
