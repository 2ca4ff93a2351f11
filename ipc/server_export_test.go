//go:build linux

package ipc_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
)

// onGPU lists mechanisms of GPU memory, each usable alone.
var onGPU = []handle.Mechanism{handle.CUDAFD, handle.CUDAIPC}

func TestOtherProcessReadsTable(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		require.NoError(t, publishFixtures(catalog, m.device(), "table", 3))
		ways := []handle.Mechanism{handle.Memory}
		if m.dev != nil {
			ways = append(ways, onGPU...)
		}
		for _, way := range ways {
			p := startPeer(t, m)
			p.mustCall("Dial", Dial{Path: s.Path(), Mechanisms: handle.Mechanisms{way}})
			var where []string
			require.NoError(t, p.call("Get", "table", &where), way)
			want := "cpu"
			if way.OnGPU() {
				want = m.device().String()
			}
			assert.Equal(t, []string{want, want, want}, where)
			assert.Equal(t, 3, leasesOf(s))
			p.mustCall("Check", "table")
			p.mustCall("Release", "table")
			eventually(t, "the leases end", func() bool { return leasesOf(s) == 0 })
			p.mustCall("Get", "table") // the blocks are open already
			p.mustCall("Release", "table")
		}
	})
}

func TestClientInSameProcessGetsPublishedBatches(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		require.NoError(t, publishFixtures(catalog, m.device(), "table", 2))
		c, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{Devices: m.gpus()})
		require.NoError(t, err)
		table, err := c.Table(shortContext(t), "table")
		require.NoError(t, err)
		own, err := catalog.Table("table")
		require.NoError(t, err)
		require.Len(t, table.Batches, len(own.Batches))
		for i, b := range table.Batches {
			assert.Same(t, own.Batches[i], b)
		}
		own.Release()
		eventually(t, "the leases end", func() bool { return leasesOf(s) == 0 })
		require.NoError(t, c.Close())
		table.Release()
	})
}

func TestClientReadsFromServingProcess(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		p := startPeer(t, m)
		path := ipctest.TempDir(t) + "/s"
		p.mustCall("Serve", Serve{Path: path})
		c, err := ipc.Dial(shortContext(t), path, ipc.DialOptions{Devices: m.gpus()})
		require.NoError(t, err)
		list, err := c.List(shortContext(t))
		require.NoError(t, err)
		require.Len(t, list, 2)
		assert.Equal(t, "stream", list[0].Name)
		assert.Equal(t, ipc.KindTable, list[1].Kind)
		assert.EqualValues(t, 3, list[1].Batches)
		assert.Equal(t, m.device().String(), list[1].Device)
		table, err := c.Table(shortContext(t), "table")
		require.NoError(t, err)
		assert.True(t, schema.Equal(table.Schema))
		require.NoError(t, c.Close(), "the batches stay valid")
		for i, b := range table.Batches {
			assert.Equal(t, m.device(), arrowbuf.DeviceOf(b.Column(0)))
			require.NoError(t, checkFixture("table", uint64(i), b))
		}
		assert.Len(t, c.Leases(), 3)
		part := table.Batches[0].Column(0)
		part.Retain()
		table.Release()
		assert.Len(t, c.Leases(), 1, "a column holds the lease of its batch")
		part.Release()
		assert.Empty(t, c.Leases())
		<-c.Done()
		_, err = c.Table(shortContext(t), "table")
		assert.ErrorIs(t, err, ipc.ErrClosed)
	})
}

// CUDA IPC handles alone lose the offset of a slice.
func TestSlicesKeepTheirOffsets(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		for _, way := range m.mechanisms() {
			t.Run(way.String(), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, uint64(way)))
				m := m.withMechanism(t, way)
				const size = 3 << 20
				shared := int64(4 << 20)
				allocate := m.dev.NewFDBuffer
				switch way {
				case handle.CUDAIPC:
					allocate = m.dev.NewIPCBuffer
				case handle.CUDAPool:
					shared = size
					allocate = func(n int64) (*cudabuf.Buffer, error) { return m.pool.NewBuffer(n, nil) }
				}
				whole, err := allocate(size)
				require.NoError(t, err)
				defer whole.Release()
				data := make([]byte, size)
				for i := range data {
					data[i] = byte(rng.Uint32())
				}
				_, err = whole.CopyFromHost(data, 0)
				require.NoError(t, err)

				catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
				one := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
				type slice struct{ offset, length int64 }
				slices := map[string]slice{}
				columns := map[string]string{}
				for i := range 10 {
					name := string(rune('a' + i))
					c := slice{rng.Int64N(size), 0}
					c.length = rng.Int64N(min(size-c.offset, 4000)) + 1
					part, err := whole.SliceClamped(c.offset, c.length)
					require.NoError(t, err)
					require.NoError(t, catalog.PublishBuffer("buffer "+name, part, m.options()...))
					part.Release()
					slices[name] = c

					offset, rows := rng.Int64N(size/8-100)*8, 1+rng.IntN(99)
					part, err = whole.SliceClamped(offset, int64(rows)*8)
					require.NoError(t, err)
					values := part.Arrow()
					column := array.NewData(arrow.PrimitiveTypes.Int64, rows, []*memory.Buffer{nil, values}, nil, 0, 0)
					values.Release()
					arr := arrowbuf.NewArray(column)
					b, err := arrowbuf.NewRecordBatch(one, []arrow.Array{arr}, int64(rows))
					require.NoError(t, err)
					require.NoError(t, catalog.PublishTable("table "+name, one, []arrow.RecordBatch{b}, m.options()...))
					columns[name] = textOf(t, b)
					b.Release()
					arr.Release()
					column.Release()
					part.Release()
				}
				p := startPeer(t, m)
				p.mustCall("Dial", Dial{Path: s.Path()})
				for name, c := range slices {
					var got []byte
					require.NoError(t, p.call("Read", "buffer "+name, &got))
					assert.Equal(t, data[c.offset:c.offset+c.length], got, "%+v", c)
					p.mustCall("Release", "buffer "+name)
					var text string
					require.NoError(t, p.call("Text", "table "+name, &text))
					assert.Equal(t, columns[name], text)
				}
				blocks := s.Stat().Blocks
				require.Len(t, blocks, 1, "nothing is copied, and the allocation is shared once")
				assert.Equal(t, way, blocks[0].Mechanism)
				assert.Equal(t, shared, blocks[0].Size)
			})
		}
	})
}

