package cudabuf

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
)

// MemoryResource allocates device memory in the order of streams. A [Pool] is one, and so
// is a type of another package, such as the allocator of a framework that shares the GPU.
// [PoolOptions.Resource] makes a pool of it, which [Device.SetPool] puts underneath all
// buffers of a device. A resource may wrap another one: see [LimitMemory].
//
// The interface is that of RMM's device_memory_resource. Its methods are called from any
// goroutine, and must not call the pool that they serve.
type MemoryResource interface {
	// Allocate returns the address of n bytes of the device's memory, n > 0, aligned to
	// 256 bytes or more. Stream s uses them first. It may return memory that earlier
	// work of s still uses. Without memory, it returns an error wrapping
	// arrowbuf.ErrOutOfMemory.
	Allocate(n int64, s *Stream) (address uintptr, err error)
	// Deallocate frees memory of Allocate with the same n. Earlier work of s may still
	// use the memory, and no other.
	Deallocate(address uintptr, n int64, s *Stream) error
}

var _ MemoryResource = (*Pool)(nil)

// Allocate implements [MemoryResource]. Programs use Alloc and AllocOn, whose buffers
// know when their memory is free.
func (p *Pool) Allocate(n int64, s *Stream) (uintptr, error) {
	if n <= 0 {
		return 0, fmt.Errorf("cudabuf.Pool.Allocate: %v: got %d bytes, want at least 1: %w", p.dev, n, arrowbuf.ErrOutOfRange)
	}
	if err := s.checkDevice(p.dev); err != nil {
		return 0, err
	}
	if p.closed.Load() {
		return 0, fmt.Errorf("%v: pool: %w", p.dev, ErrClosed)
	}
	block, err := p.blocks.Get(n, s.cudaStream)
	if err != nil {
		return 0, fmt.Errorf("%v: allocating %d bytes: %w", p.dev, n, err)
	}
	p.allocated.Store(block.Address, block)
	return block.Address, nil
}

// Deallocate implements [MemoryResource]. The error is arrowbuf.ErrReleased unless the
// address is one of Allocate that is in use.
func (p *Pool) Deallocate(address uintptr, _ int64, s *Stream) error {
	if err := s.checkDevice(p.dev); err != nil {
		return err
	}
	block, ok := p.allocated.LoadAndDelete(address)
	if !ok {
		return fmt.Errorf("cudabuf.Pool.Deallocate: %v: memory at %#x: %w", p.dev, address, arrowbuf.ErrReleased)
	}
	return p.blocks.Put(block.(*pool.Block[*cudaStream]), []*cudaStream{s.cudaStream})
}

// LimitMemory returns a resource that allocates at most limit bytes of r at a time. More
// is an error wrapping arrowbuf.ErrOutOfMemory.
func LimitMemory(r MemoryResource, limit int64) (MemoryResource, error) {
	if r == nil {
		return nil, fmt.Errorf("cudabuf.LimitMemory: nil resource: %w", ErrNil)
	}
	if limit <= 0 {
		return nil, fmt.Errorf("cudabuf.LimitMemory: got %d bytes, want at least 1: %w", limit, arrowbuf.ErrOutOfRange)
	}
	return &limitedMemory{resource: r, limit: limit}, nil
}

type limitedMemory struct {
	resource MemoryResource
	limit    int64
	inUse    atomic.Int64
}

func (l *limitedMemory) Allocate(n int64, s *Stream) (uintptr, error) {
	if used := l.inUse.Add(n); used > l.limit {
		l.inUse.Add(-n)
		return 0, fmt.Errorf("allocating %d bytes: %d of at most %d in use: %w", n, used-n, l.limit, arrowbuf.ErrOutOfMemory)
	}
	address, err := l.resource.Allocate(n, s)
	if err != nil {
		l.inUse.Add(-n)
	}
	return address, err
}

func (l *limitedMemory) Deallocate(address uintptr, n int64, s *Stream) error {
	err := l.resource.Deallocate(address, n, s)
	l.inUse.Add(-n)
	return err
}

// newResourceBackend makes the backend of a pool from a resource.
func (d *Device) newResourceBackend(r MemoryResource) (poolBackend, error) {
	freeStream, err := d.streams.get(streamKind{flags: driver.StreamNonBlocking})
	if err != nil {
		return poolBackend{}, err
	}
	var sizes sync.Map // of each address, which Deallocate is told
	ordered := pool.NewOrdered(pool.StreamOrdered[*cudaStream]{
		Alloc: func(n int64, cs *cudaStream) (uintptr, error) {
			address, err := r.Allocate(n, &Stream{cudaStream: cs})
			if err == nil && address == 0 {
				err = fmt.Errorf("%T.Allocate: got address 0 for %d bytes: %w", r, n, arrowbuf.ErrOutOfMemory)
			}
			if err == nil {
				sizes.Store(address, n)
			}
			return address, err
		},
		Free: d.freeOnOwnStream(freeStream, func(address uintptr, cs *cudaStream) error {
			n, _ := sizes.LoadAndDelete(address)
			return r.Deallocate(address, n.(int64), &Stream{cudaStream: cs})
		}),
		Trim:  func() error { return nil },
		Order: waitOnDevice,
		Wait:  (*cudaStream).synchronize,
	}, freeStream)
	return poolBackend{
		blocks: ordered, account: ordered.Account(),
		setIdleLimit: func(int64) error { return nil },
		close:        func() error { d.streams.put(freeStream); return nil },
	}, nil
}

// freeOnOwnStream returns a function that frees memory in the order of a stream. Where
// the memory of this device cannot be freed on that stream, it uses freeStream.
func (d *Device) freeOnOwnStream(freeStream *cudaStream, free func(address uintptr, cs *cudaStream) error) func(uintptr, *cudaStream) error {
	return func(address uintptr, cs *cudaStream) error {
		if cs.dev == d && !cs.retired.Load() {
			return free(address, cs)
		}
		if err := waitOnDevice(cs, freeStream); err != nil {
			return err // the memory stays held
		}
		return free(address, freeStream)
	}
}
