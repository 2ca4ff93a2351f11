package codec

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// hostMemory is memory of a device's host allocator, which keeps what is freed
// for the next chunk: pinning memory costs more than copying it.
type hostMemory struct {
	data []byte
	dev  arrowbuf.Device
}

// allocHost returns n bytes. Allocators tell of failure by a panic with an
// error, which becomes the result.
func allocHost(dev arrowbuf.Device, n int) (m hostMemory, err error) {
	defer func() {
		if p := recover(); p != nil {
			failure, ok := p.(error)
			if !ok {
				panic(p)
			}
			err = fmt.Errorf("host memory for %s: %w", dev, failure)
		}
	}()
	return hostMemory{data: dev.HostAllocator().Allocate(n), dev: dev}, nil
}

func (m hostMemory) free() { m.dev.HostAllocator().Free(m.data) }
