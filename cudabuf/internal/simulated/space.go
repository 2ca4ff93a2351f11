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

// mapped maps n bytes from offset on.
func (f *file) mapped(offset, n int64, protection int) ([]byte, error) {
	n = pages(n)
	p, err := unix.MmapPtr(f.fd, offset, nil, uintptr(n), protection, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// mapInto maps the file's start over addresses that are reserved.
func (f *file) mapInto(b []byte) error {
	_, err := unix.MmapPtr(f.fd, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), usable, unix.MAP_SHARED|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return err
}

// mapOut leaves addresses reserved that a file was mapped to.
func mapOut(b []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), unusable, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return err
}

// export returns another descriptor of the file.
func (f *file) export() (int, error) { return unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0) }

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
