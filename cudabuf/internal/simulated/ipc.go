//go:build linux

package simulated

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// memHandle is the content of an IPCMemHandle. The lease is an empty file that
// the exporter keeps while the allocation exists. Without the lease, the memory
// may belong to another allocation.
type memHandle struct {
	pid          int32
	fd, lease    int32
	inode        uint64
	leaseInode   uint64
	offset, size int64
}

const ipcMagic = "qvih"

func (h memHandle) encode() (b driver.IPCMemHandle) {
	p := append(b[:0], ipcMagic...)
	for _, v := range []int32{h.pid, h.fd, h.lease} {
		p = binary.NativeEndian.AppendUint32(p, uint32(v))
	}
	for _, v := range []uint64{h.inode, h.leaseInode, uint64(h.offset), uint64(h.size)} {
		p = binary.NativeEndian.AppendUint64(p, v)
	}
	return b
}

func decodeMemHandle(b driver.IPCMemHandle) (h memHandle, ok bool) {
	p := b[len(ipcMagic):]
	for _, v := range []*int32{&h.pid, &h.fd, &h.lease} {
		*v = int32(binary.NativeEndian.Uint32(p))
		p = p[4:]
	}
	for _, v := range []*uint64{&h.inode, &h.leaseInode} {
		*v = binary.NativeEndian.Uint64(p)
		p = p[8:]
	}
	h.offset, h.size = int64(binary.NativeEndian.Uint64(p)), int64(binary.NativeEndian.Uint64(p[8:]))
	return h, string(b[:len(ipcMagic)]) == ipcMagic && h.offset >= 0 && h.size > 0 && h.pid > 0
}

// openedMemory is memory of another process.
type openedMemory struct {
	handle     driver.IPCMemHandle
	segment    *segment
	references int
}

