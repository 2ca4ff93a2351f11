//go:build linux

package simulated

import (
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// addressSpace holds all device memory and all pinned host memory of a Driver.
// An address means the same on every device.
type addressSpace struct {
	mu       sync.Mutex
	segments []*segment // by address
	host     []*hostRange
	physical map[driver.Physical]*physical
	pools    map[driver.MemPool]*pool
	opened   map[driver.IPCMemHandle]*openedMemory

	retiring sync.WaitGroup // destroyed pools whose addresses are being unmapped
}

// memoryState is the part of a Driver that describes memory.
type memoryState struct{ space *addressSpace }

func newMemoryState() memoryState {
	sp := &addressSpace{
		physical: map[driver.Physical]*physical{},
		pools:    map[driver.MemPool]*pool{},
		opened:   map[driver.IPCMemHandle]*openedMemory{},
	}
	sp.register()
	return memoryState{sp}
}

// add inserts a segment. The caller of this method and of those below holds mu,
// unless the comment says otherwise.
func (sp *addressSpace) add(s *segment) {
	sp.segments = slices.Insert(sp.segments, sp.segmentAfter(s.base()), s)
}

// segmentAfter returns the index of the first segment that starts after an
// address.
func (sp *addressSpace) segmentAfter(address uintptr) int {
	return sort.Search(len(sp.segments), func(i int) bool { return sp.segments[i].base() > address })
}

// segmentAt returns the segment that contains an address, or nil.
func (sp *addressSpace) segmentAt(address uintptr) *segment {
	if i := sp.segmentAfter(address) - 1; i >= 0 && sp.segments[i].contains(address) {
		return sp.segments[i]
	}
	return nil
}

// unmapSegment removes a segment and unmaps its addresses. No operation may
// still use them.
func (sp *addressSpace) unmapSegment(s *segment) error {
	sp.remove(s)
	return s.unmap()
}

func (sp *addressSpace) remove(s *segment) {
	sp.segments = slices.DeleteFunc(sp.segments, func(x *segment) bool { return x == s })
}

// allocationAt returns the allocation that contains an address, or nil.
func (sp *addressSpace) allocationAt(address uintptr) (*segment, *allocation) {
	if s := sp.segmentAt(address); s != nil {
		if alloc := s.allocationAt(address); alloc != nil && alloc.pendingFree == nil {
			return s, alloc
		}
	}
	return nil, nil
}

// segment is a range of device addresses that is mapped twice. The mapping at
// the device addresses is inaccessible, so that the host faults there, except for
// managed memory. Copies and host kernels use the other mapping.
type segment struct {
	addresses   []byte // inaccessible unless kind is managed
	backing     []byte // the same length
	dev         *device
	kind        kind
	file        *file // backing maps it; nil if each allocation has its own file
	allocations []*allocation
	access      deviceSet // devices with access, in addition to the peers of dev

	pool   *pool         // set if kind is pooled
	opened *openedMemory // set if kind is imported
}

// kind is the driver call that created a segment.
type kind int

const (
	ordinary kind = iota // MemAlloc
	managed              // MemAllocManaged; the addresses are accessible too
	pooled               // MemAllocAsync
	virtual              // MemAddressReserve, MemMap
	imported             // IpcOpenMemHandle
)

// allocation is size bytes at offset in a segment. It occupies length bytes,
// which is size rounded up.
type allocation struct {
	offset, length, size int64

	owner       *context     // the allocation is freed with it; nil if it outlives contexts
	lease       *file        // set if IpcGetMemHandle exported the allocation
	physical    *physical    // set if the segment is virtual
	access      deviceSet    // set if the segment is virtual
	pendingFree *pendingFree // set after MemFreeAsync
}

// Protections of the mapping that operations use.
const (
	protReadWrite = unix.PROT_READ | unix.PROT_WRITE
	protNone      = unix.PROT_NONE
)

// deviceSet is a set of device ordinals.
type deviceSet map[int]bool

func (s *segment) base() uintptr { return addressOf(s.addresses) }

// contains reports whether an address lies in the segment, allocated or not.
func (s *segment) contains(address uintptr) bool {
	return address >= s.base() && address-s.base() < uintptr(len(s.addresses))
}

// newSegment reserves addresses for n bytes. They are backed by f from offset
// on, or by nothing if f is nil.
func newSegment(dev *device, k kind, n int64, f *file, offset int64) (*segment, error) {
	s := &segment{dev: dev, kind: k, file: f}
	var err error
	if s.addresses, err = reserve(n); err != nil {
		return nil, err
	}
	if f == nil {
		s.backing, err = reserve(n)
	} else {
		protection := protReadWrite
		if k == pooled {
			protection = protNone // until an allocation runs on its stream
		}
		s.backing, err = f.mmap(offset, n, protection)
		if err == nil && k == managed {
			err = f.mmapOver(s.addresses)
		}
	}
	if err != nil {
		_ = unmap(s.addresses)
		return nil, err
	}
	return s, nil
}

// unmap releases the addresses. No operation may still use them.
func (s *segment) unmap() error {
	err := unmap(s.addresses)
	if e := unmap(s.backing); err == nil {
		err = e
	}
	s.addresses, s.backing, s.allocations = nil, nil, nil
	return err
}

func (s *segment) address(alloc *allocation) uintptr { return s.base() + uintptr(alloc.offset) }

// indexEndingAfter returns the index of the first allocation that ends after
// offset.
func (s *segment) indexEndingAfter(offset int64) int {
	return sort.Search(len(s.allocations), func(i int) bool { return s.allocations[i].offset+s.allocations[i].length > offset })
}

// ownerDevice returns the device whose memory the allocation is. A reservation
// can map memory of any device.
func (s *segment) ownerDevice(alloc *allocation) *device {
	if alloc.physical != nil {
		return alloc.physical.dev
	}
	return s.dev
}

// allocationAt returns the allocation that contains an address, or nil.
func (s *segment) allocationAt(address uintptr) *allocation {
	offset := int64(address - s.base())
	if i := s.indexEndingAfter(offset); i < len(s.allocations) && s.allocations[i].offset <= offset && offset < s.allocations[i].offset+s.allocations[i].size {
		return s.allocations[i]
	}
	return nil
}

// insert adds an allocation to a free range.
func (s *segment) insert(alloc *allocation) {
	s.allocations = slices.Insert(s.allocations, s.indexEndingAfter(alloc.offset), alloc)
}

func (s *segment) remove(alloc *allocation) {
	if i := slices.Index(s.allocations, alloc); i >= 0 {
		s.allocations = slices.Delete(s.allocations, i, i+1)
	}
}

// allocate adds an allocation in the first gap that holds n bytes rounded up to
// unit. It returns nil if no gap does.
func (s *segment) allocate(n, unit int64) *allocation {
	length := (n + unit - 1) / unit * unit
	var offset int64
	i := 0
	for ; i < len(s.allocations) && s.allocations[i].offset-offset < length; i++ {
		offset = s.allocations[i].offset + s.allocations[i].length
	}
	if length > int64(len(s.addresses))-offset {
		return nil
	}
	alloc := &allocation{offset: offset, length: length, size: n}
	s.allocations = slices.Insert(s.allocations, i, alloc)
	return alloc
}

// memory returns all bytes that the allocation occupies.
func (s *segment) memory(alloc *allocation) []byte {
	return s.backing[alloc.offset : alloc.offset+alloc.length]
}

// poison fills the start of new memory with a recognizable value, because CUDA
// does not zero it.
func poison(memory []byte) {
	start := memory[:min(len(memory), 1<<16)]
	for i := range start {
		start[i] = 0xa5
	}
}

// discard returns pages to the system. A failure only keeps the pages.
func (s *segment) discard(offset, n int64) {
	_ = unix.Fallocate(s.file.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, n)
}

// bytes returns n bytes at address as dev accesses them. They must lie in one
// allocation, or in adjacent mappings of virtual memory.
func (s *segment) bytes(dev *device, address uintptr, n int64) ([]byte, bool) {
	offset := int64(address - s.base())
	if n < 0 || n > int64(len(s.addresses))-offset {
		return nil, false
	}
	end := offset + n
	for i, from := s.indexEndingAfter(offset), offset; ; i++ {
		if i == len(s.allocations) || s.allocations[i].offset > from || !s.accessibleFrom(s.allocations[i], dev) {
			return nil, false
		}
		from = s.allocations[i].offset + s.allocations[i].size
		if from >= end {
			return s.backing[offset:end:end], true
		}
		if s.kind != virtual {
			return nil, false
		}
	}
}

// accessibleFrom reports whether a device can access an allocation.
func (s *segment) accessibleFrom(alloc *allocation, dev *device) bool {
	switch {
	case alloc.pendingFree != nil:
		return false
	case s.kind == virtual:
		return alloc.access[dev.ordinal]
	case s.access[dev.ordinal] || s.dev == dev:
		return true
	}
	return s.kind == managed || s.kind == ordinary && dev.peers[s.dev.ordinal]
}

// registeredSpaces holds the address spaces of all drivers of the process, so
// that a fault handler can look an address up.
var registeredSpaces struct {
	sync.Mutex
	all []*addressSpace
}

func (sp *addressSpace) register() {
	registeredSpaces.Lock()
	defer registeredSpaces.Unlock()
	registeredSpaces.all = append(registeredSpaces.all, sp)
}

func (sp *addressSpace) unregister() {
	registeredSpaces.Lock()
	defer registeredSpaces.Unlock()
	registeredSpaces.all = slices.DeleteFunc(registeredSpaces.all, func(x *addressSpace) bool { return x == sp })
}

// Describe names the device, the allocation and the offset of a device address.
// It reports false if the address belongs to no simulated device.
func Describe(address uintptr) (string, bool) {
	return describe(func(s *segment) (uintptr, bool) { return address, s.contains(address) })
}

// describeAny returns the description of a device address, or the number of any
// other address.
func describeAny(address uintptr) string {
	if what, ok := Describe(address); ok {
		return what
	}
	return fmt.Sprintf("%#x", address)
}

// describeFault describes the address of a fault in the mapping that operations
// use.
func describeFault(address uintptr) string {
	what, ok := describe(func(s *segment) (uintptr, bool) {
		offset := address - addressOf(s.backing)
		return s.base() + offset, offset < uintptr(len(s.backing))
	})
	if !ok {
		return fmt.Sprintf("fault at %#x", address)
	}
	return "fault at " + what + ", which is not allocated at this point of the stream's order"
}

// describe returns the description of the device address that addressIn finds
// in some segment.
func describe(addressIn func(*segment) (uintptr, bool)) (string, bool) {
	registeredSpaces.Lock()
	all := slices.Clone(registeredSpaces.all)
	registeredSpaces.Unlock()
	for _, sp := range all {
		if s, ok := sp.describe(addressIn); ok {
			return s, true
		}
	}
	return "", false
}

func (sp *addressSpace) describe(addressIn func(*segment) (uintptr, bool)) (string, bool) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for _, s := range sp.segments {
		address, ok := addressIn(s)
		if !ok {
			continue
		}
		alloc := s.allocationAt(address)
		if alloc == nil {
			return fmt.Sprintf("%#x of cuda:%d, where no memory is allocated", address, s.dev.ordinal), true
		}
		start := s.address(alloc)
		return fmt.Sprintf("%#x of cuda:%d, byte %d of %d bytes allocated at %#x", address, s.ownerDevice(alloc).ordinal, address-start, alloc.size, start), true
	}
	return "", false
}

