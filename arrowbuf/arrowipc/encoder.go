package arrowipc

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// ErrDictionaryReplacement means that a file would need a second version of a dictionary,
// which the file format does not allow.
var ErrDictionaryReplacement = errors.New("a dictionary of an Arrow file cannot change")

// Option configures how messages are encoded.
type Option func(*settings)

// WithCodec compresses each buffer on the host, with a goroutine per processor.
func WithCodec(c Codec) Option { return func(o *settings) { o.codec = c } }

// WithMinSpaceSavings leaves a buffer uncompressed unless compression saves at least this
// share of its size, from 0 to 1. With 0.1, a buffer of 100 bytes is compressed only
// if 90 bytes suffice.
func WithMinSpaceSavings(share float64) Option { return func(o *settings) { o.savings = share } }

// WithDeltas encodes a dictionary that grew at its end as a delta. It does not
// affect files, in which arrow-go never writes deltas.
func WithDeltas() Option { return func(o *settings) { o.deltas = true } }

type settings struct {
	codec   Codec
	savings float64
	deltas  bool
	file    bool // dictionaries cannot be replaced
}

// newSettings applies and checks options.
func newSettings(options []Option) (*settings, error) {
	o := &settings{}
	for i, option := range options {
		if option == nil {
			return nil, fmt.Errorf("arrowipc: option %d is nil: %w", i, arrow.ErrInvalid)
		}
		option(o)
	}
	if o.codec < Uncompressed || o.codec > Zstd {
		return nil, fmt.Errorf("arrowipc.WithCodec: got %d, want Uncompressed, LZ4 or Zstd: %w", o.codec, arrow.ErrInvalid)
	}
	if math.IsNaN(o.savings) || o.savings < 0 || o.savings > 1 {
		return nil, fmt.Errorf("arrowipc.WithMinSpaceSavings: got %v, want 0 to 1: %w", o.savings, arrow.ErrInvalid)
	}
	return o, nil
}

// Encoder makes the messages of a stream of record batches: the dictionaries of each
// batch that have changed, and then the batch. It is not safe for concurrent use.
type Encoder struct {
	schema   *arrow.Schema
	metadata []byte
	settings
	sent     map[int64]arrow.Array     // dictionaries by id, on the host
	sentData map[int64]arrow.ArrayData // the data that each was last found equal to
}

// NewEncoder returns an encoder for batches of a schema. The caller must call
// Release.
func NewEncoder(schema *arrow.Schema, options ...Option) (*Encoder, error) {
	o, err := newSettings(options)
	if err != nil {
		return nil, err
	}
	metadata, err := EncodeSchema(schema)
	if err != nil {
		return nil, err
	}
	return &Encoder{schema: schema, metadata: metadata, settings: *o, sent: map[int64]arrow.Array{}, sentData: map[int64]arrow.ArrayData{}}, nil
}

// Schema returns the metadata of the first message of the stream, which has no body.
func (e *Encoder) Schema() []byte {
	if e == nil {
		return nil
	}
	return e.metadata
}

// Release releases the dictionaries that the encoder keeps for comparison.
func (e *Encoder) Release() {
	if e == nil {
		return
	}
	for id := range e.sent {
		e.forget(id)
	}
}

// Encode returns the messages of a batch, the last of which is the batch itself; see
// EncodeRecordBatch. The caller must release each message. Encode returns an error
// wrapping arrow.ErrInvalid if the batch has another schema.
func (e *Encoder) Encode(batch arrow.RecordBatch) (messages []*Message, err error) {
	if e == nil || e.schema == nil {
		return nil, fmt.Errorf("arrowipc.Encoder.Encode: nil or zero encoder: %w", arrow.ErrInvalid)
	}
	if batch == nil {
		return nil, errNilBatch
	}
	if schema := batch.Schema(); schema == nil || !schema.Equal(e.schema) {
		return nil, fmt.Errorf("schema of the batch: got %v, want %v: %w", schema, e.schema, arrow.ErrInvalid)
	}
	var changed []sentDictionary
	defer func() {
		if err != nil {
			releaseAll(messages)
			messages = nil
		}
		// If the batch fails, its dictionaries are sent with the next batch.
		for _, d := range changed {
			if err != nil {
				d.release()
				continue
			}
			e.forget(d.id)
			e.sent[d.id], e.sentData[d.id] = d.host, d.values
		}
	}()
	var dictionaries []batchDictionary
	next := int64(0)
	for i, column := range batch.Columns() {
		if dictionaries, err = collectDictionaries(dictionaries, &next, column.DataType(), column.Data()); err != nil {
			return messages, fmt.Errorf("column %d, %q, of type %s: %w", i, batch.ColumnName(i), column.DataType(), err)
		}
	}
	for _, one := range dictionaries {
		m, d, err := e.encodeIfChanged(one)
		if err != nil {
			return messages, fmt.Errorf("dictionary %d: %w", one.id, err)
		}
		if m != nil {
			messages, changed = append(messages, m), append(changed, d)
		}
	}
	m, err := e.encodeBatch(batch)
	if err != nil {
		return messages, err
	}
	return append(messages, m), nil
}

