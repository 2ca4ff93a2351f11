//go:build linux

package ipc_test

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// serveRaw serves one connection: it reads HELLO, calls respond, and then replies
// to PING only.
func serveRaw(t *testing.T, respond func(r rawConn)) string {
	path := ipctest.TempDir(t) + "/s"
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		r := rawConn{t, wire.NewConn(c.(*net.UnixConn))}
		defer func() { _ = r.Close() }()
		if f, err := r.Read(); err != nil || f.Type != wire.Hello {
			return
		}
		respond(r)
		for {
			f, err := r.Read()
			if err != nil {
				return
			}
			if f.Type == wire.Ping {
				_ = r.Write(wire.Frame{Type: wire.Pong, Request: f.Request})
			}
		}
	}()
	return path
}

func TestClientRejectsInvalidServerFrames(t *testing.T) {
	self, err := handle.Self()
	require.NoError(t, err)
	welcome := wire.WelcomeMessage{Version: 1, Process: self}
	block := func(d handle.Descriptor) []byte {
		d.Exporter = self
		m := wire.BlockMessage{Block: 1, Descriptor: d}
		b, err := m.Append(nil)
		require.NoError(t, err)
		return b
	}
	batch := func(lease uint64, r ...wire.Region) []byte {
		m := wire.BatchMessage{Lease: lease, Parts: []wire.Part{{Regions: r}}}
		return m.Append(nil)
	}
	local := handle.Descriptor{Mechanism: handle.Local, AllocationSize: 10, Length: 10}
	memory := handle.Descriptor{Mechanism: handle.Memory, AllocationSize: 4096, Length: 4096}
	pool := handle.Descriptor{Mechanism: handle.CUDAPool, AllocationSize: 10, Length: 10, Pool: 1}
	plain, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	require.NoError(t, plain.Truncate(4096))
	defer plain.Close()
	for name, tt := range map[string]struct {
		frames []wire.Frame
		want   error
		text   string
	}{
		"a schema in reply to a buffer": {[]wire.Frame{{Type: wire.Schema, Request: 1}}, ipc.ErrWrongKind, ""},
		"a reply without a request":     {[]wire.Frame{{Type: wire.Pong, Request: 7}}, ipc.ErrFault, "request 7"},
		"a message of clients":          {[]wire.Frame{{Type: wire.Get, Request: 1, Payload: wire.AppendName(nil, "x")}}, ipc.ErrFault, "only clients send GET"},
		"a batch in no block":           {[]wire.Frame{{Type: wire.Batch, Request: 1, Payload: batch(1, wire.Region{Length: 1, Block: 1})}}, ipc.ErrFault, "was not announced"},
		"lease 2 first":                 {[]wire.Frame{{Type: wire.Batch, Request: 1, Payload: batch(2)}}, ipc.ErrFault, "lease 2 after 0"},
		"a batch beyond its block":      {[]wire.Frame{{Type: wire.Block, Payload: block(local)}, {Type: wire.Batch, Request: 1, Payload: batch(1, wire.Region{Length: 11, Block: 1})}}, ipc.ErrFault, "out of range"},
		"a block twice":                 {[]wire.Frame{{Type: wire.Block, Payload: block(local)}, {Type: wire.Block, Payload: block(local)}}, ipc.ErrFault, "second time"},
		"memory without a file":         {[]wire.Frame{{Type: wire.Block, Payload: block(memory)}}, ipc.ErrFault, "descriptor: false"},
		"a pool without a file":         {[]wire.Frame{{Type: wire.Block, Payload: block(pool)}}, ipc.ErrFault, "descriptor: false"},
		"a pool of a GPU that is not there": {[]wire.Frame{{Type: wire.Block, Payload: block(pool), File: plain}, {Type: wire.Batch, Request: 1, Payload: batch(1, wire.Region{Length: 1, Block: 1})}},
			arrowbuf.ErrDevice, "the client does not have GPU-"},
		"FORGET of an unknown block": {[]wire.Frame{{Type: wire.Forget, Payload: wire.AppendNumbers(nil, []uint64{3})}}, ipc.ErrFault, "was not announced"},
		"a server that is not in this process": {[]wire.Frame{{Type: wire.Block, Payload: block(local)}, {Type: wire.Batch, Request: 1, Payload: batch(1, wire.Region{Length: 1, Block: 1})}},
			ipc.ErrServerGone, "no server of this process has block 1"},
		"a file that may shrink": {[]wire.Frame{{Type: wire.Block, Payload: block(memory), File: plain}, {Type: wire.Batch, Request: 1, Payload: batch(1, wire.Region{Length: 1, Block: 1})}},
			nil, "opening memory"},
		"the end": {nil, ipc.ErrServerGone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := serveRaw(t, func(r rawConn) {
				if r.Write(wire.Frame{Type: wire.Welcome, Payload: welcome.Append(nil)}) != nil {
					return
				}
				if _, err := r.Read(); err != nil { // GET
					return
				}
				_ = r.Write(tt.frames...)
				if tt.frames == nil {
					_ = r.Close()
				}
			})
			c, err := ipc.Dial(shortContext(t), path, ipc.DialOptions{})
			require.NoError(t, err)
			_, err = c.Buffer(shortContext(t), "x")
			require.Error(t, err)
			if tt.want != nil {
				assert.ErrorIs(t, err, tt.want)
			}
			assert.ErrorContains(t, err, tt.text)
			require.NoError(t, c.Close())
			assert.Empty(t, c.Leases())
		})
	}
}

func TestClientCannotModifySharedMemory(t *testing.T) {
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	b, err := arrowbuf.CPU().Alloc(10)
	require.NoError(t, err)
	_, err = b.CopyFromHost([]byte("0123456789"), 0)
	require.NoError(t, err)
	require.NoError(t, catalog.PublishBuffer("buffer", b))
	b.Release()
	r := handshake(t, s.Path())
	r.send(wire.Get, 1, wire.AppendName(nil, "buffer"))
	f, err := r.Read()
	require.NoError(t, err)
	require.Equal(t, wire.Block, f.Type)
	defer f.CloseFile()
	assert.Error(t, f.File.Truncate(0))
	_, err = f.File.WriteAt([]byte("x"), 0)
	assert.ErrorIs(t, err, os.ErrPermission)
	fd := int(f.File.Fd())
	_, err = syscall.Mmap(fd, 0, 10, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	assert.ErrorIs(t, err, os.ErrPermission)
	data, err := syscall.Mmap(fd, 0, 10, syscall.PROT_READ, syscall.MAP_SHARED)
	require.NoError(t, err)
	assert.Equal(t, "0123456789", string(data))
	require.NoError(t, syscall.Munmap(data))
}
