//go:build linux

package ipc_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/internal/memfile"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// After RELEASE the block of a lease is used again. However else a lease ends, the
// client may still read the block, so it is freed and never written again.
func TestEveryEndOfALeaseProtectsItsReader(t *testing.T) {
	for name, tt := range map[string]struct {
		options ipc.ServerOptions
		end     func(r rawConn)
		reused  bool
		code    wire.Code // of the error that the client gets
	}{
		"RELEASE":                        {end: func(r rawConn) { r.send(wire.Release, 0, wire.AppendNumbers(nil, []uint64{1})) }, reused: true},
		"the client closes or dies":      {end: func(r rawConn) { _ = r.Close() }},
		"the client breaks the protocol": {end: func(r rawConn) { r.send(wire.Release, 0, wire.AppendNumbers(nil, []uint64{9})) }, code: wire.CodeFault},
		"the client is silent":           {options: ipc.ServerOptions{KeepAliveTimeout: 50 * time.Millisecond}, end: func(rawConn) {}},
		"the time limit":                 {options: ipc.ServerOptions{MaxLeaseTime: 50 * time.Millisecond}, end: func(rawConn) {}, code: wire.CodeExpired},
	} {
		t.Run(name, func(t *testing.T) {
			catalog, s := ipctest.Serve(t, tt.options)
			publish := func(name string) {
				b, err := arrowbuf.CPU().Alloc(1000)
				require.NoError(t, err)
				defer b.Release()
				_, err = b.CopyFromHost(bytes.Repeat([]byte(name[:1]), 1000), 0)
				require.NoError(t, err)
				require.NoError(t, catalog.PublishBuffer(name, b))
			}
			publish("first")
			r := handshake(t, s.Path())
			r.send(wire.Get, 1, wire.AppendName(nil, "first"))
			var data []byte
			for f, err := r.Read(); f.Type != wire.End; f, err = r.Read() {
				require.NoError(t, err)
				if f.Type == wire.Block {
					data = mapped(t, f)
				}
				f.CloseFile()
			}
			first := s.Stat().Blocks[0].Block
			require.NoError(t, catalog.Withdraw("first"))
			tt.end(r)
			eventually(t, "the lease ends", func() bool { return leasesOf(s) == 0 })
			if tt.code != 0 {
				assert.Equal(t, tt.code, r.readToEnd())
			}
			if !tt.reused {
				eventually(t, "the block is freed", func() bool { return len(s.Stat().Blocks) == 0 })
			}
			publish("second")
			c, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{Mechanisms: handle.Mechanisms{handle.Memory}})
			require.NoError(t, err)
			b, err := c.Buffer(shortContext(t), "second")
			require.NoError(t, err)
			assert.Equal(t, tt.reused, s.Stat().Blocks[0].Block == first, "the block is used again")
			want := "f"
			if tt.reused {
				want = "s"
			}
			assert.Equal(t, strings.Repeat(want, 1000), string(data), "what the first client reads")
			b.Release()
			require.NoError(t, c.Close())
		})
	}
}

// mapped maps the block of a frame and returns its first 1000 bytes.
func mapped(t *testing.T, f wire.Frame) []byte {
	t.Helper()
	data, err := memfile.Map(f.File, 1000)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, memfile.Unmap(data)) })
	return data
}

// Close ends the leases of all clients at once and frees the shared memory.
func TestCloseEndsEveryLease(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		require.NoError(t, publishFixtures(catalog, m.device(), "table", 1))
		p := startPeer(t, m)
		p.mustCall("Dial", Dial{Path: s.Path(), Mechanisms: handle.Mechanisms{handle.CUDAFD, handle.Memory}})
		p.mustCall("Get", "table")
		require.NoError(t, s.Close())
		assert.Empty(t, s.Stat().Clients)
		assert.Empty(t, s.Stat().Blocks)
		p.mustCall("Check", "table") // memory of a file descriptor outlives the server
		p.mustCall("Release", "table")
	})
}

