package dissociated

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestBatchesArriveUnchanged(t *testing.T) {
	batches := hostBatches(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, single := range []bool{false, true} {
			for _, located := range []bool{false, true} {
				t.Run(fmt.Sprintf("single=%v located=%v", single, located), func(t *testing.T) {
					var o SendOptions
					if located {
						o.Window = newWindow(t, dev, 1<<20)
					}
					server, client := links(t, single)
					sendAsync(t, server, readerOn(t, dev, batches...), o, isNil)
					r, err := Receive(context.Background(), client, endpointOf(o.Window), dev, ReceiveOptions{})
					require.NoError(t, err)
					defer r.Release()
					requireStream(t, r, dev, batches)
				})
			}
		}
	})
}

func TestBatchesArriveOnAnotherDevice(t *testing.T) {
	batches := hostBatches(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, way := range []struct{ from, to arrowbuf.Device }{{dev, arrowbuf.CPU()}, {arrowbuf.CPU(), dev}} {
			for _, window := range []arrowbuf.Device{nil, way.from, way.to} {
				t.Run(fmt.Sprint(way.from, "-", window, "-", way.to), func(t *testing.T) {
					var o SendOptions
					if window != nil {
						o.Window = newWindow(t, window, 1<<20)
					}
					server, client := links(t, false)
					sendAsync(t, server, readerOn(t, way.from, batches...), o, isNil)
					r, err := Receive(context.Background(), client, endpointOf(o.Window), way.to, ReceiveOptions{})
					require.NoError(t, err)
					defer r.Release()
					requireStream(t, r, way.to, batches)
				})
			}
		}
	})
}

func TestSequenceNumbersRollOver(t *testing.T) {
	batches := hostBatches(t)
	server, client := links(t, false)
	sendAsync(t, server, readerOn(t, arrowbuf.CPU(), batches...), SendOptions{first: math.MaxUint32 - 2}, isNil)
	r, err := Receive(context.Background(), client, endpointOf(nil), arrowbuf.CPU(), ReceiveOptions{first: math.MaxUint32 - 2})
	require.NoError(t, err)
	defer r.Release()
	requireStream(t, r, arrowbuf.CPU(), batches)
}

func TestBatchOutlivesItsReaderUntilReleased(t *testing.T) {
	batch := hostBatch(t, 1, 1000)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		w := newWindow(t, dev, 1<<20)
		server, client := links(t, false)
		sendAsync(t, server, readerOn(t, dev, batch), SendOptions{Window: w}, isNil)
		r, err := Receive(context.Background(), client, endpointOf(w), dev, ReceiveOptions{})
		require.NoError(t, err)
		require.True(t, r.Next())
		got := r.RecordBatch()
		column := got.Column(0)
		column.Retain()
		require.False(t, r.Next())
		require.NoError(t, r.Err())
		r.Release()
		require.Positive(t, w.Used())
		host, err := arrowbuf.CopyArrayTo(column, arrowbuf.CPU())
		require.NoError(t, err)
		require.Equal(t, batch.Column(0).String(), host.String())
		host.Release()
		column.Release()
		require.Eventually(t, func() bool { return w.Used() == 0 }, 5*time.Second, time.Millisecond)
	})
}

func TestSendWaitsForFreeWindowMemory(t *testing.T) {
	batches := hostBatches(t)
	for range 4 {
		batches = append(batches, batches...)
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		w := newWindow(t, dev, 100<<10) // space for one or two batches
		server, client := links(t, false)
		sendAsync(t, server, readerOn(t, dev, batches...), SendOptions{Window: w}, isNil)
		r, err := Receive(context.Background(), client, endpointOf(w), dev, ReceiveOptions{})
		require.NoError(t, err)
		defer r.Release()
		for _, want := range batches {
			require.True(t, r.Next(), "%v", r.Err())
			requireSame(t, want, r.RecordBatch())
		}
		require.False(t, r.Next())
		require.NoError(t, r.Err())
	})
}

func TestBodyLargerThanWindowIsError(t *testing.T) {
	batch := hostBatch(t, 1, 1000)
	w := newWindow(t, arrowbuf.CPU(), 4096)
	server, client := links(t, false)
	sendAsync(t, server, readerOn(t, arrowbuf.CPU(), batch), SendOptions{Window: w}, func(err error) bool {
		return errors.Is(err, ErrTooLarge)
	})
	r, err := Receive(context.Background(), client, endpointOf(w), arrowbuf.CPU(), ReceiveOptions{})
	require.NoError(t, err)
	defer r.Release()
	require.False(t, r.Next())
	require.ErrorIs(t, r.Err(), ErrPeerGone)
}

func TestBatchInWindowIsSentWithoutCopy(t *testing.T) {
	batches := hostBatches(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		w := newWindow(t, dev, 1<<20)
		var placed []arrow.RecordBatch
		for _, batch := range batches {
			from, err := arrowbuf.CopyTo(batch, dev)
			require.NoError(t, err)
			one, err := w.CopyBatch(context.Background(), from)
			require.NoError(t, err)
			from.Release()
			defer one.Release()
			requireSame(t, batch, one)
			placed = append(placed, one)
		}
		used := w.Used()
		for range 2 { // clients
			server, client := links(t, false)
			sendAsync(t, server, readerOn(t, dev, placed...), SendOptions{Window: w}, isNil)
			r, err := Receive(context.Background(), client, endpointOf(w), dev, ReceiveOptions{})
			require.NoError(t, err)
			defer r.Release()
			for i := 0; r.Next(); i++ {
				requireSame(t, batches[i], r.RecordBatch())
				requireSameAddresses(t, placed[i], r.RecordBatch())
			}
			require.NoError(t, r.Err())
		}
		// Only buffers that Send had to rebuild were copied; their memory is free again.
		require.Eventually(t, func() bool { return w.Used() == used }, 5*time.Second, time.Millisecond)
	})
}

// requireSameAddresses fails unless the values of two batches are the same
// memory.
func requireSameAddresses(t *testing.T, a, b arrow.RecordBatch) {
	t.Helper()
	address := func(batch arrow.RecordBatch) uintptr {
		buffer, err := arrowbuf.BufferOf(batch.Column(0).Data().Buffers()[1])
		require.NoError(t, err)
		defer buffer.Release()
		return buffer.Address()
	}
	require.Equal(t, address(a), address(b))
}
