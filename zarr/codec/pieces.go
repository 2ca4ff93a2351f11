package codec

import (
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf"
)

const (
	// encodedPiece is the size in bytes of the pieces in which encodings are copied to the
	// host, but for a larger chunk. Pinned memory of one size is reused.
	encodedPiece = 8 << 20
	// piecesInFlight is the number of pieces of a batch whose chunks are in use.
	piecesInFlight = 3
	// hostPieces is the number of pieces of a HostPieces.
	hostPieces = 12
	// manyPieces is the number of pieces, as far as values fill them, from which a batch
	// uses a HostPieces. Less memory is soon pinned.
	manyPieces = 4
)

// HostPieces is the pinned memory of a device in which several calls of [EncodeBatch] copy
// encodings to the host. Memory is pinned once, while the first large batch is encoded,
// since other work of the device waits for each time. The zero value is valid. A HostPieces
// may be used from any goroutine, and must be released.
type HostPieces struct {
	mu      sync.Mutex
	devices map[*cudabuf.Device]*devicePieces
}

// devicePieces are the pieces of a device.
type devicePieces struct {
	free   chan []byte
	pinned chan struct{} // closed when memory or err is known
	memory hostMemory
	err    error
}

// on returns the pieces of a device, and begins to pin them.
func (p *HostPieces) on(dev *cudabuf.Device) *devicePieces {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.devices[dev]
	if d != nil {
		return d
	}
	if p.devices == nil {
		p.devices = map[*cudabuf.Device]*devicePieces{}
	}
	d = &devicePieces{free: make(chan []byte, hostPieces), pinned: make(chan struct{})}
	p.devices[dev] = d
	go func() {
		defer close(d.pinned)
		if d.memory, d.err = allocHost(dev, hostPieces*encodedPiece); d.err != nil {
			return
		}
		for i := range hostPieces {
			d.free <- d.memory.data[i*encodedPiece:][:encodedPiece:encodedPiece]
		}
	}()
	return d
}

// get waits for a piece. The caller must send it to free.
func (d *devicePieces) get() ([]byte, error) {
	if <-d.pinned; d.err != nil {
		return nil, d.err
	}
	return <-d.free, nil
}

// Release frees the memory. No call of EncodeBatch may use it.
func (p *HostPieces) Release() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.devices {
		if <-d.pinned; d.err == nil {
			d.memory.free()
		}
	}
	p.devices = nil
}
