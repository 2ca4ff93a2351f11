package codec

import (
	"fmt"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// HostPool keeps the host memory through which the chunks of a device's arrays
// pass, as its HostAllocator gives it, for the next chunk: pinning memory costs
// more than copying it. It is shared by as many arrays and goroutines as want
// it, and holds as many buffers as were in use at one time.
type HostPool struct {
	dev  arrowbuf.Device
	mu   sync.Mutex
	idle [][]byte
	done bool
}

// NewHostPool returns an empty pool. Close gives its memory back.
func NewHostPool(dev arrowbuf.Device) *HostPool { return &HostPool{dev: dev} }

// Close frees what is idle now, and what is in use when its user is done.
func (p *HostPool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	for _, data := range p.idle {
		p.dev.HostAllocator().Free(data)
	}
	p.idle = nil
}

// hostMemory is memory of a device's host allocator, and who wants it back.
type hostMemory struct {
	data []byte // as long as was asked for
	dev  arrowbuf.Device
	pool *HostPool // nil for the allocator itself
}

// get returns n bytes. A nil pool, and a pool of another device, allocates.
func (p *HostPool) get(dev arrowbuf.Device, n int) (hostMemory, error) {
	if p == nil || p.dev != dev {
		data, err := allocate(dev, n)
		return hostMemory{data: data, dev: dev}, err
	}
	m := hostMemory{dev: dev, pool: p}
	if m.data = p.take(n); m.data != nil {
		return m, nil
	}
	var err error
	m.data, err = allocate(dev, n)
	return m, err
}

// take returns idle memory, nil where there is none of that size. Memory that
// is too small goes: the pool grows to the largest chunk.
func (p *HostPool) take(n int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		last := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if cap(last) >= n {
			return last[:n]
		}
		p.dev.HostAllocator().Free(last)
	}
	return nil
}

// allocate turns the panic by which arrow-go's allocators say that there is no
// memory into an error.
func allocate(dev arrowbuf.Device, n int) (data []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(error)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("host memory for %v: %w", dev, failed)
		}
	}()
	return dev.HostAllocator().Allocate(n), nil
}

func (m hostMemory) free() {
	if m.pool != nil && m.pool.put(m.data) {
		return
	}
	m.dev.HostAllocator().Free(m.data)
}

func (p *HostPool) put(data []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return false
	}
	p.idle = append(p.idle, data[:cap(data)])
	return true
}
