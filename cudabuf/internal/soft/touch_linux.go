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
	spaces.Lock()
	all := slices.Clone(spaces.all)
	spaces.Unlock()
	for _, sp := range all {
		if s, ok := sp.describe(address); ok {
			return s, true
		}
	}
	return "", false
}

func (sp *space) describe(address uintptr) (string, bool) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	s := sp.segment(address)
	if s == nil {
		return "", false
	}
	b := s.find(address)
	if b == nil || b.freeing != nil {
		return fmt.Sprintf("%#x of cuda:%d, where no memory is allocated", address, s.dev.ordinal), true
	}
	at := s.address(b)
	return fmt.Sprintf("%#x of cuda:%d, byte %d of %d bytes allocated at %#x", address, s.dev.ordinal, address-at, b.size, at), true
}
