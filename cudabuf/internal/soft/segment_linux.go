package soft

import (
	"slices"
	"sort"

	"golang.org/x/sys/unix"
)

// segment is a range of device addresses, mapped twice: where the addresses
// are, nobody may touch it; copies and twins work on the other mapping. All
// memory that a device reaches lies in one, in blocks.
type segment struct {
	device []byte // PROT_NONE
	hidden []byte // as long
	dev    *device
	kind   kind
	file   *file // what hidden maps, nil where blocks have a file of their own
	blocks []*block
	access deviceSet // beside the peers of dev

	pool   *pool         // of pooled memory
	opened *openedHandle // of memory of another process
}

// kind is how memory came to be.
type kind int

const (
	ordinary kind = iota // MemAlloc
	pooled               // MemAllocAsync
	virtual              // MemAddressReserve, MemMap
	imported             // IpcOpenMemHandle
)

// block is an allocation: size bytes, in a segment from offset on, of which
// length are taken.
type block struct {
	offset, length, size int64

	owner    *context  // that it ends with, nil where it outlives contexts
	lease    *file     // of what IpcGetMemHandle exported
	physical *physical // of virtual memory
	access   deviceSet // of virtual memory
	freeing  *freeing  // set when MemFreeAsync has been called
}

// Protections of memory that work runs on.
const (
	usable   = unix.PROT_READ | unix.PROT_WRITE
	unusable = unix.PROT_NONE
)

// deviceSet are devices by ordinal.
type deviceSet map[int]bool

func (s *segment) base() uintptr { return addressOf(s.device) }

// holds tells whether an address is the segment's, allocated or not.
func (s *segment) holds(address uintptr) bool {
	return address >= s.base() && address-s.base() < uintptr(len(s.device))
}

func (s *segment) address(b *block) uintptr { return s.base() + uintptr(b.offset) }

// at returns the index of the first block that ends behind offset.
func (s *segment) at(offset int64) int {
	return sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].offset+s.blocks[i].length > offset })
}

// home is the device whose memory a block is: reservations take any's.
func (s *segment) home(b *block) *device {
	if b.physical != nil {
		return b.physical.dev
	}
	return s.dev
}

// find returns the block that an address lies in, nil where there is none.
func (s *segment) find(address uintptr) *block {
	offset := int64(address - s.base())
	if i := s.at(offset); i < len(s.blocks) && s.blocks[i].offset <= offset && offset < s.blocks[i].offset+s.blocks[i].size {
		return s.blocks[i]
	}
	return nil
}

// insert adds a block where there is none.
func (s *segment) insert(b *block) { s.blocks = slices.Insert(s.blocks, s.at(b.offset), b) }

func (s *segment) remove(b *block) {
	if i := slices.Index(s.blocks, b); i >= 0 {
		s.blocks = slices.Delete(s.blocks, i, i+1)
	}
}

// place adds a block in the first gap that is large enough, of whole units. It
// answers nil where none is.
func (s *segment) place(n, unit int64) *block {
	length := (n + unit - 1) / unit * unit
	var offset int64
	i := 0
	for ; i < len(s.blocks) && s.blocks[i].offset-offset < length; i++ {
		offset = s.blocks[i].offset + s.blocks[i].length
	}
	if length > int64(len(s.device))-offset {
		return nil
	}
	b := &block{offset: offset, length: length, size: n}
	s.blocks = slices.Insert(s.blocks, i, b)
	return b
}

// memory is a block's, with what it has beyond its size.
func (s *segment) memory(b *block) []byte { return s.hidden[b.offset : b.offset+b.length] }

// poison fills the start of memory with what nobody expects: that of a device is
// not zeroed.
func poison(memory []byte) {
	start := memory[:min(len(memory), 1<<16)]
	for i := range start {
		start[i] = 0xa5
	}
}

// discard gives the pages of a block back to the system. Keeping them is the
// worst that a failure does.
func (s *segment) discard(offset, n int64) {
	_ = unix.Fallocate(s.file.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, n)
}

// bytes returns what dev sees at n bytes from an address on. They lie in one
// block, or, of virtual memory, in neighbours.
func (s *segment) bytes(dev *device, address uintptr, n int64) ([]byte, bool) {
	offset := int64(address - s.base())
	if n < 0 || n > int64(len(s.device))-offset {
		return nil, false
	}
	end := offset + n
	for i, from := s.at(offset), offset; ; i++ {
		if i == len(s.blocks) || s.blocks[i].offset > from || !s.reachable(s.blocks[i], dev) {
			return nil, false
		}
		from = s.blocks[i].offset + s.blocks[i].size
		if from >= end {
			return s.hidden[offset:end:end], true
		}
		if s.kind != virtual {
			return nil, false
		}
	}
}

// reachable tells whether a device may use a block.
func (s *segment) reachable(b *block, dev *device) bool {
	switch {
	case b.freeing != nil:
		return false
	case s.kind == virtual:
		return b.access[dev.ordinal]
	case s.access[dev.ordinal] || s.dev == dev:
		return true
	}
	return s.kind == ordinary && dev.peers[s.dev.ordinal]
}

// newSegment takes addresses for n bytes, with memory of a file from offset on
// behind them, or with nothing where that is nil.
func newSegment(dev *device, k kind, n int64, f *file, offset int64) (*segment, error) {
	s := &segment{dev: dev, kind: k, file: f}
	var err error
	if s.device, err = reserve(n); err != nil {
		return nil, err
	}
	if f == nil {
		s.hidden, err = reserve(n)
	} else {
		protection := usable
		if k == pooled {
			protection = unusable // until a stream comes to an allocation
		}
		s.hidden, err = f.mapped(offset, n, protection)
	}
	if err != nil {
		_ = unmap(s.device)
		return nil, err
	}
	return s, nil
}

// unmap gives the addresses back. Nothing may run that uses them.
func (s *segment) unmap() error {
	err := unmap(s.device)
	if e := unmap(s.hidden); err == nil {
		err = e
	}
	s.device, s.hidden, s.blocks = nil, nil, nil
	return err
}
