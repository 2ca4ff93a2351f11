package arrowipc

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// NewReader returns a reader of a stream, from where r is, whose batches live on a
// device: each an *arrowbuf.RecordBatch over one allocation, valid until the next
// unless it is retained. Its Release gives back what it holds; r stays the
// caller's.
//
// How bodies come there depends on r. What reads memory, a BufferReader, is asked
// for it: memory of the device itself is shared, any other copied at once. A file
// (an io.ReaderAt and io.Seeker) is read by several goroutines, through memory from
// which the device copies fastest, and r is left behind each message. From anything
// else the bytes come in order, while those before them are copied.
//
// Metadata is checked as Decoder.Decode says; a stream that ends within a message
// is io.ErrUnexpectedEOF. The buffers of compressed bodies are decompressed on the
// host, by several goroutines.
func NewReader(r io.Reader, dev arrowbuf.Device) (array.RecordReader, error) {
	in := newInput(r)
	d, err := readSchema(in, dev)
	if err != nil {
		return nil, fmt.Errorf("Arrow stream: %w", err)
	}
	message := 0
	return arrowbuf.NewReaderFunc(d.schema, func() (arrow.RecordBatch, error) {
		for {
			message++
			batch, err := d.next(in)
			if err != nil && !errors.Is(err, io.EOF) {
				err = fmt.Errorf("Arrow stream: message %d: %w", message, err)
			}
			if err != nil || batch != nil {
				return batch, err
			}
		}
	}, d.Release), nil
}

func readSchema(in input, dev arrowbuf.Device) (*Decoder, error) {
	metadata, err := ReadMetadata(in)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", cutShort(err))
	}
	return NewDecoder(metadata, dev)
}

// next reads and decodes a message. At the end of the stream the error is io.EOF,
// and no other error is one.
func (d *Decoder) next(from input) (arrow.RecordBatch, error) {
	metadata, err := ReadMetadata(from)
	if err != nil {
		return nil, err
	}
	in, err := d.prepare(metadata)
	if err != nil {
		return nil, err
	}
	buffers, err := in.receive(from)
	if err != nil {
		return nil, fmt.Errorf("body: %w", cutShort(err))
	}
	return in.finish(buffers)
}

// receive brings the body of a message to the device, after what can be known of
// it without was checked.
func (in *incoming) receive(from input) ([]*memory.Buffer, error) {
	dev := in.dev
	if in.asIs() {
		if err := in.checkLengths(); err != nil {
			return nil, err
		}
	} else {
		dev = arrowbuf.CPU()
	}
	body, err := from.body(in.bodyLength, dev)
	if err != nil {
		return nil, err
	}
	defer body.Release()
	return in.settle(body)
}
