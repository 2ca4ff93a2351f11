package unixsocket

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASocketIsItsUsersOwnAndKnowsWhoConnects(t *testing.T) {
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
	require.NoError(t, err, "nobody serves there any more")
	require.NoError(t, l.Close())
}
