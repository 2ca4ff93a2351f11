package arrowipc

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// SerializeRecordBatch puts the message of a record batch into one new buffer of a
// device: prefix, metadata and body, as a stream has them. What lives on the device
// is copied there. Dictionaries are not in it. The caller owns a reference.
func SerializeRecordBatch(batch arrow.RecordBatch, dev arrowbuf.Device, options ...Option) (arrowbuf.Buffer, error) {
	m, err := EncodeRecordBatch(batch, options...)
	if err != nil {
		return nil, fmt.Errorf("serializing a record batch: %w", err)
	}
	defer m.Release()
	framed := frame(m.Metadata)
	whole, err := dev.Alloc(int64(len(framed)) + m.BodyLength)
	if err != nil {
		return nil, fmt.Errorf("serializing a record batch: %w", err)
	}
	out := newOutput(NewBufferWriter(whole))
	if err = out.write(framed); err == nil {
		err = out.body(m)
	}
	if err != nil {
		whole.Release()
		return nil, fmt.Errorf("serializing a record batch: %w", err)
	}
	return whole, nil
}

// copyBody copies the body to a buffer. Padding is 0.
func (m *Message) copyBody(dst arrowbuf.Buffer) error {
	if host, ok := arrowbuf.HostBytes(dst); ok {
		return inPieces(m.BodyLength, func(pos, length int64) error { return m.read(host[pos:pos+length], pos) })
	}
	if m.BodyLength <= maxTogether { // two copies by way of the host, rather than one a part
		return fill(dst, Extent{0, m.BodyLength}, func(b []byte) error { return m.read(b, 0) })
	}
	parts, err := m.Parts()
	if err != nil {
		return err
	}
	defer parts.Release()
	for _, p := range parts {
		if err := copyInto(dst, p.Buffer, p.Offset); err != nil {
			return err
		}
		end := p.Offset + p.Buffer.Len()
		if rest := padded(end) - end; rest > 0 {
			if _, err := dst.CopyFromHost(make([]byte, rest), end); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReadMessage reads the next message of a stream: its metadata, and its body to a
// device, as NewReader does. The caller owns a reference to the body. At the end of
// the stream the error is io.EOF.
func ReadMessage(r io.Reader, dev arrowbuf.Device) (metadata []byte, body arrowbuf.Buffer, err error) {
	in := newInput(r)
	if metadata, err = ReadMetadata(in); err != nil {
		return nil, nil, err
	}
	h, err := parseMessage(metadata)
	if err == nil {
		body, err = in.body(h.bodyLength, dev)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading a message: %w", cutShort(err))
	}
	return metadata, body, nil
}

// ReadRecordBatch makes a record batch of a message that a buffer begins with,
// without a copy: the batch lives where the buffer does, unless that is compressed
// or not aligned to 8. A buffer of no message is io.ErrUnexpectedEOF; for the rest
// see DecodeRecordBatch.
func ReadRecordBatch(message arrowbuf.Buffer, schema *arrow.Schema) (arrow.RecordBatch, error) {
	dev := message.Device()
	metadata, body, err := ReadMessage(NewBufferReader(message), dev)
	if err != nil {
		return nil, fmt.Errorf("reading a record batch: %w", cutShort(err))
	}
	defer body.Release()
	return DecodeRecordBatch(metadata, schema, body, dev)
}
