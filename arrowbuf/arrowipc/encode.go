package arrowipc

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/endian"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Message is an IPC message of columns that stay where they are: metadata that is
// encoded, and which bytes follow it.
type Message struct {
	// Metadata is the flatbuffer, without prefix and padding.
	Metadata []byte
	// BodyLength is how long the body is, with the padding of its buffers to 8.
	BodyLength int64

	header
	parts []piece
	owner interface{ Release() }
}

// Type tells what the message is.
func (m *Message) Type() ipc.MessageType { return m.kind }

// Release gives the columns back. Parts that were returned stay valid.
func (m *Message) Release() {
	if m.owner != nil {
		m.owner.Release()
	}
	m.owner, m.parts = nil, nil
}

// Parts returns the body, as buffers at offsets, without those that are empty:
// the columns' own memory, on their device, where the body has the same bytes,
// and elsewhere (rebased offsets, bitmaps of slices, what is compressed) memory
// of the host. The padding between them is nowhere. The caller owns a reference
// to each.
func (m *Message) Parts() (parts Parts, err error) {
	for i := range m.parts {
		p := &m.parts[i]
		if p.length == 0 {
			continue
		}
		b, err := p.buffer()
		if err != nil {
			parts.Release()
			return nil, fmt.Errorf("buffer %d of a message: %w", i, err)
		}
		parts = append(parts, Part{m.rows.buffers[i].Offset, b})
	}
	return parts, nil
}

// Release gives the parts back.
func (p Parts) Release() {
	for _, part := range p {
		part.Buffer.Release()
	}
}

// EncodeRecordBatch returns the message of a record batch of any device, without
// its dictionaries (see Encoder). Of the columns' memory it reads the ends of
// offsets, and of slices what it takes to rebase them. The message holds the
// batch until its Release.
//
// Metadata and body are those of arrow-go's writer for the same batch on the
// host, where it can write it.
func EncodeRecordBatch(batch arrow.RecordBatch, options ...Option) (*Message, error) {
	if batch == nil {
		return nil, errNoBatch
	}
	o, err := optionsOf(options)
	if err != nil {
		return nil, err
	}
	return o.encodeBatch(batch)
}

var errNoBatch = fmt.Errorf("there is no record batch: %w", arrow.ErrInvalid)

func (o *settings) encodeBatch(batch arrow.RecordBatch) (*Message, error) {
	var w walker
	for i, column := range batch.Columns() {
		if err := w.array(viewOf(column.Data()), column.DataType()); err != nil {
			return nil, fmt.Errorf("column %d, %q, of type %s: %w", i, batch.ColumnName(i), column.DataType(), err)
		}
	}
	m := &Message{header: header{kind: ipc.MessageRecordBatch}}
	if with, ok := batch.(arrow.RecordBatchWithMetadata); ok {
		m.custom = with.Metadata()
	}
	batch.Retain()
	m.owner = batch
	if err := o.finish(m, &w, batch.NumRows()); err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

// encodeDictionary returns the message of values [from, ...) of a dictionary.
func (o *settings) encodeDictionary(id int64, values arrow.Array, from int) (*Message, error) {
	v := viewOf(values.Data())
	if from > 0 {
		var err error
		if v, err = v.slice(from, v.length); err != nil {
			return nil, err
		}
	}
	var w walker
	if err := w.array(v, values.DataType()); err != nil {
		return nil, err
	}
	m := &Message{header: header{kind: ipc.MessageDictionaryBatch, dictionary: id, delta: from > 0}}
	values.Retain()
	m.owner = values
	if err := o.finish(m, &w, int64(v.length)); err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

// finish places the buffers, compressed where that is wanted, and encodes what is
// known then.
func (o *settings) finish(m *Message, w *walker, length int64) error {
	m.parts = w.parts
	if o.codec != Uncompressed {
		if err := o.compress(m.parts); err != nil {
			return err
		}
	}
	m.rows = rows{length: length, nodes: w.nodes, variadic: w.variadic, codec: o.codec, buffers: make([]Extent, len(m.parts))}
	for i := range m.parts {
		m.rows.buffers[i] = Extent{m.BodyLength, m.parts[i].length}
		if m.parts[i].length > math.MaxInt64/2-m.BodyLength {
			return fmt.Errorf("a body of more bytes than can be counted: %w", arrow.ErrInvalid)
		}
		m.BodyLength += padded(m.parts[i].length)
	}
	m.bodyLength = m.BodyLength
	m.Metadata = m.encode()
	return nil
}

// padded rounds up to what the format aligns messages and buffers to.
func padded(n int64) int64 { return (n + 7) &^ 7 }

// DecodeRecordBatch makes a record batch on a device of its message's metadata,
// without prefix, and its body; see Decoder, which has the dictionaries too. It is
// for schemas without dictionaries, others are an error that is arrow.ErrInvalid.
func DecodeRecordBatch(metadata []byte, schema *arrow.Schema, body Body, dev arrowbuf.Device) (arrow.RecordBatch, error) {
	encoded, err := EncodeSchema(schema)
	if err != nil {
		return nil, err
	}
	d, err := NewDecoder(encoded, dev)
	if err != nil {
		return nil, err
	}
	defer d.Release()
	d.schema = schema.WithEndianness(endian.NativeEndian) // with what a message does not tell of it
	h, err := parseMessage(metadata)
	if err == nil {
		err = h.expect(ipc.MessageRecordBatch)
	}
	if err != nil {
		return nil, err
	}
	return d.Decode(metadata, body)
}