// forget drops a dictionary.
func (e *Encoder) forget(id int64) {
	if old := e.sent[id]; old != nil {
		old.Release()
		e.sentData[id].Release()
	}
	delete(e.sent, id)
	delete(e.sentData, id)
}

// batchDictionary is a dictionary of a batch.
type batchDictionary struct {
	id     int64
	values arrow.ArrayData
}

// collectDictionaries appends the dictionaries of an array to all, inner ones before
// outer ones. next is the id of the next dictionary, in the order of the fields.
func collectDictionaries(all []batchDictionary, next *int64, dtype arrow.DataType, data arrow.ArrayData) ([]batchDictionary, error) {
	var err error
	dtype = storageOf(dtype)
	if t, ok := dtype.(*arrow.DictionaryType); ok {
		id := *next
		*next++
		values, ok := data.Dictionary().(*array.Data)
		if !ok || values == nil {
			return all, fmt.Errorf("nil dictionary: %w", arrow.ErrInvalid)
		}
		if all, err = collectChildren(all, next, t.ValueType, values); err != nil {
			return all, err
		}
		return append(all, batchDictionary{id, values}), nil
	}
	return collectChildren(all, next, dtype, data)
}

// collectChildren collects the dictionaries of the children of an array.
func collectChildren(all []batchDictionary, next *int64, dtype arrow.DataType, data arrow.ArrayData) ([]batchDictionary, error) {
	nested, ok := dtype.(arrow.NestedType)
	if !ok {
		return all, nil
	}
	children, fields := data.Children(), nested.Fields()
	if len(children) != len(fields) {
		return all, fmt.Errorf("%d child arrays, want %d: %w", len(children), len(fields), arrow.ErrInvalid)
	}
	var err error
	for i, field := range fields {
		if children[i] == nil {
			return all, fmt.Errorf("child array %d is nil: %w", i, arrow.ErrInvalid)
		}
		if all, err = collectDictionaries(all, next, field.Type, children[i]); err != nil {
			return all, err
		}
	}
	return all, nil
}

// sentDictionary is a dictionary that was encoded: its copy on the host, and its
// data.
type sentDictionary struct {
	id     int64
	host   arrow.Array
	values arrow.ArrayData
}

func (d sentDictionary) release() {
	d.host.Release()
	d.values.Release()
}

// encodeIfChanged returns the message of a dictionary, or nil if the dictionary was
// sent already. Like arrow-go it compares values on the host, but bitwise.
func (e *Encoder) encodeIfChanged(d batchDictionary) (m *Message, sent sentDictionary, err error) {
	if e.sentData[d.id] == d.values {
		return nil, sent, nil
	}
	defer panicToError("comparing dictionaries", &err) // arrow-go does not check offsets
	values := arrowbuf.NewArray(d.values)
	defer values.Release()
	host, err := arrowbuf.CopyArrayTo(values, arrowbuf.CPU())
	if err != nil {
		return nil, sent, err
	}
	defer host.Release()
	from := 0
	if old := e.sent[d.id]; old != nil {
		switch {
		case arrowbuf.BitwiseEqual(old, host):
			d.values.Retain()
			e.sentData[d.id].Release()
			e.sentData[d.id] = d.values
			return nil, sent, nil
		case e.file:
			return nil, sent, ErrDictionaryReplacement
		case e.deltas && host.Len() > old.Len() && canConcatenate(host.DataType()) && hasPrefix(host, old):
			from = old.Len()
		}
	}
	if m, err = e.encodeDictionary(d.id, values, from); err != nil {
		return nil, sent, err
	}
	host.Retain()
	d.values.Retain()
	return m, sentDictionary{d.id, host, d.values}, nil
}

