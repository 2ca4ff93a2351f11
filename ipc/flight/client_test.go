package flight_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	arrowgoipc "github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/flight"
)

// fakeServer is a Flight server that is not built on this package.
type fakeServer struct {
	arrowflight.BaseFlightServer
	endpoints []*arrowflight.FlightEndpoint
	get       func(ticket string, out arrowflight.FlightService_DoGetServer) error
}

func (f *fakeServer) GetFlightInfo(context.Context, *arrowflight.FlightDescriptor) (*arrowflight.FlightInfo, error) {
	return &arrowflight.FlightInfo{Endpoint: f.endpoints}, nil
}

func (f *fakeServer) DoGet(ticket *arrowflight.Ticket, out arrowflight.FlightService_DoGetServer) error {
	return f.get(string(ticket.GetTicket()), out)
}

func endpoint(ticket string, locations ...string) *arrowflight.FlightEndpoint {
	e := &arrowflight.FlightEndpoint{Ticket: &arrowflight.Ticket{Ticket: []byte(ticket)}}
	for _, uri := range locations {
		e.Location = append(e.Location, &arrowflight.Location{Uri: uri})
	}
	return e
}

func (f *fakeServer) serve(t testing.TB) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	arrowflight.RegisterFlightServiceServer(s, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// sendWithArrowGo sends batches with arrow-go's writer.
func sendWithArrowGo(out arrowflight.FlightService_DoGetServer, batches []arrow.RecordBatch) error {
	w := arrowflight.NewRecordWriter(out, arrowgoipc.WithSchema(schema))
	for _, batch := range batches {
		if err := w.WriteWithAppMetadata(batch, []byte("of the application")); err != nil {
			return err
		}
	}
	if err := w.WriteMetadata([]byte("nothing else")); err != nil {
		return err
	}
	return w.Close()
}

func TestEndpointsAreReadInOrder(t *testing.T) {
	batches := hostBatches(t)
	get := func(ticket string, out arrowflight.FlightService_DoGetServer) error {
		switch ticket {
		case "first":
			return sendWithArrowGo(out, batches[:1])
		case "rest":
			return sendWithArrowGo(out, batches[1:])
		}
		return fmt.Errorf("no ticket %s", ticket)
	}
	other := (&fakeServer{get: get}).serve(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, second := range []string{"grpc://" + other, "grpc+tcp://" + other, "arrow-flight-reuse-connection://?"} {
			c := dial(t, (&fakeServer{get: get, endpoints: []*arrowflight.FlightEndpoint{endpoint("first"), endpoint("rest", second)}}).serve(t), flight.DialOptions{})
			r, err := c.Reader(context.Background(), "any", dev)
			require.NoError(t, err)
			require.Equal(t, len(batches), requireRows(t, batches, r))
			r.Release()
		}
	})
}

func TestReaderRejectsInvalidMessages(t *testing.T) {
	batches := hostBatches(t)
	send := func(messages ...*arrowflight.FlightData) func(string, arrowflight.FlightService_DoGetServer) error {
		return func(_ string, out arrowflight.FlightService_DoGetServer) error {
			for _, m := range messages {
				if err := out.Send(m); err != nil {
					return err
				}
			}
			return nil
		}
	}
	first := endpoint("a")
	for _, c := range []struct {
		name string
		of   fakeServer
		says string
	}{
		{"no endpoint", fakeServer{}, "has no endpoint"},
		{"nothing", fakeServer{endpoints: []*arrowflight.FlightEndpoint{first}, get: send()}, "before its schema"},
		{"metadata that is no flatbuffer", fakeServer{endpoints: []*arrowflight.FlightEndpoint{first}, get: send(&arrowflight.FlightData{DataHeader: []byte("none")})}, "schema"},
		{"a body alone", fakeServer{endpoints: []*arrowflight.FlightEndpoint{first}, get: send(&arrowflight.FlightData{DataBody: []byte("none")})}, "without metadata"},
		{"an error", fakeServer{endpoints: []*arrowflight.FlightEndpoint{first}, get: func(string, arrowflight.FlightService_DoGetServer) error {
			return fmt.Errorf("the disk is full")
		}}, "the disk is full"},
		{"a location of another kind", fakeServer{endpoints: []*arrowflight.FlightEndpoint{endpoint("a", "ucx://there:1")}}, "want grpc"},
		{"an error at the end", fakeServer{endpoints: []*arrowflight.FlightEndpoint{first}, get: func(_ string, out arrowflight.FlightService_DoGetServer) error {
			if err := sendWithArrowGo(out, batches); err != nil {
				return err
			}
			return fmt.Errorf("the disk is full")
		}}, "the disk is full"},
		{"a message that is too long", fakeServer{endpoints: []*arrowflight.FlightEndpoint{first}, get: send(&arrowflight.FlightData{DataHeader: make([]byte, 1<<20)})}, "larger than max"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := dial(t, c.of.serve(t), flight.DialOptions{MaxMessage: 1 << 19})
			r, err := client.Reader(context.Background(), "a", arrowbuf.CPU())
			if err == nil {
				for r.Next() {
				}
				err = r.Err()
				r.Release()
			}
			require.ErrorContains(t, err, c.says)
			require.NotErrorIs(t, err, ipc.ErrNotFound)
		})
	}
}

func TestOtherClientsReadServedTables(t *testing.T) {
	batches := hostBatches(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		catalog := newCatalog(t)
		publish(t, catalog, "a", dev, batches...)
		s, err := flight.Serve("127.0.0.1:0", catalog, flight.ServerOptions{})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		c, err := arrowflight.NewClientWithMiddleware(s.Address().String(), nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		d := &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorPATH, Path: []string{"a"}}
		reply, err := c.GetSchema(context.Background(), d)
		require.NoError(t, err)
		got, err := arrowflight.DeserializeSchema(reply.GetSchema(), nil)
		require.NoError(t, err)
		require.True(t, schema.Equal(got))
		info, err := c.GetFlightInfo(context.Background(), d)
		require.NoError(t, err)
		stream, err := c.DoGet(context.Background(), info.GetEndpoint()[0].GetTicket())
		require.NoError(t, err)
		r, err := arrowflight.NewRecordReader(stream)
		require.NoError(t, err)
		defer r.Release()
		require.Equal(t, len(batches), requireRows(t, batches, r))
	})
}