func TestSecondReleaseOfLeaseIsFault(t *testing.T) {
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	require.NoError(t, publishFixtures(catalog, arrowbuf.CPU(), "table", 1))
	holds, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{Mechanisms: handle.Mechanisms{handle.Memory}})
	require.NoError(t, err)
	table, err := holds.Table(shortContext(t), "table")
	require.NoError(t, err)

	get := func() (rawConn, uint64) {
		r := handshake(t, s.Path())
		r.send(wire.Get, 1, wire.AppendName(nil, "table"))
		var m wire.BatchMessage
		for f := r.next(); f.Type != wire.End; f = r.next() {
			if f.Type == wire.Batch {
				require.NoError(t, m.Parse(f.Payload))
			}
		}
		return r, m.Lease
	}
	r, lease := get()
	assert.EqualValues(t, 1, lease, "leases are numbered per connection, so no client ends another's")
	r.send(wire.Release, 0, wire.AppendNumbers(nil, []uint64{lease}))
	r.send(wire.Release, 0, wire.AppendNumbers(nil, []uint64{lease}))
	assert.Equal(t, wire.CodeFault, r.readToEnd(), "released before")
	r, lease = get()
	r.send(wire.Release, 0, wire.AppendNumbers(nil, []uint64{lease, lease}))
	assert.Equal(t, wire.CodeFault, r.readToEnd(), "released twice")
	r, lease = get()
	r.send(wire.Release, 0, wire.AppendNumbers(nil, []uint64{lease + 1}))
	assert.Equal(t, wire.CodeFault, r.readToEnd(), "not yet granted")
	r, _ = get()
	r.send(wire.Forgotten, 0, wire.AppendNumbers(nil, []uint64{1}))
	assert.Equal(t, wire.CodeFault, r.readToEnd(), "not asked for")

	eventually(t, "the others are gone", func() bool { return leasesOf(s) == 1 })
	require.NoError(t, checkFixture("table", 0, table.Batches[0]))
	table.Release()
	require.NoError(t, holds.Close())
}

func TestShutdownWaitsForLeases(t *testing.T) {
	m := machine{kind: "cpu"}
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	require.NoError(t, publishFixtures(catalog, m.device(), "table", 1))
	p := startPeer(t, m)
	p.mustCall("Dial", Dial{Path: s.Path()})
	p.mustCall("Get", "table")
	short, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	done := make(chan error)
	go func() { done <- s.Shutdown(shortContext(t)) }()
	select {
	case <-done:
		t.Error("Shutdown did not wait")
	case <-short.Done():
	}
	p.mustCall("Release", "table")
	require.NoError(t, <-done)
}

func TestStoppedClientLosesItsLeases(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{KeepAliveTimeout: 200 * time.Millisecond, MaxIdleBytes: -1})
		require.NoError(t, publishFixtures(catalog, m.device(), "table", 1))
		healthy, stopped := startPeer(t, m), startPeer(t, m)
		for _, p := range []*peer{healthy, stopped} {
			p.mustCall("Dial", Dial{Path: s.Path()})
			p.mustCall("Get", "table")
		}
		assert.Equal(t, 2, leasesOf(s))
		go func() { _ = stopped.call("Suspend", 0, nil) }()
		eventually(t, "the stopped client loses its leases", func() bool { return leasesOf(s) == 1 })
		time.Sleep(400 * time.Millisecond)
		assert.Equal(t, 1, leasesOf(s), "the other client is kept")
		healthy.mustCall("Release", "table")
		stopped.kill()
	})
}

func TestExpiredLeaseEndsConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{MaxLeaseTime: 2 * time.Second, MaxIdleBytes: -1})
		require.NoError(t, publishFixtures(catalog, m.device(), "table", 1))
		holding, releasing := startPeer(t, m), startPeer(t, m)
		for _, p := range []*peer{holding, releasing} {
			p.mustCall("Dial", Dial{Path: s.Path()})
			p.mustCall("Get", "table")
		}
		releasing.mustCall("Release", "table")
		eventually(t, "the lease ends", func() bool { return leasesOf(s) == 0 && len(s.Stat().Clients) == 1 })
		err := holding.call("Get", "table", new([]string))
		require.Error(t, err)
		assert.Contains(t, err.Error(), ipc.ErrServerGone.Error())
		assert.Contains(t, err.Error(), `lease 1, batch 0 of "table"`)
		assert.Contains(t, err.Error(), "want at most 2s: "+ipc.ErrLeaseExpired.Error())
		holding.mustCall("Release", "table")
		releasing.mustCall("Get", "table") // a client without leases stays connected
		releasing.mustCall("Check", "table")
		releasing.mustCall("Release", "table")
	})
}
