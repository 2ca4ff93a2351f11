//go:build linux

package unixsocket

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSocketIsPrivateAndReportsCredentials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.ModeSocket|0o600, info.Mode())
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	s, err := l.AcceptUnix()
	require.NoError(t, err)
	for _, end := range []*net.UnixConn{c.(*net.UnixConn), s} {
		pid, uid, err := Credentials(end)
		require.NoError(t, err)
		assert.EqualValues(t, os.Getpid(), pid)
		assert.EqualValues(t, os.Getuid(), uid)
		require.NoError(t, end.Close())
		_, _, err = Credentials(end)
		require.ErrorIs(t, err, net.ErrClosed)
	}
	_, err = Listen(path)
	require.ErrorContains(t, err, "another process serves there")
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	l, err = Listen(path)
	require.NoError(t, err, "the server is gone")
	require.NoError(t, l.Close())
}

func TestClosedReportsEndAfterAllIsRead(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			address = filepath.Join(t.TempDir(), "s")
		}
		l, err := net.Listen(network, address)
		require.NoError(t, err)
		c, err := net.Dial(network, l.Addr().String())
		require.NoError(t, err)
		s, err := l.Accept()
		require.NoError(t, err)
		require.NoError(t, l.Close())
		socket := s.(syscall.Conn)
		assert.False(t, Closed(socket))
		_, err = c.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Eventually(t, func() bool { return !Closed(socket) }, time.Second, time.Millisecond)
		_, err = s.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return Closed(socket) }, time.Second, time.Millisecond)
		require.NoError(t, s.Close())
		assert.True(t, Closed(socket))
	}
}
