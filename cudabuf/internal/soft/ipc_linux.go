package soft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// handle is what an IPCMemHandle says. The exporter keeps the lease, an empty
// file, as long as the allocation: a lease that is gone means that the memory
// may be somebody else's now.
type handle struct {
	pid          int32
	fd, lease    int32
	inode        uint64
	leaseInode   uint64
	offset, size int64
}

const ipcMagic = "qvih"

func (h handle) bytes() (b driver.IPCMemHandle) {
	p := append(b[:0], ipcMagic...)
	for _, v := range []int32{h.pid, h.fd, h.lease} {
		p = binary.NativeEndian.AppendUint32(p, uint32(v))
	}
	for _, v := range []uint64{h.inode, h.leaseInode, uint64(h.offset), uint64(h.size)} {
		p = binary.NativeEndian.AppendUint64(p, v)
	}
	return b
}

func parseHandle(b driver.IPCMemHandle) (h handle, ok bool) {
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

// openedHandle is memory of another process.
type openedHandle struct {
	handle  driver.IPCMemHandle
	segment *segment
	uses    int
}

// IpcGetMemHandle answers the handle of the allocation that the address lies in.
func (d *Driver) IpcGetMemHandle(address uintptr) (driver.IPCMemHandle, error) {
	const call = "cuIpcGetMemHandle"
	if _, err := d.current(call); err != nil {
		return driver.IPCMemHandle{}, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	s, b := d.space.block(address)
	if s == nil || s.kind != ordinary {
		return driver.IPCMemHandle{}, invalid(call, "%#x is no memory of cuMemAlloc in this process", address)
	}
	if b.lease == nil {
		f, err := newFile(leaseFile, s.dev.ordinal, 0)
		if err != nil {
			return driver.IPCMemHandle{}, system(call, err)
		}
		b.lease = f
	}
	h := handle{int32(os.Getpid()), int32(s.file.fd), int32(b.lease.fd), s.file.inode, b.lease.inode, b.offset, b.size}
	return h.bytes(), nil
}

// revoke ends the handles of a block.
func (b *block) revoke() {
	if b.lease != nil {
		_ = b.lease.close()
		b.lease = nil
	}
}

// IpcOpenMemHandle opens a handle once, however often it is called.
func (d *Driver) IpcOpenMemHandle(name driver.IPCMemHandle) (uintptr, error) {
	const call = "cuIpcOpenMemHandle"
	dev, err := d.current(call)
	if err != nil {
		return 0, err
	}
	h, ok := parseHandle(name)
	if !ok {
		return 0, invalid(call, "the bytes are no handle that a soft driver made")
	}
	if int(h.pid) == os.Getpid() {
		return 0, &driver.Error{Call: call, Code: driver.InvalidContext, Detail: "the handle is this process's own"}
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	o := d.space.opened[name]
	if o == nil {
		s, err := d.openSegment(h)
		if err != nil {
			return 0, invalid(call, "%v", err)
		}
		o = &openedHandle{handle: name, segment: s}
	}
	s := o.segment
	if dev != s.dev && !d.reaches(dev, s.dev) {
		if o.uses == 0 {
			_ = errors.Join(s.unmap(), s.file.close()) // at worst it keeps the addresses
		}
		return 0, &driver.Error{Call: call, Code: peerUnsupported, Detail: fmt.Sprintf("cuda:%d does not reach memory of cuda:%d", dev.ordinal, s.dev.ordinal)}
	}
	if o.uses++; o.uses == 1 {
		s.opened, s.access = o, deviceSet{}
		d.space.opened[name] = o
		d.space.add(s)
	}
	s.access[dev.ordinal] = true
	return s.address(s.blocks[0]), nil
}

// openSegment maps what a handle names.
func (d *Driver) openSegment(h handle) (*segment, error) {
	f, ordinal, err := h.open(h.fd, deviceFile, h.inode)
	if err != nil {
		return nil, err
	}
	s, err := d.mapHandle(h, f, ordinal)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return s, nil
}

func (d *Driver) mapHandle(h handle, f *file, ordinal int) (*segment, error) {
	lease, _, err := h.open(h.lease, leaseFile, h.leaseInode)
	if err != nil {
		return nil, fmt.Errorf("the memory is freed: %w", err)
	}
	if err := lease.close(); err != nil {
		return nil, err
	}
	if ordinal >= len(d.devices) {
		return nil, fmt.Errorf("memory of cuda:%d, and there are %d devices", ordinal, len(d.devices))
	}
	if h.offset > f.size-h.size {
		return nil, fmt.Errorf("%d bytes at %d of a file of %d", h.size, h.offset, f.size)
	}
	before := h.offset % int64(os.Getpagesize()) // a mapping begins at a page
	s, err := newSegment(d.devices[ordinal], imported, before+h.size, f, h.offset-before)
	if err == nil {
		s.insert(&block{offset: before, length: h.size, size: h.size})
	}
	return s, err
}

// open opens a file of the exporter, if it is still the one that was exported.
func (h handle) open(fd int32, use string, inode uint64) (*file, int, error) {
	f, ordinal, err := openFile(fmt.Sprintf("/proc/%d/fd/%d", h.pid, fd), use)
	if err != nil {
		return nil, 0, err
	}
	if f.inode != inode {
		return nil, 0, errors.Join(errors.New("the exporter has another file in its place"), f.close())
	}
	return f, ordinal, nil
}

// IpcCloseMemHandle ends one opening. It waits for the devices.
func (d *Driver) IpcCloseMemHandle(address uintptr) error {
	const call = "cuIpcCloseMemHandle"
	if _, err := d.current(call); err != nil {
		return err
	}
	d.quiet()
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	s := d.space.segment(address)
	if s == nil || s.kind != imported || s.address(s.blocks[0]) != address {
		return invalid(call, "%#x is no memory of cuIpcOpenMemHandle", address)
	}
	if s.opened.uses--; s.opened.uses > 0 {
		return nil
	}
	delete(d.space.opened, s.opened.handle)
	f := s.file
	return system(call, errors.Join(d.space.drop(s), f.close()))
}
