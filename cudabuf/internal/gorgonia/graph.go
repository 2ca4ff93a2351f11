//go:build linux && gorgonia

package gorgonia

import (
	"unsafe"

	"gorgonia.org/cu"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) GraphDestroy(g driver.Graph) error {
	return check("cuGraphDestroy", (*cu.Graph)(unsafe.Pointer(&g)).Destroy())
}

func (d *Driver) GraphExecDestroy(x driver.GraphExec) error {
	return check("cuGraphExecDestroy", (*cu.ExecGraph)(unsafe.Pointer(&x)).Destroy())
}
