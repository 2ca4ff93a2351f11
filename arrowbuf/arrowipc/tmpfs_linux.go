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

// minMapped is from where on a body is written through a mapping.
const minMapped = 8 << 20

// tmpfsFile is a file of a RAM disk. The kernel lets one write call at a time work on
// a file, which moves memory at the speed of one processor; a mapping of it is
// written by several. On other disks it is the disk that takes the time.
type tmpfsFile struct{ *os.File }

// newTmpfsFile returns w where it is a file of tmpfs that can be mapped, else nil.
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

// writeBody writes a body, of which much is on a device, where the file's position is,
// and moves on behind it.
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

// writeMapped writes a body through a mapping. Pages that are there are found at once,
// which is faster; those that are not have to be cleared one by one.
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

// populate has the kernel find all pages of a part of a mapping. One that cannot
// does so when they are written to.
func populate(mapping []byte, from, length int64) {
	to := from + length
	from -= from % int64(os.Getpagesize())
	_ = unix.Madvise(mapping[from:to], unix.MADV_POPULATE_WRITE)
}

// copy writes to a mapping. Where the disk has no room, that faults.
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
