package flight

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/ipc"
)

// ServerOptions says how to serve. The zero value serves without encryption, to
// everybody who reaches the address.
type ServerOptions struct {
	// TLS encrypts, and asks for clients' certificates where it says so.
	TLS *tls.Config
	// MaxBody is how many bytes of columns go in a message where rows can be cut:
	// 32 MiB where it is 0. A longer batch comes as several.
	MaxBody int64
	// Options are gRPC's own, such as interceptors that check who calls.
	Options []grpc.ServerOption
}

// Server offers a catalog by Flight. It may be used from any goroutine.
type Server struct {
	address net.Addr
	server  *grpc.Server
	ended   chan struct{}
	failure error
	once    sync.Once
}

// Serve offers the tables and streams of a catalog at a TCP address, host:port,
// until Close. Port 0 takes one that is free. Buffers, which are not Arrow's, are
// not offered.
func Serve(address string, catalog *ipc.Catalog, o ServerOptions) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serving Flight: %w", err)
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 32 << 20
	}
	options := []grpc.ServerOption{grpc.MaxSendMsgSize(math.MaxInt32), grpc.WaitForHandlers(true)}
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	s := &Server{address: listener.Addr(), server: grpc.NewServer(append(options, o.Options...)...), ended: make(chan struct{})}
	flight.RegisterFlightServiceServer(s.server, &service{catalog: catalog, maxBody: o.MaxBody})
	go func() {
		defer close(s.ended)
		if err := s.server.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) {
			s.failure = err
		}
	}()
	return s, nil
}

// Address is where the server listens.
func (s *Server) Address() net.Addr { return s.address }

// Close ends all calls, and returns when nothing reads the catalog for them any
// more, which stays the caller's. The error is why serving ended before, if it did.
// A second Close does nothing.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.server.Stop()
		<-s.ended
		err = s.failure
	})
	return err
}

// service is Flight's calls over a catalog.
type service struct {
	flight.BaseFlightServer
	catalog *ipc.Catalog
	maxBody int64
}

// ListFlights answers an info of each table and stream. There are no criteria:
// an expression is an error.
func (s *service) ListFlights(criteria *flight.Criteria, out flight.FlightService_ListFlightsServer) error {
	if len(criteria.GetExpression()) > 0 {
		return status.Error(codes.InvalidArgument, "there are no criteria for flights")
	}
	for _, entry := range s.catalog.List() {
		if entry.Kind == ipc.KindBuffer {
			continue
		}
		info, err := s.info(entry)
		if errors.Is(err, ipc.ErrNotFound) {
			continue // withdrawn meanwhile
		}
		if err != nil {
			return failure(err)
		}
		if err := out.Send(info); err != nil {
			return err
		}
	}
	return nil
}

// GetFlightInfo answers the info of the name that a path is.
func (s *service) GetFlightInfo(_ context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	name, err := nameOf(d)
	if err != nil {
		return nil, err
	}
	// A name that is not listed has an error of its own below.
	entry := ipc.Entry{Name: name}
	for _, one := range s.catalog.List() {
		if one.Name == name {
			entry = one
		}
	}
	info, err := s.info(entry)
	return info, failure(err)
}

// GetSchema answers the schema of the name that a path is.
func (s *service) GetSchema(_ context.Context, d *flight.FlightDescriptor) (*flight.SchemaResult, error) {
	name, err := nameOf(d)
	if err != nil {
		return nil, err
	}
	schema, err := s.schema(name)
	if err != nil {
		return nil, failure(err)
	}
	return &flight.SchemaResult{Schema: schema}, nil
}

// nameOf is the name that a descriptor means.
func nameOf(d *flight.FlightDescriptor) (string, error) {
	if d.GetType() != flight.DescriptorPATH || len(d.GetPath()) != 1 {
		return "", status.Errorf(codes.InvalidArgument, "a descriptor of type %v with a path of %d elements, expected a path of one, the name", d.GetType(), len(d.GetPath()))
	}
	return d.GetPath()[0], nil
}

// schema is a schema's message as in a stream.
func (s *service) schema(name string) ([]byte, error) {
	schema, err := s.catalog.Schema(name)
	if err != nil {
		return nil, err
	}
	metadata, err := arrowipc.EncodeSchema(schema)
	if err != nil {
		return nil, err
	}
	return encapsulated(metadata), nil
}

