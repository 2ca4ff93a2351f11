package soft

import (
	"encoding/binary"
	"errors"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

func (d *Driver) MemPoolExportToShareableHandle(h driver.MemPool) (int, error) {
	const call = "cuMemPoolExportToShareableHandle"
	p, err := d.lockPool(call, h)
	if err != nil {
		return 0, err
	}
	defer d.space.mu.Unlock()
	if !p.shareable {
		return 0, invalid(call, "the pool was not made to be shared")
	}
	fd, err := p.segment.file.export()
	return fd, system(call, err)
}

// MemPoolImportFromShareableHandle answers the same handle each time; each is to be
// destroyed, as CUDA has it. What uses the pool after the first of these faults in
// CUDA, and is an error here.
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
			if p.ending {
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

// poolMagic begins a PoolPointer: the pool's inode, offset and size follow.
const poolMagic = "qvpp"

func (d *Driver) MemPoolExportPointer(address uintptr) (at driver.PoolPointer, err error) {
	const call = "cuMemPoolExportPointer"
	if _, err := d.current(call); err != nil {
		return at, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	s, b := d.space.block(address)
	if s == nil || s.kind != pooled || !s.pool.shareable || s.address(b) != address {
		return at, invalid(call, "%#x is no allocation of a pool to share", address)
	}
	copy(at[:], poolMagic)
	binary.NativeEndian.PutUint64(at[8:], s.file.inode)
	binary.NativeEndian.PutUint64(at[16:], uint64(b.offset))
	binary.NativeEndian.PutUint64(at[24:], uint64(b.size))
	return at, nil
}

// MemPoolImportPointer answers the same address each time; the first free ends
// them all, as CUDA has it.
func (d *Driver) MemPoolImportPointer(h driver.MemPool, at driver.PoolPointer) (uintptr, error) {
	const call = "cuMemPoolImportPointer"
	p, err := d.lockPool(call, h)
	if err != nil {
		return 0, err
	}
	defer d.space.mu.Unlock()
	if !p.imported {
		return 0, invalid(call, "the pool is not another process's")
	}
	if p.ending {
		return 0, invalid(call, "an import of the pool was destroyed")
	}
	s := p.segment
	inode, offset, size := binary.NativeEndian.Uint64(at[8:]), int64(binary.NativeEndian.Uint64(at[16:])), int64(binary.NativeEndian.Uint64(at[24:]))
	switch {
	case string(at[:len(poolMagic)]) != poolMagic:
		return 0, invalid(call, "the bytes are no pointer that a soft driver exported")
	case inode != s.file.inode:
		return 0, invalid(call, "the pointer is one of another pool")
	case offset < 0 || size <= 0 || offset > int64(len(s.hidden))-size || offset%pages(1) != 0:
		return 0, invalid(call, "%d bytes at %d of a pool of %d", size, offset, len(s.hidden))
	}
	b := &block{offset: offset, length: pages(size), size: size}
	if i := s.at(offset); i < len(s.blocks) && s.blocks[i].offset < offset+b.length {
		found := s.blocks[i]
		if found.offset == offset && found.size == size && found.freeing == nil {
			return s.address(found), nil
		}
		return 0, invalid(call, "the pointer overlaps one that is imported")
	}
	if err := unix.Mprotect(s.memory(b), usable); err != nil {
		return 0, system(call, err)
	}
	s.insert(b)
	p.live += b.length
	return s.address(b), nil
}