// IpcGetMemHandle returns the handle of the whole allocation that contains the
// address.
func (d *Driver) IpcGetMemHandle(address uintptr) (driver.IPCMemHandle, error) {
	const call = "cuIpcGetMemHandle"
	if _, err := d.enterCurrentDevice(call); err != nil {
		return driver.IPCMemHandle{}, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	s, alloc := d.space.allocationAt(address)
	if s == nil || s.kind != ordinary {
		return driver.IPCMemHandle{}, invalid(call, "%#x is not in memory of cuMemAlloc in this process", address)
	}
	if alloc.lease == nil {
		f, err := newFile(leaseFile, s.dev.ordinal, 0)
		if err != nil {
			return driver.IPCMemHandle{}, system(call, err)
		}
		alloc.lease = f
	}
	h := memHandle{int32(os.Getpid()), int32(s.file.fd), int32(alloc.lease.fd), s.file.inode, alloc.lease.inode, alloc.offset, alloc.size}
	return h.encode(), nil
}

// revokeHandles makes the exported handles of an allocation invalid.
func (alloc *allocation) revokeHandles() {
	if alloc.lease != nil {
		_ = alloc.lease.close()
		alloc.lease = nil
	}
}

// IpcOpenMemHandle maps a handle once and counts how often it is opened.
func (d *Driver) IpcOpenMemHandle(name driver.IPCMemHandle) (uintptr, error) {
	const call = "cuIpcOpenMemHandle"
	dev, err := d.enterCurrentDevice(call)
	if err != nil {
		return 0, err
	}
	h, ok := decodeMemHandle(name)
	if !ok {
		return 0, invalid(call, "the bytes are not a handle of a simulated device")
	}
	if int(h.pid) == os.Getpid() {
		return 0, &driver.Error{Call: call, Code: driver.InvalidContext, Detail: "this process exported the handle"}
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	o := d.space.opened[name]
	if o == nil {
		s, err := d.importSegment(h)
		if err != nil {
			return 0, invalid(call, "%v", err)
		}
		o = &openedMemory{handle: name, segment: s}
	}
	s := o.segment
	if dev != s.dev && !d.canReach(dev, s.dev) {
		if o.references == 0 {
			_ = errors.Join(s.unmap(), s.file.close()) // a failure only keeps the addresses
		}
		return 0, &driver.Error{Call: call, Code: peerUnsupported, Detail: fmt.Sprintf("cuda:%d does not reach memory of cuda:%d", dev.ordinal, s.dev.ordinal)}
	}
	if o.references++; o.references == 1 {
		s.opened, s.access = o, deviceSet{}
		d.space.opened[name] = o
		d.space.add(s)
	}
	s.access[dev.ordinal] = true
	return s.address(s.allocations[0]), nil
}

// importSegment maps the memory of a handle.
func (d *Driver) importSegment(h memHandle) (*segment, error) {
	f, ordinal, err := h.openFile(h.fd, deviceFile, h.inode)
	if err != nil {
		return nil, err
	}
	s, err := d.mapImported(h, f, ordinal)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return s, nil
}

func (d *Driver) mapImported(h memHandle, f *file, ordinal int) (*segment, error) {
	lease, _, err := h.openFile(h.lease, leaseFile, h.leaseInode)
	if err != nil {
		return nil, fmt.Errorf("the memory is freed: %w", err)
	}
	if err := lease.close(); err != nil {
		return nil, err
	}
	if ordinal >= len(d.devices) {
		return nil, fmt.Errorf("memory of cuda:%d: this driver has %d devices", ordinal, len(d.devices))
	}
	if h.offset > f.size-h.size {
		return nil, fmt.Errorf("%d bytes at offset %d of a file of %d bytes", h.size, h.offset, f.size)
	}
	before := h.offset % int64(os.Getpagesize()) // a mapping begins at a page
	s, err := newSegment(d.devices[ordinal], imported, before+h.size, f, h.offset-before)
	if err == nil {
		s.insert(&allocation{offset: before, length: h.size, size: h.size})
	}
	return s, err
}

// openFile opens a file of the exporter. It returns an error if the descriptor
// now refers to another file.
func (h memHandle) openFile(fd int32, use string, inode uint64) (*file, int, error) {
	f, ordinal, err := openFile(fmt.Sprintf("/proc/%d/fd/%d", h.pid, fd), use)
	if err != nil {
		return nil, 0, err
	}
	if f.inode != inode {
		return nil, 0, errors.Join(errors.New("the exporter has replaced the file"), f.close())
	}
	return f, ordinal, nil
}

// IpcCloseMemHandle ends one opening of a handle. It synchronizes all devices.
func (d *Driver) IpcCloseMemHandle(address uintptr) error {
	const call = "cuIpcCloseMemHandle"
	if _, err := d.enterCurrentDevice(call); err != nil {
		return err
	}
	d.synchronizeAll()
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	s := d.space.segmentAt(address)
	if s == nil || s.kind != imported || s.address(s.allocations[0]) != address {
		return invalid(call, "%#x is not memory of cuIpcOpenMemHandle", address)
	}
	if s.opened.references--; s.opened.references > 0 {
		return nil
	}
	delete(d.space.opened, s.opened.handle)
	f := s.file
	return system(call, errors.Join(d.space.unmapSegment(s), f.close()))
}

// ipcEvent is an event of several processes. Its counters lie in shared memory,
// which is unmapped when the ipcEvent is unreachable.
type ipcEvent struct {
	*eventCounters
	file   *file
	opened bool // created by another process
}

type eventCounters struct {
	recorded    atomic.Uint64
	completed   atomic.Uint64
	recorderPID atomic.Int64 // the process of the last record
}

func newIPCEvent(f *file, opened bool) (*ipcEvent, error) {
	memory, err := f.mmap(0, f.size, protReadWrite)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	e := &ipcEvent{(*eventCounters)(unsafe.Pointer(unsafe.SliceData(memory))), f, opened}
	runtime.AddCleanup(e, func(f *file) { _ = errors.Join(unmap(memory), f.close()) }, f)
	return e, nil
}

func (e *ipcEvent) beginRecord() (finish func()) {
	e.recorderPID.Store(int64(os.Getpid()))
	n := e.recorded.Add(1)
	return func() {
		for done := e.completed.Load(); done < n && !e.completed.CompareAndSwap(done, n); {
			done = e.completed.Load()
		}
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, e.futex(), futexWake, 1<<30, 0, 0, 0)
	}
}

func (e *ipcEvent) lastRecord() dependency {
	if n := e.recorded.Load(); n > 0 {
		return ipcEventRecord{e, n}
	}
	return nil
}

const (
	futexWait = 0
	futexWake = 1
)

// futex returns the address of the low half of completed.
func (e *ipcEvent) futex() uintptr { return uintptr(unsafe.Pointer(&e.completed)) }

// ipcEventRecord is the n-th record of an event, by any process.
type ipcEventRecord struct {
	event *ipcEvent
	n     uint64
}

func (p ipcEventRecord) done() bool { return p.event.completed.Load() >= p.n }

// wait also returns when the process of the last record has died, because its
// streams no longer exist.
func (p ipcEventRecord) wait() {
	for {
		done := p.event.completed.Load()
		if done >= p.n {
			return
		}
		timeout := unix.NsecToTimespec(int64(100 * time.Millisecond))
		_, _, errno := unix.Syscall6(unix.SYS_FUTEX, p.event.futex(), futexWait, uintptr(uint32(done)), uintptr(unsafe.Pointer(&timeout)), 0, 0)
		if errno == unix.ETIMEDOUT && unix.Kill(int(p.event.recorderPID.Load()), 0) == unix.ESRCH {
			return
		}
	}
}

// eventMagic is the start of an IPCEventHandle. The process and the descriptor
// follow as int32, then the inode as uint64.
const eventMagic = "qvie"

// IpcGetEventHandle creates the shared state when it is called first.
func (d *Driver) IpcGetEventHandle(h driver.Event) (name driver.IPCEventHandle, err error) {
	const call = "cuIpcGetEventHandle"
	e, err := d.enterEvent(call, h)
	if err != nil {
		return name, err
	}
	d.order.Lock()
	defer d.order.Unlock()
	if e.flags&driver.EventInterprocess == 0 {
		return name, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "the event was not created with the interprocess flag"}
	}
	if e.shared == nil {
		if e.shared, err = e.share(); err != nil {
			return name, system(call, err)
		}
	}
	cross := e.shared.(*ipcEvent)
	if cross.opened {
		return name, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "the event belongs to another process"}
	}
	p := append(name[:0], eventMagic...)
	p = binary.NativeEndian.AppendUint32(p, uint32(os.Getpid()))
	p = binary.NativeEndian.AppendUint32(p, uint32(cross.file.fd))
	binary.NativeEndian.AppendUint64(p, cross.file.inode)
	return name, nil
}

