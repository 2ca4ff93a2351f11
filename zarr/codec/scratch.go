package codec

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Scratch is the memory in which one call at a time encodes or decodes. It
// grows to what its chunks need and is then used again. The zero value is
// ready; [GetScratch] takes one from a pool.
type Scratch struct {
	// KeepEmpty encodes values that equal the fill value like any others.
	KeepEmpty bool
	// OnHost, where set, is told of every copy from a device.
	OnHost func(bytes int64, took time.Duration)

	buffers []*[]byte
	used    int
	pinned  []hostMemory
}

var scratches = sync.Pool{New: func() any { return new(Scratch) }}

// GetScratch takes a Scratch from a pool.
func GetScratch() *Scratch { return scratches.Get().(*Scratch) }

// Release gives the memory of s back. What was encoded in it is gone.
func (s *Scratch) Release() {
	s.Reset()
	s.KeepEmpty, s.OnHost = false, nil
	scratches.Put(s)
}

// Reset makes all of the memory of s free to be used again.
func (s *Scratch) Reset() {
	s.used = 0
	for _, m := range s.pinned {
		m.free()
	}
	s.pinned = s.pinned[:0]
}

// mark and back bracket work whose buffers may be used again after it.
func (s *Scratch) mark() int { return s.used }

func (s *Scratch) back(mark int) { s.used = mark }

// next is a buffer of any size to append to. Append through the pointer, so
// that what grew stays.
func (s *Scratch) next() *[]byte {
	if s.used == len(s.buffers) {
		s.buffers = append(s.buffers, new([]byte))
	}
	s.used++
	return s.buffers[s.used-1]
}

// Bytes returns n bytes, which hold anything. They are good until s encodes,
// decodes or is reset.
func (s *Scratch) Bytes(n int64) []byte { return s.sized(n) }

// HostBytes returns n bytes of the host memory that copies to and from a device
// fastest. They are good until s encodes, decodes or is reset.
func (s *Scratch) HostBytes(dev arrowbuf.Device, n int64) ([]byte, error) {
	m, err := allocHost(dev, int(n))
	if err != nil {
		return nil, err
	}
	s.pinned = append(s.pinned, m)
	return m.data, nil
}

func (s *Scratch) sized(n int64) []byte {
	buf := s.next()
	*buf = slices.Grow((*buf)[:0], int(n))[:n]
	return *buf
}

// elements returns the elements in C order on the host: in place where they
// lie so already.
func (s *Scratch) elements(v *ndview.NDBuffer) ([]byte, error) {
	if raw, ok := v.HostBytes(); ok {
		return raw, nil
	}
	if _, ok := arrowbuf.HostBytes(v.Buffer()); ok {
		raw := s.sized(v.NBytes())
		return raw, v.CopyToHost(raw)
	}
	raw, err := s.HostBytes(v.Device(), v.NBytes())
	if err != nil {
		return nil, err
	}
	if s.OnHost == nil {
		return raw, v.CopyToHost(raw)
	}
	start := time.Now()
	err = v.CopyToHost(raw)
	s.OnHost(v.NBytes(), time.Since(start))
	return raw, err
}

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
