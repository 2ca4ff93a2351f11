package ipc_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

// What is held keeps the connection, and nothing else.
func TestAClosedClientTakesNothingMore(t *testing.T) {
	m := machine{kind: "cpu"}
	catalog, s := serve(t, ipc.ServerOptions{})
	stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{Depth: 2})
	require.NoError(t, err)
	c, err := ipc.Dial(soon(t), s.Path(), ipc.DialOptions{Mechanisms: handle.Mechanisms{handle.Memory}})
	require.NoError(t, err)
	left, err := c.Stream(soon(t), "stream", 4)
	require.NoError(t, err)
	waits, err := c.Stream(soon(t), "stream", 1)
	require.NoError(t, err)
	write(t, m, stream, 1)
	held, err := left.Next(soon(t))
	require.NoError(t, err)
	taken, err := waits.Next(soon(t))
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
		_, err = left.Next(soon(t))
		assert.ErrorIs(t, err, ipc.ErrClosed)
	}
	b := fixture("stream", 1)
	defer b.Release()
	for range 20 {
		require.NoError(t, stream.Write(soon(t), b), "nobody is waited for")
	}
	require.NoError(t, check("stream", 0, held))
	held.Release()
	<-c.Done()
	left.Close()
	waits.Close()
	settles(t, "the leases end", func() bool { return leasesOf(s) == 0 })
}
