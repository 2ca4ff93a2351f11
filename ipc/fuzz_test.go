//go:build linux

package ipc_test

import (
	"net"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// concat concatenates frames.
func concat(frames ...[]byte) (all []byte) {
	for _, f := range frames {
		all = append(all, f...)
	}
	return all
}

func rawFrame(typ wire.Type, request uint32, payload []byte) []byte {
	return append(frame(uint32(len(payload)), byte(typ), 0, 0, request), payload...)
}

// FuzzServer sends arbitrary bytes to a server after WELCOME. The server must
// keep serving others and release everything.
func FuzzServer(f *testing.F) {
	f.Add(concat(rawFrame(wire.Get, 1, wire.AppendName(nil, "table")), rawFrame(wire.Release, 0, wire.AppendNumbers(nil, []uint64{1}))))
	f.Add(concat(rawFrame(wire.Subscribe, 1, wire.AppendSubscribe(nil, 2, "stream")), rawFrame(wire.Credit, 1, wire.AppendCredit(nil, 9)), rawFrame(wire.Cancel, 1, nil)))
	f.Add(concat(rawFrame(wire.List, 1, nil), rawFrame(wire.Stat, 2, nil), rawFrame(wire.Ping, 3, nil)))
	f.Add(rawFrame(wire.Forgotten, 0, wire.AppendNumbers(nil, []uint64{1})))
	catalog, s := ipctest.Serve(f, ipc.ServerOptions{})
	require.NoError(f, publishFixtures(catalog, arrowbuf.CPU(), "table", 1))
	_, err := catalog.NewStream("stream", schema, ipc.StreamOptions{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := handshake(t, s.Path())
		r.writeBytes(b)
		require.NoError(t, r.Unix().CloseWrite())
		r.readToEnd()
		eventually(t, "the client is gone", func() bool { return len(s.Stat().Clients) == 0 })
		c, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{Mechanisms: handle.Mechanisms{handle.Memory}})
		require.NoError(t, err)
		table, err := c.Table(shortContext(t), "table")
		require.NoError(t, err)
		require.NoError(t, checkFixture("table", 0, table.Batches[0]))
		table.Release()
		require.NoError(t, c.Close())
	})
}

// FuzzClient sends arbitrary bytes to a client after WELCOME and one block. Every
// call must return, and no lease may remain.
func FuzzClient(f *testing.F) {
	self, err := handle.Self()
	require.NoError(f, err)
	header, part := encodedTable(f)
	block := wire.BlockMessage{Block: 1, Descriptor: handle.Descriptor{Mechanism: handle.Memory, AllocationSize: 1 << 16, Length: 1 << 16}}
	announced, err := block.Append(nil)
	require.NoError(f, err)
	part.Regions = []wire.Region{{Length: 1 << 15, Block: 1, Offset: 64}}
	batch := wire.BatchMessage{Lease: 1, Parts: []wire.Part{part}}
	f.Add(concat(rawFrame(wire.Schema, 1, header), rawFrame(wire.Batch, 1, batch.Append(nil)), rawFrame(wire.End, 1, nil)))
	f.Add(concat(rawFrame(wire.Schema, 1, header), rawFrame(wire.End, 1, nil)))
	f.Add(concat(rawFrame(wire.Forget, 0, wire.AppendNumbers(nil, []uint64{1})), rawFrame(wire.Error, 1, []byte{4, 0, 0, 0})))
	f.Add(rawFrame(wire.Schema, 1, nil))
	pooled := wire.BlockMessage{Block: 2, Descriptor: handle.Descriptor{Mechanism: handle.CUDAPool, AllocationSize: 64, Length: 64, Pool: 1, Exporter: self}}
	inPool, err := pooled.Append(nil)
	require.NoError(f, err)
	f.Add(rawFrame(wire.Block, 0, inPool))
	welcome := wire.WelcomeMessage{Version: 1, Process: self}
	file := memoryFile(f, 1<<16)
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := net.Listen("unix", ipctest.TempDir(t)+"/s")
		require.NoError(t, err)
		defer func() { _ = l.Close() }()
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }()
			conn := wire.NewConn(c.(*net.UnixConn))
			if _, err := conn.Read(); err != nil {
				return
			}
			_ = conn.Write(wire.Frame{Type: wire.Welcome, Payload: welcome.Append(nil)}, wire.Frame{Type: wire.Block, Payload: announced, File: file})
			if _, err := conn.Read(); err == nil {
				_, _ = c.Write(b)
			}
		}()
		c, err := ipc.Dial(shortContext(t), l.Addr().String(), ipc.DialOptions{})
		require.NoError(t, err)
		if table, err := c.Table(shortContext(t), "table"); err == nil {
			for _, b := range table.Batches {
				_ = b.NumRows()
			}
			table.Release()
		}
		require.NoError(t, c.Close())
		require.Empty(t, c.Leases())
	})
}

// encodedTable returns the schema and the one batch that a server sends of a
// small table.
func encodedTable(t testing.TB) (header []byte, part wire.Part) {
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	small := small()
	defer small.Release()
	require.NoError(t, catalog.PublishTable("table", small.Schema(), []arrow.RecordBatch{small}))
	r := handshake(t, s.Path())
	r.send(wire.Get, 1, wire.AppendName(nil, "table"))
	for f := r.next(); f.Type != wire.End; f = r.next() {
		switch f.Type {
		case wire.Schema:
			header = f.Payload
		case wire.Batch:
			var m wire.BatchMessage
			require.NoError(t, m.Parse(f.Payload))
			part = m.Parts[0]
		}
	}
	return header, part
}

// memoryFile returns a sealed memory file of n bytes.
func memoryFile(t testing.TB, n int) *os.File {
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	b, err := arrowbuf.CPU().Alloc(int64(n))
	require.NoError(t, err)
	_, err = b.CopyFromHost(make([]byte, n), 0)
	require.NoError(t, err)
	require.NoError(t, catalog.PublishBuffer("buffer", b))
	b.Release()
	r := handshake(t, s.Path())
	r.send(wire.Get, 1, wire.AppendName(nil, "buffer"))
	f, err := r.Read()
	require.NoError(t, err)
	require.Equal(t, wire.Block, f.Type)
	t.Cleanup(f.CloseFile)
	return f.File
}
