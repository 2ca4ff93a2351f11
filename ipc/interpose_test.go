//go:build linux

package ipc_test

import (
	"net"
	"sync"

	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// interpose listens at a path and passes the frames of one connection on to a
// server and back. It calls step before each, with its number from 1.
func interpose(server, path string, step func(n int)) (string, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return "", err
	}
	go func() {
		defer func() { _ = l.Close() }()
		client, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("unix", server)
		if err != nil {
			_ = client.Close()
			return
		}
		a, b := wire.NewConn(client.(*net.UnixConn)), wire.NewConn(to.(*net.UnixConn))
		var mu sync.Mutex
		n := 0
		pass := func(from, to *wire.Conn) {
			defer func() { _ = to.Close() }()
			for {
				f, err := from.Read()
				if err != nil {
					return
				}
				mu.Lock()
				n++
				step(n)
				mu.Unlock()
				err = to.Write(f)
				f.CloseFile()
				if err != nil {
					return
				}
			}
		}
		go pass(a, b)
		pass(b, a)
	}()
	return path, nil
}
