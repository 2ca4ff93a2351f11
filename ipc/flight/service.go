package flight

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/ipc"
)

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
