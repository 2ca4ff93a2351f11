package ipc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// receiver makes batches of what comes for a request.
type receiver struct {
	call     *call
	metadata []byte // of the schema
	decoder  *arrowipc.Decoder
	dev      arrowbuf.Device // the decoder's
}

// begin waits for the schema.
func (r *receiver) begin(ctx context.Context) (*arrow.Schema, error) {
	e, err := r.call.next(ctx)
	if err != nil {
		return nil, err
	}
	if e.frame.Type != wire.Schema {
		e.drop()
		if e.batch != nil && len(e.batch.Parts) == 1 && len(e.batch.Parts[0].Metadata) == 0 {
			return nil, fmt.Errorf("it is a buffer: %w", ErrWrongKind)
		}
		return nil, r.call.client.fault("%v, SCHEMA expected", e.frame.Type)
	}
	r.metadata = e.frame.Payload
	dev := arrowbuf.CPU()
	if gpus := r.call.client.o.Devices; len(gpus) > 0 {
		dev = gpus[0] // most likely
	}
	if err := r.decodeOn(dev); err != nil {
		return nil, err
	}
	return r.decoder.Schema(), nil
}

func (r *receiver) decodeOn(dev arrowbuf.Device) (err error) {
	if r.dev != dev {
		r.decoder, err = arrowipc.NewDecoder(r.metadata, dev)
		r.dev = dev
	}
	return err
}

// next waits for a batch. At the end it is nil.
func (r *receiver) next(ctx context.Context) (arrow.RecordBatch, error) {
	e, err := r.call.next(ctx)
	if err != nil {
		return nil, err
	}
	switch e.frame.Type {
	case wire.End:
		return nil, nil
	case wire.Batch:
		defer e.lease.release()
		batch, err := r.batch(ctx, e)
		if err != nil {
			return nil, fmt.Errorf("batch %d of %q: %w", e.batch.Sequence, e.lease.name, err)
		}
		return batch, nil
	default:
		return nil, r.call.client.fault("%v, BATCH expected", e.frame.Type)
	}
}

// batch puts a batch together.
func (r *receiver) batch(ctx context.Context, e event) (arrow.RecordBatch, error) {
	bodies, err := e.bodies(ctx)
	if err != nil {
		return nil, err
	}
	defer bodies.release()
	if l := bodies.local; l != nil {
		if l.batch == nil {
			return nil, r.call.client.fault("a buffer, a batch expected")
		}
		l.batch.Retain()
		return l.batch, nil
	}
	if err := r.decodeOn(bodies.dev); err != nil {
		return nil, err
	}
	defer r.decoder.Release() // the dictionaries, which each batch brings
	for i, p := range e.batch.Parts {
		batch, err := r.decoder.Decode(p.Metadata, bodies.parts[i])
		if err != nil {
			return nil, err
		}
		if last := i == len(e.batch.Parts)-1; batch != nil != last {
			if batch != nil {
				batch.Release()
			}
			return nil, r.call.client.fault("message %d of %d of a batch: the record batch is the last, and only that", i+1, len(e.batch.Parts))
		} else if last {
			return batch, nil
		}
	}
	return nil, nil // there is a part, so it does not come here
}

// bodies are the bodies of a batch's messages.
type bodies struct {
	dev   arrowbuf.Device
	parts []arrowipc.Parts
	local *local
}

// bodies shows what a lease names: each block once, and of that the regions.
func (e event) bodies(ctx context.Context) (*bodies, error) {
	b := &bodies{dev: arrowbuf.CPU(), parts: make([]arrowipc.Parts, len(e.batch.Parts))}
	shown := map[uint64]arrowbuf.Buffer{}
	defer func() {
		for _, buffer := range shown {
			buffer.Release()
		}
	}()
	for n, block := range e.lease.blocks {
		if block.err != nil {
			return nil, e.lease.client.because(ctx, block.err)
		}
		if block.local != nil {
			return &bodies{local: block.local}, nil
		}
		b.dev = block.device()
		buffer, err := block.show(e.lease, 0, block.size, e.batch.Pending)
		if err != nil {
			return nil, err
		}
		shown[n] = buffer
	}
	for i, p := range e.batch.Parts {
		for _, r := range p.Regions {
			part, err := shown[r.Block].Slice(r.Offset, r.Length)
			if err != nil {
				b.release()
				return nil, err
			}
			b.parts[i] = append(b.parts[i], arrowipc.Part{Offset: r.Place, Buffer: part})
		}
	}
	return b, nil
}

// because tells whether memory could not be opened since its process has died,
// which the connection may not have told yet.
func (c *Client) because(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if gone := c.Ping(ctx); errors.Is(gone, ErrServerGone) {
		return fmt.Errorf("%w: %w", gone, err)
	}
	return err
}

func (b *bodies) release() {
	for _, parts := range b.parts {
		parts.Release()
	}
}
