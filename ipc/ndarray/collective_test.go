//go:build linux

package ndarray_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
	"github.com/quiver-gpu/quiver/ipc/ndarray"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/collective"
)

// Ranks that share memory through a server find each other through it, too: rank 0 publishes
// the ID, and the others open it.
func TestIDOfACommunicatorTravelsAsAnArray(t *testing.T) {
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	o := collective.Options{Timeout: 20 * time.Second}
	joined := make(chan error, 2)
	go func() {
		id, err := collective.NewID("unix")
		if err == nil {
			var a *ndview.NDBuffer
			if a, err = ndview.FromBytes(arrowbuf.CPU(), ndview.Uint8, id[:], collective.IDBytes); err == nil {
				defer a.Release()
				err = ndarray.Publish(catalog, "communicator", a)
			}
		}
		if err != nil {
			joined <- err
			return
		}
		c, err := collective.New(arrowbuf.CPU(), id, 0, 2, o)
		if err == nil {
			err = c.Close()
		}
		joined <- err
	}()
	client, err := ipc.Dial(shortContext(t), s.Path(), ipc.DialOptions{})
	require.NoError(t, err)
	defer client.Close()
	var a *ndview.NDBuffer
	require.Eventually(t, func() bool {
		a, err = ndarray.Open(shortContext(t), client, "communicator")
		return err == nil
	}, 20*time.Second, time.Millisecond)
	defer a.Release()
	raw, err := a.Bytes()
	require.NoError(t, err)
	id, err := collective.ParseID(raw)
	require.NoError(t, err)
	c, err := collective.New(arrowbuf.CPU(), id, 1, 2, o)
	require.NoError(t, err)
	assert.Equal(t, 1, c.Rank())
	assert.NoError(t, errors.Join(c.Close(), <-joined))
}