// file is memory without an address. Other processes can map it.
type file struct {
	fd    int
	size  int64
	inode uint64
}

// Uses of a file, which are part of its name.
const (
	deviceFile   = "memory"
	physicalFile = "physical"
	poolFile     = "pool"
	leaseFile    = "lease"
	eventFile    = "event"
)

const filePrefix = "quiver-simulated-"

// newFile creates device memory of a fixed size.
func newFile(use string, ordinal int, size int64) (*file, error) {
	fd, err := unix.MemfdCreate(fmt.Sprintf("%s%s-%d", filePrefix, use, ordinal), unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := &file{fd: fd}
	if err = unix.Ftruncate(fd, size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		err = f.stat()
	}
	if err != nil {
		_ = f.close()
		return nil, err
	}
	return f, nil
}

// openFile opens a file by its path in /proc, which names a descriptor of this
// or another process. It returns an error if the file does not have the given
// use.
func openFile(path, use string) (f *file, ordinal int, err error) {
	name, err := os.Readlink(path)
	if err != nil {
		return nil, 0, err
	}
	rest, ok := strings.CutPrefix(name, "/memfd:"+filePrefix+use+"-")
	if ok {
		_, err = fmt.Sscanf(rest, "%d", &ordinal)
	}
	if !ok || err != nil {
		return nil, 0, fmt.Errorf("%s is %s: want a %s file of a simulated device", path, name, use)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	f = &file{fd: fd}
	if err := f.stat(); err != nil {
		_ = f.close()
		return nil, 0, err
	}
	return f, ordinal, nil
}

func (f *file) stat() error {
	var s unix.Stat_t
	err := unix.Fstat(f.fd, &s)
	f.size, f.inode = s.Size, s.Ino
	return err
}

// mmap maps n bytes from offset on.
func (f *file) mmap(offset, n int64, protection int) ([]byte, error) {
	n = pages(n)
	p, err := unix.MmapPtr(f.fd, offset, nil, uintptr(n), protection, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// mmapOver maps the start of the file over reserved addresses.
func (f *file) mmapOver(b []byte) error {
	_, err := unix.MmapPtr(f.fd, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), protReadWrite, unix.MAP_SHARED|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return err
}

// unmapToReserved unmaps a file and keeps its addresses reserved.
func unmapToReserved(b []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), protNone, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return err
}

// dup returns another descriptor of the file. The caller must close it.
func (f *file) dup() (int, error) { return unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0) }

func (f *file) close() error { return unix.Close(f.fd) }

// reserve returns n inaccessible bytes of addresses, aligned to the
// granularity.
func reserve(n int64) ([]byte, error) {
	n = pages(n)
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n+granularity), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	before := -uintptr(p) & (granularity - 1)
	if before > 0 {
		err = unix.MunmapPtr(p, before)
	}
	if after := granularity - before; after > 0 && err == nil {
		err = unix.MunmapPtr(unsafe.Add(p, before+uintptr(n)), after)
	}
	return unsafe.Slice((*byte)(unsafe.Add(p, before)), n), err
}

func unmap(b []byte) error {
	if b == nil {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)))
}

// pages rounds n up to whole pages.
func pages(n int64) int64 {
	page := int64(unix.Getpagesize())
	return (n + page - 1) / page * page
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
