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
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// TestAPoolIsSharedAsItIs where that is asked for; else what lies in it is copied.
func TestAPoolIsSharedAsItIs(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		m = m.by(t, handle.CUDAPool)
		start, files := m.used(t), openFiles(t)
		catalog, s := serve(t, ipc.ServerOptions{MaxIdleBytes: -1})
		shown, err := m.pool.NewBuffer(1000, nil)
		require.NoError(t, err)
		require.NoError(t, shown.Fill('a'))
		require.NoError(t, catalog.PublishBuffer("copied", shown))
		require.NoError(t, catalog.PublishBuffer("in place", shown, ipc.ExposeAllocation()))
		require.NoError(t, put(catalog, m.place(), "table", 3, ipc.ExposeAllocation()))
		p := startPeer(t, m)
		p.do("Dial", Dial{Path: s.Path()})
		var got []byte
		require.NoError(t, p.call("Read", "copied", &got))
		assert.Zero(t, sharedBy(s, handle.CUDAPool))
		p.do("Release", "copied")
		require.NoError(t, p.call("Read", "in place", &got))
		assert.Equal(t, byte('a'), got[999])
		require.NoError(t, shown.Fill('b'))
		p.do("Release", "in place")
		require.NoError(t, p.call("Read", "in place", &got))
		assert.Equal(t, byte('b'), got[999], "it is the same memory")
		p.do("Release", "in place")
		p.do("Get", "table")
		assert.Equal(t, 1+3, sharedBy(s, handle.CUDAPool), "a batch of one allocation is one block")

		// A client that cannot open pools gets copies.
		other := startPeer(t, m)
		other.do("Dial", Dial{Path: s.Path(), Mechanisms: handle.Mechanisms{handle.CUDAIPC}})
		var where []string
		require.NoError(t, other.call("Get", "table", &where))
		assert.Equal(t, m.dev.String(), where[0])
		assert.Equal(t, 1+3, sharedBy(s, handle.CUDAPool))
		other.do("Release", "table")

		// The pool outlives its owner's use of it while a client reads.
		require.NoError(t, catalog.Withdraw("table"))
		require.NoError(t, catalog.Withdraw("in place"))
		require.NoError(t, catalog.Withdraw("copied"))
		shown.Release()
		p.do("Check", "table")
		p.do("Release", "table")
		settles(t, "all blocks are freed", func() bool { return len(s.Stat().Blocks) == 0 })
		p.close()
		other.close() // with the contexts of both
		settles(t, "all memory is given back", func() bool { return m.asMuch(t, start) })
		if m.kind != "cuda" { // CUDA keeps some
			settles(t, "the pool's file is closed", func() bool { return openFiles(t) <= files+4 }) // the socket, and the runtime's own
		}
	})
}

// TestABatchThatLiesPartlyInAPool is shared as far as it does, and copied as far as
// it does not.
func TestABatchThatLiesPartlyInAPool(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		m = m.by(t, handle.CUDAPool)
		catalog, s := serve(t, ipc.ServerOptions{})
		whole, err := placed(m.place(), "slice", 0)
		require.NoError(t, err)
		part := whole.NewSlice(3, whole.NumRows()) // whose bits and offsets are made anew
		host := fixture("slice", 0)
		want := textOf(t, host.NewSlice(3, host.NumRows()))
		require.NoError(t, catalog.PublishTable("slice", schema, []arrow.RecordBatch{part}, ipc.ExposeAllocation()))
		part.Release()
		whole.Release()
		host.Release()
		p := startPeer(t, m)
		p.do("Dial", Dial{Path: s.Path()})
		var text string
		require.NoError(t, p.call("Text", "slice", &text))
		assert.Equal(t, want, text)
		assert.Equal(t, 1, sharedBy(s, handle.CUDAPool))
		assert.Equal(t, 1, sharedBy(s, handle.CUDAFD))
	})
}

// TestAPoolThatIsClosedIsCopied: what lives on in it cannot be exported.
func TestAPoolThatIsClosedIsCopied(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		m = m.by(t, handle.CUDAPool)
		catalog, s := serve(t, ipc.ServerOptions{})
		require.NoError(t, put(catalog, m.place(), "table", 1, ipc.ExposeAllocation()))
		require.NoError(t, m.pool.Close())
		p := startPeer(t, m)
		p.do("Dial", Dial{Path: s.Path()})
		p.do("Get", "table")
		assert.Zero(t, sharedBy(s, handle.CUDAPool))
		p.do("Release", "table")
		require.NoError(t, catalog.Withdraw("table"))
	})
}

// TestTwoClientsOfAProcessOpenAPool: for CUDA it is one, and the first that is done
// with it must not end what the other reads.
func TestTwoClientsOfAProcessOpenAPool(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		p := startPeer(t, m)
		path := folder(t) + "/s"
		p.do("Serve", Serve{path, true})
		var clients [2]*ipc.Client
		var tables [2]*ipc.Table
		for i := range clients {
			c, err := ipc.Dial(soon(t), path, ipc.DialOptions{Devices: m.gpus()})
			require.NoError(t, err)
			table, err := c.Table(soon(t), "table")
			require.NoError(t, err)
			clients[i], tables[i] = c, table
		}
		stat, err := clients[0].Stat(soon(t))
		require.NoError(t, err)
		assert.Equal(t, handle.CUDAPool, stat.Blocks[0].Mechanism)
		tables[0].Release()
		require.NoError(t, clients[0].Close())
		for i, b := range tables[1].Batches {
			require.NoError(t, check("table", uint64(i), b))
		}
		tables[1].Release()
		require.NoError(t, clients[1].Close())
	})
}

// TestHostilePools: a client that opens pools refuses what is none.
func TestHostilePools(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		self, err := handle.Self()
		require.NoError(t, err)
		welcome := wire.WelcomeMessage{Version: 1, Process: self}
		mine := m.by(t, handle.CUDAPool).pool
		file, err := mine.ExportFD()
		require.NoError(t, err)
		defer file.Close()
		plain, err := os.CreateTemp(t.TempDir(), "")
		require.NoError(t, err)
		defer plain.Close()
		for name, send := range map[string]*os.File{"a file that is no pool": plain, "a pool in which nothing of that name is": file} {
			t.Run(name, func(t *testing.T) {
				block := wire.BlockMessage{Block: 1, Descriptor: handle.Descriptor{
					Mechanism: handle.CUDAPool, AllocationSize: 10, Length: 10, Pool: 1, Device: m.dev.UUID(), Exporter: self,
				}}
				announced, err := block.Append(nil)
				require.NoError(t, err)
				batch := wire.BatchMessage{Lease: 1, Parts: []wire.Part{{Regions: []wire.Region{{Length: 1, Block: 1}}}}}
				path := lie(t, func(r raw) {
					if r.Write(wire.Frame{Type: wire.Welcome, Payload: welcome.Append(nil)}) != nil {
						return
					}
					if _, err := r.Read(); err != nil { // GET
						return
					}
					_ = r.Write(wire.Frame{Type: wire.Block, Payload: announced, File: send}, wire.Frame{Type: wire.Batch, Request: 1, Payload: batch.Append(nil)})
				})
				c, err := ipc.Dial(soon(t), path, ipc.DialOptions{Devices: m.gpus()})
				require.NoError(t, err)
				_, err = c.Buffer(soon(t), "x")
				require.Error(t, err)
				assert.ErrorContains(t, err, "through cuda-pool")
				require.NoError(t, c.Close())
				assert.Empty(t, c.Leases())
			})
		}
	})
}
