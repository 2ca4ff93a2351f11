package flight

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/ipc"
)

// DialOptions says how to connect. The zero value does so without encryption.
type DialOptions struct {
	// TLS encrypts.
	TLS *tls.Config
	// MaxMessage is the longest message that is taken, in bytes: 1 GiB where it is
	// 0.
	MaxMessage int
	// Options are gRPC's own, such as credentials of each call.
	Options []grpc.DialOption
}

// Client is a connection to a Flight server. It may be used from any goroutine.
type Client struct {
	client flight.Client
	o      DialOptions
}

// Dial prepares a connection to a server at host:port, which is made with the
// first call.
func Dial(ctx context.Context, address string, o DialOptions) (*Client, error) {
	if o.MaxMessage <= 0 {
		o.MaxMessage = 1 << 30
	}
	secret := insecure.NewCredentials()
	if o.TLS != nil {
		secret = credentials.NewTLS(o.TLS)
	}
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(secret),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(o.MaxMessage)),
	}, o.Options...)
	client, err := flight.NewClientWithMiddlewareCtx(ctx, address, nil, nil, options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to Flight at %s: %w", address, err)
	}
	return &Client{client, o}, nil
}

// Close ends the connection, and all reading with it.
func (c *Client) Close() error { return c.client.Close() }

// List returns what the server offers, as it names it: names of a server of this
// package are paths of one element.
func (c *Client) List(ctx context.Context) ([]*flight.FlightInfo, error) {
	flights, err := c.client.ListFlights(ctx, &flight.Criteria{})
	var all []*flight.FlightInfo
	for err == nil {
		var one *flight.FlightInfo
		if one, err = flights.Recv(); err == nil {
			all = append(all, one)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("listing flights: %w", known(err))
	}
	return all, nil
}

// Reader reads the flight of a name onto a device. The batches are checked
// against the schema; the bytes of columns are not looked at, see
// arrowipc.Decoder. A name that the server does not know is ipc.ErrNotFound. The
// caller releases the reader, which ends with the context.
func (c *Client) Reader(ctx context.Context, name string, dev arrowbuf.Device) (array.RecordReader, error) {
	return c.Flight(ctx, &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{name}}, dev)
}

// Flight is Reader for any descriptor. The endpoints are read one after the other,
// each at the first of its locations.
func (c *Client) Flight(ctx context.Context, d *flight.FlightDescriptor, dev arrowbuf.Device) (array.RecordReader, error) {
	info, err := c.client.GetFlightInfo(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("flight %v: %w", d.GetPath(), known(err))
	}
	r, err := c.read(ctx, info.GetEndpoint(), dev)
	if err != nil {
		return nil, fmt.Errorf("flight %v: %w", d.GetPath(), known(err))
	}
	return r, nil
}

// at is a client of the server that an endpoint names; done is to be called when
// it is not needed any more.
func (c *Client) at(ctx context.Context, e *flight.FlightEndpoint) (_ flight.Client, done func(), err error) {
	const here = "arrow-flight-reuse-connection"
	locations := e.GetLocation()
	if len(locations) == 0 {
		return c.client, func() {}, nil
	}
	u, err := url.Parse(locations[0].GetUri())
	if err != nil {
		return nil, nil, fmt.Errorf("location of an endpoint: %w", err)
	}
	o := c.o
	switch u.Scheme {
	case here:
		return c.client, func() {}, nil
	case "grpc", "grpc+tcp":
		o.TLS = nil
	case "grpc+tls":
		if o.TLS == nil {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	default:
		return nil, nil, fmt.Errorf("an endpoint at %s, expected grpc, grpc+tcp or grpc+tls", u)
	}
	other, err := Dial(ctx, u.Host, o)
	if err != nil {
		return nil, nil, err
	}
	return other.client, func() { _ = other.Close() }, nil
}

// known gives an error of gRPC the sentinel that it stands for.
func known(err error) error {
	switch status.Code(err) {
	case codes.NotFound:
		return fmt.Errorf("%w: %w", ipc.ErrNotFound, err)
	case codes.Canceled:
		return fmt.Errorf("%w: %w", context.Canceled, err)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	case codes.Unavailable:
		return fmt.Errorf("%w: %w", ipc.ErrServerGone, err)
	default:
		return err
	}
}

// receiver reads endpoints, one after the other.
type receiver struct {
	client    *Client
	endpoints []*flight.FlightEndpoint
	dev       arrowbuf.Device
	ctx       context.Context // ends with the reader
	cancel    context.CancelFunc

	schema  *arrow.Schema // of the first
	stream  flight.FlightService_DoGetClient
	decoder *arrowipc.Decoder
	done    func() // with the endpoint
}

// read begins the first endpoint.
func (c *Client) read(ctx context.Context, endpoints []*flight.FlightEndpoint, dev arrowbuf.Device) (array.RecordReader, error) {
	if len(endpoints) == 0 {
		return nil, errors.New("the server names no endpoint")
	}
	r := &receiver{client: c, endpoints: endpoints, dev: dev}
	r.ctx, r.cancel = context.WithCancel(ctx)
	if err := r.begin(); err != nil {
		r.close()
		return nil, err
	}
	return arrowbuf.NewReaderFunc(r.schema, r.next, r.close), nil
}

// begin asks for the next endpoint, and reads its schema.
func (r *receiver) begin() error {
	e := r.endpoints[0]
	r.endpoints = r.endpoints[1:]
	at, done, err := r.client.at(r.ctx, e)
	if err != nil {
		return err
	}
	r.done = done
	if r.stream, err = at.DoGet(r.ctx, e.GetTicket()); err != nil {
		return err
	}
	m, err := r.message()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("the stream ends before its schema: %w", io.ErrUnexpectedEOF)
		}
		return err
	}
	if r.decoder, err = arrowipc.NewDecoder(m.GetDataHeader(), r.dev); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if r.schema == nil {
		r.schema = r.decoder.Schema()
	}
	if !r.schema.Equal(r.decoder.Schema()) {
		return fmt.Errorf("an endpoint with another schema, %v, expected %v: %w", r.decoder.Schema(), r.schema, arrow.ErrInvalid)
	}
	return nil
}

// message is the next one with a header; others have metadata of applications.
func (r *receiver) message() (*flight.FlightData, error) {
	for {
		m, err := r.stream.Recv()
		if err != nil {
			return nil, known(err)
		}
		if len(m.GetDataHeader()) > 0 {
			return m, nil
		}
		if len(m.GetDataBody()) > 0 {
			return nil, fmt.Errorf("a body of %d bytes without metadata: %w", len(m.GetDataBody()), arrow.ErrInvalid)
		}
	}
}

// next is the next batch, io.EOF after the last of the last endpoint.
func (r *receiver) next() (arrow.RecordBatch, error) {
	for {
		m, err := r.message()
		if errors.Is(err, io.EOF) && len(r.endpoints) > 0 {
			r.end()
			if err := r.begin(); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		body := hostBuffer(m.GetDataBody())
		batch, err := r.decoder.Decode(m.GetDataHeader(), body)
		body.Release()
		if batch != nil || err != nil {
			return batch, err
		}
	}
}

// end is that of an endpoint.
func (r *receiver) end() {
	if r.decoder != nil {
		r.decoder.Release()
		r.decoder = nil
	}
	if r.done != nil {
		r.done()
		r.done = nil
	}
}

func (r *receiver) close() {
	r.cancel()
	r.end()
}
