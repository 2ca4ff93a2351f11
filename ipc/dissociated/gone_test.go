package dissociated

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

func TestAServerThatEndsIsAnErrorAndWhatAClientHoldsStaysWhole(t *testing.T) {
	batches := hostBatches(t)
	for range 3 {
		batches = append(batches, batches...)
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		w := newWindow(t, dev, 100<<10)
		server, client := links(t, false)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		from := readerOn(t, dev, batches...)
		defer from.Release()
		ended := make(chan error)
		go func() { ended <- Send(ctx, server, from, SendOptions{Window: w, FreeData: freeData}) }()
		r, err := Receive(context.Background(), client, endpointOf(w), dev, ReceiveOptions{})
		require.NoError(t, err)
		defer r.Release()
		var got []arrow.RecordBatch
		for r.Next() {
			r.RecordBatch().Retain()
			if got = append(got, r.RecordBatch()); len(got) == 2 {
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
			}
		}
		require.ErrorIs(t, r.Err(), ErrPeerGone)
		used := w.Used()
		require.Positive(t, used)
		_, err = w.rooms.take(ctx, w.rooms.size) // what others ask for comes elsewhere
		require.Error(t, err)
		for i, one := range got {
			requireSame(t, batches[i], one)
			one.Release()
		}
	})
}

func TestAClientThatIsGoneGivesBackAllItHeld(t *testing.T) {
	batches := hostBatches(t)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		w := newWindow(t, dev, 1<<20)
		server, client := links(t, false)
		sendAsync(t, server, readerOn(t, dev, batches...), SendOptions{Window: w}, anyError)
		for range 3 {
			_, err := client.Data.Receive(func(_ *Tag, n int64) (arrowbuf.Buffer, error) { return hostPlace(n, n) })
			require.NoError(t, err)
		}
		require.Positive(t, w.Used())
		_ = client.Close()
		require.Eventually(t, func() bool { return w.Used() == 0 }, 5*time.Second, time.Millisecond)
	})
}

func TestTheEndOfAContextEndsBothSides(t *testing.T) {
	batch := hostBatch(t, 1, 50)
	server, client := links(t, false)
	defer func() { _ = server.Close() }()
	require.NoError(t, server.Metadata.Send(nil, hostBuffer(header(0, schemaOf(t, batch)).body)))
	ctx, cancel := context.WithCancelCause(context.Background())
	r, err := Receive(ctx, client, Endpoint{}, arrowbuf.CPU(), ReceiveOptions{})
	require.NoError(t, err)
	defer r.Release()
	why := errors.New("enough")
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	require.False(t, r.Next())
	require.ErrorIs(t, r.Err(), why)

	w := newWindow(t, arrowbuf.CPU(), 1<<20)
	server, client = links(t, false)
	defer func() { _ = client.Close() }()
	ctx, cancel = context.WithCancelCause(context.Background())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	batches := readerOn(t, arrowbuf.CPU(), batch)
	defer batches.Release()
	require.ErrorIs(t, Send(ctx, server, batches, SendOptions{Window: w, FreeData: freeData}), why)
}

func schemaOf(t testing.TB, batch arrow.RecordBatch) []byte {
	t.Helper()
	b, err := arrowipc.EncodeSchema(batch.Schema())
	require.NoError(t, err)
	return b
}
