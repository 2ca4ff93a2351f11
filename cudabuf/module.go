package cudabuf

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Dim3 is the size of a grid in blocks, or of a block in threads. Zero in Y or Z counts
// as 1.
type Dim3 struct{ X, Y, Z uint32 }

// Module is a loaded image of kernels.
type Module struct {
	dev    *Device
	handle driver.Module
}

// LoadModule loads an image of kernels: PTX text, a cubin or a fat binary
// (cuModuleLoadData). The host kernels, by kernel name, are for the simulated device of
// package cudatest, which cannot run an image. A GPU ignores them.
func (d *Device) LoadModule(image []byte, hostKernels map[string]HostKernel) (*Module, error) {
	if len(image) == 0 {
		return nil, &driver.Error{Call: "cuModuleLoadData", Code: driver.InvalidImage, Detail: "the image is empty"}
	}
	m := &Module{dev: d}
	err := d.withContext(func() (err error) {
		m.handle, err = d.api.ModuleLoadData(image, internalHostKernels(hostKernels))
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Close unloads the module. Its kernels must not be launched afterwards.
func (m *Module) Close() error {
	return m.dev.withContext(func() error { return m.dev.api.ModuleUnload(m.handle) })
}

// Kernel returns the kernel that the image exports by a name (cuModuleGetFunction). It
// is valid until the module is closed. Keep it instead of looking it up again.
func (m *Module) Kernel(name string) (*Kernel, error) {
	k := &Kernel{dev: m.dev, name: name}
	err := m.dev.withContext(func() (err error) {
		if k.handle, err = m.dev.api.ModuleGetFunction(m.handle, name); err == nil {
			k.params, err = readParams(m.dev.api, k.handle)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	return k, nil
}

// readParams returns the parameters of a kernel, or nil if the driver does not know
// them.
func readParams(api driver.API, f driver.Function) ([]Parameter, error) {
	params := []Parameter{}
	for {
		offset, size, err := api.FuncGetParamInfo(f, len(params))
		var e *driver.Error
		switch {
		case err == nil:
			params = append(params, Parameter{Offset: offset, Size: size})
		case errors.As(err, &e) && e.Code == driver.InvalidValue: // one more than there are
			return params, nil
		default:
			return nil, ignoreNotSupported(err)
		}
	}
}

// Program is an image of kernels. Each device loads it when it first needs one of the
// kernels, and keeps it until the device is closed. Kernels that are compiled into a Go
// program are package-level Programs.
type Program struct {
	// Image is the argument of LoadModule. It must not change.
	Image []byte
	// ImageFor returns the image for a compute capability. It is used if Image is
	// nil, once per device.
	ImageFor func(major, minor int) ([]byte, error)
	// The host kernels for the simulated device, by kernel name.
	HostKernels map[string]HostKernel
}

// programCache holds the programs that a device has loaded.
type programCache struct {
	mu      sync.Mutex
	modules map[*Program]*Module
	kernels map[programKernel]*Kernel
}

type programKernel struct {
	program *Program
	name    string
}

// Kernel returns a kernel of a program, the same one on every call. It does not remember
// errors, since lack of memory may be temporary.
func (d *Device) Kernel(p *Program, name string) (*Kernel, error) {
	if p == nil {
		return nil, fmt.Errorf("cudabuf.Device.Kernel: nil program: %w", ErrNil)
	}
	l := &d.programs
	l.mu.Lock()
	defer l.mu.Unlock()
	key := programKernel{p, name}
	if k, ok := l.kernels[key]; ok {
		return k, nil
	}
	m, ok := l.modules[p]
	if !ok {
		var err error
		if m, err = d.loadProgram(p); err != nil {
			return nil, err
		}
		if l.modules == nil {
			l.modules, l.kernels = map[*Program]*Module{}, map[programKernel]*Kernel{}
		}
		l.modules[p] = m
	}
	k, err := m.Kernel(name)
	if err != nil {
		return nil, err
	}
	l.kernels[key] = k
	return k, nil
}

func (d *Device) loadProgram(p *Program) (*Module, error) {
	image := p.Image
	if image == nil && p.ImageFor != nil {
		var err error
		if image, err = p.ImageFor(d.major, d.minor); err != nil {
			return nil, err
		}
	}
	return d.LoadModule(image, p.HostKernels)
}

// close unloads all modules.
func (l *programCache) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failure error
	for _, m := range l.modules {
		if err := m.Close(); failure == nil {
			failure = err
		}
	}
	clear(l.modules)
	clear(l.kernels)
	return failure
}

// Kernel is a function that runs on the device. It may be launched from any goroutine.
type Kernel struct {
	dev    *Device
	name   string
	handle driver.Function
	params []Parameter // nil if unknown
	// bestBlock is the size that BestBlock returns without shared memory, or 0.
	bestBlock atomic.Int32
}

// Name returns the name that the image exports.
func (k *Kernel) Name() string { return k.name }

// Parameter is a parameter of a kernel: its place among the parameters and its size,
// in bytes.
type Parameter struct{ Offset, Size int64 }

// Parameters returns the parameters of the kernel, in order (cuFuncGetParamInfo). The
// error is errors.ErrUnsupported if the driver is older than CUDA 12.4, or if a
// simulated device has loaded an image that is not PTX text.
func (k *Kernel) Parameters() ([]Parameter, error) {
	if k == nil || k.dev == nil {
		return nil, errors.New("cudabuf.Kernel.Parameters: got a nil kernel")
	}
	if k.params == nil {
		return nil, k.annotate(fmt.Errorf("parameters: the driver does not tell them: %w", errors.ErrUnsupported))
	}
	return slices.Clone(k.params), nil
}

// KernelAttributes are properties of a compiled kernel (cuFuncGetAttribute).
type KernelAttributes struct {
	MaxThreadsPerBlock int
	Registers          int   // per thread
	SharedBytes        int64 // static, per block
	LocalBytes         int64 // per thread
}

// Attributes returns the properties of the kernel.
func (k *Kernel) Attributes() (KernelAttributes, error) {
	var a KernelAttributes
	var shared, local int
	err := k.dev.withContext(func() (err error) {
		for _, read := range []struct {
			v *int
			a driver.FunctionAttribute
		}{
			{&a.MaxThreadsPerBlock, driver.FuncMaxThreadsPerBlock},
			{&a.Registers, driver.FuncRegisters},
			{&shared, driver.FuncSharedBytes},
			{&local, driver.FuncLocalBytes},
		} {
			if *read.v, err = k.dev.api.FuncGetAttribute(read.a, k.handle); err != nil {
				return err
			}
		}
		return nil
	})
	a.SharedBytes, a.LocalBytes = int64(shared), int64(local)
	return a, k.annotate(err)
}

// SetMaxDynamicShared sets how many bytes of dynamic shared memory per block a launch may
// use. It is needed above Limits.SharedPerBlock (cuFuncSetAttribute).
func (k *Kernel) SetMaxDynamicShared(bytes int) error {
	return k.annotate(k.dev.withContext(func() error {
		return k.dev.api.FuncSetAttribute(k.handle, driver.FuncMaxDynamicSharedBytes, bytes)
	}))
}

// ActiveBlocks returns how many blocks run on one multiprocessor at the same time
// (cuOccupancyMaxActiveBlocksPerMultiprocessor). threads is the size of a block,
// sharedBytes its dynamic shared memory.
func (k *Kernel) ActiveBlocks(threads int, sharedBytes int64) (blocks int, err error) {
	err = k.dev.withContext(func() (err error) {
		blocks, err = k.dev.api.OccupancyMaxActiveBlocksPerMultiprocessor(k.handle, threads, sharedBytes)
		return err
	})
	return blocks, k.annotate(err)
}

// BestBlock returns the block size in threads with the highest occupancy, and the minimum
// number of blocks that reaches it (cuOccupancyMaxPotentialBlockSize). If limit is not 0,
// it is the maximum block size.
func (k *Kernel) BestBlock(sharedBytes int64, limit int) (blocks, threads int, err error) {
	err = k.dev.withContext(func() (err error) {
		blocks, threads, err = k.dev.api.OccupancyMaxPotentialBlockSize(k.handle, sharedBytes, limit)
		return err
	})
	return blocks, threads, k.annotate(err)
}
