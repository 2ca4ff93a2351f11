package codec

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// Scratch is the reusable memory of one call at a time that encodes or decodes. The
// zero value is ready to use; [GetScratch] returns one from a pool.
type Scratch struct {
	// KeepEmpty encodes chunks that equal the fill value. By default, their encoding is
	// nil.
	KeepEmpty bool
	// OnHostCopy, if not nil, is called after each copy from a device.
	OnHostCopy func(bytes int64, took time.Duration)
	// Stats, if not nil, counts what is encoded and decoded.
	Stats *Stats

	buffers []*[]byte
	used    int
	pinned  []hostMemory
}

var scratches = sync.Pool{New: func() any { return new(Scratch) }}

// GetScratch returns a Scratch from a pool. The caller must release it.
func GetScratch() *Scratch { return scratches.Get().(*Scratch) }

// Release returns s to the pool. Encoded chunks in it become invalid.
func (s *Scratch) Release() {
	s.Reset()
	s.KeepEmpty, s.OnHostCopy, s.Stats = false, nil, nil
	scratches.Put(s)
}

// Reset makes all memory of s available again. Encoded chunks in it become invalid.
func (s *Scratch) Reset() {
	s.used = 0
	for _, m := range s.pinned {
		m.free()
	}
	s.pinned = s.pinned[:0]
}

// mark returns the position to which rewind makes later buffers available again.
func (s *Scratch) mark() int { return s.used }

func (s *Scratch) rewind(mark int) { s.used = mark }

// nextBuffer returns an empty buffer of unknown capacity. Callers append through the
// pointer, so that the Scratch keeps a grown buffer.
func (s *Scratch) nextBuffer() *[]byte {
	if s.used == len(s.buffers) {
		s.buffers = append(s.buffers, new([]byte))
	}
	s.used++
	return s.buffers[s.used-1]
}

// HostBytes returns n uninitialized bytes of the host memory that copies to and from
// dev fastest. They are valid until s encodes, decodes or is reset.
func (s *Scratch) HostBytes(dev arrowbuf.Device, n int64) ([]byte, error) {
	m, err := allocHost(dev, n)
	if err != nil {
		return nil, err
	}
	s.pinned = append(s.pinned, m)
	return m.data[:n:n], nil
}

// hostPiece is the size in bytes of pinned memory that chunks share. An allocator reuses
// freed memory for requests of its size only, and pinning takes longer than encoding.
const hostPiece = 32 << 20

// HostSlots returns uninitialized host memory of the given sizes, as HostBytes does.
func (s *Scratch) HostSlots(dev arrowbuf.Device, sizes []int64) (slots [][]byte, err error) {
	if dev == nil {
		return nil, fmt.Errorf("codec.Scratch.HostSlots: nil device: %w", arrowbuf.ErrDevice)
	}
	var total int64
	for _, n := range sizes {
		total += n
	}
	var piece []byte // what is left of one
	for i, n := range sizes {
		if int64(len(piece)) < n || i == 0 {
			size := max(n, hostPiece)
			if total < hostPiece/8 {
				size = total
			}
			if piece, err = s.HostBytes(dev, size); err != nil {
				return nil, err
			}
		}
		slots = append(slots, piece[:n:n])
		piece = piece[n:]
	}
	return slots, nil
}

// Bytes returns n uninitialized bytes. They are valid until s encodes, decodes or is
// reset.
func (s *Scratch) Bytes(n int64) []byte {
	buf := s.nextBuffer()
	*buf = slices.Grow((*buf)[:0], int(n))[:n]
	return *buf
}

// pad returns raw, elements of the given shape, enlarged to a whole chunk by fill values.
func (s *Scratch) pad(chunk ChunkSpec, raw []byte, shape []int64) []byte {
	if int64(len(raw)) == chunk.nbytes() {
		return raw
	}
	whole, origin := s.Bytes(chunk.nbytes()), make([]int64, len(shape))
	grid.Fill(whole, chunk.Fill)
	grid.Copy(whole, chunk.Shape, origin, raw, shape, origin, shape, chunk.Type.Size())
	return whole
}

// padRepeating is pad with a copy of the element before, in C order, in place of each fill
// value. A codec that encodes elements one after the other can encode it wherever it can
// encode the elements alone. raw must not be empty.
func (s *Scratch) padRepeating(chunk ChunkSpec, raw []byte, shape []int64) []byte {
	size := chunk.Type.Size()
	whole := s.pad(chunk, raw, shape)
	given, origin := make([]bool, int64(len(whole))/size), make([]int64, len(shape))
	grid.Copy(given, chunk.Shape, origin, slices.Repeat([]bool{true}, len(raw)/int(size)), shape, origin, shape, 1)
	for i, is := range given {
		if at := int64(i) * size; !is {
			copy(whole[at:at+size], whole[at-size:at])
		}
	}
	return whole
}

// hostElements returns the elements of v on the host in C order. It copies only if they
// are elsewhere or in another order.
func (s *Scratch) hostElements(v *ndview.NDBuffer) ([]byte, error) {
	if raw, ok := v.HostBytes(); ok {
		return raw, nil
	}
	if _, ok := arrowbuf.HostBytes(v.Buffer()); ok {
		raw := s.Bytes(v.NBytes())
		return raw, v.CopyToHost(raw)
	}
	raw, err := s.HostBytes(v.Device(), v.NBytes())
	if err != nil {
		return nil, err
	}
	if s.OnHostCopy == nil {
		return raw, v.CopyToHost(raw)
	}
	start := time.Now()
	err = v.CopyToHost(raw)
	s.OnHostCopy(v.NBytes(), time.Since(start))
	return raw, err
}

// hostMemory is memory of a device's host allocator. The allocator caches freed memory,
// since pinning costs more than copying.
type hostMemory struct {
	data []byte
	dev  arrowbuf.Device
}

// allocHost returns n bytes. Allocators report failure by a panic with an error, which
// allocHost returns.
func allocHost(dev arrowbuf.Device, n int64) (m hostMemory, err error) {
	defer func() {
		if p := recover(); p != nil {
			failure, ok := p.(error)
			if !ok {
				panic(p)
			}
			err = fmt.Errorf("host memory for %s: %w", dev, failure)
		}
	}()
	if dev.Type() != arrowbuf.DeviceCPU {
		n = sizeClass(n) // pinning takes longer than encoding a batch
	}
	return hostMemory{data: dev.HostAllocator().Allocate(int(n)), dev: dev}, nil
}

func (m hostMemory) free() { m.dev.HostAllocator().Free(m.data) }
