package arrowipc

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/endian"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Decoder makes record batches on a device from the messages of one stream. It is
// not safe for concurrent use; its batches are.
type Decoder struct {
	parsedSchema
	dev          arrowbuf.Device
	dictionaries map[int64]*dictionary
	zeros        arrowbuf.Buffer // see zeroOffsets; nil until it is needed
}

// NewDecoder returns a decoder for the messages that follow a schema message. schema
// is the metadata of that message, without prefix. NewDecoder returns an error
// wrapping arrow.ErrInvalid if the metadata is invalid or dev is nil. The caller
// must call Release.
func NewDecoder(schema []byte, dev arrowbuf.Device) (*Decoder, error) {
	if dev == nil {
		return nil, fmt.Errorf("arrowipc.NewDecoder: nil device: %w", arrow.ErrInvalid)
	}
	d, err := decodeSchema(schema)
	if err != nil {
		return nil, err
	}
	return &Decoder{parsedSchema: d, dev: dev, dictionaries: map[int64]*dictionary{}}, nil
}

// Schema returns the schema of the batches. Its byte order is this machine's:
// messages of the other byte order are swapped. It is nil for a nil or zero Decoder.
func (d *Decoder) Schema() *arrow.Schema {
	if d == nil {
		return nil
	}
	return d.schema
}

// Release releases the dictionaries. Batches keep their own references.
func (d *Decoder) Release() {
	if d == nil {
		return
	}
	for _, one := range d.dictionaries {
		one.release()
	}
	d.dictionaries = map[int64]*dictionary{}
	if d.zeros != nil {
		d.zeros.Release()
		d.zeros = nil
	}
}

// Decode decodes the next message: its metadata, without prefix, and its body. If
// the message is a record batch, Decode returns it, and the caller owns one
// reference. If the message is a dictionary, Decode returns nil and keeps it.
//
// A body on the decoder's device is shared. A body elsewhere is copied in one
// allocation. A body that is compressed or of the other byte order is decoded on the
// host and copied, also in one allocation.
//
// Decode checks the metadata against the schema and the body before it allocates:
// the counts of arrays and buffers, lengths, positions and buffer sizes. It returns
// an error wrapping arrow.ErrInvalid if they do not match. It does not check the
// bytes of the body: validate batches of untrusted sources with Validate or
// ValidateFull.
func (d *Decoder) Decode(metadata []byte, body Body) (arrow.RecordBatch, error) {
	if d == nil || d.schema == nil {
		return nil, fmt.Errorf("arrowipc.Decoder.Decode: nil or zero decoder: %w", arrow.ErrInvalid)
	}
	in, err := d.prepare(metadata)
	if err != nil {
		return nil, err
	}
	if body == nil {
		body = Parts(nil)
	}
	buffers, err := in.loadBody(body)
	if err != nil {
		return nil, err
	}
	return in.build(buffers)
}

// DecodeRecordBatch makes a record batch on a device from the metadata of its
// message, without prefix, and its body, as Decoder.Decode does. The caller owns one
// reference to the result. It returns an error wrapping arrow.ErrInvalid if the
// schema has dictionaries, which need a Decoder.
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
	d.schema = schema.WithEndianness(endian.NativeEndian) // includes what a schema message omits, such as unregistered extension types
	h, err := parseMessage(metadata)
	if err == nil {
		err = h.checkType(ipc.MessageRecordBatch)
	}
	if err != nil {
		return nil, err
	}
	return d.Decode(metadata, body)
}

// incomingMessage is a message whose metadata has been checked.
type incomingMessage struct {
	*Decoder
	header
	nodes        []*arrayNode
	requirements []requirement
	name         func(column int) string
}

// prepare parses and checks the metadata of a message.
func (d *Decoder) prepare(metadata []byte) (*incomingMessage, error) {
	h, err := parseMessage(metadata)
	if err != nil {
		return nil, err
	}
	return d.planMessage(h)
}

