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

// Decoder makes record batches on a device of the messages of one stream. It is
// not for concurrent use, but its batches are.
type Decoder struct {
	parsedSchema
	dev          arrowbuf.Device
	dictionaries map[int64]*dictionary
}

// NewDecoder returns a decoder for the messages that follow a schema's, whose
// metadata it is given. What is wrong with that is an error that is
// arrow.ErrInvalid.
func NewDecoder(schema []byte, dev arrowbuf.Device) (*Decoder, error) {
	if dev == nil {
		return nil, fmt.Errorf("decoding record batches: there is no device: %w", arrow.ErrInvalid)
	}
	d, err := decodeSchema(schema)
	if err != nil {
		return nil, err
	}
	return &Decoder{parsedSchema: d, dev: dev, dictionaries: map[int64]*dictionary{}}, nil
}

// Schema says what the columns are. Of messages of the other byte order, whose
// bytes are turned around, it is of this machine's.
func (d *Decoder) Schema() *arrow.Schema { return d.schema }

// Release gives the dictionaries back. Batches keep theirs.
func (d *Decoder) Release() {
	for _, one := range d.dictionaries {
		one.release()
	}
	d.dictionaries = map[int64]*dictionary{}
}

// Decode takes the next message: metadata without prefix, and a body. Of a record
// batch it returns the batch, which the caller owns, of a dictionary nil.
//
// A body that lives on the decoder's device is shared, one that lives elsewhere
// is copied there, in one allocation. Bodies that are compressed or of the other
// byte order are made on the host and copied, in one allocation as well.
//
// The metadata is checked against the schema and the body before anything is
// allocated: numbers of arrays and buffers, lengths, places, and whether buffers
// are as large as the lengths need. What is wrong is an error that is
// arrow.ErrInvalid. The bytes of a body are not looked at: batches of strangers
// need a Validate or ValidateFull.
func (d *Decoder) Decode(metadata []byte, body Body) (arrow.RecordBatch, error) {
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

// incomingMessage is a message whose metadata was found good.
type incomingMessage struct {
	*Decoder
	header
	nodes        []*arrayNode
	requirements []requirement
	name         func(column int) string
}

func (d *Decoder) prepare(metadata []byte) (*incomingMessage, error) {
	h, err := parseMessage(metadata)
	if err != nil {
		return nil, err
	}
	return d.planMessage(h)
}

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
			return nil, fmt.Errorf("dictionary %d, which no field has: %w", h.dictionary, arrow.ErrInvalid)
		}
		if h.delta && d.dictionaries[h.dictionary] == nil {
			return nil, fmt.Errorf("dictionary %d has an addition, and was not there before: %w", h.dictionary, arrow.ErrInvalid)
		}
		in.name = func(int) string { return fmt.Sprintf("values of dictionary %d,", h.dictionary) }
		if in.nodes, in.requirements, err = h.planArrays([]arrow.DataType{values.dtype}, values.ids, in.name); err != nil {
			return nil, fmt.Errorf("dictionary %d: %w", h.dictionary, err)
		}
	default:
		return nil, fmt.Errorf("a message of type %v, expected a record batch or a dictionary: %w", h.kind, arrow.ErrInvalid)
	}
	return in, nil
}

// bodyIsVerbatim tells whether the bytes of the body are what arrays are made of.
func (in *incomingMessage) bodyIsVerbatim() bool {
	return in.batch.codec == Uncompressed && !in.swapped
}

// loadBody returns the buffers of the message on the device.
func (in *incomingMessage) loadBody(body Body) ([]*memory.Buffer, error) {
	if body.Len() < in.bodyEnd() {
		return nil, fmt.Errorf("a body of %d bytes, the message needs %d: %w", body.Len(), in.bodyEnd(), arrow.ErrInvalid)
	}
	if !in.bodyIsVerbatim() {
		return in.decodeBody(body)
	}
	if err := in.checkLengths(); err != nil {
		return nil, err
	}
	there, release, err := bodyOn(body, in.dev)
	if err != nil {
		return nil, err
	}
	defer release()
	return sliceBody(there, in.batch.buffers)
}

// checkLengths checks that the buffers of a body that is used as it is are as large
// as they need to be.
func (in *incomingMessage) checkLengths() error {
	for i, r := range in.batch.buffers {
		if err := in.requirements[i].checkLength(r.Length); err != nil {
			return in.bufferError(i, err)
		}
	}
	return nil
}

// bodyEnd is where the last buffer of the body ends.
func (in *incomingMessage) bodyEnd() (end int64) {
	for _, b := range in.batch.buffers {
		if b.Length > 0 {
			end = max(end, b.Offset+b.Length)
		}
	}
	return end
}

func (n requirement) checkLength(length int64) error {
	if length < n.bytes {
		return fmt.Errorf("%d bytes, the array needs %d: %w", length, n.bytes, arrow.ErrInvalid)
	}
	return nil
}

// bufferError says which buffer of the message an error is of, and whose that is.
func (in *incomingMessage) bufferError(i int, err error) error {
	return fmt.Errorf("%s buffer %d: %w", in.name(in.requirements[i].column), i, err)
}

// build makes the batch, or keeps the dictionary, over buffers that it takes
// over.
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

// buildArray makes an array on the device.
func (d *Decoder) buildArray(n *arrayNode, buffers []*memory.Buffer) (arr arrow.Array, err error) {
	data, err := d.buildData(n, buffers)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	defer panicToError("making an array", &err)
	return arrowbuf.NewArrayOn(data, d.dev), nil
}

// buildData makes the data of an array, with its dictionaries.
func (d *Decoder) buildData(n *arrayNode, buffers []*memory.Buffer) (*array.Data, error) {
	own := make([]*memory.Buffer, len(n.buffers))
	for i, b := range n.buffers {
		if b != noBuffer {
			own[i] = buffers[b]
		}
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
	inside := append([]arrow.ArrayData(nil), children...)
	data := array.NewData(n.dtype, n.length, own, inside, n.nulls, 0)
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

// dictionary is what came of a dictionary so far. Arrays are made of it when a
// batch needs them, since dictionaries inside it may come later, or change.
type dictionary struct {
	batches []dictionaryBatch // one, and additions to it
	built   *array.Data
}

// dictionaryBatch are the values of one message.
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

func (d *dictionary) invalidate() {
	if d.built != nil {
		d.built.Release()
		d.built = nil
	}
}

// storeDictionary takes over the values of a dictionary: instead of those that were there,
// or after them.
func (in *incomingMessage) storeDictionary(buffers []*memory.Buffer) {
	// Others may have it inside them.
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

// dictionaryData is a dictionary as it is now. It stays the decoder's.
func (d *Decoder) dictionaryData(id int64) (*array.Data, error) {
	known := d.dictionaries[id]
	if known == nil || len(known.batches) == 0 {
		return nil, fmt.Errorf("dictionary %d did not come: %w", id, arrow.ErrInvalid)
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

// concatenate puts the additions to a dictionary behind it, on the host: they are few
// and small beside the batches that use them.
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
	defer panicToError("joining the parts of a dictionary", &err)
	host, err := array.Concatenate(parts, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	defer host.Release()
	there, err := arrowbuf.CopyArrayTo(host, d.dev)
	if err != nil {
		return nil, err
	}
	defer there.Release()
	joined = there.Data().(*array.Data)
	joined.Retain()
	return joined, nil
}

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
		err = h.checkType(ipc.MessageRecordBatch)
	}
	if err != nil {
		return nil, err
	}
	return d.Decode(metadata, body)
}
