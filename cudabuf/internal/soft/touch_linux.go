package soft

import (
	"fmt"
	"slices"
	"sync"
)

// spaces are those of all machines of the process, so that a fault is told
// apart from others by its address alone.
var spaces struct {
	sync.Mutex
	all []*space
}

func (sp *space) register() {
	spaces.Lock()
	defer spaces.Unlock()
	spaces.all = append(spaces.all, sp)
}

func (sp *space) unregister() {
	spaces.Lock()
	defer spaces.Unlock()
	spaces.all = slices.DeleteFunc(spaces.all, func(x *space) bool { return x == sp })
}

// Describe says what lies at a device address: whose memory, which allocation,
// where in it. It answers false for addresses of no soft device.
func Describe(address uintptr) (string, bool) {
	return describe(func(s *segment) (uintptr, bool) { return address, s.holds(address) })
}

// where is Describe for addresses that may be anybody's.
func where(address uintptr) string {
	if what, ok := Describe(address); ok {
		return what
	}
	return fmt.Sprintf("%#x", address)
}

// fault says what work touched where it faults, at an address that work sees.
func fault(address uintptr) string {
	what, ok := describe(func(s *segment) (uintptr, bool) {
		offset := address - addressOf(s.hidden)
		return s.base() + offset, offset < uintptr(len(s.hidden))
	})
	if !ok {
		return fmt.Sprintf("fault at %#x", address)
	}
	return "fault at " + what + ", which is not there at this point of the stream's order"
}

// describe asks each segment for the device address that it is about.
func describe(at func(*segment) (uintptr, bool)) (string, bool) {
	spaces.Lock()
	all := slices.Clone(spaces.all)
	spaces.Unlock()
	for _, sp := range all {
		if s, ok := sp.describe(at); ok {
			return s, true
		}
	}
	return "", false
}

func (sp *space) describe(at func(*segment) (uintptr, bool)) (string, bool) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for _, s := range sp.segments {
		address, ok := at(s)
		if !ok {
			continue
		}
		b := s.find(address)
		if b == nil {
			return fmt.Sprintf("%#x of cuda:%d, where no memory is allocated", address, s.dev.ordinal), true
		}
		start := s.address(b)
		return fmt.Sprintf("%#x of cuda:%d, byte %d of %d bytes allocated at %#x", address, s.home(b).ordinal, address-start, b.size, start), true
	}
	return "", false
}
