package dissociated

import (
	"errors"
	"fmt"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// Window is memory of a device that other processes on the machine open by one
// handle, and from which located bodies come: a CUDA IPC allocation, or shared
// memory of the host (memfd). A buffer that lies in it is sent as its offset, any
// other is copied there first; the room of a copy is free again when all who were
// told of it have said so, or are gone. Sending waits for room.
//
// A peer that has the handle reaches all of the window and nothing else.
type Window struct {
	dev    arrowbuf.Device
	whole  arrowbuf.Buffer
	handle []byte
	rooms  *rooms
	unmap  func() error
	once   sync.Once
}

// windows are those of this process, by handle: CUDA does not open a process's
// own.
var windows sync.Map

// NewWindow makes a window of n bytes on a *cudabuf.Device or the CPU; on others
// it is arrowbuf.ErrDevice. The caller closes it.
func NewWindow(dev arrowbuf.Device, n int64) (*Window, error) {
	if n < 2*alignment {
		return nil, fmt.Errorf("a window of %d bytes, expected at least %d: %w", n, 2*alignment, arrowbuf.ErrOutOfRange)
	}
	w := &Window{dev: dev, rooms: newRooms(n / alignment * alignment), unmap: func() error { return nil }}
	var err error
	switch gpu, ok := dev.(*cudabuf.Device); {
	case ok:
		err = w.onGPU(gpu, n)
	case dev == arrowbuf.CPU():
		err = w.onHost(n)
	default:
		err = fmt.Errorf("%v: %w", dev, arrowbuf.ErrDevice)
	}
	if err != nil {
		return nil, fmt.Errorf("a window of %d bytes: %w", n, err)
	}
	windows.Store(string(w.handle), w)
	return w, nil
}

func (w *Window) onGPU(dev *cudabuf.Device, n int64) error {
	b, err := dev.NewIPCBuffer(n)
	if err != nil {
		return err
	}
	h, err := b.ExportIPC()
	if err != nil {
		b.Release()
		return err
	}
	w.whole, w.handle = b, h.Handle[:]
	return nil
}

func (w *Window) onHost(n int64) error {
	data, handle, unmap, err := shareHostMemory(n)
	if err != nil {
		return err
	}
	w.whole, w.handle, w.unmap = arrowbuf.WrapExternal(data, func() {}), handle, unmap
	return nil
}

// Device is where the window lies.
func (w *Window) Device() arrowbuf.Device { return w.dev }

// RemoteHandle is what opens the window in another process, for Endpoint: CUDA's
// handle of 64 bytes, or the text memfd:PID:FD:NAME of what /proc/PID/fd/FD is.
func (w *Window) RemoteHandle() []byte { return w.handle }

// Used is how many bytes of the window are in use.
func (w *Window) Used() int64 { return w.rooms.used() }

// Close gives the memory back. Nothing that lies in it may be in use any more,
// here or elsewhere: where some is, that is an error, and the window stays.
func (w *Window) Close() (err error) {
	if used := w.Used(); used > 0 {
		return fmt.Errorf("closing a window: %d bytes of it are in use", used)
	}
	w.once.Do(func() {
		windows.Delete(string(w.handle))
		w.whole.Release()
		err = w.unmap()
	})
	return err
}

// find tells where in the window a buffer lies, if it does.
func (w *Window) find(b arrowbuf.Buffer) (offset int64, ok bool) {
	if b.Device() != w.dev || b.Len() == 0 {
		return 0, false
	}
	offset = int64(b.Address() - w.whole.Address())
	return offset, arrowbuf.CheckRange(offset, b.Len(), w.whole.Len()) == nil
}

// settled returns when what was given to the device for a buffer is done: the
// protocol has no way to tell a peer what to wait for.
func settled(b arrowbuf.Buffer) error {
	if gpu, ok := b.(interface{ Wait() error }); ok {
		return gpu.Wait()
	}
	return nil
}

// part is a buffer over bytes of the window, which stay in use until its last
// reference goes and the device is done with it; then release is called.
func (w *Window) part(l Location, release func()) (arrowbuf.Buffer, error) {
	return within(w.whole, l, release)
}

// within is a buffer over a part of another that has an end to tell of.
func within(whole arrowbuf.Buffer, l Location, release func()) (arrowbuf.Buffer, error) {
	if l.Address > uint64(whole.Len()) || l.Length > uint64(whole.Len())-l.Address {
		return nil, fmt.Errorf("%w: a location of %d bytes at %#x, in memory of %d", ErrProtocol, l.Length, l.Address, whole.Len())
	}
	if data, ok := arrowbuf.HostBytes(whole); ok {
		return arrowbuf.WrapExternal(data[l.Address:l.Address+l.Length:l.Address+l.Length], release), nil
	}
	gpu, ok := whole.Device().(*cudabuf.Device)
	if !ok {
		return nil, errors.New("memory of an unknown device")
	}
	return gpu.WrapExternal(whole.Address()+uintptr(l.Address), int64(l.Length), release)
}
