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

// ServerOptions configures a server. The zero value serves without encryption to
// every client that can reach the address.
type ServerOptions struct {
	// TLS, if not nil, encrypts, and requires client certificates if it is
	// configured to.
	TLS *tls.Config
	// MaxBody is the maximum number of bytes of columns in a message; longer
	// batches are split by rows. 0 means 32 MiB.
	MaxBody int64
	// Options are further gRPC options, such as interceptors that authenticate
	// callers.
	Options []grpc.ServerOption
}

// Server serves a catalog by Flight. Its methods may be called from any
// goroutine.
type Server struct {
	address net.Addr
	server  *grpc.Server
	ended   chan struct{}
	failure error
	once    sync.Once
}

// Serve serves the tables and streams of a catalog at a TCP address, host:port,
// until Close. Port 0 selects a free port. Buffers are not served, since they are
// not Arrow data.
func Serve(address string, catalog *ipc.Catalog, o ServerOptions) (*Server, error) {
	if catalog == nil {
		return nil, fmt.Errorf("flight.Serve: %s: nil catalog: %w", address, arrow.ErrInvalid)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("flight.Serve: %w", err)
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

// Address returns the server's address.
func (s *Server) Address() net.Addr { return s.address }

// Close ends all calls and returns when they no longer read the catalog. The
// catalog stays open. The error is the one that ended serving earlier, if any. A
// second Close does nothing.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.server.Stop()
		<-s.ended
		err = s.failure
	})
	return err
}

// service implements the Flight calls on a catalog.
type service struct {
	flight.BaseFlightServer
	catalog *ipc.Catalog
	maxBody int64
}

// ListFlights sends the info of each table and stream. An expression in the
// criteria is an error.
func (s *service) ListFlights(criteria *flight.Criteria, out flight.FlightService_ListFlightsServer) error {
	if len(criteria.GetExpression()) > 0 {
		return status.Error(codes.InvalidArgument, "flight.Server: criteria are not supported")
	}
	for _, entry := range s.catalog.List() {
		if entry.Kind == ipc.KindBuffer || entry.Kind == ipc.KindArray { // Flight has batches only
			continue
		}
		info, err := s.info(entry)
		if errors.Is(err, ipc.ErrNotFound) {
			continue // withdrawn since List
		}
		if err != nil {
			return toStatus(err)
		}
		if err := out.Send(info); err != nil {
			return err
		}
	}
	return nil
}

// GetFlightInfo returns the info of a name, which is the descriptor's path.
func (s *service) GetFlightInfo(_ context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	name, err := descriptorName(d)
	if err != nil {
		return nil, err
	}
	// For a name that is not listed, s.info returns the error.
	entry := ipc.Entry{Name: name}
	for _, listed := range s.catalog.List() {
		if listed.Name == name {
			entry = listed
		}
	}
	info, err := s.info(entry)
	return info, toStatus(err)
}

// GetSchema returns the schema of a name, which is the descriptor's path.
func (s *service) GetSchema(_ context.Context, d *flight.FlightDescriptor) (*flight.SchemaResult, error) {
	name, err := descriptorName(d)
	if err != nil {
		return nil, err
	}
	schema, err := s.encodedSchema(name)
	if err != nil {
		return nil, toStatus(err)
	}
	return &flight.SchemaResult{Schema: schema}, nil
}

// descriptorName returns the name in a descriptor.
func descriptorName(d *flight.FlightDescriptor) (string, error) {
	if d.GetType() != flight.DescriptorPATH || len(d.GetPath()) != 1 {
		return "", status.Errorf(codes.InvalidArgument, "descriptor: got type %v with a path of %d elements, want a path of one element, the name", d.GetType(), len(d.GetPath()))
	}
	return d.GetPath()[0], nil
}

