package dissociated

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/memfile"
	"github.com/quiver-gpu/quiver/ipc/internal/unixsocket"
)

// remoteMemory is a server's memory that a client has open.
type remoteMemory struct {
	dev   arrowbuf.Device // of the memory
	open  func(l Location, release func()) (arrowbuf.Buffer, error)
	close func()
}

// openRemote opens the memory of an endpoint's handle, for a client whose batches
// are on dev.
func openRemote(handle []byte, dev arrowbuf.Device, server serverProcess) (*remoteMemory, error) {
	if w, ok := windows.Load(string(handle)); ok {
		window := w.(*Window)
		return &remoteMemory{window.dev, window.slice, func() {}}, nil
	}
	if gpu, ok := arrowbuf.As[*cudabuf.Device](dev); ok && len(handle) == len(cudabuf.MemHandle{}.Handle) {
		if server.namespaceErr != nil {
			return nil, fmt.Errorf("opening memory of the server on %v: CUDA IPC handles need one PID namespace: %w", dev, server.namespaceErr)
		}
		return openCUDA([64]byte(handle), gpu)
	}
	named, err := parseMemfd(handle)
	if err != nil {
		return nil, fmt.Errorf("opening memory of the server for %v: %w", dev, err)
	}
	whole, err := openHostMemory(named, server)
	if err != nil {
		return nil, err
	}
	return &remoteMemory{arrowbuf.CPU(), func(l Location, release func()) (arrowbuf.Buffer, error) {
		whole.Retain()
		return sliceMemory(whole, l, func() { whole.Release(); release() })
	}, whole.Release}, nil
}

// openCUDA opens an allocation and keeps it open. Package cudabuf checks each
// location against the size that CUDA reports.
func openCUDA(handle [64]byte, dev *cudabuf.Device) (*remoteMemory, error) {
	open := func(l Location) (*cudabuf.Buffer, error) {
		if l.Address > 1<<62 || l.Length > 1<<62 {
			return nil, fmt.Errorf("%w: location of %d bytes at %#x is too large", ErrProtocol, l.Length, l.Address)
		}
		return dev.OpenIPC(cudabuf.MemHandle{Handle: handle, Region: cudabuf.Region{Offset: int64(l.Address), Length: int64(l.Length)}})
	}
	anchor, err := open(Location{0, 1})
	if err != nil {
		return nil, err
	}
	return &remoteMemory{dev, func(l Location, release func()) (arrowbuf.Buffer, error) {
		b, err := open(l)
		if err != nil {
			return nil, err
		}
		return dev.WrapExternal(b.Address(), b.Len(), func() { b.Release(); release() })
	}, anchor.Release}, nil
}

// freeNotifier tells a server which locations a client no longer needs. Locations
// that are released at about the same time share a message. After finish, it
// closes the memory when no location is in use, and the connection when all
// messages are sent.
type freeNotifier struct {
	conn   Conn
	tag    Tag
	remote *remoteMemory

	mu       sync.Mutex
	inUse    int // locations in use
	pending  []uint64
	sending  bool
	finished bool // finish was called
}

// add records that a location is in use. The caller calls release when it no
// longer is.
func (f *freeNotifier) add(address uint64) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inUse++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.inUse--
		f.pending = append(f.pending, address)
		f.startSending()
	}
}

// finish declares that no more locations follow.
func (f *freeNotifier) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finished = true
	f.startSending()
}

// startSending starts a goroutine that sends the pending addresses. It does not
// wait, since release may be called from anywhere. The caller holds mu.
func (f *freeNotifier) startSending() {
	if f.finished && f.inUse == 0 {
		f.remote.close()
	}
	if !f.sending {
		f.sending = true
		go f.send()
	}
}

func (f *freeNotifier) send() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.pending) > 0 {
		message := AppendFreed(nil, f.pending...)
		f.pending = nil
		f.mu.Unlock()
		// An error means that the server and its memory are gone.
		_ = f.conn.Send(&f.tag, arrowbuf.WrapExternal(message, func() {}))
		f.mu.Lock()
	}
	f.sending = false
	if f.finished && f.inUse == 0 {
		_ = f.conn.Close()
	}
}

