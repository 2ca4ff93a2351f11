package soft

import (
	"slices"
	"sort"
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// space is all memory that the devices of a machine, and pinned memory of the
// host, have addresses for. An address means the same on every device.
type space struct {
	mu       sync.Mutex
	segments []*segment // by address
	host     []*hostRange
	physical map[driver.Physical]*physical
	pools    map[driver.MemPool]*pool
	opened   map[driver.IPCMemHandle]*openedHandle

	retiring sync.WaitGroup // pools whose addresses are being given back
}

// memoryState is what a Driver knows of memory.
type memoryState struct{ space *space }

func newMemoryState() memoryState {
	sp := &space{
		physical: map[driver.Physical]*physical{},
		pools:    map[driver.MemPool]*pool{},
		opened:   map[driver.IPCMemHandle]*openedHandle{},
	}
	sp.register()
	return memoryState{sp}
}

// add makes a segment known. The caller holds mu, as for all that follow here
// but where it is said.
func (sp *space) add(s *segment) {
	sp.segments = slices.Insert(sp.segments, sp.behind(s.base()), s)
}

// behind returns the index of the first segment that starts behind an address.
func (sp *space) behind(address uintptr) int {
	return sort.Search(len(sp.segments), func(i int) bool { return sp.segments[i].base() > address })
}

// segment returns the segment that an address lies in, nil where there is none.
func (sp *space) segment(address uintptr) *segment {
	if i := sp.behind(address) - 1; i >= 0 && sp.segments[i].holds(address) {
		return sp.segments[i]
	}
	return nil
}

// drop forgets a segment and gives its addresses back. No work may be left that
// uses them.
func (sp *space) drop(s *segment) error {
	sp.forget(s)
	return s.unmap()
}

func (sp *space) forget(s *segment) {
	sp.segments = slices.DeleteFunc(sp.segments, func(x *segment) bool { return x == s })
}

// block returns the allocation that an address lies in.
func (sp *space) block(address uintptr) (*segment, *block) {
	if s := sp.segment(address); s != nil {
		if b := s.find(address); b != nil && b.freeing == nil {
			return s, b
		}
	}
	return nil, nil
}