// encodedSchema returns the schema of a name as an encapsulated message.
func (s *service) encodedSchema(name string) ([]byte, error) {
	schema, err := s.catalog.Schema(name)
	if err != nil {
		return nil, err
	}
	metadata, err := arrowipc.EncodeSchema(schema)
	if err != nil {
		return nil, err
	}
	return encapsulate(metadata), nil
}

func (s *service) info(entry ipc.Entry) (*flight.FlightInfo, error) {
	schema, err := s.encodedSchema(entry.Name)
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
		info.TotalRecords, info.TotalBytes = -1, -1 // unknown
	}
	return info, nil
}

// DoGet sends the batches of a name, which is the ticket: all batches of a table,
// or those that are written to a stream from now until its end.
func (s *service) DoGet(ticket *flight.Ticket, out flight.FlightService_DoGetServer) error {
	batches, err := s.catalog.Reader(out.Context(), string(ticket.GetTicket()))
	if err != nil {
		return toStatus(err)
	}
	defer batches.Release()
	return toStatus(send(batches, s.maxBody, out.Send))
}

// toStatus returns err as a gRPC status, with the code for errors that a client
// can act on.
func toStatus(err error) error {
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

// sender sends the messages of a stream with their bodies.
type sender struct {
	encoder *arrowipc.Encoder
	maxBody int64
	output  func(*flight.FlightData) error
}

// send sends batches of any device.
func send(batches array.RecordReader, maxBody int64, to func(*flight.FlightData) error) error {
	encoder, err := arrowipc.NewEncoder(batches.Schema())
	if err != nil {
		return err
	}
	defer encoder.Release()
	s := &sender{encoder: encoder, maxBody: maxBody, output: to}
	if err := to(&flight.FlightData{DataHeader: encoder.Schema()}); err != nil {
		return err
	}
	for batches.Next() {
		if err := s.sendBatch(batches.RecordBatch()); err != nil {
			return err
		}
	}
	return batches.Err()
}

// sendBatch sends the dictionaries that changed and the batch. It splits a long
// batch by rows.
func (s *sender) sendBatch(batch arrow.RecordBatch) error {
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
		if err := s.sendMessage(m); err != nil {
			return err
		}
	}
	m, rows := messages[last], batch.NumRows()
	parts := min(rows, (m.BodyLength+s.maxBody-1)/s.maxBody)
	if parts <= 1 {
		return s.sendMessage(m)
	}
	for i := range parts {
		if err := s.sendRows(batch, rows*i/parts, rows*(i+1)/parts); err != nil {
			return err
		}
	}
	return nil
}

// sendRows sends rows [from, until) of a batch. The batch's dictionaries have
// been sent.
func (s *sender) sendRows(batch arrow.RecordBatch, from, until int64) error {
	slice := batch.NewSlice(from, until)
	defer slice.Release()
	m, err := arrowipc.EncodeRecordBatch(slice)
	if err != nil {
		return err
	}
	defer m.Release()
	return s.sendMessage(m)
}

func (s *sender) sendMessage(m *arrowipc.Message) error {
	body, err := copyBody(m)
	if err != nil {
		return err
	}
	return s.output(&flight.FlightData{DataHeader: m.Metadata, DataBody: body})
}

// copyBody copies the body of a message into new memory. gRPC does not say when
// it no longer uses a message after SendMsg: tracing, statistics and codecs may
// read it later.
func copyBody(m *arrowipc.Message) ([]byte, error) {
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

// encapsulate returns metadata as in an IPC stream: a marker, the length, the
// flatbuffer and its padding.
func encapsulate(metadata []byte) []byte {
	padded := (len(metadata) + 7) &^ 7
	b := make([]byte, 0, 8+padded)
	b = binary.LittleEndian.AppendUint32(b, ^uint32(0))
	b = binary.LittleEndian.AppendUint32(b, uint32(padded))
	return append(b, metadata...)[:8+padded]
}

// hostBuffer wraps memory of gRPC, which has no other users.
func hostBuffer(b []byte) arrowbuf.Buffer { return arrowbuf.WrapExternal(b, func() {}) }
