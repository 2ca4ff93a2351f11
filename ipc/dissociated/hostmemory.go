package dissociated

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc/internal/memfile"
)

// memfd names shared memory of a process: what /proc/PID/fd/FD is, and its name,
// by which memory of a process of the same number in another PID namespace is
// told apart.
type memfd struct {
	pid, fd int
	name    string
}

// namePrefix begins the names of this package's shared memory.
const namePrefix = "quiver-"

func (m memfd) String() string { return fmt.Sprintf("memfd:%d:%d:%s", m.pid, m.fd, m.name) }

// parseMemfd reads what String writes, of this package's names only.
func parseMemfd(handle []byte) (m memfd, err error) {
	fields := strings.Split(string(handle), ":")
	if len(fields) != 4 || fields[0] != "memfd" {
		return m, fmt.Errorf("%w: remote handle %q, expected memfd:PID:FD:NAME", ErrProtocol, handle)
	}
	pid, pidErr := strconv.ParseUint(fields[1], 10, 31)
	fd, fdErr := strconv.ParseUint(fields[2], 10, 31)
	m = memfd{int(pid), int(fd), fields[3]}
	random, ok := strings.CutPrefix(m.name, namePrefix)
	if pidErr != nil || fdErr != nil || pid == 0 || !ok || len(random) != 32 || strings.Trim(random, "0123456789abcdef") != "" {
		return m, fmt.Errorf("%w: remote handle %q, expected memfd:PID:FD:%sNAME with 32 hexadecimal digits", ErrProtocol, handle, namePrefix)
	}
	return m, nil
}

// shareHostMemory makes n bytes of zeros that other processes of the same user
// may read.
func shareHostMemory(n int64) (data, handle []byte, unmap func() error, err error) {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // which never fails
	name := namePrefix + hex.EncodeToString(random)
	file, data, err := memfile.Create(name, n)
	if err != nil {
		return nil, nil, nil, err
	}
	handle = []byte(memfd{os.Getpid(), int(file.Fd()), name}.String())
	return data, handle, func() error { return errors.Join(memfile.Unmap(data), file.Close()) }, nil
}

// openHostMemory maps another process's shared memory, to be read only. The server
// knows its process by another number than this one where it is of a PID namespace
// below: then the kernel's word counts.
func openHostMemory(m memfd, server serverProcess) (arrowbuf.Buffer, error) {
	file, err := m.open(m.pid)
	if err != nil && server.pid > 0 && int(server.pid) != m.pid {
		file, err = m.open(int(server.pid))
	}
	if err != nil && server.other != nil {
		return nil, fmt.Errorf("%w: %w", server.other, err)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	data, err := memfile.Map(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%w: shared memory %v: %w", ErrProtocol, m, err)
	}
	return arrowbuf.WrapExternal(data, func() { _ = memfile.Unmap(data) }), nil
}

// open opens the file, of the process that has a number here. Its name is looked at
// before it is opened, for opening some files waits, and of what was opened.
func (m memfd) open(pid int) (*os.File, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", pid, m.fd)
	if err := m.is(path, path); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening shared memory of process %d, which must be of the same user: %w", pid, err)
	}
	if err := m.is(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), path); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// is returns an error unless a link to a file leads to the memory.
func (m memfd) is(link, path string) error {
	is, err := os.Readlink(link)
	if err != nil {
		return fmt.Errorf("finding shared memory of a process of the same user and PID namespace: %w", err)
	}
	if is != "/memfd:"+m.name+" (deleted)" {
		return fmt.Errorf("%w: %s is %q, expected the shared memory %s; is the peer in another PID namespace?", ErrProtocol, path, is, m.name)
	}
	return nil
}
