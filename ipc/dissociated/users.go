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

// admit returns an error unless the user of a connection may ask for streams, and
// the id of its process. Who that is, the kernel says of Unix domain sockets alone:
// of others the id is 0.
func (s *Server) admit(stream net.Conn) (process int32, err error) {
	socket, ok := stream.(*net.UnixConn)
	if !ok {
		return 0, nil
	}
	process, uid, err := unixsocket.Credentials(socket)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil // the socket's file has a mode
	}
	if err != nil {
		return 0, err
	}
	allow := s.Allow
	if allow == nil {
		allow = []uint32{uint32(os.Getuid())}
	}
	if !slices.Contains(allow, uid) {
		return 0, fmt.Errorf("user %d: %w", uid, ErrRefused)
	}
	return process, nil
}
