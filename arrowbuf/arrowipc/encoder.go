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

// ErrReplacement: a dictionary of a file was to be replaced, which the file
// format does not allow.
var ErrReplacement = errors.New("a dictionary of an Arrow file cannot change")

// Encoder makes the messages of a stream of record batches: of a batch its
// dictionaries, as far as they changed, and then the batch. It is not for
// concurrent use.
type Encoder struct {
	schema   *arrow.Schema
	metadata []byte
	settings
	sent     map[int64]arrow.Array     // dictionaries, by id, on the host
	sentData map[int64]arrow.ArrayData // that are equal to these, the last of each
}

// NewEncoder returns an encoder for batches of a schema.
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

// Schema is the metadata of the first message, which has no body.
func (e *Encoder) Schema() []byte { return e.metadata }

// Release gives the dictionaries back that the encoder remembers.
func (e *Encoder) Release() {
	for id := range e.sent {
		e.forget(id)
	}
}

func (e *Encoder) forget(id int64) {
	if old := e.sent[id]; old != nil {
		old.Release()
		e.sentData[id].Release()
	}
	delete(e.sent, id)
	delete(e.sentData, id)
}

// Encode returns the messages of a batch, the batch's last; see EncodeRecordBatch.
// A batch of another schema is an error that is arrow.ErrInvalid.
func (e *Encoder) Encode(batch arrow.RecordBatch) (messages []*Message, err error) {
	if batch == nil {
		return nil, errNilBatch
	}
	if schema := batch.Schema(); schema == nil || !schema.Equal(e.schema) {
		return nil, fmt.Errorf("a record batch of another schema: %v, expected %v: %w", schema, e.schema, arrow.ErrInvalid)
	}
	var changed []sentDictionary
	defer func() {
		if err != nil {
			releaseAll(messages)
			messages = nil
		}
		// What is not sent is not remembered: it comes with the next batch.
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

// batchDictionary is a dictionary of a batch.
type batchDictionary struct {
	id     int64
	values arrow.ArrayData
}

// collectDictionaries adds the dictionaries of an array, those inside others first. Ids are
// counted as the fields are met.
func collectDictionaries(all []batchDictionary, next *int64, dtype arrow.DataType, data arrow.ArrayData) ([]batchDictionary, error) {
	var err error
	dtype = storageOf(dtype)
	if t, ok := dtype.(*arrow.DictionaryType); ok {
		id := *next
		*next++
		values, ok := data.Dictionary().(*array.Data)
		if !ok || values == nil {
			return all, fmt.Errorf("a dictionary array without its dictionary: %w", arrow.ErrInvalid)
		}
		if all, err = collectChildren(all, next, t.ValueType, values); err != nil {
			return all, err
		}
		return append(all, batchDictionary{id, values}), nil
	}
	return collectChildren(all, next, dtype, data)
}

func collectChildren(all []batchDictionary, next *int64, dtype arrow.DataType, data arrow.ArrayData) ([]batchDictionary, error) {
	nested, ok := dtype.(arrow.NestedType)
	if !ok {
		return all, nil
	}
	children, fields := data.Children(), nested.Fields()
	if len(children) != len(fields) {
		return all, fmt.Errorf("%d child arrays, not %d: %w", len(children), len(fields), arrow.ErrInvalid)
	}
	var err error
	for i, field := range fields {
		if children[i] == nil {
			return all, fmt.Errorf("child array %d is absent: %w", i, arrow.ErrInvalid)
		}
		if all, err = collectDictionaries(all, next, field.Type, children[i]); err != nil {
			return all, err
		}
	}
	return all, nil
}

// sentDictionary is a dictionary as it was sent: on the host, and where it came from.
type sentDictionary struct {
	id     int64
	host   arrow.Array
	values arrow.ArrayData
}

func (d sentDictionary) release() {
	d.host.Release()
	d.values.Release()
}

// encodeIfChanged returns the message of a dictionary, or nil where it was written
// already. What decides is a comparison on the host, as arrow-go's but to the bit.
func (e *Encoder) encodeIfChanged(d batchDictionary) (m *Message, sent sentDictionary, err error) {
	if e.sentData[d.id] == d.values {
		return nil, sent, nil
	}
	defer panicToError("comparing dictionaries", &err) // of offsets that nobody checked
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
			return nil, sent, ErrReplacement
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

// canConcatenate tells whether a reader can put values of a type behind others: arrow-go's, and
// so the Decoder, cannot if there are unions or dictionaries among them.
func canConcatenate(dtype arrow.DataType) bool {
	switch t := storageOf(dtype).(type) {
	case *arrow.DictionaryType, arrow.UnionType:
		return false
	case arrow.NestedType:
		return !slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return !canConcatenate(f.Type) })
	}
	return true
}

// hasPrefix tells whether an array begins with the values of another.
func hasPrefix(arr, first arrow.Array) bool {
	part := array.NewSlice(arr, 0, int64(first.Len()))
	defer part.Release()
	return arrowbuf.BitwiseEqual(part, first)
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
		return nil, errNilBatch
	}
	o, err := newSettings(options)
	if err != nil {
		return nil, err
	}
	return o.encodeBatch(batch)
}

var errNilBatch = fmt.Errorf("there is no record batch: %w", arrow.ErrInvalid)

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

// encodeDictionary returns the message of values [from, ...) of a dictionary.
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

// layOutBody places the buffers, compressed where that is wanted, and encodes what is
// known then.
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
			return fmt.Errorf("a body of more bytes than can be counted: %w", arrow.ErrInvalid)
		}
		m.BodyLength += padTo8(m.buffers[i].length)
	}
	m.bodyLength = m.BodyLength
	m.Metadata = m.encode()
	return nil
}

// padTo8 rounds up to what the format aligns messages and buffers to.
func padTo8(n int64) int64 { return (n + 7) &^ 7 }

// Option says how messages are written.
type Option func(*settings)

type settings struct {
	codec   Codec
	savings float64
	deltas  bool
	file    bool // dictionaries cannot be replaced
}

// WithCodec has each buffer compressed, on the host, by as many goroutines as
// there are processors.
func WithCodec(c Codec) Option { return func(o *settings) { o.codec = c } }

// WithMinSavings leaves a buffer uncompressed unless that saves a share of it, in
// [0, 1]: with 0.1, one of 100 bytes unless 90 are enough.
func WithMinSavings(share float64) Option { return func(o *settings) { o.savings = share } }

// WithDeltas has a dictionary that grew at its end written as what was added. In a
// file, which arrow-go never writes so, it has no effect.
func WithDeltas() Option { return func(o *settings) { o.deltas = true } }

func newSettings(options []Option) (*settings, error) {
	o := &settings{}
	for _, option := range options {
		option(o)
	}
	if o.codec < Uncompressed || o.codec > Zstd {
		return nil, fmt.Errorf("codec %d, expected Uncompressed, LZ4 or Zstd: %w", o.codec, arrow.ErrInvalid)
	}
	if math.IsNaN(o.savings) || o.savings < 0 || o.savings > 1 {
		return nil, fmt.Errorf("least savings of %v, expected a share in [0, 1]: %w", o.savings, arrow.ErrInvalid)
	}
	return o, nil
}
