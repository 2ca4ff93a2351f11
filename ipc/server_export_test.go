//go:build linux

package ipc_test

import (
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
)

// onGPU are the mechanisms of a GPU's memory, each alone.
var onGPU = []handle.Mechanism{handle.CUDAFD, handle.CUDAIPC}

func TestAnotherProcessReadsATable(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := serve(t, ipc.ServerOptions{})
		require.NoError(t, put(catalog, m.place(), "table", 3))
		ways := []handle.Mechanism{handle.Memory}
		if m.dev != nil {
			ways = append(ways, onGPU...)
		}
		for _, way := range ways {
			p := startPeer(t, m)
			p.do("Dial", Dial{Path: s.Path(), Mechanisms: handle.Mechanisms{way}})
			var where []string
			require.NoError(t, p.call("Get", "table", &where), way)
			want := "cpu"
			if way.OnGPU() {
				want = m.place().String()
			}
			assert.Equal(t, []string{want, want, want}, where)
			assert.Equal(t, 3, leasesOf(s))
			p.do("Check", "table")
			p.do("Release", "table")
			settles(t, "the leases end", func() bool { return leasesOf(s) == 0 })
			p.do("Get", "table") // what is open already
			p.do("Release", "table")
		}
	})
}

func TestAClientInThisProcessGetsTheBatchesThemselves(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := serve(t, ipc.ServerOptions{})
		require.NoError(t, put(catalog, m.place(), "table", 2))
		c, err := ipc.Dial(soon(t), s.Path(), ipc.DialOptions{Devices: m.gpus()})
		require.NoError(t, err)
		table, err := c.Table(soon(t), "table")
		require.NoError(t, err)
		_, own, err := catalog.Table("table")
		require.NoError(t, err)
		for i, b := range table.Batches {
			assert.Same(t, own[i], b)
			own[i].Release()
		}
		settles(t, "the leases end", func() bool { return leasesOf(s) == 0 })
		require.NoError(t, c.Close())
		table.Release()
	})
}

func TestAProcessThatServesIsReadHere(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		p := startPeer(t, m)
		path := folder(t) + "/s"
		p.do("Serve", Serve{Path: path})
		c, err := ipc.Dial(soon(t), path, ipc.DialOptions{Devices: m.gpus()})
		require.NoError(t, err)
		list, err := c.List(soon(t))
		require.NoError(t, err)
		require.Len(t, list, 2)
		assert.Equal(t, "stream", list[0].Name)
		assert.Equal(t, ipc.KindTable, list[1].Kind)
		assert.EqualValues(t, 3, list[1].Batches)
		assert.Equal(t, m.place().String(), list[1].Device)
		table, err := c.Table(soon(t), "table")
		require.NoError(t, err)
		assert.True(t, schema.Equal(table.Schema))
		require.NoError(t, c.Close(), "what is held stays good")
		for i, b := range table.Batches {
			assert.Equal(t, m.place(), arrowbuf.DeviceOf(b.Column(0)))
			require.NoError(t, check("table", uint64(i), b))
		}
		assert.Len(t, c.Leases(), 3)
		part := table.Batches[0].Column(0)
		part.Retain()
		table.Release()
		assert.Len(t, c.Leases(), 1, "a column holds the lease of its batch")
		part.Release()
		assert.Empty(t, c.Leases())
		<-c.Done()
		_, err = c.Table(soon(t), "table")
		assert.ErrorIs(t, err, ipc.ErrClosed)
	})
}

// TestSlicesAtRandomOffsetsArriveRight is of the case that other ways of sharing
// get wrong: CUDA's handles lose the offset.
func TestSlicesAtRandomOffsetsArriveRight(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		for _, way := range m.ways() {
			t.Run(way.String(), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, uint64(way)))
				m := m.by(t, way)
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

				catalog, s := serve(t, ipc.ServerOptions{})
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
				p.do("Dial", Dial{Path: s.Path()})
				for name, c := range slices {
					var got []byte
					require.NoError(t, p.call("Read", "buffer "+name, &got))
					assert.Equal(t, data[c.offset:c.offset+c.length], got, "%+v", c)
					p.do("Release", "buffer "+name)
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

// TestOnlyWhatIsPublishedIsOpened: memory of the device's pool is copied unless it
// is said that it need not be.
func TestOnlyWhatIsPublishedIsOpened(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		secret, err := m.dev.FromHost([]byte("a neighbour's bytes, which nobody is to see"))
		require.NoError(t, err)
		defer secret.Release()
		shown, err := m.dev.FromHost([]byte("these are shown"))
		require.NoError(t, err)
		defer shown.Release()
		catalog, s := serve(t, ipc.ServerOptions{})
		require.NoError(t, catalog.PublishBuffer("copied", shown))
		require.NoError(t, catalog.PublishBuffer("in place", shown, ipc.ExposeAllocation()))
		p := startPeer(t, m)
		p.do("Dial", Dial{Path: s.Path()})
		for i, name := range []string{"copied", "in place"} {
			var got []byte
			require.NoError(t, p.call("Read", name, &got))
			assert.Equal(t, "these are shown", string(got))
			require.NoError(t, shown.Fill('x'))
			var again []byte
			p.do("Release", name)
			require.NoError(t, p.call("Read", name, &again))
			if name == "copied" {
				assert.Equal(t, "these are shown", string(again))
				_, err = shown.CopyFromHost([]byte("these are shown"), 0)
				require.NoError(t, err)
			} else {
				assert.Equal(t, "xxxxxxxxxxxxxxx", string(again))
			}
			p.do("Release", name)
			blocks := s.Stat().Blocks
			require.Len(t, blocks, i+1)
		}
		assert.Equal(t, handle.CUDAFD, s.Stat().Blocks[0].Mechanism)
		assert.Equal(t, handle.CUDAIPC, s.Stat().Blocks[1].Mechanism)
	})
}

