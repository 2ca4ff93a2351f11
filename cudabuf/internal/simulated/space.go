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

// addressSpace is all memory that the devices of a machine, and pinned memory of the
// host, have addresses for. An address means the same on every device.
type addressSpace struct {
	mu       sync.Mutex
	segments []*segment // by address
	host     []*hostRange
	physical map[driver.Physical]*physical
	pools    map[driver.MemPool]*pool
	opened   map[driver.IPCMemHandle]*openedMemory

	retiring sync.WaitGroup // pools whose addresses are being given back
}

// memoryState is what a Driver knows of memory.
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

// add makes a segment known. The caller holds mu, as for all that follow here
// but where it is said.
func (sp *addressSpace) add(s *segment) {
	sp.segments = slices.Insert(sp.segments, sp.segmentAfter(s.base()), s)
}

// segmentAfter returns the index of the first segment that starts behind an address.
func (sp *addressSpace) segmentAfter(address uintptr) int {
	return sort.Search(len(sp.segments), func(i int) bool { return sp.segments[i].base() > address })
}

// segmentAt returns the segment that an address lies in, nil where there is none.
func (sp *addressSpace) segmentAt(address uintptr) *segment {
	if i := sp.segmentAfter(address) - 1; i >= 0 && sp.segments[i].contains(address) {
		return sp.segments[i]
	}
	return nil
}

// unmapSegment forgets a segment and gives its addresses back. No work may be left that
// uses them.
func (sp *addressSpace) unmapSegment(s *segment) error {
	sp.remove(s)
	return s.unmap()
}

func (sp *addressSpace) remove(s *segment) {
	sp.segments = slices.DeleteFunc(sp.segments, func(x *segment) bool { return x == s })
}

// allocationAt returns the allocation that an address lies in.
func (sp *addressSpace) allocationAt(address uintptr) (*segment, *allocation) {
	if s := sp.segmentAt(address); s != nil {
		if alloc := s.allocationAt(address); alloc != nil && alloc.pendingFree == nil {
			return s, alloc
		}
	}
	return nil, nil
}

// segment is a range of device addresses, mapped twice: where the addresses
// are, nobody may touch it; copies and twins work on the other mapping. All
// memory that a device reaches lies in one, in blocks.
type segment struct {
	addresses   []byte // PROT_NONE
	backing     []byte // as long
	dev         *device
	kind        kind
	file        *file // what hidden maps, nil where blocks have a file of their own
	allocations []*allocation
	access      deviceSet // beside the peers of dev

	pool   *pool         // of pooled memory
	opened *openedMemory // of memory of another process
}

// kind is how memory came to be.
type kind int

const (
	ordinary kind = iota // MemAlloc
	pooled               // MemAllocAsync
	virtual              // MemAddressReserve, MemMap
	imported             // IpcOpenMemHandle
)

// allocation is an allocation: size bytes, in a segment from offset on, of which
// length are taken.
type allocation struct {
	offset, length, size int64

	owner       *context     // that it ends with, nil where it outlives contexts
	lease       *file        // of what IpcGetMemHandle exported
	physical    *physical    // of virtual memory
	access      deviceSet    // of virtual memory
	pendingFree *pendingFree // set when MemFreeAsync has been called
}

// Protections of memory that work runs on.
const (
	protReadWrite = unix.PROT_READ | unix.PROT_WRITE
	protNone      = unix.PROT_NONE
)

// deviceSet are devices by ordinal.
type deviceSet map[int]bool

func (s *segment) base() uintptr { return addressOf(s.addresses) }

// contains tells whether an address is the segment's, allocated or not.
func (s *segment) contains(address uintptr) bool {
	return address >= s.base() && address-s.base() < uintptr(len(s.addresses))
}

func (s *segment) address(alloc *allocation) uintptr { return s.base() + uintptr(alloc.offset) }

// indexEndingAfter returns the index of the first block that ends behind offset.
func (s *segment) indexEndingAfter(offset int64) int {
	return sort.Search(len(s.allocations), func(i int) bool { return s.allocations[i].offset+s.allocations[i].length > offset })
}

// ownerDevice is the device whose memory a block is: reservations take any's.
func (s *segment) ownerDevice(alloc *allocation) *device {
	if alloc.physical != nil {
		return alloc.physical.dev
	}
	return s.dev
}

