package arrowipc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// minMapped is the size from which a body is written through a mapping.
const minMapped = 8 << 20

// tmpfsFile is a file on tmpfs. The kernel serializes write calls to a file, which
// limits them to the speed of one processor. Several goroutines can write to a
// mapping of it. On other file systems the disk is the limit.
type tmpfsFile struct{ *os.File }

// newTmpfsFile returns w if it is a file of tmpfs that can be mapped, and otherwise
// nil.
func newTmpfsFile(w io.Writer) *tmpfsFile {
	file, ok := w.(*os.File)
	if !ok {
		return nil
	}
	var disk unix.Statfs_t
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR || flags&unix.O_APPEND != 0 ||
		unix.Fstatfs(int(file.Fd()), &disk) != nil || disk.Type != unix.TMPFS_MAGIC {
		return nil
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return &tmpfsFile{file}
}

// writeBody writes a body, most of which is on a device, at the file's position, and
// advances the position.
func (f *tmpfsFile) writeBody(m *Message, dev arrowbuf.Device) error {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	grows := info.Size() < at+m.BodyLength
	if grows {
		if err := f.Truncate(at + m.BodyLength); err != nil {
			return err
		}
	}
	if err := f.writeMapped(m, dev, at, !grows); err != nil {
		if grows {
			err = errors.Join(err, f.Truncate(max(at, info.Size())))
		}
		return err
	}
	_, err = f.Seek(m.BodyLength, io.SeekCurrent)
	return err
}

// writeMapped writes a body through a mapping. exists reports whether the file has
// the pages already. If so, they are populated in one call, which is faster than a
// fault per page.
func (f *tmpfsFile) writeMapped(m *Message, dev arrowbuf.Device, at int64, exists bool) (err error) {
	skip := at % int64(os.Getpagesize())
	mapping, err := unix.Mmap(int(f.Fd()), at-skip, int(skip+m.BodyLength), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping %s: %w", f.Name(), err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(mapping)) }()
	return forEachChunk(m.BodyLength, func(pos, length int64) error {
		to := mapping[skip+pos : skip+pos+length]
		if exists {
			populate(mapping, skip+pos, length)
		}
		b, err := allocStaging(dev, length)
		if err != nil {
			return err
		}
		defer dev.HostAllocator().Free(b)
		if err := m.readBody(b, pos); err != nil {
			return err
		}
		return f.copy(to, b)
	})
}

// populate has the kernel map all pages of a range. A kernel without
// MADV_POPULATE_WRITE maps them on the first write instead.
func populate(mapping []byte, from, length int64) {
	to := from + length
	from -= from % int64(os.Getpagesize())
	_ = unix.Madvise(mapping[from:to], unix.MADV_POPULATE_WRITE)
}

// copy writes to a mapping. If the file system is full, the write faults, and copy
// returns ENOSPC.
func (f *tmpfsFile) copy(to, b []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if failure := recover(); failure != nil {
			if _, ok := failure.(interface{ Addr() uintptr }); !ok {
				panic(failure)
			}
			err = fmt.Errorf("%s: %w", f.Name(), unix.ENOSPC)
		}
	}()
	copy(to, b)
	return nil
}
