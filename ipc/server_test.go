//go:build linux

package ipc_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
)

const nobodyUID = 65534

func TestSocketIsPrivateToItsUser(t *testing.T) {
	_, s := ipctest.Serve(t, ipc.ServerOptions{})
	info, err := os.Stat(s.Path())
	require.NoError(t, err)
	assert.Equal(t, os.ModeSocket|0o600, info.Mode())
	_, err = ipc.Serve(s.Path(), ipc.NewCatalog(), ipc.ServerOptions{})
	assert.ErrorContains(t, err, "another process serves there")
	assert.ErrorContains(t, err, s.Path())
	require.NoError(t, s.Close())
	_, err = os.Stat(s.Path())
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{})
	assert.ErrorIs(t, err, ipc.ErrServerGone)
}

func TestStaleSocketIsReplaced(t *testing.T) {
	m := machine{kind: "cpu"}
	path := ipctest.TempDir(t) + "/s"
	p := startPeer(t, m)
	p.mustCall("Serve", Serve{Path: path})
	p.kill()
	p = startPeer(t, m)
	p.mustCall("Serve", Serve{Path: path})
	c, err := ipc.Dial(shortContext(t), path, ipc.DialOptions{})
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestOtherUsersAreRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	open := func(t *testing.T, s *ipc.Server) { // lets other users reach the socket
		require.NoError(t, os.Chmod(s.Path(), 0o666))
		require.NoError(t, os.Chmod(s.Path()[:len(s.Path())-2], 0o755))
	}
	t.Run("by the file's mode", func(t *testing.T) {
		_, s := ipctest.Serve(t, ipc.ServerOptions{})
		err := startPeer(t, machine{kind: "cpu"}).call("Dial", Dial{Path: s.Path(), User: nobodyUID}, nil)
		assert.ErrorContains(t, err, "as expected, "+ipc.ErrRefused.Error())
	})
	t.Run("by the server", func(t *testing.T) {
		_, s := ipctest.Serve(t, ipc.ServerOptions{})
		open(t, s)
		err := startPeer(t, machine{kind: "cpu"}).call("Dial", Dial{Path: s.Path(), User: nobodyUID}, nil)
		assert.ErrorContains(t, err, "as expected, "+ipc.ErrRefused.Error())
		assert.ErrorContains(t, err, "user 65534 may not connect")
		assert.Empty(t, s.Stat().Clients)
	})
	t.Run("unless it is allowed", func(t *testing.T) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{AllowUIDs: []uint32{nobodyUID}})
		open(t, s)
		require.NoError(t, publishFixtures(catalog, arrowbuf.CPU(), "table", 1))
		p := startPeer(t, machine{kind: "cpu"})
		p.mustCall("Dial", Dial{Path: s.Path(), User: nobodyUID})
		p.mustCall("Get", "table")
		require.Len(t, s.Stat().Clients, 1)
		assert.EqualValues(t, nobodyUID, s.Stat().Clients[0].UID)
		p.mustCall("Release", "table")
		_, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{})
		assert.ErrorIs(t, err, ipc.ErrRefused, "root is not on the list")
	})
	t.Run("and a server of another user", func(t *testing.T) {
		_, s := ipctest.Serve(t, ipc.ServerOptions{})
		_, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{ServerUIDs: []uint32{nobodyUID}})
		assert.ErrorIs(t, err, ipc.ErrRefused)
		assert.ErrorContains(t, err, "user of the server: got 0")
	})
}

// startInNamespace starts a process in a PID namespace of its own, like a
// container. It has its own /proc, without which CUDA does not start.
func startInNamespace(t *testing.T, m machine) *peer {
	t.Helper()
	var p *peer
	ipctest.StartInNamespace(t, func(attributes *syscall.SysProcAttr) (err error) {
		p, err = tryPeer(t, m, attributes)
		return err
	})
	if err := p.call("Ready", 0, nil); err != nil {
		t.Skipf("this machine does not permit PID namespaces with a /proc of their own: %v", err)
	}
	return p
}

func TestClientInOtherPIDNamespace(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		require.NoError(t, publishFixtures(catalog, m.device(), "table", 2))
		p := startInNamespace(t, m)
		p.mustCall("Dial", Dial{Path: s.Path()})
		var where []string
		require.NoError(t, p.call("Get", "table", &where))
		assert.Equal(t, []string{m.device().String(), m.device().String()}, where)
		client := s.Stat().Clients[0]
		self, err := handle.Self()
		require.NoError(t, err)
		assert.NotEqual(t, self.Namespace, client.Process.Namespace)
		assert.EqualValues(t, 1, client.Process.PID, "as it sees itself")
		assert.EqualValues(t, p.command.Process.Pid, client.PID, "as the server sees it")
		if m.dev != nil {
			assert.Equal(t, handle.CUDAFD, s.Stat().Blocks[0].Mechanism)
			in := m.withMechanism(t, handle.CUDAPool)
			require.NoError(t, publishFixtures(catalog, in.device(), "pooled", 1, ipc.ExposeAllocation()))
			p.mustCall("Get", "pooled")
			assert.Equal(t, 1, sharedBy(s, handle.CUDAPool))
			p.mustCall("Release", "pooled")
			q := startInNamespace(t, m)
			q.mustCall("Dial", Dial{Path: s.Path(), Mechanisms: handle.Mechanisms{handle.CUDAIPC}})
			err := q.call("Get", "table", nil)
			require.Error(t, err, "CUDA IPC handles do not cross namespaces")
			assert.Contains(t, err.Error(), ipc.ErrNoMechanism.Error())
		}
		p.mustCall("Check", "table")
		p.kill()
		eventually(t, "the leases end", func() bool { return leasesOf(s) == 0 })
	})
}

func TestServerInOtherPIDNamespace(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		p := startInNamespace(t, m)
		path := ipctest.TempDir(t) + "/s"
		p.mustCall("Serve", Serve{Path: path})
		c, err := ipc.Dial(shortContext(t), path, ipc.DialOptions{Devices: m.gpus()})
		require.NoError(t, err)
		table, err := c.Table(shortContext(t), "table")
		require.NoError(t, err)
		for i, b := range table.Batches {
			require.NoError(t, checkFixture("table", uint64(i), b))
		}
		table.Release()
		require.NoError(t, c.Close())
	})
}
