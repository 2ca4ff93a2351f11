package cudabuf_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestAnotherProcessWaitsForOurEvent(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		b, s, e := shared(t, dev, pattern(1000)), stream(t, dev), event(t, dev, cudabuf.EventOptions{Interprocess: true})
		p := startPeer(t, d)
		theirs := ask[int](p, "Open", export(t, b))
		gate := make(chan struct{})
		require.NoError(t, s.Do(func() { <-gate }))
		require.NoError(t, b.FillAsync(8, s))
		require.NoError(t, s.Record(e))
		h, err := e.ExportIPC()
		require.NoError(t, err)
		ask[int](p, "CopyBehind", CopyBehind{h, theirs})
		assert.False(t, ask[bool](p, "Copied", 0), "the copy waits")
		close(gate)
		assertBytes(t, bytes.Repeat([]byte{8}, 1000), ask[[]byte](p, "FinishCopy", 0))
		p.release(theirs)
	})
}

func TestWeWaitForAnotherProcessesEvent(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		p := startPeer(t, d)
		theirs := ask[int](p, "New", pattern(1000))
		b, err := dev.OpenIPC(ask[cudabuf.MemHandle](p, "Export", theirs))
		require.NoError(t, err)
		e, err := dev.OpenIPCEvent(ask[cudabuf.EventHandle](p, "FillBehindGate", theirs))
		require.NoError(t, err)
		s, ours := stream(t, dev), newBuffer(t, dev, 1000)
		require.NoError(t, s.WaitEvent(e))
		_, err = ours.CopyFromDeviceAsync(b, 0, s)
		require.NoError(t, err)
		for name, ask := range map[string]func() (bool, error){"event": e.Done, "waiting stream": s.Done} {
			done, err := ask()
			require.NoError(t, err)
			assert.False(t, done, name)
		}
		ask[int](p, "OpenGate", 0)
		require.NoError(t, e.Synchronize())
		assertBytes(t, bytes.Repeat([]byte{7}, 1000), download(t, ours))
		require.NoError(t, e.Close())
		b.Release()
		ask[int](p, "EndFill", 0)
		p.release(theirs)
	})
}

func TestOnlyInterprocessEventsAreExported(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		_, err := event(t, dev, cudabuf.EventOptions{}).ExportIPC()
		var call *cudabuf.Error
		require.ErrorAs(t, err, &call)
		assert.Equal(t, "cuIpcGetEventHandle", call.Call)
		e, err := dev.NewEvent(cudabuf.EventOptions{Interprocess: true})
		require.NoError(t, err)
		require.NoError(t, e.Close())
		_, err = e.ExportIPC()
		assert.ErrorIs(t, err, cudabuf.ErrClosed)
		_, err = dev.OpenIPCEvent(cudabuf.EventHandle{})
		assert.Error(t, err)
	})
}
