package flight

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// send sends the batches of any device, each message with its bytes.
func send(batches array.RecordReader, maxBody int64, to func(*flight.FlightData) error) error {
	encoder, err := arrowipc.NewEncoder(batches.Schema())
	if err != nil {
		return err
	}
	defer encoder.Release()
	if err := to(&flight.FlightData{DataHeader: encoder.Schema()}); err != nil {
		return err
	}
	for batches.Next() {
		if err := sendBatch(encoder, batches.RecordBatch(), maxBody, to); err != nil {
			return err
		}
	}
	return batches.Err()
}

// sendBatch sends the dictionaries that changed, and the batch, in pieces where
// it is long.
func sendBatch(encoder *arrowipc.Encoder, batch arrow.RecordBatch, maxBody int64, to func(*flight.FlightData) error) error {
	messages, err := encoder.Encode(batch)
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
		if err := sendMessage(m, to); err != nil {
			return err
		}
	}
	m, rows := messages[last], batch.NumRows()
	pieces := min(rows, (m.BodyLength+maxBody-1)/maxBody)
	if pieces <= 1 {
		return sendMessage(m, to)
	}
	for i := range pieces {
		if err := sendRows(batch, rows*i/pieces, rows*(i+1)/pieces, to); err != nil {
			return err
		}
	}
	return nil
}

// sendRows sends rows [from, until) of a batch whose dictionaries are sent.
func sendRows(batch arrow.RecordBatch, from, until int64, to func(*flight.FlightData) error) error {
	piece := batch.NewSlice(from, until)
	defer piece.Release()
	m, err := arrowipc.EncodeRecordBatch(piece)
	if err != nil {
		return err
	}
	defer m.Release()
	return sendMessage(m, to)
}

func sendMessage(m *arrowipc.Message, to func(*flight.FlightData) error) error {
	body, err := bodyOf(m)
	if err != nil {
		return err
	}
	return to(&flight.FlightData{DataHeader: m.Metadata, DataBody: body})
}

// bodyOf copies the body of a message to the host.
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
func hostBuffer(b []byte) arrowbuf.Buffer { return arrowbuf.Foreign(b, func() {}) }
