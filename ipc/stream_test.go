//go:build linux

package ipc_test

import (
	"context"
	"errors"
	"io"
	"sync"
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

// write writes batches [0, n) of the stream "stream".
func write(t testing.TB, m machine, stream *ipc.Stream, n int) {
	t.Helper()
	for i := range n {
		b, err := fixtureOn(m.device(), "stream", uint64(i))
		require.NoError(t, err)
		err = stream.Write(shortContext(t), b)
		b.Release()
		require.NoError(t, err)
	}
}

func TestStreamReachesSeveralProcesses(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{})
		require.NoError(t, err)
		const readers, batches = 3, 40
		var wait sync.WaitGroup
		for range readers {
			p := startPeer(t, m)
			p.mustCall("Dial", Dial{Path: s.Path()})
			wait.Go(func() {
				var n int
				assert.NoError(t, p.call("Follow", Follow{Name: "stream", Window: 3}, &n))
				assert.Equal(t, batches, n)
			})
		}
		require.NoError(t, stream.WaitSubscribers(shortContext(t), readers))
		write(t, m, stream, batches)
		list := catalog.List()
		assert.EqualValues(t, batches, list[0].Batches)
		assert.EqualValues(t, readers, list[0].Subscribers)
		require.NoError(t, stream.Close())
		wait.Wait()
		eventually(t, "the leases end", func() bool { return leasesOf(s) == 0 })
	})
}

func TestWriterWaitsForSlowestSubscriber(t *testing.T) {
	m := machine{kind: "cpu"}
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{Depth: 2})
	require.NoError(t, err)
	c, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{Mechanisms: handle.Mechanisms{handle.Memory}})
	require.NoError(t, err)
	slow, err := c.Stream(shortContext(t), "stream", 1)
	require.NoError(t, err)
	write(t, m, stream, 3) // one in flight, two queued
	b := fixture("stream", 3)
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	err = stream.Write(short, b)
	cancel()
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, `"stream", batch 3`)
	written := make(chan error)
	go func() { written <- stream.Write(context.Background(), b) }()
	for i := range 3 {
		got, err := slow.Next(shortContext(t))
		require.NoError(t, err)
		require.NoError(t, checkFixture("stream", uint64(i), got))
		got.Release()
	}
	require.NoError(t, <-written)
	go func() { // this writer waits for a subscriber that leaves
		for {
			if err := stream.Write(context.Background(), b); err != nil {
				written <- err
				return
			}
		}
	}()
	time.Sleep(10 * time.Millisecond)
	slow.Close()
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, stream.Close())
	assert.ErrorIs(t, <-written, ipc.ErrClosed)
	eventually(t, "the leases end", func() bool { return leasesOf(s) == 0 })
	require.NoError(t, c.Close())
	b.Release()
}

func TestStreamReusesBlocks(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{})
		require.NoError(t, err)
		p := startPeer(t, m)
		p.mustCall("Dial", Dial{Path: s.Path()})
		done := make(chan error)
		go func() { done <- p.call("Follow", Follow{Name: "stream", Window: 2, Most: 100}, nil) }()
		require.NoError(t, stream.WaitSubscribers(shortContext(t), 1))
		write(t, m, stream, 100)
		require.NoError(t, <-done)
		last := s.Stat().Blocks
		assert.Less(t, len(last), 12)
		assert.Less(t, last[len(last)-1].Block, uint64(12), "100 batches used at most 12 blocks")
		require.NoError(t, stream.Close())
	})
}

func TestSmallBatchesShareBlocks(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{MaxIdleBytes: -1})
		const n = 100
		require.NoError(t, publishFixtures(catalog, m.device(), "table", n))
		require.NoError(t, publishFixtures(catalog, m.device(), "other", 1))
		p := startPeer(t, m)
		p.mustCall("Dial", Dial{Path: s.Path()})
		p.mustCall("Get", "table")
		p.mustCall("Get", "other")
		stat := s.Stat()
		var leases, shared int
		for _, b := range stat.Blocks {
			leases += int(b.Leases)
			shared = max(shared, int(b.Leases))
		}
		assert.Equal(t, n+1, leases)
		assert.Less(t, len(stat.Blocks), n/2)
		assert.Greater(t, shared, 1)
		p.mustCall("Release", "table")
		eventually(t, "the leases end", func() bool { return leasesOf(s) == 1 })
		require.NoError(t, catalog.Withdraw("table"))
		eventually(t, "the table's blocks are forgotten", func() bool { return len(s.Stat().Blocks) == 1 })
		p.mustCall("Check", "other")
		p.mustCall("Release", "other")
	})
}

