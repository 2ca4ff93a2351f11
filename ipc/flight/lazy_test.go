package flight_test

import (
	"bytes"
	"context"
	"sync"
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc/flight"
)

// keeper keeps what a server sends, as gRPC allows it to: its message, and the bytes
// that this had when it was sent.
type keeper struct {
	stats.Handler
	mu    sync.Mutex
	sent  []*arrowflight.FlightData
	bytes [][]byte
}

func (k *keeper) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (k *keeper) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (k *keeper) HandleConn(context.Context, stats.ConnStats)                       {}

func (k *keeper) HandleRPC(_ context.Context, what stats.RPCStats) {
	out, ok := what.(*stats.OutPayload)
	if !ok {
		return
	}
	if data, ok := out.Payload.(*arrowflight.FlightData); ok {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.sent, k.bytes = append(k.sent, data), append(k.bytes, bytes.Clone(data.DataBody))
	}
}

// TestWhatIsSentIsNotWrittenAgain: gRPC may look at a message after Send.
func TestWhatIsSentIsNotWrittenAgain(t *testing.T) {
	batches := hostBatches(t)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		k := &keeper{}
		catalog := newCatalog(t)
		publish(t, catalog, "a", dev, batches...)
		c := serve(t, catalog, flight.ServerOptions{MaxBody: 2000, Options: []grpc.ServerOption{grpc.StatsHandler(k)}})
		r, err := c.Reader(context.Background(), "a", dev)
		require.NoError(t, err)
		requireRows(t, batches, r)
		r.Release()
		k.mu.Lock()
		defer k.mu.Unlock()
		require.Greater(t, len(k.sent), 10)
		for i, data := range k.sent {
			assert.Equal(t, k.bytes[i], data.DataBody, "message %d", i)
		}
	})
}