// canConcatenate reports whether a reader can append values of a type. arrow-go's
// reader, and so the Decoder, cannot append unions or dictionaries.
func canConcatenate(dtype arrow.DataType) bool {
	switch t := storageOf(dtype).(type) {
	case *arrow.DictionaryType, arrow.UnionType:
		return false
	case arrow.NestedType:
		return !slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return !canConcatenate(f.Type) })
	}
	return true
}

// hasPrefix reports whether arr begins with the values of first.
func hasPrefix(arr, first arrow.Array) bool {
	prefix := array.NewSlice(arr, 0, int64(first.Len()))
	defer prefix.Release()
	return arrowbuf.BitwiseEqual(prefix, first)
}

// EncodeRecordBatch returns the message of a record batch on any device, without its
// dictionaries (see Encoder). It reads the first and last offsets of the columns,
// and the offsets of slices that must be rebased. The message holds a reference to
// the batch until its Release.
//
// Metadata and body equal those of arrow-go's writer for the same batch on the host,
// if arrow-go can write it.
func EncodeRecordBatch(batch arrow.RecordBatch, options ...Option) (*Message, error) {
	if batch == nil {
		return nil, errNilBatch
	}
	o, err := newSettings(options)
	if err != nil {
		return nil, err
	}
	return o.encodeBatch(batch)
}

var errNilBatch = fmt.Errorf("arrowipc: nil record batch: %w", arrow.ErrInvalid)

// encodeBatch implements EncodeRecordBatch.
func (o *settings) encodeBatch(batch arrow.RecordBatch) (*Message, error) {
	var w walker
	for i, column := range batch.Columns() {
		if err := w.walkArray(allElements(column.Data()), column.DataType()); err != nil {
			return nil, fmt.Errorf("column %d, %q, of type %s: %w", i, batch.ColumnName(i), column.DataType(), err)
		}
	}
	m := &Message{header: header{kind: ipc.MessageRecordBatch}}
	if with, ok := batch.(arrow.RecordBatchWithMetadata); ok {
		m.custom = with.Metadata()
	}
	batch.Retain()
	m.owner = batch
	if err := o.layOutBody(m, &w, batch.NumRows()); err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

// encodeDictionary returns the message of values [from, ...) of a dictionary. It is
// a delta if from > 0.
func (o *settings) encodeDictionary(id int64, values arrow.Array, from int) (*Message, error) {
	v := allElements(values.Data())
	if from > 0 {
		var err error
		if v, err = v.slice(from, v.length); err != nil {
			return nil, err
		}
	}
	var w walker
	if err := w.walkArray(v, values.DataType()); err != nil {
		return nil, err
	}
	m := &Message{header: header{kind: ipc.MessageDictionaryBatch, dictionary: id, delta: from > 0}}
	values.Retain()
	m.owner = values
	if err := o.layOutBody(m, &w, int64(v.length)); err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

// layOutBody assigns positions to the buffers, which it compresses first if a codec
// is set, and encodes the metadata.
func (o *settings) layOutBody(m *Message, w *walker, length int64) error {
	m.buffers = w.buffers
	if o.codec != Uncompressed {
		if err := o.compress(m.buffers); err != nil {
			return err
		}
	}
	m.batch = recordBatch{length: length, nodes: w.nodes, variadic: w.variadic, codec: o.codec, buffers: make([]Extent, len(m.buffers))}
	for i := range m.buffers {
		m.batch.buffers[i] = Extent{m.BodyLength, m.buffers[i].length}
		if m.buffers[i].length > math.MaxInt64/2-m.BodyLength {
			return fmt.Errorf("the size of the body overflows: %w", arrow.ErrInvalid)
		}
		m.BodyLength += padTo8(m.buffers[i].length)
	}
	m.bodyLength = m.BodyLength
	m.Metadata = m.encode()
	return nil
}

// padTo8 rounds up to a multiple of 8, the alignment of messages and buffers in the
// format.
func padTo8(n int64) int64 { return (n + 7) &^ 7 }