func TestWithdrawnTableStaysWithItsHolders(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		before := m.memoryUsed(t)
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{MaxIdleBytes: -1})
		require.NoError(t, publishFixtures(catalog, m.device(), "table", 2))
		p := startPeer(t, m)
		p.mustCall("Dial", Dial{Path: s.Path()})
		p.mustCall("Get", "table")
		require.NoError(t, catalog.Withdraw("table"))
		require.NoError(t, publishFixtures(catalog, m.device(), "table", 1))
		p.mustCall("Check", "table")
		assert.Equal(t, 2, leasesOf(s))
		p.mustCall("Release", "table")
		require.NoError(t, catalog.Withdraw("table"))
		eventually(t, "the client has forgotten the blocks", func() bool { return len(s.Stat().Blocks) == 0 })
		if m.kind != "cuda" {
			assert.Equal(t, before, m.memoryUsed(t))
		}
	})
}

func TestEmptyTablesAndBuffersAreShared(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		require.NoError(t, catalog.PublishTable("no batches", schema, nil))
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		none := b.NewRecordBatch()
		b.Release()
		moved, err := arrowbuf.CopyTo(none, m.device())
		require.NoError(t, err)
		require.NoError(t, catalog.PublishTable("no rows", schema, []arrow.RecordBatch{moved}))
		moved.Release()
		none.Release()
		empty, err := m.device().Alloc(0)
		require.NoError(t, err)
		require.NoError(t, catalog.PublishBuffer("no bytes", empty))
		empty.Release()
		for _, mechanisms := range []handle.Mechanisms{nil, {handle.CUDAFD, handle.Memory}} {
			c, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{Devices: m.gpus(), Mechanisms: mechanisms})
			require.NoError(t, err)
			table, err := c.Table(shortContext(t), "no batches")
			require.NoError(t, err)
			assert.Empty(t, table.Batches)
			table, err = c.Table(shortContext(t), "no rows")
			require.NoError(t, err)
			require.Len(t, table.Batches, 1)
			assert.Zero(t, table.Batches[0].NumRows())
			table.Release()
			buffer, err := c.Buffer(shortContext(t), "no bytes")
			require.NoError(t, err)
			assert.Zero(t, buffer.Len())
			buffer.Release()
			require.NoError(t, c.Close())
		}
	})
}

func TestSubscriptionEndsWithItsServer(t *testing.T) {
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{})
	require.NoError(t, err)
	c, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{})
	require.NoError(t, err)
	sub, err := c.Stream(shortContext(t), "stream", 4)
	require.NoError(t, err)
	write(t, machine{kind: "cpu"}, stream, 1)
	b, err := sub.Next(shortContext(t))
	require.NoError(t, err)
	b.Release()
	require.NoError(t, s.Close())
	_, err = sub.Next(shortContext(t))
	assert.ErrorIs(t, err, ipc.ErrServerGone)
	assert.False(t, errors.Is(err, io.EOF))
	assert.ErrorIs(t, c.Err(), ipc.ErrServerGone)
	sub.Close()
	require.NoError(t, c.Close())
}

func TestServerClosesDuringWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	forEachGPU(t, func(t *testing.T, m machine) {
		catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
		b, err := m.dev.NewBuffer(100)
		require.NoError(t, err)
		stream, err := m.dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		gate := make(chan struct{})
		require.NoError(t, stream.LaunchHostFunc(func() { <-gate }))
		require.NoError(t, b.FillAsync(2, stream))
		require.NoError(t, catalog.PublishBuffer("buffer", b))
		p := startPeer(t, m)
		p.mustCall("Dial", Dial{Path: s.Path()})
		read := make(chan error)
		go func() { read <- p.call("Read", "buffer", new([]byte)) }()
		eventually(t, "it waits", func() bool { return len(s.Stat().Blocks) == 1 })
		time.AfterFunc(2*time.Second, func() { close(gate) })
		begin := time.Now()
		closed := make(chan error)
		go func() { closed <- s.Close() }()
		err = <-read
		require.Error(t, err)
		assert.Contains(t, err.Error(), ipc.ErrServerGone.Error())
		assert.Less(t, time.Since(begin), time.Second)
		require.NoError(t, <-closed)
		b.Release()
		require.NoError(t, stream.Close())
	})
}