// planMessage checks the metadata of a message against the schema.
func (d *Decoder) planMessage(h header) (in *incomingMessage, err error) {
	in = &incomingMessage{Decoder: d, header: h}
	switch h.kind {
	case ipc.MessageRecordBatch:
		types := make([]arrow.DataType, d.schema.NumFields())
		for i, field := range d.schema.Fields() {
			types[i] = field.Type
		}
		in.name = func(i int) string { return fmt.Sprintf("column %d, %q,", i, d.schema.Field(i).Name) }
		if in.nodes, in.requirements, err = h.planArrays(types, d.ids, in.name); err != nil {
			return nil, fmt.Errorf("record batch: %w", err)
		}
	case ipc.MessageDictionaryBatch:
		values, ok := d.values[h.dictionary]
		if !ok {
			return nil, fmt.Errorf("dictionary %d does not belong to a field: %w", h.dictionary, arrow.ErrInvalid)
		}
		if h.delta && d.dictionaries[h.dictionary] == nil {
			return nil, fmt.Errorf("a delta of dictionary %d before its values: %w", h.dictionary, arrow.ErrInvalid)
		}
		in.name = func(int) string { return fmt.Sprintf("values of dictionary %d,", h.dictionary) }
		if in.nodes, in.requirements, err = h.planArrays([]arrow.DataType{values.dtype}, values.ids, in.name); err != nil {
			return nil, fmt.Errorf("dictionary %d: %w", h.dictionary, err)
		}
	default:
		return nil, fmt.Errorf("got a message of type %v, want a record batch or a dictionary: %w", h.kind, arrow.ErrInvalid)
	}
	return in, nil
}

// bodyIsVerbatim reports whether arrays use the bytes of the body unchanged.
func (in *incomingMessage) bodyIsVerbatim() bool {
	return in.batch.codec == Uncompressed && !in.swapped
}

// loadBody returns the buffers of the message on the device. The caller owns one
// reference to each.
func (in *incomingMessage) loadBody(body Body) ([]*memory.Buffer, error) {
	if body.Len() < in.bodyEnd() {
		return nil, fmt.Errorf("a body of %d bytes, want at least %d: %w", body.Len(), in.bodyEnd(), arrow.ErrInvalid)
	}
	if !in.bodyIsVerbatim() {
		return in.decodeBody(body)
	}
	if err := in.checkLengths(); err != nil {
		return nil, err
	}
	onDev, release, err := bodyOn(body, in.dev)
	if err != nil {
		return nil, err
	}
	defer release()
	return sliceBody(onDev, in.batch.buffers)
}

// checkLengths checks the sizes of the buffers of a verbatim body.
func (in *incomingMessage) checkLengths() error {
	for i, r := range in.batch.buffers {
		if err := in.requirements[i].checkLength(r.Length); err != nil {
			return in.bufferError(i, err)
		}
	}
	return nil
}

// bodyEnd returns the end of the last buffer in the body.
func (in *incomingMessage) bodyEnd() (end int64) {
	for _, b := range in.batch.buffers {
		if b.Length > 0 {
			end = max(end, b.Offset+b.Length)
		}
	}
	return end
}

// checkLength returns an error if length is less than required.
func (n requirement) checkLength(length int64) error {
	if length < n.bytes {
		return fmt.Errorf("got %d bytes, want at least %d: %w", length, n.bytes, arrow.ErrInvalid)
	}
	return nil
}

// bufferError adds to err the buffer and the column that it concerns.
func (in *incomingMessage) bufferError(i int, err error) error {
	return fmt.Errorf("%s buffer %d: %w", in.name(in.requirements[i].column), i, err)
}

// build returns the record batch, or keeps the dictionary and returns nil. It takes
// over the references to buffers.
func (in *incomingMessage) build(buffers []*memory.Buffer) (arrow.RecordBatch, error) {
	if in.kind == ipc.MessageDictionaryBatch {
		in.storeDictionary(buffers)
		return nil, nil
	}
	defer releaseAll(buffers)
	columns := make([]arrow.Array, 0, len(in.nodes))
	defer func() { releaseAll(columns) }()
	for i, n := range in.nodes {
		column, err := in.buildArray(n, buffers)
		if err != nil {
			return nil, fmt.Errorf("record batch: column %d, %q, of type %s: %w", i, in.schema.Field(i).Name, n.dtype, err)
		}
		columns = append(columns, column)
	}
	return arrowbuf.NewRecordBatchWithMetadata(in.schema, columns, in.batch.length, in.custom)
}

// buildArray returns an array on the device.
func (d *Decoder) buildArray(n *arrayNode, buffers []*memory.Buffer) (arr arrow.Array, err error) {
	data, err := d.buildData(n, buffers)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	defer panicToError("making an array", &err)
	return arrowbuf.NewArrayOn(data, d.dev), nil
}

