//go:build linux

package simulated

import (
	"fmt"
	"maps"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

type module struct {
	context *context
	twins   map[string]driver.HostKernel
}

type function struct {
	module *module
	twin   driver.HostKernel
	shared int // dynamic, that a launch may ask for; guarded by Driver.mu
}

func (d *Driver) ModuleLoadData(image []byte, twins map[string]driver.HostKernel) (driver.Module, error) {
	const call = "cuModuleLoadData"
	c, err := d.context(call)
	if err != nil {
		return 0, err
	}
	if len(image) == 0 {
		return 0, &driver.Error{Call: call, Code: driver.InvalidImage, Detail: "it is empty"}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h := driver.Module(d.handle())
	d.modules[h] = &module{context: c, twins: twins}
	return h, nil
}

func (d *Driver) ModuleUnload(h driver.Module) error {
	m, err := d.module("cuModuleUnload", h)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unload(h, m)
	return nil
}

// unload forgets a module and its functions. The caller holds mu.
func (d *Driver) unload(h driver.Module, m *module) {
	delete(d.modules, h)
	maps.DeleteFunc(d.functions, func(_ driver.Function, f *function) bool { return f.module == m })
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
	d.functions[f] = &function{module: m, twin: twin, shared: sharedBlock}
	return f, nil
}

func (d *Driver) module(call string, h driver.Module) (*module, error) {
	c, err := d.context(call)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ok := d.modules[h]
	if !ok || m.context != c {
		return nil, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "no module of the current context"}
	}
	return m, nil
}

func (d *Driver) LaunchKernel(l *driver.Launch) error {
	const call = "cuLaunchKernel"
	_, s, err := d.stream(call, l.Stream)
	if err != nil {
		return err
	}
	f, shared, err := d.function(call, l.Function)
	if err != nil {
		return err
	}
	if f.module.context != s.context {
		return &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "function and stream are of different contexts"}
	}
	threads := uint64(l.Block.X) * uint64(l.Block.Y) * uint64(l.Block.Z)
	if !within(l.Grid, maxGrid) || !within(l.Block, maxBlock) || threads > maxThreads || int(l.SharedBytes) > shared {
		return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("grid %v, block %v, %d bytes of shared memory of at most %d", l.Grid, l.Block, l.SharedBytes, shared)}
	}
	launch := driver.NewHostLaunch(l, s.dev.arena.running)
	return s.issue(call, func() error {
		f.twin(launch)
		return nil
	})
}

func within(size, limit driver.Dim3) bool {
	return size.X >= 1 && size.Y >= 1 && size.Z >= 1 && size.X <= limit.X && size.Y <= limit.Y && size.Z <= limit.Z
}

// registers are what a twin is said to use a thread, since a compiler would
// have to say.
const registers = 32

// FuncGetAttribute answers what a small kernel of this device would have.
func (d *Driver) FuncGetAttribute(a driver.FunctionAttribute, h driver.Function) (int, error) {
	const call = "cuFuncGetAttribute"
	if _, err := d.context(call); err != nil {
		return 0, err
	}
	_, shared, err := d.function(call, h)
	if err != nil {
		return 0, err
	}
	switch a {
	case driver.FuncMaxThreadsPerBlock:
		return maxThreads, nil
	case driver.FuncSharedBytes, driver.FuncLocalBytes:
		return 0, nil
	case driver.FuncRegisters:
		return registers, nil
	case driver.FuncMaxDynamicSharedBytes:
		return shared, nil
	}
	return 0, &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("the soft driver has no attribute %d of a kernel", a)}
}

func (d *Driver) FuncSetAttribute(h driver.Function, a driver.FunctionAttribute, v int) error {
	const call = "cuFuncSetAttribute"
	if _, err := d.context(call); err != nil {
		return err
	}
	f, _, err := d.function(call, h)
	if err != nil {
		return err
	}
	if a != driver.FuncMaxDynamicSharedBytes {
		return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("attribute %d cannot be set", a)}
	}
	if v < 0 || v > sharedBlockOptin {
		return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("%d bytes of shared memory of at most %d", v, sharedBlockOptin)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.shared = v
	return nil
}

func (d *Driver) OccupancyMaxActiveBlocksPerMultiprocessor(h driver.Function, threads int, sharedBytes int64) (int, error) {
	const call = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
	if _, err := d.context(call); err != nil {
		return 0, err
	}
	_, shared, err := d.function(call, h)
	if err != nil {
		return 0, err
	}
	if threads <= 0 || sharedBytes < 0 {
		return 0, driver.Check(call, driver.InvalidValue)
	}
	return active(threads, sharedBytes, shared), nil
}

func (d *Driver) OccupancyMaxPotentialBlockSize(h driver.Function, sharedBytes int64, limit int) (blocks, threads int, err error) {
	const call = "cuOccupancyMaxPotentialBlockSize"
	if _, err := d.context(call); err != nil {
		return 0, 0, err
	}
	_, shared, err := d.function(call, h)
	if err != nil {
		return 0, 0, err
	}
	if sharedBytes < 0 || limit < 0 {
		return 0, 0, driver.Check(call, driver.InvalidValue)
	}
	if limit == 0 || limit > maxThreads {
		limit = maxThreads
	}
	most := 0
	for n := limit; n > 0; n = (n - 1) / warp * warp { // the limit itself, then whole warps
		if a := active(n, sharedBytes, shared); a*n > most {
			most, blocks, threads = a*n, a*multiprocessors, n
		}
	}
	return blocks, threads, nil
}

// active is how many blocks a multiprocessor has room for, none for a block
// that cannot be launched.
func active(threads int, sharedBytes int64, shared int) int {
	if threads > maxThreads || sharedBytes > int64(shared) {
		return 0
	}
	warps := up(threads, warp) / warp
	return min(maxBlocks,
		maxResident/(warps*warp),
		registerFile/(warps*up(registers*warp, registerUnit)),
		sharedTotal/(int(sharedBytes)+sharedReserved))
}

func up(n, unit int) int { return (n + unit - 1) / unit * unit }

// function finds a function, and how much dynamic shared memory it may use.
func (d *Driver) function(call string, h driver.Function) (f *function, shared int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.functions[h]
	if !ok {
		return nil, 0, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "no such function"}
	}
	return f, f.shared, nil
}