// memfd names shared memory of a process: the file /proc/PID/fd/FD and its name.
// The name differs from that of a process with the same number in another PID
// namespace.
type memfd struct {
	pid, fd int
	name    string
}

// namePrefix is the prefix of the names of this package's shared memory.
const namePrefix = "quiver-"

func (m memfd) String() string { return fmt.Sprintf("memfd:%d:%d:%s", m.pid, m.fd, m.name) }

// parseMemfd parses the result of String. It accepts only names of this package.
func parseMemfd(handle []byte) (m memfd, err error) {
	fields := strings.Split(string(handle), ":")
	if len(fields) != 4 || fields[0] != "memfd" {
		return m, fmt.Errorf("%w: remote handle: got %q, want memfd:PID:FD:NAME", ErrProtocol, handle)
	}
	pid, pidErr := strconv.ParseUint(fields[1], 10, 31)
	fd, fdErr := strconv.ParseUint(fields[2], 10, 31)
	m = memfd{int(pid), int(fd), fields[3]}
	random, ok := strings.CutPrefix(m.name, namePrefix)
	if pidErr != nil || fdErr != nil || pid == 0 || !ok || len(random) != 32 || strings.Trim(random, "0123456789abcdef") != "" {
		return m, fmt.Errorf("%w: remote handle: got %q, want memfd:PID:FD:%sNAME with 32 hexadecimal digits", ErrProtocol, handle, namePrefix)
	}
	return m, nil
}

// createHostMemory creates n zero bytes that other processes of the same user can
// map for reading.
func createHostMemory(n int64) (data, handle []byte, unmap func() error, err error) {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	name := namePrefix + hex.EncodeToString(random)
	file, data, err := memfile.Create(name, n)
	if err != nil {
		return nil, nil, nil, err
	}
	handle = []byte(memfd{os.Getpid(), int(file.Fd()), name}.String())
	return data, handle, func() error { return errors.Join(memfile.Unmap(data), file.Close()) }, nil
}

// openHostMemory maps another process's shared memory for reading. A server in a
// child PID namespace has another process id here, which the kernel reports as
// server.pid.
func openHostMemory(m memfd, server serverProcess) (arrowbuf.Buffer, error) {
	file, err := m.open(m.pid)
	if err != nil && server.pid > 0 && int(server.pid) != m.pid {
		file, err = m.open(int(server.pid))
	}
	if err != nil && server.namespaceErr != nil {
		return nil, fmt.Errorf("%w: %w", server.namespaceErr, err)
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

// open opens the file of a process. It checks the name before opening, since
// opening some files blocks, and again after.
func (m memfd) open(pid int) (*os.File, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", pid, m.fd)
	if err := m.target(path, path); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening shared memory of process %d (the user must be the same): %w", pid, err)
	}
	if err := m.target(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), path); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// verify returns an error unless a link leads to the shared memory.
func (m memfd) target(link, path string) error {
	target, err := os.Readlink(link)
	if err != nil {
		return fmt.Errorf("finding shared memory (user and PID namespace must be the same): %w", err)
	}
	if target != "/memfd:"+m.name+" (deleted)" {
		return fmt.Errorf("%w: %s: got %q, want the shared memory %s; is the peer in another PID namespace?", ErrProtocol, path, target, m.name)
	}
	return nil
}

// serverProcess is the process at the other end of a connection, if the kernel
// reports it.
type serverProcess struct {
	pid          int32 // as this process sees it, 0 if unknown
	namespaceErr error // ErrNamespace if the process is in another PID namespace
}

// serverProcessOf returns the process at the other end of a Unix domain socket.
// For other connections the result is empty.
func serverProcessOf(c Conn) serverProcess {
	f, ok := c.(*framedConn)
	if !ok {
		return serverProcess{}
	}
	socket, ok := f.stream.(*net.UnixConn)
	if !ok {
		return serverProcess{}
	}
	pid, _, err := unixsocket.Credentials(socket)
	if err != nil {
		return serverProcess{}
	}
	if pid == 0 {
		return serverProcess{0, fmt.Errorf("%w, which is not visible to this process", ErrNamespace)}
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return serverProcess{pid: pid}
	}
	other, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil || other == own {
		return serverProcess{pid: pid}
	}
	return serverProcess{pid, fmt.Errorf("%w, %s", ErrNamespace, other)}
}