// buildData returns the data of an array, with its dictionaries.
func (d *Decoder) buildData(n *arrayNode, buffers []*memory.Buffer) (*array.Data, error) {
	selected := make([]*memory.Buffer, 0, len(n.buffers)+1)
	for _, b := range n.buffers {
		var buffer *memory.Buffer
		if b != noBuffer {
			buffer = buffers[b]
		}
		selected = append(selected, buffer)
	}
	if n.emptyLists {
		zeros, err := d.zeroOffsets(n.length)
		if err != nil {
			return nil, fmt.Errorf("offsets of lists of size 0: %w", err)
		}
		defer zeros.Release()
		selected = append(selected, zeros)
	}
	var children []arrow.ArrayData
	defer func() { releaseAll(children) }()
	for _, child := range n.children {
		data, err := d.buildData(child, buffers)
		if err != nil {
			return nil, err
		}
		children = append(children, data)
	}
	shared := append([]arrow.ArrayData(nil), children...)
	data := array.NewData(n.dtype, n.length, selected, shared, n.nulls, 0)
	if n.dictionary != nil {
		values, err := d.dictionaryData(*n.dictionary)
		if err != nil {
			data.Release()
			return nil, err
		}
		data.SetDictionary(values)
	}
	return data, nil
}

// dictionary is the current state of a dictionary. Its array is built when a batch
// first needs it, because dictionaries inside it may arrive later, or change.
type dictionary struct {
	batches []dictionaryBatch // the first, and its deltas
	built   *array.Data
}

// dictionaryBatch has the values of one message.
type dictionaryBatch struct {
	node    *arrayNode
	buffers []*memory.Buffer
}

func (d *dictionary) release() {
	for _, p := range d.batches {
		releaseAll(p.buffers)
	}
	d.batches = nil
	d.invalidate()
}

// invalidate drops the built array.
func (d *dictionary) invalidate() {
	if d.built != nil {
		d.built.Release()
		d.built = nil
	}
}

// storeDictionary takes over the values of a dictionary message: as a replacement,
// or appended if it is a delta.
func (in *incomingMessage) storeDictionary(buffers []*memory.Buffer) {
	// Other dictionaries may contain this one.
	for _, other := range in.dictionaries {
		other.invalidate()
	}
	d := in.dictionaries[in.dictionary]
	if d == nil {
		d = &dictionary{}
		in.dictionaries[in.dictionary] = d
	}
	if !in.delta {
		d.release()
	}
	d.batches = append(d.batches, dictionaryBatch{in.nodes[0], buffers})
}

// dictionaryData returns the current values of a dictionary. They stay the
// decoder's.
func (d *Decoder) dictionaryData(id int64) (*array.Data, error) {
	known := d.dictionaries[id]
	if known == nil || len(known.batches) == 0 {
		return nil, fmt.Errorf("dictionary %d is missing: %w", id, arrow.ErrInvalid)
	}
	if known.built != nil {
		return known.built, nil
	}
	var err error
	if len(known.batches) == 1 {
		known.built, err = d.buildData(known.batches[0].node, known.batches[0].buffers)
	} else {
		known.built, err = d.concatenate(known.batches)
	}
	if err != nil {
		return nil, fmt.Errorf("dictionary %d: %w", id, err)
	}
	return known.built, nil
}

// concatenate returns a dictionary with its deltas appended. It concatenates on the
// host, because dictionaries are small compared with the batches that use them.
func (d *Decoder) concatenate(all []dictionaryBatch) (joined *array.Data, err error) {
	var parts []arrow.Array
	defer func() { releaseAll(parts) }()
	for _, p := range all {
		part, err := d.buildArray(p.node, p.buffers)
		if err != nil {
			return nil, err
		}
		host, err := arrowbuf.CopyArrayTo(part, arrowbuf.CPU())
		part.Release()
		if err != nil {
			return nil, err
		}
		parts = append(parts, host)
	}
	defer panicToError("concatenating a dictionary", &err)
	host, err := array.Concatenate(parts, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	defer host.Release()
	onDev, err := arrowbuf.CopyArrayTo(host, d.dev)
	if err != nil {
		return nil, err
	}
	defer onDev.Release()
	joined = onDev.Data().(*array.Data)
	joined.Retain()
	return joined, nil
}