// share creates the shared state of an event, including its last record.
func (e *event) share() (interprocessEvent, error) {
	f, err := newFile(eventFile, e.context.dev.ordinal, pages(1))
	if err != nil {
		return nil, err
	}
	cross, err := newIPCEvent(f, false)
	if err != nil {
		return nil, err
	}
	if r := e.last; r != nil && r.capture == nil {
		finish := cross.beginRecord()
		go func() {
			r.position.wait()
			finish()
		}()
	}
	return cross, nil
}

func (d *Driver) IpcOpenEventHandle(name driver.IPCEventHandle) (driver.Event, error) {
	const call = "cuIpcOpenEventHandle"
	c, err := d.enterContext(call)
	if err != nil {
		return 0, err
	}
	if string(name[:len(eventMagic)]) != eventMagic {
		return 0, invalid(call, "the bytes are not a handle of a simulated device")
	}
	h := memHandle{
		pid: int32(binary.NativeEndian.Uint32(name[4:])),
		fd:  int32(binary.NativeEndian.Uint32(name[8:])),
	}
	if int(h.pid) == os.Getpid() {
		return 0, &driver.Error{Call: call, Code: driver.InvalidContext, Detail: "this process exported the handle"}
	}
	f, _, err := h.openFile(h.fd, eventFile, binary.NativeEndian.Uint64(name[12:]))
	if err != nil {
		return 0, invalid(call, "%v", err)
	}
	if f.size < int64(unsafe.Sizeof(eventCounters{})) {
		return 0, errors.Join(invalid(call, "the event has %d bytes", f.size), f.close())
	}
	cross, err := newIPCEvent(f, true)
	if err != nil {
		return 0, system(call, err)
	}
	return d.addEvent(&event{context: c, flags: driver.EventInterprocess | driver.EventDisableTiming, shared: cross}), nil
}

func (d *Driver) MemPoolExportToShareableHandle(h driver.MemPool) (int, error) {
	const call = "cuMemPoolExportToShareableHandle"
	p, err := d.lockPool(call, h)
	if err != nil {
		return 0, err
	}
	defer d.space.mu.Unlock()
	if !p.shareable {
		return 0, invalid(call, "the pool was not created shareable")
	}
	fd, err := p.segment.file.dup()
	return fd, system(call, err)
}

