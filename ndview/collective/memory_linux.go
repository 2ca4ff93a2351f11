package collective

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/quiver-gpu/quiver/internal/memfile"
)

// memoryName is the name of the files in /proc.
const memoryName = "quiver-collective"

// shareMemory returns the shared memory of the pair of ranks that a Unix socket connects. Both
// ranks call it at the same time.
func shareMemory(conn net.Conn) (_ *shared, err error) {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("a connection of %s: want a Unix socket: %w", conn.LocalAddr().Network(), errors.ErrUnsupported)
	}
	file, mine, err := memfile.Create(memoryName, fileBytes)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s := &shared{mine: mine}
	defer func() {
		if err != nil {
			_ = memfile.Unmap(mine)
		}
	}()
	if err = sendFile(unix, file); err != nil {
		return nil, err
	}
	other, err := receiveFile(unix)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	if s.theirs, err = memfile.Map(other, fileBytes); err != nil {
		return nil, err
	}
	return s, nil
}

// sendFile sends a byte and a file.
func sendFile(conn *net.UnixConn, file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	failure := raw.Control(func(fd uintptr) {
		_, _, err = conn.WriteMsgUnix([]byte{0}, syscall.UnixRights(int(fd)), nil)
	})
	return errors.Join(failure, err)
}

// receiveFile receives one file from a socket.
func receiveFile(conn *net.UnixConn) (*os.File, error) {
	control := make([]byte, syscall.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(fmt.Errorf("got %d control messages, want 1 with a file: %w", len(messages), errMessage), err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 { // there is no space for more
		return nil, errors.Join(fmt.Errorf("got %d files, want 1: %w", len(fds), errMessage), err)
	}
	return os.NewFile(uintptr(fds[0]), memoryName), nil
}
