package soft

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// granule is what allocations are rounded up to, as alignment and in size.
const granule = 512

// arena is the memory of one device: one file in memory, mapped twice. Device
// addresses are those of a mapping that nobody may touch; copies and twins work
// on the other.
type arena struct {
	fd     int
	device []byte // PROT_NONE
	hidden []byte
	size   int64

	mu     sync.Mutex
	blocks []block // by offset
	used   int64
}

type block struct{ offset, length int64 }

func newArena(size int64) (*arena, error) {
	a := &arena{size: size}
	page := int64(unix.Getpagesize())
	span := (size + page - 1) / page * page
	var err error
	if a.fd, err = unix.MemfdCreate("cudatest", unix.MFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("memory of a soft device: %w", err)
	}
	if err = unix.Ftruncate(a.fd, span); err == nil {
		a.device, err = unix.Mmap(a.fd, 0, int(span), unix.PROT_NONE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	}
	if err == nil {
		a.hidden, err = unix.Mmap(a.fd, 0, int(span), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	}
	if err != nil {
		_ = a.close()
		return nil, fmt.Errorf("mapping %d bytes of a soft device: %w", span, err)
	}
	return a, nil
}

func (a *arena) base() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(a.device))) }

// alloc takes the first gap that is large enough. What it returns is filled, at
// its start, with what nobody expects: memory of a device is not zeroed.
func (a *arena) alloc(n int64) (uintptr, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > a.size {
		return 0, false
	}
	n = (n + granule - 1) / granule * granule
	var offset int64
	at := 0
	for ; at < len(a.blocks) && a.blocks[at].offset-offset < n; at++ {
		offset = a.blocks[at].offset + a.blocks[at].length
	}
	if n > a.size-offset {
		return 0, false
	}
	a.blocks = slices.Insert(a.blocks, at, block{offset, n})
	a.used += n
	start := a.hidden[offset : offset+min(n, 1<<16)]
	for i := range start {
		start[i] = 0xa5
	}
	return a.base() + uintptr(offset), true
}

// free gives a block back, and its pages to the system. It answers false for
// anything but the start of a block.
func (a *arena) free(address uintptr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.find(address)
	if !ok || a.base()+uintptr(a.blocks[i].offset) != address {
		return false
	}
	b := a.blocks[i]
	// Keeping the pages is the worst that a failure here does.
	_ = unix.Fallocate(a.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, b.offset, b.length)
	a.blocks = slices.Delete(a.blocks, i, i+1)
	a.used -= b.length
	return true
}

// bytes returns the memory behind n bytes at a device address, which must lie
// within one block.
func (a *arena) bytes(address uintptr, n int64) ([]byte, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.find(address)
	if !ok || n < 0 {
		return nil, false
	}
	b := a.blocks[i]
	offset := int64(address - a.base())
	if n > b.offset+b.length-offset {
		return nil, false
	}
	return a.hidden[offset : offset+n : offset+n], true
}

// find returns the block that an address lies in.
func (a *arena) find(address uintptr) (int, bool) {
	if !a.holds(address) {
		return 0, false
	}
	offset := int64(address - a.base())
	i := sort.Search(len(a.blocks), func(i int) bool { return a.blocks[i].offset > offset }) - 1
	return i, i >= 0 && offset < a.blocks[i].offset+a.blocks[i].length
}

// holds tells whether an address is one of this device's, allocated or not.
func (a *arena) holds(address uintptr) bool {
	return address >= a.base() && address-a.base() < uintptr(len(a.device))
}

func (a *arena) info() (used int64, blocks int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used, len(a.blocks)
}

func (a *arena) close() error {
	for _, m := range [][]byte{a.device, a.hidden} {
		if m != nil {
			if err := unix.Munmap(m); err != nil {
				return err
			}
		}
	}
	return unix.Close(a.fd)
}