// MemPoolImportFromShareableHandle returns the same handle for each import of a
// pool. As in CUDA, each import must be destroyed. After the first of these,
// using the pool faults in CUDA and is an error here.
func (d *Driver) MemPoolImportFromShareableHandle(fd int) (driver.MemPool, error) {
	const call = "cuMemPoolImportFromShareableHandle"
	f, dev, err := d.importFile(call, fd, poolFile)
	if err != nil {
		return 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	for h, p := range d.space.pools {
		if p.imported && !p.destroyed && p.segment.file.inode == f.inode {
			if p.importDestroyed {
				return 0, errors.Join(invalid(call, "an import of the pool was destroyed"), f.close())
			}
			p.imports++
			return h, system(call, f.close())
		}
	}
	p := &pool{dev: dev, imported: true, imports: 1, access: deviceSet{}}
	if err := p.mapFile(f); err != nil {
		return 0, system(call, err)
	}
	return d.addPool(p), nil
}

// poolMagic is the start of a PoolPointer. The inode of the pool, the offset
// and the size follow, each 64 bits.
const poolMagic = "qvpp"

func (d *Driver) MemPoolExportPointer(address uintptr) (at driver.PoolPointer, err error) {
	const call = "cuMemPoolExportPointer"
	if _, err := d.enterCurrentDevice(call); err != nil {
		return at, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	s, alloc := d.space.allocationAt(address)
	if s == nil || s.kind != pooled || !s.pool.shareable || s.address(alloc) != address {
		return at, invalid(call, "%#x is not an allocation of a shareable pool", address)
	}
	copy(at[:], poolMagic)
	binary.NativeEndian.PutUint64(at[8:], s.file.inode)
	binary.NativeEndian.PutUint64(at[16:], uint64(alloc.offset))
	binary.NativeEndian.PutUint64(at[24:], uint64(alloc.size))
	return at, nil
}

// MemPoolImportPointer returns the same address for each import of a pointer.
// As in CUDA, the first free ends all of them.
func (d *Driver) MemPoolImportPointer(h driver.MemPool, at driver.PoolPointer) (uintptr, error) {
	const call = "cuMemPoolImportPointer"
	p, err := d.lockPool(call, h)
	if err != nil {
		return 0, err
	}
	defer d.space.mu.Unlock()
	if !p.imported {
		return 0, invalid(call, "the pool does not belong to another process")
	}
	if p.importDestroyed {
		return 0, invalid(call, "an import of the pool was destroyed")
	}
	s := p.segment
	inode, offset, size := binary.NativeEndian.Uint64(at[8:]), int64(binary.NativeEndian.Uint64(at[16:])), int64(binary.NativeEndian.Uint64(at[24:]))
	switch {
	case string(at[:len(poolMagic)]) != poolMagic:
		return 0, invalid(call, "the bytes are not a pointer of a simulated device")
	case inode != s.file.inode:
		return 0, invalid(call, "the pointer belongs to another pool")
	case offset < 0 || size <= 0 || offset > int64(len(s.backing))-size || offset%pages(1) != 0:
		return 0, invalid(call, "%d bytes at offset %d of a pool of %d bytes", size, offset, len(s.backing))
	}
	alloc := &allocation{offset: offset, length: pages(size), size: size}
	if i := s.indexEndingAfter(offset); i < len(s.allocations) && s.allocations[i].offset < offset+alloc.length {
		found := s.allocations[i]
		if found.offset == offset && found.size == size && found.pendingFree == nil {
			return s.address(found), nil
		}
		return 0, invalid(call, "the pointer overlaps an imported one")
	}
	if err := unix.Mprotect(s.memory(alloc), protReadWrite); err != nil {
		return 0, system(call, err)
	}
	s.insert(alloc)
	p.used += alloc.length
	return s.address(alloc), nil
}

// importFile opens the file of a descriptor that a simulated driver exported.
func (d *Driver) importFile(call string, fd int, use string) (*file, *device, error) {
	if _, err := d.enterCurrentDevice(call); err != nil {
		return nil, nil, err
	}
	f, ordinal, err := openFile(fmt.Sprintf("/proc/self/fd/%d", fd), use)
	if err != nil {
		return nil, nil, invalid(call, "descriptor %d: %v", fd, err)
	}
	if ordinal >= len(d.devices) {
		_ = f.close()
		return nil, nil, invalid(call, "memory of cuda:%d: this driver has %d devices", ordinal, len(d.devices))
	}
	return f, d.devices[ordinal], nil
}
