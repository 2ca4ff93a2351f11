package dissociated

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// seals keep the memory's size, without which a reader would fault, and others
// from writing into it.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL

// shareHostMemory makes n bytes of zeros that other processes of the same user
// may read.
func shareHostMemory(n int64) (data, handle []byte, unmap func() error, err error) {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // which never fails
	name := namePrefix + hex.EncodeToString(random)
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("memfd_create: %w", err)
	}
	if err = unix.Ftruncate(fd, n); err == nil {
		data, err = unix.Mmap(fd, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("%d bytes of shared memory: %w", n, err), unix.Close(fd))
	}
	unmap = func() error { return errors.Join(unix.Munmap(data), unix.Close(fd)) }
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("sealing shared memory: %w", err), unmap())
	}
	return data, []byte(memfd{os.Getpid(), fd, name}.String()), unmap, nil
}

// openHostMemory maps another process's shared memory, to be read only.
func openHostMemory(m memfd) (arrowbuf.Buffer, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", m.pid, m.fd)
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening shared memory of process %d, which must be of the same user and PID namespace: %w", m.pid, err)
	}
	defer file.Close()
	if is, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd())); err != nil || is != "/memfd:"+m.name+" (deleted)" {
		return nil, fmt.Errorf("%w: %s is %q, expected the shared memory %s; is the peer in another PID namespace?", ErrProtocol, path, is, m.name)
	}
	sealed, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || sealed&unix.F_SEAL_SHRINK == 0 {
		return nil, fmt.Errorf("%w: shared memory %v is not sealed against shrinking", ErrProtocol, m)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping shared memory %v: %w", m, err)
	}
	return arrowbuf.Foreign(data, func() { _ = unix.Munmap(data) }), nil
}
