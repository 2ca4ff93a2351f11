package soft

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

const (
	alreadyRegistered driver.Result = 712
	notRegistered     driver.Result = 713
)

// hostRange is memory of the host that is page-locked. Devices reach it at its
// own address, as they do where addressing is unified.
type hostRange struct {
	memory     []byte
	registered bool
	readOnly   bool
}

func (h *hostRange) base() uintptr { return addressOf(h.memory) }

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func (h *hostRange) bytes(address uintptr, n int64) ([]byte, bool) {
	offset := int64(address - h.base())
	if n < 0 || n > int64(len(h.memory))-offset {
		return nil, false
	}
	return h.memory[offset : offset+n : offset+n], true
}

func (h *hostRange) attribute(call string, a driver.PointerAttribute, address uintptr) (uint64, error) {
	switch a {
	case driver.PointerMemoryType:
		return driver.MemoryTypeHost, nil
	case driver.PointerDevicePointer, driver.PointerHostPointer:
		return uint64(address), nil
	case driver.PointerContext, driver.PointerDeviceOrdinal, driver.PointerIsLegacyIPC:
		return 0, nil
	case driver.PointerIsMapped:
		return 1, nil
	}
	return 0, invalid(call, "attribute %d of host memory", a)
}

// hostBehind returns the index of the first range that starts behind an
// address. The caller holds mu.
func (sp *space) hostBehind(address uintptr) int {
	return sort.Search(len(sp.host), func(i int) bool { return sp.host[i].base() > address })
}

// hostRange returns the range that an address lies in, nil where there is none.
func (sp *space) hostRange(address uintptr) *hostRange {
	if i := sp.hostBehind(address) - 1; i >= 0 && address-sp.host[i].base() < uintptr(len(sp.host[i].memory)) {
		return sp.host[i]
	}
	return nil
}

// addHost answers false where a range overlaps another one.
func (sp *space) addHost(h *hostRange) bool {
	i := sp.hostBehind(h.base())
	if i < len(sp.host) && sp.host[i].base() < h.base()+uintptr(len(h.memory)) || sp.hostRange(h.base()) != nil {
		return false
	}
	sp.host = slices.Insert(sp.host, i, h)
	return true
}

// takeHost forgets the range that starts at an address, nil where there is none
// of this origin.
func (sp *space) takeHost(address uintptr, registered bool) *hostRange {
	h := sp.hostRange(address)
	if h == nil || h.base() != address || h.registered != registered {
		return nil
	}
	sp.host = slices.DeleteFunc(sp.host, func(x *hostRange) bool { return x == h })
	return h
}

// hostLeaks is an error where page-locked memory was never given back.
func (d *Driver) hostLeaks() error {
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	registered := 0
	for _, h := range d.space.host {
		if h.registered {
			registered++
		}
	}
	var err error
	if n := len(d.space.host) - registered; n > 0 {
		err = fmt.Errorf("%d allocations of pinned memory never freed", n)
	}
	if registered > 0 {
		err = errors.Join(err, fmt.Errorf("%d ranges of host memory never unregistered", registered))
	}
	return err
}

// pinned returns the page-locked memory that holds all of b, nil where there is
// none.
func (d *Driver) pinned(b []byte) *hostRange {
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	at := addressOf(b)
	h := d.space.hostRange(at)
	if h != nil {
		if _, ok := h.bytes(at, int64(len(b))); ok {
			return h
		}
	}
	return nil
}

// readOnly tells whether devices may only read what is at an address. It takes
// the lock itself.
func (sp *space) readOnly(address uintptr) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	h := sp.hostRange(address)
	return h != nil && h.readOnly
}
