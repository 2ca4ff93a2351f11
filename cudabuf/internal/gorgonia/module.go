//go:build linux && gorgonia

package gorgonia

import (
	"gorgonia.org/cu"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) ModuleUnload(m driver.Module) error {
	return check("cuModuleUnload", module(m).Unload())
}

func (d *Driver) ModuleGetFunction(m driver.Module, name string) (driver.Function, error) {
	f, err := module(m).Function(name)
	return driver.Function(handle(f)), check("cuModuleGetFunction", err)
}

func (d *Driver) FuncGetAttribute(a driver.FunctionAttribute, f driver.Function) (int, error) {
	v, err := function(f).Attribute(cu.FunctionAttribute(a))
	return v, check("cuFuncGetAttribute", err)
}

func (d *Driver) OccupancyMaxActiveBlocksPerMultiprocessor(f driver.Function, threads int, sharedBytes int64) (int, error) {
	n, err := function(f).MaxActiveBlocksPerMultiProcessor(threads, sharedBytes)
	return n, check("cuOccupancyMaxActiveBlocksPerMultiprocessor", err)
}