// Memory of the device's pool is copied, unless it is published with
// ExposeAllocation.
func TestPoolMemoryIsCopiedUnlessExposed(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		secret, err := m.dev.FromHost([]byte("bytes beside the published ones, to be hidden"))
		require.NoError(t, err)
		defer secret.Release()
		shown, err := m.dev.FromHost([]byte("these are shown"))
		require.NoError(t, err)
		defer shown.Release()
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		require.NoError(t, catalog.PublishBuffer("copied", shown))
		require.NoError(t, catalog.PublishBuffer("in place", shown, ipc.ExposeAllocation()))
		p := startPeer(t, m)
		p.mustCall("Dial", Dial{Path: s.Path()})
		for i, name := range []string{"copied", "in place"} {
			var got []byte
			require.NoError(t, p.call("Read", name, &got))
			assert.Equal(t, "these are shown", string(got))
			require.NoError(t, shown.Fill('x'))
			var again []byte
			p.mustCall("Release", name)
			require.NoError(t, p.call("Read", name, &again))
			if name == "copied" {
				assert.Equal(t, "these are shown", string(again))
				_, err = shown.CopyFromHost([]byte("these are shown"), 0)
				require.NoError(t, err)
			} else {
				assert.Equal(t, "xxxxxxxxxxxxxxx", string(again))
			}
			p.mustCall("Release", name)
			blocks := s.Stat().Blocks
			require.Len(t, blocks, i+1)
		}
		assert.Equal(t, handle.CUDAFD, s.Stat().Blocks[0].Mechanism)
		assert.Equal(t, handle.CUDAIPC, s.Stat().Blocks[1].Mechanism)
	})
}

func TestBatchUsesCommonMechanism(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		require.NoError(t, publishFixtures(catalog, m.dev, "table", 1))
		require.NoError(t, publishFixtures(catalog, arrowbuf.CPU(), "host", 1))
		p := startPeer(t, m)
		p.mustCall("Dial", Dial{Path: s.Path(), WithoutGPU: true})
		var where []string
		require.NoError(t, p.call("Get", "table", &where))
		assert.Equal(t, []string{"cpu"}, where, "a client without a GPU gets a copy")
		p.mustCall("Release", "table")
		p = startPeer(t, m)
		p.mustCall("Dial", Dial{Path: s.Path(), Mechanisms: handle.Mechanisms{handle.CUDAIPC}})
		err := p.call("Get", "host", nil)
		require.Error(t, err)
		assert.Contains(t, err.Error(), ipc.ErrNoMechanism.Error())
		assert.Contains(t, err.Error(), "cuda-ipc", "the error says what the client has")
		assert.Contains(t, err.Error(), `"host" is on the host`)
	})
}

func TestBatchIsReadAfterItsWrites(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		for i, way := range append(onGPU, onGPU...) {
			async := i < len(onGPU)
			catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
			b, err := m.dev.NewBuffer(100)
			require.NoError(t, err)
			stream, err := m.dev.NewStream(cudabuf.StreamOptions{})
			require.NoError(t, err)
			gate := make(chan struct{})
			require.NoError(t, b.Fill(1))
			require.NoError(t, stream.LaunchHostFunc(func() { <-gate }))
			require.NoError(t, b.FillAsync(2, stream))
			require.NoError(t, catalog.PublishBuffer("buffer", b))
			p := startPeer(t, m)
			p.mustCall("Dial", Dial{Path: s.Path(), Mechanisms: handle.Mechanisms{way}, Async: async})
			got := make(chan []byte)
			go func() {
				var data []byte
				assert.NoError(t, p.call("Read", "buffer", &data))
				got <- data
			}()
			if async {
				eventually(t, "the lease is granted during the write", func() bool { return leasesOf(s) == 1 })
			} else {
				time.Sleep(20 * time.Millisecond)
				assert.Zero(t, leasesOf(s), "the lease is granted after the write")
			}
			close(gate)
			data := <-got
			assert.Len(t, data, 100)
			for _, value := range data {
				require.EqualValues(t, 2, value)
			}
			p.mustCall("Release", "buffer")
			b.Release()
			require.NoError(t, stream.Close())
		}
	})
}

