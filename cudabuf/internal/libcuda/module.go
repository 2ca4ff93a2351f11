//go:build linux

package libcuda

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// ModuleLoadData passes a copy of the image that ends in a zero byte, because
// PTX text has no length. The log of the driver's compiler becomes the Detail
// of the error.
func (d *Driver) ModuleLoadData(image []byte, _ map[string]driver.HostKernel) (driver.Module, error) {
	var m driver.Module
	text := append(bytes.Clone(image), 0)
	log := make([]byte, 8<<10)
	var pinned runtime.Pinner // values holds its address as an integer
	pinned.Pin(&log[0])
	defer pinned.Unpin()
	options := [2]int32{jitErrorLog, jitErrorLogSize}
	// The size is passed in place of a pointer, as the driver requires.
	values := [2]uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log))}
	err := d.call(cuModuleLoadDataEx, uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&text[0])), uintptr(len(options)),
		uintptr(unsafe.Pointer(&options[0])), uintptr(unsafe.Pointer(&values[0])))
	var failure *driver.Error
	if errors.As(err, &failure) && failure.Detail == "" {
		log, _, _ = bytes.Cut(log, []byte{0})
		failure.Detail = strings.TrimSpace(string(log))
	}
	return m, err
}

func (d *Driver) ModuleUnload(m driver.Module) error { return d.call(cuModuleUnload, uintptr(m)) }

func (d *Driver) ModuleGetFunction(m driver.Module, name string) (driver.Function, error) {
	var f driver.Function
	text := append([]byte(name), 0)
	err := d.call(cuModuleGetFunction, uintptr(unsafe.Pointer(&f)), uintptr(m), uintptr(unsafe.Pointer(&text[0])))
	return f, err
}

func (d *Driver) FuncGetAttribute(a driver.FunctionAttribute, f driver.Function) (int, error) {
	var v int32
	err := d.call(cuFuncGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), uintptr(f))
	return int(v), err
}

func (d *Driver) FuncSetAttribute(f driver.Function, a driver.FunctionAttribute, value int) error {
	return d.call(cuFuncSetAttribute, uintptr(f), uintptr(a), uintptr(value))
}

func (d *Driver) FuncGetParamInfo(f driver.Function, index int) (offset, size int64, err error) {
	var o, n uint64
	err = d.call(cuFuncGetParamInfo, uintptr(f), uintptr(index), uintptr(unsafe.Pointer(&o)), uintptr(unsafe.Pointer(&n)))
	return int64(o), int64(n), err
}

func (d *Driver) OccupancyMaxActiveBlocksPerMultiprocessor(f driver.Function, threads int, sharedBytes int64) (int, error) {
	var n int32
	err := d.call(cuOccupancyMaxActiveBlocksPerMultiprocessor, uintptr(unsafe.Pointer(&n)), uintptr(f), uintptr(threads), uintptr(sharedBytes))
	return int(n), err
}

func (d *Driver) OccupancyMaxPotentialBlockSize(f driver.Function, sharedBytes int64, limit int) (blocks, threads int, err error) {
	var b, t int32
	err = d.call(cuOccupancyMaxPotentialBlockSize, uintptr(unsafe.Pointer(&b)), uintptr(unsafe.Pointer(&t)), uintptr(f), 0, uintptr(sharedBytes), uintptr(limit))
	return int(b), int(t), err
}

// LaunchKernel passes pointers to the argument values, which the driver copies
// before it returns.
func (d *Driver) LaunchKernel(l *driver.Launch) error {
	err := d.callValues(cuLaunchKernel, uintptr(l.Function),
		uintptr(l.Grid.X), uintptr(l.Grid.Y), uintptr(l.Grid.Z),
		uintptr(l.Block.X), uintptr(l.Block.Y), uintptr(l.Block.Z),
		uintptr(l.SharedBytes), uintptr(l.Stream), uintptr(unsafe.Pointer(l.Values())), 0)
	runtime.KeepAlive(l)
	return err
}
