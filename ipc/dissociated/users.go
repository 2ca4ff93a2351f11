package dissociated

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/quiver-gpu/quiver/ipc/internal/unixsocket"
)

// Listen makes a Unix domain socket at a path, which only this user reaches. A
// file of a socket that nobody serves is replaced. It needs Linux.
func Listen(path string) (net.Listener, error) {
	l, err := unixsocket.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("listening at %s: %w", path, err)
	}
	return l, nil
}

// admit returns an error unless the user of a connection may ask for streams. Who
// that is, the kernel says of Unix domain sockets alone.
func (s *Server) admit(stream net.Conn) error {
	socket, ok := stream.(*net.UnixConn)
	if !ok {
		return nil
	}
	_, uid, err := unixsocket.Credentials(socket)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // the socket's file has a mode
	}
	if err != nil {
		return err
	}
	allow := s.Allow
	if allow == nil {
		allow = []uint32{uint32(os.Getuid())}
	}
	if !slices.Contains(allow, uid) {
		return fmt.Errorf("user %d: %w", uid, ErrRefused)
	}
	return nil
}
