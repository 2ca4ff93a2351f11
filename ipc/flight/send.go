package flight

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

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
