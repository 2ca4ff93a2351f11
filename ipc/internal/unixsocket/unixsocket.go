// Package unixsocket makes Unix domain sockets that are a user's own, and tells who
// is at the other end of one.
package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Listen makes a socket whose file is of mode 0600. A file of a socket that nobody
// serves is replaced.
func Listen(path string) (*net.UnixListener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		c, err := net.Dial("unix", path)
		if err == nil {
			_ = c.Close()
			return nil, errors.New("another process serves there")
		}
		// Any other failure does not say that nobody listens.
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("a socket that may be another process's: %w", err)
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
