//go:build linux

package libcuda

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) StreamBeginCapture(s driver.Stream, mode driver.CaptureMode) error {
	return d.call(cuStreamBeginCapture, uintptr(s), uintptr(mode))
}

func (d *Driver) StreamEndCapture(s driver.Stream) (driver.Graph, error) {
	var g driver.Graph
	err := d.call(cuStreamEndCapture, uintptr(s), uintptr(unsafe.Pointer(&g)))
	return g, err
}

func (d *Driver) GraphInstantiate(g driver.Graph) (driver.GraphExec, error) {
	var x driver.GraphExec
	err := d.call(cuGraphInstantiate, uintptr(unsafe.Pointer(&x)), uintptr(g), 0)
	return x, err
}

func (d *Driver) GraphLaunch(x driver.GraphExec, s driver.Stream) error {
	return d.plain(cuGraphLaunch, uintptr(x), uintptr(s))
}

func (d *Driver) GraphExecDestroy(x driver.GraphExec) error {
	return d.call(cuGraphExecDestroy, uintptr(x))
}

func (d *Driver) GraphDestroy(g driver.Graph) error { return d.call(cuGraphDestroy, uintptr(g)) }
