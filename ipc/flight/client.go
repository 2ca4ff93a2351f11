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

// DialOptions configures a connection. The zero value connects without
// encryption.
type DialOptions struct {
	// TLS, if not nil, encrypts the connection.
	TLS *tls.Config
	// MaxMessage is the maximum length of a message in bytes. 0 means 1 GiB.
	MaxMessage int
	// Options are further gRPC options, such as credentials for each call.
	Options []grpc.DialOption
}

// Client is a connection to a Flight server. Its methods may be called from any
// goroutine.
type Client struct {
	client  flight.Client
	options DialOptions
}

// Dial prepares a connection to a server at host:port. The first call makes the
// connection.
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
		return nil, fmt.Errorf("flight.Dial: %s: %w", address, err)
	}
	return &Client{client, o}, nil
}

// Close ends the connection and all of its readers.
func (c *Client) Close() error { return c.client.Close() }

// List returns the server's flights, with the server's descriptors. Servers of
// this package use paths of one element, the name.
func (c *Client) List(ctx context.Context) ([]*flight.FlightInfo, error) {
	flights, err := c.client.ListFlights(ctx, &flight.Criteria{})
	var all []*flight.FlightInfo
	for err == nil {
		var info *flight.FlightInfo
		if info, err = flights.Recv(); err == nil {
			all = append(all, info)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("flight.Client.List: %w", fromStatus(err))
	}
	return all, nil
}

// Reader returns a reader of a name's batches on a device. The caller releases
// it; it ends when ctx is done. Batches are checked against the schema; the
// values of columns are not validated, see arrowipc.Decoder. The error wraps
// ipc.ErrNotFound if the server does not know the name.
func (c *Client) Reader(ctx context.Context, name string, dev arrowbuf.Device) (array.RecordReader, error) {
	return c.Flight(ctx, &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{name}}, dev)
}

// Flight is Reader for any descriptor. It reads the endpoints in order, each at
// its first location.
func (c *Client) Flight(ctx context.Context, d *flight.FlightDescriptor, dev arrowbuf.Device) (array.RecordReader, error) {
	info, err := c.client.GetFlightInfo(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("flight.Client: flight %v: %w", d.GetPath(), fromStatus(err))
	}
	r, err := c.newReader(ctx, info.GetEndpoint(), dev)
	if err != nil {
		return nil, fmt.Errorf("flight.Client: flight %v: %w", d.GetPath(), fromStatus(err))
	}
	return r, nil
}

// endpointClient returns a client of an endpoint's server. The caller calls done
// when it no longer needs the client.
func (c *Client) endpointClient(ctx context.Context, e *flight.FlightEndpoint) (_ flight.Client, done func(), err error) {
	const reuseConnection = "arrow-flight-reuse-connection"
	locations := e.GetLocation()
	if len(locations) == 0 {
		return c.client, func() {}, nil
	}
	u, err := url.Parse(locations[0].GetUri())
	if err != nil {
		return nil, nil, fmt.Errorf("location of the endpoint: %w", err)
	}
	o := c.options
	switch u.Scheme {
	case reuseConnection:
		return c.client, func() {}, nil
	case "grpc", "grpc+tcp":
		o.TLS = nil
	case "grpc+tls":
		if o.TLS == nil {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	default:
		return nil, nil, fmt.Errorf("location of the endpoint: got %s, want grpc, grpc+tcp or grpc+tls", u)
	}
	other, err := Dial(ctx, u.Host, o)
	if err != nil {
		return nil, nil, err
	}
	return other.client, func() { _ = other.Close() }, nil
}

// fromStatus wraps the error that corresponds to a gRPC status code.
func fromStatus(err error) error {
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

// endpointReader reads the endpoints of a flight in order.
type endpointReader struct {
	client    *Client
	endpoints []*flight.FlightEndpoint
	dev       arrowbuf.Device
	ctx       context.Context // canceled by close
	cancel    context.CancelFunc

	schema  *arrow.Schema // of the first endpoint
	stream  flight.FlightService_DoGetClient
	decoder *arrowipc.Decoder
	done    func() // closes the endpoint's client
}

// newReader opens the first endpoint.
func (c *Client) newReader(ctx context.Context, endpoints []*flight.FlightEndpoint, dev arrowbuf.Device) (array.RecordReader, error) {
	if len(endpoints) == 0 {
		return nil, errors.New("the flight has no endpoint")
	}
	r := &endpointReader{client: c, endpoints: endpoints, dev: dev}
	r.ctx, r.cancel = context.WithCancel(ctx)
	if err := r.openEndpoint(); err != nil {
		r.close()
		return nil, err
	}
	return arrowbuf.NewReaderFunc(r.schema, r.next, r.close), nil
}

// openEndpoint requests the next endpoint and reads its schema.
func (r *endpointReader) openEndpoint() error {
	e := r.endpoints[0]
	r.endpoints = r.endpoints[1:]
	client, done, err := r.client.endpointClient(r.ctx, e)
	if err != nil {
		return err
	}
	r.done = done
	if r.stream, err = client.DoGet(r.ctx, e.GetTicket()); err != nil {
		return err
	}
	m, err := r.nextMessage()
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
		return fmt.Errorf("schema of the endpoint: got %v, want %v: %w", r.decoder.Schema(), r.schema, arrow.ErrInvalid)
	}
	return nil
}

// nextMessage returns the next message with a header. It skips messages with
// application metadata only.
func (r *endpointReader) nextMessage() (*flight.FlightData, error) {
	for {
		m, err := r.stream.Recv()
		if err != nil {
			return nil, fromStatus(err)
		}
		if len(m.GetDataHeader()) > 0 {
			return m, nil
		}
		if len(m.GetDataBody()) > 0 {
			return nil, fmt.Errorf("a body of %d bytes without metadata: %w", len(m.GetDataBody()), arrow.ErrInvalid)
		}
	}
}

// next returns the next batch, or io.EOF after the last batch of the last
// endpoint.
func (r *endpointReader) next() (arrow.RecordBatch, error) {
	for {
		m, err := r.nextMessage()
		if errors.Is(err, io.EOF) && len(r.endpoints) > 0 {
			r.closeEndpoint()
			if err := r.openEndpoint(); err != nil {
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

// closeEndpoint releases the current endpoint.
func (r *endpointReader) closeEndpoint() {
	if r.decoder != nil {
		r.decoder.Release()
		r.decoder = nil
	}
	if r.done != nil {
		r.done()
		r.done = nil
	}
}

func (r *endpointReader) close() {
	r.cancel()
	r.closeEndpoint()
}
