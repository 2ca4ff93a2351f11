//go:build linux

// Package memfile shares host memory through files that exist in memory only
// (memfd_create). It requires Linux.
//
// [Create] returns a file that only this process can write. Another process gets
// a descriptor of the file, or opens /proc/PID/fd/FD, and reads it with [Map].
// The file is sealed: its size is fixed, and other processes cannot write to it.
package memfile

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// seals are the guarantees for readers: a fixed size and no other writers.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL

// Create creates a file of n > 0 zero bytes and maps it for reading and writing.
// /proc shows the name after "/memfd:". The error wraps arrowbuf.ErrOutOfMemory
// if n is invalid or too large. The caller unmaps the data and closes the file,
// in any order.
func Create(name string, n int64) (file *os.File, data []byte, err error) {
	if n < 1 || n > math.MaxInt64-1<<16 {
		return nil, nil, fmt.Errorf("memfile.Create: %d bytes: %w", n, arrowbuf.ErrOutOfMemory)
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("memfile.Create: memfd_create: %w", err)
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
		err = errors.Join(fmt.Errorf("memfile.Create: %d bytes: %w", n, err), file.Close())
		if errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENOSPC) {
			err = fmt.Errorf("%w: %w", arrowbuf.ErrOutOfMemory, err)
		}
		return nil, nil, err
	}
	return file, data, nil
}

// Map maps the first n > 0 bytes of another process's file for reading. It
// returns an error if the file is shorter or not sealed against shrinking. The
// caller keeps the file and may close it; Unmap unmaps the data.
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
		return nil, fmt.Errorf("memfile.Map: the descriptor is not a memory file: %w", err)
	}
	if sealed&unix.F_SEAL_SHRINK == 0 {
		return nil, errors.New("memfile.Map: the memory file may shrink: want F_SEAL_SHRINK")
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(fd), &stat); err != nil {
		return nil, err
	}
	if n < 1 || stat.Size < n || n > math.MaxInt {
		return nil, fmt.Errorf("memfile.Map: size of the memory file: got %d bytes, want %d", stat.Size, n)
	}
	return unix.Mmap(int(fd), 0, int(n), unix.PROT_READ, unix.MAP_SHARED)
}

// Unmap unmaps memory of Create or Map.
func Unmap(data []byte) error { return unix.Munmap(data) }
