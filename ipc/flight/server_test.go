package flight_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/flight"
)

func TestTableArrivesOnDevice(t *testing.T) {
	batches := hostBatches(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, way := range []struct{ from, to arrowbuf.Device }{{dev, dev}, {arrowbuf.CPU(), dev}, {dev, arrowbuf.CPU()}} {
			catalog := newCatalog(t)
			publish(t, catalog, "a/table", way.from, batches...)
			publish(t, catalog, "none", way.from)
			c := serve(t, catalog, flight.ServerOptions{})
			r, err := c.Reader(context.Background(), "a/table", way.to)
			require.NoError(t, err)
			require.True(t, schema.Equal(r.Schema()))
			require.True(t, r.Next())
			require.Equal(t, way.to, arrowbuf.DeviceOf(r.RecordBatch().Column(0)))
			r.Release()

			for name, want := range map[string][]arrow.RecordBatch{"a/table": batches, "none": nil} {
				r, err = c.Reader(context.Background(), name, way.to)
				require.NoError(t, err)
				require.Equal(t, len(want), requireRows(t, want, r))
				r.Release()
			}
		}
	})
}

func TestLongBatchIsSplit(t *testing.T) {
	batches := hostBatches(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		catalog := newCatalog(t)
		publish(t, catalog, "a", dev, batches...)
		c := serve(t, catalog, flight.ServerOptions{MaxBody: 2000})
		r, err := c.Reader(context.Background(), "a", dev)
		require.NoError(t, err)
		defer r.Release()
		require.Greater(t, requireRows(t, batches, r), 10)
	})
}

func TestListReturnsTablesAndStreams(t *testing.T) {
	catalog := newCatalog(t)
	publish(t, catalog, "table", arrowbuf.CPU(), hostBatches(t)...)
	_, err := catalog.NewStream("stream", schema, ipc.StreamOptions{})
	require.NoError(t, err)
	b, err := arrowbuf.CPU().Alloc(10)
	require.NoError(t, err)
	defer b.Release()
	require.NoError(t, catalog.PublishBuffer("buffer", b))
	c := serve(t, catalog, flight.ServerOptions{})
	flights, err := c.List(context.Background())
	require.NoError(t, err)
	require.Len(t, flights, 2)
	assert.Equal(t, []string{"stream"}, flights[0].GetFlightDescriptor().GetPath())
	assert.EqualValues(t, -1, flights[0].GetTotalRecords())
	assert.Equal(t, []string{"table"}, flights[1].GetFlightDescriptor().GetPath())
	assert.EqualValues(t, 844, flights[1].GetTotalRecords())
	assert.Positive(t, flights[1].GetTotalBytes())
	for name, is := range map[string]error{"other": ipc.ErrNotFound, "": ipc.ErrNotFound} {
		_, err = c.Reader(context.Background(), name, arrowbuf.CPU())
		require.ErrorIs(t, err, is, name)
	}
	_, err = c.Reader(context.Background(), "buffer", arrowbuf.CPU())
	require.ErrorContains(t, err, "another kind")
	_, err = c.Flight(context.Background(), nil, arrowbuf.CPU())
	require.ErrorContains(t, err, "want a path of one")
}

func TestStreamArrivesUntilItsEnd(t *testing.T) {
	batches := hostBatches(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		catalog := newCatalog(t)
		stream, err := catalog.NewStream("live", schema, ipc.StreamOptions{})
		require.NoError(t, err)
		c := serve(t, catalog, flight.ServerOptions{})
		written := make(chan error, 1)
		go func() {
			written <- func() error {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				if err := stream.WaitSubscribers(ctx, 1); err != nil {
					return err
				}
				for _, batch := range batches {
					one, err := arrowbuf.CopyTo(batch, dev)
					if err != nil {
						return err
					}
					err = stream.Write(ctx, one)
					one.Release()
					if err != nil {
						return err
					}
				}
				return stream.Close()
			}()
		}()
		r, err := c.Reader(context.Background(), "live", dev)
		require.NoError(t, err)
		defer r.Release()
		require.Equal(t, len(batches), requireRows(t, batches, r))
		require.NoError(t, <-written)
	})
}

func TestEndOfContextAndServerAreErrors(t *testing.T) {
	catalog := newCatalog(t)
	_, err := catalog.NewStream("live", schema, ipc.StreamOptions{})
	require.NoError(t, err)
	s, err := flight.Serve("127.0.0.1:0", catalog, flight.ServerOptions{})
	require.NoError(t, err)
	c := dial(t, s.Address().String(), flight.DialOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	r, err := c.Reader(ctx, "live", arrowbuf.CPU())
	require.NoError(t, err)
	time.AfterFunc(10*time.Millisecond, cancel)
	require.False(t, r.Next())
	require.ErrorIs(t, r.Err(), context.Canceled)
	r.Release()

	r, err = c.Reader(context.Background(), "live", arrowbuf.CPU())
	require.NoError(t, err)
	defer r.Release()
	time.AfterFunc(10*time.Millisecond, func() { _ = s.Close() })
	require.False(t, r.Next())
	require.ErrorIs(t, r.Err(), ipc.ErrServerGone)
	require.NoError(t, s.Close())
	_, err = c.List(context.Background())
	require.ErrorIs(t, err, ipc.ErrServerGone)
}

func TestTLSEncrypts(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	batches := hostBatches(t)
	catalog := newCatalog(t)
	publish(t, catalog, "a", arrowbuf.CPU(), batches...)
	s, err := flight.Serve("127.0.0.1:0", catalog, flight.ServerOptions{TLS: &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	c := dial(t, s.Address().String(), flight.DialOptions{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	r, err := c.Reader(context.Background(), "a", arrowbuf.CPU())
	require.NoError(t, err)
	defer r.Release()
	requireRows(t, batches, r)
	for _, o := range []flight.DialOptions{{}, {TLS: &tls.Config{MinVersion: tls.VersionTLS12}}} {
		_, err = dial(t, s.Address().String(), o).List(context.Background())
		require.Error(t, err)
	}
}

func TestAddressInUseIsError(t *testing.T) {
	s, err := flight.Serve("127.0.0.1:0", newCatalog(t), flight.ServerOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = flight.Serve(s.Address().String(), newCatalog(t), flight.ServerOptions{})
	require.Error(t, err)
	require.False(t, errors.Is(err, ipc.ErrServerGone))
}

// recorder records the messages that a server sends, as gRPC permits, with a copy
// of their bodies at that time.
type recorder struct {
	stats.Handler
	mu    sync.Mutex
	sent  []*arrowflight.FlightData
	bytes [][]byte
}

func (k *recorder) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (k *recorder) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (k *recorder) HandleConn(context.Context, stats.ConnStats)                       {}

func (k *recorder) HandleRPC(_ context.Context, what stats.RPCStats) {
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

// gRPC may read a message after Send.
func TestSentMessagesAreNotModified(t *testing.T) {
	batches := hostBatches(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		k := &recorder{}
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
