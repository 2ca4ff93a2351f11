//go:build linux

package ipc_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
)

// A server ends a connection with more than 64 concurrent requests, so the client
// must wait.
func TestExcessRequestsWait(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{KeepAliveTimeout: 2 * time.Second})
	require.NoError(t, publishFixtures(catalog, arrowbuf.CPU(), "table", 2))
	stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{})
	require.NoError(t, err)
	dial := func() *ipc.Client {
		c, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{Mechanisms: handle.Mechanisms{handle.Memory}})
		require.NoError(t, err)
		return c
	}
	t.Run("many at once", func(t *testing.T) {
		c := dial()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				table, err := c.Table(shortContext(t), "table")
				if assert.NoError(t, err) {
					assert.NoError(t, checkFixture("table", 1, table.Batches[1]))
					table.Release()
				}
			})
		}
		all.Wait()
		require.NoError(t, c.Close())
	})
	subscribe := func(c *ipc.Client) (all []*ipc.Subscription) {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			s, err := c.Stream(ctx, "stream", 1)
			cancel()
			if err != nil {
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorContains(t, err, "64 requests are in progress")
				return all
			}
			all = append(all, s)
		}
	}
	t.Run("until one ends", func(t *testing.T) {
		c := dial()
		subscriptions := subscribe(c)
		assert.Len(t, subscriptions, 64)
		answered := make(chan error, 1)
		go func() { answered <- c.Ping(shortContext(t)) }()
		select {
		case err := <-answered:
			assert.Fail(t, "Ping did not wait", "%v", err)
		case <-time.After(2500 * time.Millisecond): // the client sends keep-alives meanwhile
		}
		subscriptions[7].Close()
		require.NoError(t, <-answered)
		for _, s := range subscriptions {
			s.Close()
		}
		require.NoError(t, c.Close())
	})
	t.Run("until the client is closed", func(t *testing.T) {
		c := dial()
		subscriptions := subscribe(c)
		table := make(chan error, 1)
		go func() {
			_, err := c.Table(shortContext(t), "table")
			table <- err
		}()
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, c.Close())
		assert.ErrorIs(t, <-table, ipc.ErrClosed)
		for _, s := range subscriptions {
			_, err := s.Next(shortContext(t))
			assert.ErrorIs(t, err, ipc.ErrClosed)
		}
	})
	t.Run("until the server is gone", func(t *testing.T) {
		c := dial()
		subscribe(c)
		table := make(chan error, 1)
		go func() {
			_, err := c.Table(shortContext(t), "table")
			table <- err
		}()
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, s.Close())
		err := <-table
		assert.True(t, errors.Is(err, ipc.ErrServerGone), "%v", err)
		require.NoError(t, c.Close())
	})
	require.NoError(t, stream.Close())
}

// A closed client keeps the connection for its leases only.
func TestClosedClientKeepsOnlyItsLeases(t *testing.T) {
	m := machine{kind: "cpu"}
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{Depth: 2})
	require.NoError(t, err)
	c, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{Mechanisms: handle.Mechanisms{handle.Memory}})
	require.NoError(t, err)
	left, err := c.Stream(shortContext(t), "stream", 4)
	require.NoError(t, err)
	waits, err := c.Stream(shortContext(t), "stream", 1)
	require.NoError(t, err)
	write(t, m, stream, 1)
	held, err := left.Next(shortContext(t))
	require.NoError(t, err)
	taken, err := waits.Next(shortContext(t))
	require.NoError(t, err)
	taken.Release()

	woken := make(chan error)
	go func() {
		_, err := waits.Next(context.Background())
		woken <- err
	}()
	require.NoError(t, c.Close())
	assert.ErrorIs(t, <-woken, ipc.ErrClosed)
	for range 2 {
		_, err = left.Next(shortContext(t))
		assert.ErrorIs(t, err, ipc.ErrClosed)
	}
	b := fixture("stream", 1)
	defer b.Release()
	for range 20 {
		require.NoError(t, stream.Write(shortContext(t), b), "the writer waits for no subscriber")
	}
	require.NoError(t, checkFixture("stream", 0, held))
	held.Release()
	<-c.Done()
	left.Close()
	waits.Close()
	eventually(t, "the leases end", func() bool { return leasesOf(s) == 0 })
}
