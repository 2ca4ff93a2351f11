package dissociated

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// remote is the memory that located bodies point into, as a client has it open.
type remote struct {
	dev   arrowbuf.Device // where it is
	at    func(l Location, release func()) (arrowbuf.Buffer, error)
	close func()
}

// openRemote opens what an endpoint's handle names, for a client that wants its
// batches on a device.
func openRemote(handle []byte, dev arrowbuf.Device, server serverProcess) (*remote, error) {
	if w, ok := windows.Load(string(handle)); ok {
		window := w.(*Window)
		return &remote{window.dev, window.part, func() {}}, nil
	}
	if gpu, ok := dev.(*cudabuf.Device); ok && len(handle) == len(cudabuf.MemHandle{}.Handle) {
		if server.other != nil {
			return nil, fmt.Errorf("opening memory of a server on %v by a handle of CUDA's, which does not leave a PID namespace: %w", dev, server.other)
		}
		return openCUDA([64]byte(handle), gpu)
	}
	named, err := parseMemfd(handle)
	if err != nil {
		return nil, fmt.Errorf("opening memory of a server for %v: %w", dev, err)
	}
	whole, err := openHostMemory(named, server)
	if err != nil {
		return nil, err
	}
	return &remote{arrowbuf.CPU(), func(l Location, release func()) (arrowbuf.Buffer, error) {
		whole.Retain()
		return within(whole, l, func() { whole.Release(); release() })
	}, whole.Release}, nil
}

// openCUDA opens an allocation and keeps it open. How large it is CUDA tells,
// which package cudabuf checks each location against.
func openCUDA(handle [64]byte, dev *cudabuf.Device) (*remote, error) {
	open := func(l Location) (*cudabuf.Buffer, error) {
		if l.Address > 1<<62 || l.Length > 1<<62 {
			return nil, fmt.Errorf("%w: a location of %d bytes at %#x", ErrProtocol, l.Length, l.Address)
		}
		return dev.OpenIPC(cudabuf.MemHandle{Handle: handle, Region: cudabuf.Region{Offset: int64(l.Address), Length: int64(l.Length)}})
	}
	anchor, err := open(Location{0, 1})
	if err != nil {
		return nil, err
	}
	return &remote{dev, func(l Location, release func()) (arrowbuf.Buffer, error) {
		b, err := open(l)
		if err != nil {
			return nil, err
		}
		return dev.WrapExternal(b.Address(), b.Len(), func() { b.Release(); release() })
	}, anchor.Release}, nil
}