func (s *service) info(entry ipc.Entry) (*flight.FlightInfo, error) {
	schema, err := s.schema(entry.Name)
	if err != nil {
		return nil, err
	}
	info := &flight.FlightInfo{
		Schema:           schema,
		FlightDescriptor: &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{entry.Name}},
		Endpoint:         []*flight.FlightEndpoint{{Ticket: &flight.Ticket{Ticket: []byte(entry.Name)}}}, // at this server
		TotalRecords:     entry.Rows,
		TotalBytes:       entry.Bytes,
		Ordered:          true,
	}
	if entry.Kind == ipc.KindStream {
		info.TotalRecords, info.TotalBytes = -1, -1 // what is to come is not known
	}
	return info, nil
}

// DoGet sends the batches of the name that a ticket is: of a table all, of a
// stream those that are written from now on, until its end.
func (s *service) DoGet(ticket *flight.Ticket, out flight.FlightService_DoGetServer) error {
	batches, err := s.catalog.Reader(out.Context(), string(ticket.GetTicket()))
	if err != nil {
		return failure(err)
	}
	defer batches.Release()
	return failure(send(batches, s.maxBody, out.Send))
}

// failure gives an error the code that says what a client can act on.
func failure(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Internal
	switch {
	case errors.Is(err, ipc.ErrNotFound):
		code = codes.NotFound
	case errors.Is(err, ipc.ErrWrongKind):
		code = codes.InvalidArgument
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	}
	return status.Error(code, err.Error())
}

// sender sends the messages of a stream, each with its bytes.
type sender struct {
	encoder *arrowipc.Encoder
	maxBody int64
	to      func(*flight.FlightData) error
}

// send sends the batches of any device.
func send(batches array.RecordReader, maxBody int64, to func(*flight.FlightData) error) error {
	encoder, err := arrowipc.NewEncoder(batches.Schema())
	if err != nil {
		return err
	}
	defer encoder.Release()
	s := &sender{encoder: encoder, maxBody: maxBody, to: to}
	if err := to(&flight.FlightData{DataHeader: encoder.Schema()}); err != nil {
		return err
	}
	for batches.Next() {
		if err := s.batch(batches.RecordBatch()); err != nil {
			return err
		}
	}
	return batches.Err()
}

// batch sends the dictionaries that changed, and a batch, in pieces where it is
// long.
func (s *sender) batch(batch arrow.RecordBatch) error {
	messages, err := s.encoder.Encode(batch)
	if err != nil {
		return err
	}
	defer func() {
		for _, m := range messages {
			m.Release()
		}
	}()
	last := len(messages) - 1
	for _, m := range messages[:last] {
		if err := s.message(m); err != nil {
			return err
		}
	}
	m, rows := messages[last], batch.NumRows()
	pieces := min(rows, (m.BodyLength+s.maxBody-1)/s.maxBody)
	if pieces <= 1 {
		return s.message(m)
	}
	for i := range pieces {
		if err := s.rows(batch, rows*i/pieces, rows*(i+1)/pieces); err != nil {
			return err
		}
	}
	return nil
}

// rows sends rows [from, until) of a batch whose dictionaries are sent.
func (s *sender) rows(batch arrow.RecordBatch, from, until int64) error {
	piece := batch.NewSlice(from, until)
	defer piece.Release()
	m, err := arrowipc.EncodeRecordBatch(piece)
	if err != nil {
		return err
	}
	defer m.Release()
	return s.message(m)
}

func (s *sender) message(m *arrowipc.Message) error {
	body, err := bodyOf(m)
	if err != nil {
		return err
	}
	return s.to(&flight.FlightData{DataHeader: m.Metadata, DataBody: body})
}

// bodyOf copies the body of a message to memory of its own: gRPC does not say when
// it is done with what it was given to send (ServerStream.SendMsg), since tracing,
// statistics and codecs of a server's options may look at it later.
func bodyOf(m *arrowipc.Message) ([]byte, error) {
	parts, err := m.Parts()
	if err != nil {
		return nil, err
	}
	defer parts.Release()
	body := make([]byte, m.BodyLength)
	for _, part := range parts {
		if _, err := part.Buffer.CopyToHost(body[part.Offset:part.Offset+part.Buffer.Len()], 0); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// encapsulated is metadata as in a stream: a marker, the length, the flatbuffer
// and its padding.
func encapsulated(metadata []byte) []byte {
	padded := (len(metadata) + 7) &^ 7
	b := make([]byte, 0, 8+padded)
	b = binary.LittleEndian.AppendUint32(b, ^uint32(0))
	b = binary.LittleEndian.AppendUint32(b, uint32(padded))
	return append(b, metadata...)[:8+padded]
}

// hostBuffer is memory that gRPC made, of which nobody else knows.
func hostBuffer(b []byte) arrowbuf.Buffer { return arrowbuf.WrapExternal(b, func() {}) }