// allocationAt returns the block that an address lies in, nil where there is none.
func (s *segment) allocationAt(address uintptr) *allocation {
	offset := int64(address - s.base())
	if i := s.indexEndingAfter(offset); i < len(s.allocations) && s.allocations[i].offset <= offset && offset < s.allocations[i].offset+s.allocations[i].size {
		return s.allocations[i]
	}
	return nil
}

// insert adds a block where there is none.
func (s *segment) insert(alloc *allocation) {
	s.allocations = slices.Insert(s.allocations, s.indexEndingAfter(alloc.offset), alloc)
}

func (s *segment) remove(alloc *allocation) {
	if i := slices.Index(s.allocations, alloc); i >= 0 {
		s.allocations = slices.Delete(s.allocations, i, i+1)
	}
}

// allocate adds a block in the first gap that is large enough, of whole units. It
// answers nil where none is.
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

// memory is a block's, with what it has beyond its size.
func (s *segment) memory(alloc *allocation) []byte {
	return s.backing[alloc.offset : alloc.offset+alloc.length]
}

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

// accessibleFrom tells whether a device may use a block.
func (s *segment) accessibleFrom(alloc *allocation, dev *device) bool {
	switch {
	case alloc.pendingFree != nil:
		return false
	case s.kind == virtual:
		return alloc.access[dev.ordinal]
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
	if s.addresses, err = reserve(n); err != nil {
		return nil, err
	}
	if f == nil {
		s.backing, err = reserve(n)
	} else {
		protection := protReadWrite
		if k == pooled {
			protection = protNone // until a stream comes to an allocation
		}
		s.backing, err = f.mmap(offset, n, protection)
	}
	if err != nil {
		_ = unmap(s.addresses)
		return nil, err
	}
	return s, nil
}

// unmap gives the addresses back. Nothing may run that uses them.
func (s *segment) unmap() error {
	err := unmap(s.addresses)
	if e := unmap(s.backing); err == nil {
		err = e
	}
	s.addresses, s.backing, s.allocations = nil, nil, nil
	return err
}

// registeredSpaces are those of all machines of the process, so that a fault is told
// apart from others by its address alone.
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

// Describe says what lies at a device address: whose memory, which allocation,
// where in it. It answers false for addresses of no soft device.
func Describe(address uintptr) (string, bool) {
	return describe(func(s *segment) (uintptr, bool) { return address, s.contains(address) })
}

// describeAny is Describe for addresses that may be anybody's.
func describeAny(address uintptr) string {
	if what, ok := Describe(address); ok {
		return what
	}
	return fmt.Sprintf("%#x", address)
}

// describeFault says what work touched where it faults, at an address that work sees.
func describeFault(address uintptr) string {
	what, ok := describe(func(s *segment) (uintptr, bool) {
		offset := address - addressOf(s.backing)
		return s.base() + offset, offset < uintptr(len(s.backing))
	})
	if !ok {
		return fmt.Sprintf("fault at %#x", address)
	}
	return "fault at " + what + ", which is not there at this point of the stream's order"
}

// describe asks each segment for the device address that it is about.
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

// file is memory that has no address yet, and that other processes may map.
type file struct {
	fd    int
	size  int64
	inode uint64
}

// The uses of files, told by their names.
const (
	deviceFile   = "memory"
	physicalFile = "physical"
	poolFile     = "pool"
	leaseFile    = "lease"
	eventFile    = "event"
)

const filePrefix = "quiver-soft-"

// newFile makes memory of a device. Its size never changes.
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

// openFile duplicates a descriptor of this process's or, by its path in /proc,
// of another one's file. It is an error unless the file has the use that is
// asked for.
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
		return nil, 0, fmt.Errorf("%s is %s, which is no %s of a soft device", path, name, use)
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

// mmapOver maps the file's start over addresses that are reserved.
func (f *file) mmapOver(b []byte) error {
	_, err := unix.MmapPtr(f.fd, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), protReadWrite, unix.MAP_SHARED|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return err
}

// unmapToReserved leaves addresses reserved that a file was mapped to.
func unmapToReserved(b []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), protNone, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return err
}

// dup returns another descriptor of the file.
func (f *file) dup() (int, error) { return unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0) }

func (f *file) close() error { return unix.Close(f.fd) }

// reserve returns addresses that nobody may touch, from a multiple of the
// granularity on.
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

// pages rounds up to whole pages.
func pages(n int64) int64 {
	page := int64(unix.Getpagesize())
	return (n + page - 1) / page * page
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