func TestABatchGoesByTheWayThatBothSidesHave(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		catalog, s := serve(t, ipc.ServerOptions{})
		require.NoError(t, put(catalog, m.dev, "table", 1))
		require.NoError(t, put(catalog, arrowbuf.CPU(), "host", 1))
		p := startPeer(t, m)
		p.do("Dial", Dial{Path: s.Path(), WithoutGPU: true})
		var where []string
		require.NoError(t, p.call("Get", "table", &where))
		assert.Equal(t, []string{"cpu"}, where, "a client without a GPU gets a copy")
		p.do("Release", "table")
		p = startPeer(t, m)
		p.do("Dial", Dial{Path: s.Path(), Mechanisms: handle.Mechanisms{handle.CUDAIPC}})
		err := p.call("Get", "host", nil)
		require.Error(t, err)
		assert.Contains(t, err.Error(), ipc.ErrNoMechanism.Error())
		assert.Contains(t, err.Error(), "cuda-ipc", "the error says what the client has")
		assert.Contains(t, err.Error(), `"host" is on the host`)
	})
}

func TestABatchIsReadBehindWhatWritesIt(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		for i, way := range append(onGPU, onGPU...) {
			async := i < len(onGPU)
			catalog, s := serve(t, ipc.ServerOptions{})
			b, err := m.dev.NewBuffer(100)
			require.NoError(t, err)
			stream, err := m.dev.NewStream(cudabuf.StreamOptions{})
			require.NoError(t, err)
			gate := make(chan struct{})
			require.NoError(t, b.Fill(1))
			require.NoError(t, stream.Do(func() { <-gate }))
			require.NoError(t, b.FillAsync(2, stream))
			require.NoError(t, catalog.PublishBuffer("buffer", b))
			p := startPeer(t, m)
			p.do("Dial", Dial{Path: s.Path(), Mechanisms: handle.Mechanisms{way}, Async: async})
			got := make(chan []byte)
			go func() {
				var data []byte
				assert.NoError(t, p.call("Read", "buffer", &data))
				got <- data
			}()
			if async {
				settles(t, "it is offered while it is still written", func() bool { return leasesOf(s) == 1 })
			} else {
				time.Sleep(20 * time.Millisecond)
				assert.Zero(t, leasesOf(s), "it is offered when it is written")
			}
			close(gate)
			data := <-got
			assert.Len(t, data, 100)
			for _, value := range data {
				require.EqualValues(t, 2, value)
			}
			p.do("Release", "buffer")
			b.Release()
			require.NoError(t, stream.Close())
		}
	})
}

func TestNamesAreFoundOrNot(t *testing.T) {
	catalog, s := serve(t, ipc.ServerOptions{})
	require.NoError(t, put(catalog, arrowbuf.CPU(), "table", 1))
	assert.ErrorIs(t, put(catalog, arrowbuf.CPU(), "table", 1), ipc.ErrExists)
	for _, name := range []string{"", "a\x00b", "\xff", string(make([]byte, 256))} {
		assert.Error(t, put(catalog, arrowbuf.CPU(), name, 1), "%q", name)
	}
	stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{})
	require.NoError(t, err)
	c, err := ipc.Dial(soon(t), s.Path(), ipc.DialOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	_, err = c.Table(soon(t), "other")
	assert.ErrorIs(t, err, ipc.ErrNotFound)
	assert.ErrorContains(t, err, `"other"`)
	_, err = c.Table(soon(t), "stream")
	assert.ErrorIs(t, err, ipc.ErrWrongKind)
	_, err = c.Stream(soon(t), "table", 1)
	assert.ErrorIs(t, err, ipc.ErrWrongKind)
	_, err = c.Buffer(soon(t), "table")
	assert.ErrorIs(t, err, ipc.ErrWrongKind)
	for _, name := range []string{"", "a\x00b", "\xff", string(make([]byte, 256))} {
		_, err = c.Table(soon(t), name)
		assert.ErrorIs(t, err, ipc.ErrNotFound, "%q", name)
		_, err = c.Buffer(soon(t), name)
		assert.ErrorIs(t, err, ipc.ErrNotFound, "%q", name)
		_, err = c.Stream(soon(t), name, 1)
		assert.ErrorIs(t, err, ipc.ErrNotFound, "%q", name)
	}
	require.NoError(t, stream.Close())
	_, err = c.Stream(soon(t), "stream", 1)
	assert.ErrorIs(t, err, ipc.ErrNotFound)
	require.NoError(t, catalog.Withdraw("table"))
	assert.ErrorIs(t, catalog.Withdraw("table"), ipc.ErrNotFound)
	list, err := c.List(soon(t))
	require.NoError(t, err)
	assert.Empty(t, list)
	require.NoError(t, c.Ping(soon(t)))
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	assert.ErrorIs(t, c.Ping(canceled), context.Canceled)
}

func TestSlicesOfBatchesArriveRight(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		rng := rand.New(rand.NewPCG(3, 4))
		catalog, s := serve(t, ipc.ServerOptions{})
		want := map[string]string{}
		for i := range uint64(10) {
			b, err := placed(m.place(), "slices", i)
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
		p.do("Dial", Dial{Path: s.Path()})
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
