package soft

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
