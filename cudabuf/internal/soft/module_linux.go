package soft

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
