package flight

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

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
