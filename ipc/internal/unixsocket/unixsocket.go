// Package unixsocket creates Unix domain sockets that belong to one user, and
// returns the credentials of a peer.
package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Listen creates a socket with a file of mode 0600. It replaces a socket file if
// no process listens on it.
func Listen(path string) (*net.UnixListener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		c, err := net.Dial("unix", path)
		if err == nil {
			_ = c.Close()
			return nil, errors.New("unixsocket.Listen: another process serves there")
		}
		// Any other error does not prove that no process listens.
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("unixsocket.Listen: the socket may be another process's: %w", err)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	config := net.ListenConfig{Control: private}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}
