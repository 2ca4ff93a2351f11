//go:build linux

// Package memfile shares memory of the host by files that live in memory alone
// (memfd_create). It needs Linux.
//
// [Create] makes one that this process writes. Another process has it from a
// descriptor, or as /proc/PID/fd/FD, and reads it by [Map]: the file is sealed, so
// that it stays as large as it is and nobody else writes to it.
package memfile

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// seals are what readers are promised.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL

// Create makes a file of n > 0 zeros, and maps it to be read and written. The name
// is what /proc shows, behind "/memfd:". No room is arrowbuf.ErrOutOfMemory. The
// caller unmaps the data and closes the file, in any order.
func Create(name string, n int64) (file *os.File, data []byte, err error) {
	if n < 1 || n > math.MaxInt64-1<<16 {
		return nil, nil, fmt.Errorf("sharing %d bytes of the host's memory: %w", n, arrowbuf.ErrOutOfMemory)
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("memfd_create: %w", err)
	}
	file = os.NewFile(uintptr(fd), name)
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
		return nil, nil, err
	}
	return file, data, nil
}

// Map maps the first n > 0 bytes of a file of another process, to be read. One
// that may shrink, or is shorter, is an error. The file stays the caller's and may
// be closed; the data is unmapped by Unmap.
func Map(file *os.File, n int64) (data []byte, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	failure := raw.Control(func(fd uintptr) { data, err = mapSealed(fd, n) })
	return data, errors.Join(failure, err)
}

func mapSealed(fd uintptr, n int64) ([]byte, error) {
	sealed, err := unix.FcntlInt(fd, unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("the descriptor is no memory file: %w", err)
	}
	if sealed&unix.F_SEAL_SHRINK == 0 {
		return nil, errors.New("the memory file may shrink: F_SEAL_SHRINK expected")
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(fd), &stat); err != nil {
		return nil, err
	}
	if n < 1 || stat.Size < n || n > math.MaxInt {
		return nil, fmt.Errorf("a memory file of %d bytes, %d expected", stat.Size, n)
	}
	return unix.Mmap(int(fd), 0, int(n), unix.PROT_READ, unix.MAP_SHARED)
}

// Unmap is the end of what Create or Map mapped.
func Unmap(data []byte) error { return unix.Munmap(data) }
