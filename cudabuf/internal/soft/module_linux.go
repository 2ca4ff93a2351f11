package soft

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Limits that every NVIDIA GPU has; a launch beyond them fails there too.
const (
	maxThreads = 1024
	maxShared  = 48 << 10
)

type module struct {
	dev   *device
	twins map[string]driver.Twin
}

type function struct {
	module *module
	twin   driver.Twin
}

func (d *Driver) ModuleLoadData(image []byte, twins map[string]driver.Twin) (driver.Module, error) {
	const call = "cuModuleLoadData"
	dev, err := d.current(call)
	if err != nil {
		return 0, err
	}
	if len(image) == 0 {
		return 0, &driver.Error{Call: call, Code: driver.InvalidImage, Detail: "it is empty"}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h := driver.Module(d.handle())
	d.modules[h] = &module{dev: dev, twins: twins}
	return h, nil
}

func (d *Driver) ModuleUnload(h driver.Module) error {
	const call = "cuModuleUnload"
	m, err := d.module(call, h)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.modules, h)
	maps.DeleteFunc(d.functions, func(_ driver.Function, f *function) bool { return f.module == m })
	return nil
}

func (d *Driver) ModuleGetFunction(h driver.Module, name string) (driver.Function, error) {
	const call = "cuModuleGetFunction"
	m, err := d.module(call, h)
	if err != nil {
		return 0, err
	}
	twin, ok := m.twins[name]
	if !ok {
		return 0, &driver.Error{Call: call, Code: driver.NotFound, Detail: fmt.Sprintf("no twin %q", name)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := driver.Function(d.handle())
	d.functions[f] = &function{module: m, twin: twin}
	return f, nil
}

func (d *Driver) LaunchKernel(h driver.Function, grid, block driver.Dim3, sharedBytes uint32, sh driver.Stream, args []driver.Arg) error {
	const call = "cuLaunchKernel"
	dev, s, err := d.stream(call, sh)
	if err != nil {
		return err
	}
	d.mu.Lock()
	f, ok := d.functions[h]
	d.mu.Unlock()
	if !ok || f.module.dev != dev {
		return &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "no function of the current context"}
	}
	threads := uint64(block.X) * uint64(block.Y) * uint64(block.Z)
	blocks := uint64(grid.X) * uint64(grid.Y) * uint64(grid.Z)
	if threads == 0 || threads > maxThreads || blocks == 0 || sharedBytes > maxShared {
		return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("grid %v, block %v, %d bytes of shared memory", grid, block, sharedBytes)}
	}
	launch := driver.NewTwinLaunch(grid, block, sharedBytes, slices.Clone(args), dev.arena.bytes)
	return s.issue(call, func() error {
		f.twin(launch)
		return nil
	})
}

func (d *Driver) module(call string, h driver.Module) (*module, error) {
	dev, err := d.current(call)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ok := d.modules[h]
	if !ok || m.dev != dev {
		return nil, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "no module of the current context"}
	}
	return m, nil
}
