package cudabuf

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

// HostKernel is the host implementation of a kernel. One call does the work of the whole
// grid. The simulated device of package cudatest runs it; a GPU never does.
type HostKernel func(*HostLaunch)

// RunsHostKernels reports whether kernels run as host kernels on the device, which is
// then a simulated device of package cudatest.
func (d *Device) RunsHostKernels() bool {
	simulated, ok := d.api.(interface{ RunsHostKernels() bool })
	return ok && simulated.RunsHostKernels()
}

// HostLaunch is what a HostKernel receives: the sizes of the launch, its arguments, and
// the memory of the device. Arguments are counted from 0. Reading an argument that is
// missing or of another type, or memory that the device cannot access, ends the host
// kernel, and the launch fails.
type HostLaunch struct {
	Grid, Block Dim3
	SharedBytes uint32 // dynamic shared memory per block

	launch *driver.HostLaunch
}

// Args returns the number of arguments.
func (l *HostLaunch) Args() int { return l.launch.Args() }

// Int32 returns argument i.
func (l *HostLaunch) Int32(i int) int32 { return l.launch.Int32(i) }

// Int64 returns argument i.
func (l *HostLaunch) Int64(i int) int64 { return l.launch.Int64(i) }

// Uint32 returns argument i.
func (l *HostLaunch) Uint32(i int) uint32 { return l.launch.Uint32(i) }

// Uint64 returns argument i.
func (l *HostLaunch) Uint64(i int) uint64 { return l.launch.Uint64(i) }

// Float32 returns argument i.
func (l *HostLaunch) Float32(i int) float32 { return l.launch.Float32(i) }

// Float64 returns argument i.
func (l *HostLaunch) Float64(i int) float64 { return l.launch.Float64(i) }

// Pointer returns argument i, a device address. Memory returns its bytes.
func (l *HostLaunch) Pointer(i int) uintptr { return l.launch.Pointer(i) }

// Struct returns argument i, a struct of n bytes in C's layout.
func (l *HostLaunch) Struct(i, n int) []byte { return l.launch.Struct(i, n) }

// Memory returns n bytes of device memory, which the host kernel may read and write
// until it returns. They must lie in one allocation. Zero bytes are nil at any address.
func (l *HostLaunch) Memory(address uintptr, n int64) []byte { return l.launch.Memory(address, n) }

// Elements returns n values at a device address, like HostLaunch.Memory. An address that
// is not a multiple of the value's size is an error, as on a GPU.
func Elements[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64](l *HostLaunch, address uintptr, n int64) []T {
	return driver.Elements[T](l.launch, address, n)
}

// internalHostKernels returns the host kernels as the driver calls them.
func internalHostKernels(kernels map[string]HostKernel) map[string]driver.HostKernel {
	internal := make(map[string]driver.HostKernel, len(kernels))
	for name, k := range kernels {
		internal[name] = func(l *driver.HostLaunch) {
			k(&HostLaunch{Grid: Dim3(l.Grid), Block: Dim3(l.Block), SharedBytes: l.SharedBytes, launch: l})
		}
	}
	return internal
}