// Pinned memory is shared as it is after the writes of its streams.
func TestPinnedMemoryIsCopiedAfterItsWrites(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		full, err := m.dev.NewBuffer(100)
		require.NoError(t, err)
		defer full.Release()
		require.NoError(t, full.Fill(7))
		pinned, err := m.dev.Host().Alloc(100)
		require.NoError(t, err)
		defer pinned.Release()
		stream, err := m.dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, stream.Close()) }()
		require.NoError(t, stream.LaunchHostFunc(func() { time.Sleep(50 * time.Millisecond) }))
		_, err = pinned.(*cudabuf.HostBuffer).CopyFromDeviceAsync(full, 0, stream)
		require.NoError(t, err)
		require.NoError(t, catalog.PublishBuffer("pinned", pinned))
		c, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{Mechanisms: handle.Mechanisms{handle.Memory}})
		require.NoError(t, err)
		defer c.Close()
		b, err := c.Buffer(shortContext(t), "pinned")
		require.NoError(t, err)
		defer b.Release()
		got := make([]byte, 100)
		_, err = b.CopyToHost(got, 0)
		require.NoError(t, err)
		assert.Equal(t, bytes.Repeat([]byte{7}, 100), got)
	})
}

func TestErrorsOfNames(t *testing.T) {
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	require.NoError(t, publishFixtures(catalog, arrowbuf.CPU(), "table", 1))
	assert.ErrorIs(t, publishFixtures(catalog, arrowbuf.CPU(), "table", 1), ipc.ErrExists)
	for _, name := range []string{"", "a\x00b", "\xff", string(make([]byte, 256))} {
		assert.Error(t, publishFixtures(catalog, arrowbuf.CPU(), name, 1), "%q", name)
	}
	stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{})
	require.NoError(t, err)
	c, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	_, err = c.Table(shortContext(t), "other")
	assert.ErrorIs(t, err, ipc.ErrNotFound)
	assert.ErrorContains(t, err, `"other"`)
	_, err = c.Table(shortContext(t), "stream")
	assert.ErrorIs(t, err, ipc.ErrWrongKind)
	_, err = c.Stream(shortContext(t), "table", 1)
	assert.ErrorIs(t, err, ipc.ErrWrongKind)
	_, err = c.Buffer(shortContext(t), "table")
	assert.ErrorIs(t, err, ipc.ErrWrongKind)
	for _, name := range []string{"", "a\x00b", "\xff", string(make([]byte, 256))} {
		_, err = c.Table(shortContext(t), name)
		assert.ErrorIs(t, err, ipc.ErrNotFound, "%q", name)
		_, err = c.Buffer(shortContext(t), name)
		assert.ErrorIs(t, err, ipc.ErrNotFound, "%q", name)
		_, err = c.Stream(shortContext(t), name, 1)
		assert.ErrorIs(t, err, ipc.ErrNotFound, "%q", name)
	}
	require.NoError(t, stream.Close())
	_, err = c.Stream(shortContext(t), "stream", 1)
	assert.ErrorIs(t, err, ipc.ErrNotFound)
	require.NoError(t, catalog.Withdraw("table"))
	assert.ErrorIs(t, catalog.Withdraw("table"), ipc.ErrNotFound)
	list, err := c.List(shortContext(t))
	require.NoError(t, err)
	assert.Empty(t, list)
	require.NoError(t, c.Ping(shortContext(t)))
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	assert.ErrorIs(t, c.Ping(canceled), context.Canceled)
}

func TestSlicedBatchesArriveUnchanged(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		rng := rand.New(rand.NewPCG(3, 4))
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		want := map[string]string{}
		for i := range uint64(10) {
			b, err := fixtureOn(m.device(), "slices", i)
			require.NoError(t, err)
			from := rng.Int64N(b.NumRows())
			part := b.NewSlice(from, from+rng.Int64N(b.NumRows()-from+1))
			name := string(rune('a' + i))
			require.NoError(t, catalog.PublishTable(name, schema, []arrow.RecordBatch{part}))
			host := fixture("slices", i)
			slice := host.NewSlice(from, from+part.NumRows())
			want[name] = textOf(t, slice)
			slice.Release()
			host.Release()
			part.Release()
			b.Release()
		}
		p := startPeer(t, m)
		p.mustCall("Dial", Dial{Path: s.Path()})
		for name, text := range want {
			var got string
			require.NoError(t, p.call("Text", name, &got))
			assert.Equal(t, text, got)
		}
	})
}

func textOf(t *testing.T, b arrow.RecordBatch) string {
	t.Helper()
	text, err := b.MarshalJSON()
	require.NoError(t, err)
	return string(text)
}
