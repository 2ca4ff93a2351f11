//go:build linux

package simulated

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

const (
	alreadyRegistered driver.Result = 712
	notRegistered     driver.Result = 713
)

// hostRange is page-locked host memory. Devices access it at its host address,
// because addressing is unified.
type hostRange struct {
	memory     []byte
	registered bool
	readOnly   bool
}

func (h *hostRange) base() uintptr { return addressOf(h.memory) }

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
	return 0, invalid(call, "unknown attribute %d of host memory", a)
}

// hostRangeAfter returns the index of the first range that starts after an
// address. The caller holds mu.
func (sp *addressSpace) hostRangeAfter(address uintptr) int {
	return sort.Search(len(sp.host), func(i int) bool { return sp.host[i].base() > address })
}

// hostRangeAt returns the range that contains an address, or nil.
func (sp *addressSpace) hostRangeAt(address uintptr) *hostRange {
	if i := sp.hostRangeAfter(address) - 1; i >= 0 && address-sp.host[i].base() < uintptr(len(sp.host[i].memory)) {
		return sp.host[i]
	}
	return nil
}

// addHostRange reports false if the range overlaps another one.
func (sp *addressSpace) addHostRange(h *hostRange) bool {
	i := sp.hostRangeAfter(h.base())
	if i < len(sp.host) && sp.host[i].base() < h.base()+uintptr(len(h.memory)) || sp.hostRangeAt(h.base()) != nil {
		return false
	}
	sp.host = slices.Insert(sp.host, i, h)
	return true
}

// removeHostRange removes and returns the range that starts at an address. It
// returns nil if no such range exists or if its origin differs.
func (sp *addressSpace) removeHostRange(address uintptr, registered bool) *hostRange {
	h := sp.hostRangeAt(address)
	if h == nil || h.base() != address || h.registered != registered {
		return nil
	}
	sp.host = slices.DeleteFunc(sp.host, func(x *hostRange) bool { return x == h })
	return h
}

// hostLeaks returns an error if page-locked memory was never freed or
// unregistered.
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

// pinned returns the page-locked range that contains all of b, or nil.
func (d *Driver) pinned(b []byte) *hostRange {
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	at := addressOf(b)
	h := d.space.hostRangeAt(at)
	if h != nil {
		if _, ok := h.bytes(at, int64(len(b))); ok {
			return h
		}
	}
	return nil
}

// readOnly reports whether devices may only read the memory at an address. It
// locks mu.
func (sp *addressSpace) readOnly(address uintptr) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	h := sp.hostRangeAt(address)
	return h != nil && h.readOnly
}

func (d *Driver) MemHostAlloc(n int64, flags uint32) (uintptr, error) {
	const call = "cuMemHostAlloc"
	if _, err := d.enterCurrentDevice(call); err != nil {
		return 0, err
	}
	if n <= 0 || flags&^(driver.HostAllocPortable|driver.HostAllocDeviceMap|driver.HostAllocWriteCombined) != 0 {
		return 0, invalid(call, "%d bytes, flags %#x", n, flags)
	}
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(pages(n)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return 0, &driver.Error{Call: call, Code: driver.OutOfMemory, Detail: err.Error()}
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	d.space.addHostRange(&hostRange{memory: unsafe.Slice((*byte)(p), n)})
	return uintptr(p), nil
}

// MemFreeHost synchronizes all devices, because every device can access pinned
// memory.
func (d *Driver) MemFreeHost(address uintptr) error {
	const call = "cuMemFreeHost"
	if _, err := d.enterCurrentDevice(call); err != nil {
		return err
	}
	d.synchronizeAll()
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	h := d.space.removeHostRange(address, false)
	if h == nil {
		return invalid(call, "%#x is not a pinned allocation", address)
	}
	return system(call, unmap(unsafe.Slice(unsafe.SliceData(h.memory), pages(int64(len(h.memory))))))
}

// MemHostRegister returns an error for memory that the host cannot write,
// unless the flags make it read-only for devices.
func (d *Driver) MemHostRegister(memory []byte, flags uint32) error {
	const call = "cuMemHostRegister"
	if _, err := d.enterCurrentDevice(call); err != nil {
		return err
	}
	if len(memory) == 0 || flags&^(driver.HostRegisterPortable|driver.HostRegisterDeviceMap|driver.HostRegisterReadOnly) != 0 {
		return invalid(call, "%d bytes, flags %#x", len(memory), flags)
	}
	h := &hostRange{memory: memory, registered: true, readOnly: flags&driver.HostRegisterReadOnly != 0}
	if err := checkAccess(memory, !h.readOnly); err != nil {
		return invalid(call, "%v", err)
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	if !d.space.addHostRange(h) {
		return &driver.Error{Call: call, Code: alreadyRegistered, Detail: fmt.Sprintf("it overlaps %d bytes at %#x", len(memory), h.base())}
	}
	return nil
}

// populateSupported reports whether the kernel supports MADV_POPULATE_WRITE,
// which Linux does since 5.14.
var populateSupported = sync.OnceValue(func() bool {
	page, err := reserve(1)
	if err != nil {
		return false
	}
	defer func() { _ = unmap(page) }()
	return unix.Mprotect(page, protReadWrite) == nil && unix.Madvise(page, unix.MADV_POPULATE_WRITE) == nil
})

// checkAccess returns an error unless all pages can be read and, if write is
// set, written. It asks the kernel to populate the pages, which does not change
// them. An old kernel cannot check writing.
func checkAccess(memory []byte, write bool) error {
	if !populateSupported() {
		if !tryAccess(func() { bytes.Clone(memory) }) {
			return fmt.Errorf("%d bytes are not readable", len(memory))
		}
		return nil
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	page := uintptr(unix.Getpagesize())
	first := start &^ (page - 1)
	n := (start + uintptr(len(memory)) - first + page - 1) &^ (page - 1)
	advice := uintptr(unix.MADV_POPULATE_READ)
	if write {
		advice = unix.MADV_POPULATE_WRITE
	}
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, first, n, advice); errno != 0 {
		return fmt.Errorf("%d bytes at %#x: %w", len(memory), start, errno)
	}
	return nil
}

func (d *Driver) MemHostUnregister(address uintptr) error {
	const call = "cuMemHostUnregister"
	if _, err := d.enterCurrentDevice(call); err != nil {
		return err
	}
	d.synchronizeAll()
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	if d.space.removeHostRange(address, true) == nil {
		return &driver.Error{Call: call, Code: notRegistered, Detail: fmt.Sprintf("%#x is not the start of registered memory", address)}
	}
	return nil
}

func (d *Driver) MemHostGetDevicePointer(address uintptr) (uintptr, error) {
	const call = "cuMemHostGetDevicePointer"
	if _, err := d.enterCurrentDevice(call); err != nil {
		return 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	if d.space.hostRangeAt(address) == nil {
		return 0, invalid(call, "%#x is not in pinned memory", address)
	}
	return address, nil
}
