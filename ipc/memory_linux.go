package ipc

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

// seals are what a client is promised of a memory file: it stays as large as it
// is, and nobody else writes to it.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL

// newMemoryBlock makes a file of the host's memory (memfd_create), which this
// process alone writes.
func newMemoryBlock(n int64) (b *block, err error) {
	fd, err := unix.MemfdCreate("quiver shared columns", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "shared memory")
	var data []byte
	if err = unix.Ftruncate(fd, n); err == nil {
		data, err = unix.Mmap(fd, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			err = errors.Join(err, unix.Munmap(data))
		}
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("sharing %d bytes of the host's memory: %w", n, err), file.Close())
		if errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENOSPC) {
			err = fmt.Errorf("%w: %w", arrowbuf.ErrOutOfMemory, err)
		}
		return nil, err
	}
	release := func() { _ = unix.Munmap(data) }
	return &block{mechanism: handle.Memory, size: n, file: file, buffer: arrowbuf.Foreign(data, release)}, nil
}

// mapMemory maps a memory file of another process to read it. The file stays the
// caller's.
func mapMemory(file *os.File, size int64) (data []byte, unmap func(), err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	failure := errors.Join(err, raw.Control(func(at uintptr) {
		fd := int(at)
		var sealed int
		if sealed, err = unix.FcntlInt(at, unix.F_GET_SEALS, 0); err != nil {
			err = fmt.Errorf("the descriptor is no memory file: %w", err)
			return
		}
		if sealed&unix.F_SEAL_SHRINK == 0 {
			err = errors.New("the memory file may shrink: F_SEAL_SHRINK expected")
			return
		}
		var stat unix.Stat_t
		if err = unix.Fstat(fd, &stat); err != nil {
			return
		}
		if size < 1 || stat.Size < size || size > math.MaxInt {
			err = fmt.Errorf("a memory file of %d bytes, %d expected", stat.Size, size)
			return
		}
		data, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	}))
	if err = errors.Join(failure, err); err != nil {
		return nil, nil, err
	}
	return data, func() { _ = unix.Munmap(data) }, nil
}
