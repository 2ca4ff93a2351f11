//go:build linux

package ipc_test

import (
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// Memory of a pool is shared in place if it is published with ExposeAllocation;
// otherwise it is copied.
func TestPoolIsSharedInPlace(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		m = m.withMechanism(t, handle.CUDAPool)
		start, files := m.memoryUsed(t), openFiles(t)
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{MaxIdleBytes: -1})
		shown, err := m.pool.NewBuffer(1000, nil)
		require.NoError(t, err)
		require.NoError(t, shown.Fill('a'))
		require.NoError(t, catalog.PublishBuffer("copied", shown))
		require.NoError(t, catalog.PublishBuffer("in place", shown, ipc.ExposeAllocation()))
		require.NoError(t, publishFixtures(catalog, m.device(), "table", 3, ipc.ExposeAllocation()))
		p := startPeer(t, m)
		p.mustCall("Dial", Dial{Path: s.Path()})
		var got []byte
		require.NoError(t, p.call("Read", "copied", &got))
		assert.Zero(t, sharedBy(s, handle.CUDAPool))
		p.mustCall("Release", "copied")
		require.NoError(t, p.call("Read", "in place", &got))
		assert.Equal(t, byte('a'), got[999])
		require.NoError(t, shown.Fill('b'))
		p.mustCall("Release", "in place")
		require.NoError(t, p.call("Read", "in place", &got))
		assert.Equal(t, byte('b'), got[999], "it is the same memory")
		p.mustCall("Release", "in place")
		p.mustCall("Get", "table")
		assert.Equal(t, 1+3, sharedBy(s, handle.CUDAPool), "a batch of one allocation is one block")

		// A client that cannot open pools gets copies.
		other := startPeer(t, m)
		other.mustCall("Dial", Dial{Path: s.Path(), Mechanisms: handle.Mechanisms{handle.CUDAIPC}})
		var where []string
		require.NoError(t, other.call("Get", "table", &where))
		assert.Equal(t, m.dev.String(), where[0])
		assert.Equal(t, 1+3, sharedBy(s, handle.CUDAPool))
		other.mustCall("Release", "table")

		// The pool outlives its owner's use of it while a client reads.
		require.NoError(t, catalog.Withdraw("table"))
		require.NoError(t, catalog.Withdraw("in place"))
		require.NoError(t, catalog.Withdraw("copied"))
		shown.Release()
		p.mustCall("Check", "table")
		p.mustCall("Release", "table")
		eventually(t, "all blocks are freed", func() bool { return len(s.Stat().Blocks) == 0 })
		p.close()
		other.close() // the contexts of both are gone too
		eventually(t, "all memory is released", func() bool { return m.memoryRestored(t, start) })
		if m.kind != "cuda" { // CUDA keeps some open
			eventually(t, "the pool's file is closed", func() bool { return openFiles(t) <= files+4 }) // the socket, and files of the runtime
		}
	})
}

// Parts of a batch outside the pool are copied.
func TestBatchPartlyInPoolIsPartlyCopied(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		m = m.withMechanism(t, handle.CUDAPool)
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		whole, err := fixtureOn(m.device(), "slice", 0)
		require.NoError(t, err)
		part := whole.NewSlice(3, whole.NumRows()) // its bitmaps and offsets are new allocations
		host := fixture("slice", 0)
		want := textOf(t, host.NewSlice(3, host.NumRows()))
		require.NoError(t, catalog.PublishTable("slice", schema, []arrow.RecordBatch{part}, ipc.ExposeAllocation()))
		part.Release()
		whole.Release()
		host.Release()
		p := startPeer(t, m)
		p.mustCall("Dial", Dial{Path: s.Path()})
		var text string
		require.NoError(t, p.call("Text", "slice", &text))
		assert.Equal(t, want, text)
		assert.Equal(t, 1, sharedBy(s, handle.CUDAPool))
		assert.Equal(t, 1, sharedBy(s, handle.CUDAFD))
	})
}

// A closed pool cannot be exported, even if memory in it is still in use.
func TestClosedPoolIsCopied(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		m = m.withMechanism(t, handle.CUDAPool)
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		require.NoError(t, publishFixtures(catalog, m.device(), "table", 1, ipc.ExposeAllocation()))
		require.NoError(t, m.pool.Close())
		p := startPeer(t, m)
		p.mustCall("Dial", Dial{Path: s.Path()})
		p.mustCall("Get", "table")
		assert.Zero(t, sharedBy(s, handle.CUDAPool))
		p.mustCall("Release", "table")
		require.NoError(t, catalog.Withdraw("table"))
	})
}

// CUDA counts both clients as one. The first to close the pool must not unmap
// memory that the other still reads.
func TestTwoClientsInOneProcessShareImportedPool(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		p := startPeer(t, m)
		path := ipctest.TempDir(t) + "/s"
		p.mustCall("Serve", Serve{path, true})
		var clients [2]*ipc.Client
		var tables [2]*ipc.Table
		for i := range clients {
			c, err := ipc.Dial(shortContext(t), path, ipc.DialOptions{Devices: m.gpus()})
			require.NoError(t, err)
			table, err := c.Table(shortContext(t), "table")
			require.NoError(t, err)
			clients[i], tables[i] = c, table
		}
		stat, err := clients[0].Stat(shortContext(t))
		require.NoError(t, err)
		assert.Equal(t, handle.CUDAPool, stat.Blocks[0].Mechanism)
		tables[0].Release()
		require.NoError(t, clients[0].Close())
		for i, b := range tables[1].Batches {
			require.NoError(t, checkFixture("table", uint64(i), b))
		}
		tables[1].Release()
		require.NoError(t, clients[1].Close())
	})
}

func TestClientRejectsInvalidPools(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		self, err := handle.Self()
		require.NoError(t, err)
		welcome := wire.WelcomeMessage{Version: 1, Process: self}
		mine := m.withMechanism(t, handle.CUDAPool).pool
		file, err := mine.ExportFD()
		require.NoError(t, err)
		defer file.Close()
		plain, err := os.CreateTemp(t.TempDir(), "")
		require.NoError(t, err)
		defer plain.Close()
		for name, send := range map[string]*os.File{"a file that is no pool": plain, "a pool without that allocation": file} {
			t.Run(name, func(t *testing.T) {
				block := wire.BlockMessage{Block: 1, Descriptor: handle.Descriptor{
					Mechanism: handle.CUDAPool, AllocationSize: 10, Length: 10, Pool: 1, Device: m.dev.UUID(), Exporter: self,
				}}
				announced, err := block.Append(nil)
				require.NoError(t, err)
				batch := wire.BatchMessage{Lease: 1, Parts: []wire.Part{{Regions: []wire.Region{{Length: 1, Block: 1}}}}}
				path := serveRaw(t, func(r rawConn) {
					if r.Write(wire.Frame{Type: wire.Welcome, Payload: welcome.Append(nil)}) != nil {
						return
					}
					if _, err := r.Read(); err != nil { // GET
						return
					}
					_ = r.Write(wire.Frame{Type: wire.Block, Payload: announced, File: send}, wire.Frame{Type: wire.Batch, Request: 1, Payload: batch.Append(nil)})
				})
				c, err := ipc.Dial(shortContext(t), path, ipc.DialOptions{Devices: m.gpus()})
				require.NoError(t, err)
				_, err = c.Buffer(shortContext(t), "x")
				require.Error(t, err)
				assert.ErrorContains(t, err, "through cuda-pool")
				require.NoError(t, c.Close())
				assert.Empty(t, c.Leases())
			})
		}
	})
}
