//go:build linux

package libcuda

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) StreamCreateWithPriority(flags uint32, priority int) (driver.Stream, error) {
	var s driver.Stream
	err := d.call(cuStreamCreateWithPriority, uintptr(unsafe.Pointer(&s)), uintptr(flags), uintptr(priority))
	return s, err
}

func (d *Driver) StreamDestroy(s driver.Stream) error { return d.call(cuStreamDestroy, uintptr(s)) }

func (d *Driver) StreamSynchronize(s driver.Stream) error {
	return d.callValues(cuStreamSynchronize, uintptr(s))
}

func (d *Driver) StreamQuery(s driver.Stream) (bool, error) {
	return queryResult("cuStreamQuery", d.callResult(cuStreamQuery, uintptr(s)))
}

func (d *Driver) StreamWaitEvent(s driver.Stream, e driver.Event) error {
	return d.callValues(cuStreamWaitEvent, uintptr(s), uintptr(e), 0)
}

func (d *Driver) StreamGetPriority(s driver.Stream) (int, error) {
	var p int32
	err := d.call(cuStreamGetPriority, uintptr(s), uintptr(unsafe.Pointer(&p)))
	return int(p), err
}

func (d *Driver) StreamGetCtx(s driver.Stream) (driver.Context, error) {
	var c driver.Context
	err := d.call(cuStreamGetCtx, uintptr(s), uintptr(unsafe.Pointer(&c)))
	return c, err
}

func (d *Driver) EventCreate(flags uint32) (driver.Event, error) {
	var e driver.Event
	err := d.call(cuEventCreate, uintptr(unsafe.Pointer(&e)), uintptr(flags))
	return e, err
}

func (d *Driver) EventDestroy(e driver.Event) error { return d.call(cuEventDestroy, uintptr(e)) }

func (d *Driver) EventRecord(e driver.Event, s driver.Stream) error {
	return d.callValues(cuEventRecord, uintptr(e), uintptr(s))
}

func (d *Driver) EventQuery(e driver.Event) (bool, error) {
	return queryResult("cuEventQuery", d.callResult(cuEventQuery, uintptr(e)))
}

func (d *Driver) EventSynchronize(e driver.Event) error {
	return d.callValues(cuEventSynchronize, uintptr(e))
}

func (d *Driver) EventElapsedTime(start, end driver.Event) (float32, error) {
	var ms float32
	err := d.call(cuEventElapsedTime, uintptr(unsafe.Pointer(&ms)), uintptr(start), uintptr(end))
	return ms, err
}

// hostFuncs holds the host functions that have not run, by the id that the
// driver passes to the callback. All of them share one callback, because
// callbacks are never freed.
var (
	hostFuncs    sync.Map // uintptr -> func()
	lastHostFunc atomic.Uintptr
)

func (d *Driver) LaunchHostFunc(s driver.Stream, f func()) error {
	id := lastHostFunc.Add(1)
	hostFuncs.Store(id, f)
	err := d.call(cuLaunchHostFunc, uintptr(s), hostFuncEntry(), id)
	if err != nil {
		hostFuncs.Delete(id)
	}
	return err
}

// runHostFunc runs a host function on a thread of the driver.
func runHostFunc(id uintptr) {
	if f, ok := hostFuncs.LoadAndDelete(id); ok {
		f.(func())()
	}
}

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
	return d.callValues(cuGraphLaunch, uintptr(x), uintptr(s))
}

func (d *Driver) GraphExecDestroy(x driver.GraphExec) error {
	return d.call(cuGraphExecDestroy, uintptr(x))
}

func (d *Driver) GraphDestroy(g driver.Graph) error { return d.call(cuGraphDestroy, uintptr(g)) }
