package cudabuf

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// ErrNotShareable: the memory cannot be exported this way. The text says which
// way there is, or how to allocate.
var ErrNotShareable = errors.New("memory is not shareable this way")

// Region is the part of a shared allocation that a buffer is: bytes
// [Offset, Offset+Length) of AllocationSize, in the memory of one GPU.
type Region struct {
	Device         UUID  // zero where the sender did not say
	AllocationSize int64 // zero where the sender did not say
	Offset, Length int64
}

// check returns an error for a region that no buffer can be.
func (r Region) check() error {
	size := r.AllocationSize
	if size == 0 {
		size = math.MaxInt64
	}
	if err := arrowbuf.CheckRange(r.Offset, r.Length, size); err != nil {
		return fmt.Errorf("a shared region: %w", err)
	}
	return nil
}

// sharingWay is how memory crosses to other processes.
type sharingWay string

// The ways, named by the method that exports the memory, and the one that
// allocates it.
const (
	byHandle     sharingWay = "ExportIPC, for memory of NewIPCBuffer"
	byDescriptor sharingWay = "ExportFD, for memory of NewFDBuffer"
	byPool       sharingWay = "ExportPool, for memory of a SharedPool"
)

// sharing is what is known of memory that was made to be shared, or comes from
// another process.
type sharing struct {
	way      sharingWay
	base     uintptr
	size     int64
	imported bool
	physical driver.Physical // byDescriptor
	pool     *SharedPool     // byPool, of this process
}

// shareable returns how the buffer's memory is shared. It is an error unless
// the memory is of this process and made to be shared that way. The caller
// holds the buffer, which is not empty.
func (b *Buffer) shareable(way sharingWay) (*sharing, error) {
	s := b.memory.sharing
	switch {
	case s == nil:
		return nil, fmt.Errorf("%v: %s: %w: other memory may lie in the same allocation", b.dev, way, ErrNotShareable)
	case s.imported:
		return nil, fmt.Errorf("%v: %w: only the process that it comes from can export it", b.dev, ErrNotShareable)
	case s.way != way:
		return nil, fmt.Errorf("%v: %s: %w: this is exported by %s", b.dev, way, ErrNotShareable, s.way)
	}
	return s, nil
}

// region is the buffer's part of an allocation.
func (b *Buffer) region(base uintptr, size int64) Region {
	return Region{Device: b.dev.uuid, AllocationSize: size, Offset: int64(b.address - base), Length: b.length}
}

// newShared makes an allocation of memory that crosses processes. It is given
// back, with the last reference, when no stream uses it any more.
func (d *Device) newShared(s sharing, giveBack func() error) *allocation {
	d.shares.begin()
	a := newAllocation(func(pending []*queue) {
		for _, q := range pending {
			_ = q.synchronize() // on a lost device nothing runs any more
		}
		d.shares.end(giveBack())
	})
	a.sharing = &s
	return a
}

// part returns the buffer that a region of another process's memory is. It
// takes over the memory.
func (d *Device) part(a *allocation, r Region) (*Buffer, error) {
	if err := arrowbuf.CheckRange(r.Offset, r.Length, a.sharing.size); err != nil {
		a.release()
		return nil, fmt.Errorf("%v: opening memory of another process: %w", d, err)
	}
	return newBuffer(d, a, a.sharing.base+uintptr(r.Offset), r.Length), nil
}

// withRoom runs driver calls that allocate. When the GPU is full, it gives the
// memory that is kept back to the driver and tries once more.
func (d *Device) withRoom(calls func() error) error {
	err := d.do(calls)
	if errors.Is(err, arrowbuf.ErrOutOfMemory) {
		if trimmed := d.Trim(); trimmed == nil {
			err = d.do(calls)
		}
	}
	return err
}

// roundUp returns the least multiple of a granule that holds n > 0 bytes.
func roundUp(n, granule int64) (int64, error) {
	if n > math.MaxInt64-granule {
		return 0, fmt.Errorf("%d bytes: %w", n, arrowbuf.ErrOutOfMemory)
	}
	return (n + granule - 1) / granule * granule, nil
}

// shares are a device's memory and pools that cross processes.
type shares struct {
	opened openings // by handle

	mu      sync.Mutex
	count   int
	failure error // the first of giving back; Release can tell nobody
}

func (s *shares) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
}

func (s *shares) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	if s.failure == nil {
		s.failure = err
	}
}

// read returns how many there are, and the first failure.
func (s *shares) read() (count int, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count, s.failure
}
