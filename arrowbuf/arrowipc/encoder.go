package arrowipc

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

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
	written map[int64]arrow.Array     // dictionaries, by id, on the host
	seen    map[int64]arrow.ArrayData // that are equal to these, the last of each
}

// NewEncoder returns an encoder for batches of a schema.
func NewEncoder(schema *arrow.Schema, options ...Option) (*Encoder, error) {
	o, err := optionsOf(options)
	if err != nil {
		return nil, err
	}
	metadata, err := EncodeSchema(schema)
	if err != nil {
		return nil, err
	}
	return &Encoder{schema: schema, metadata: metadata, settings: *o, written: map[int64]arrow.Array{}, seen: map[int64]arrow.ArrayData{}}, nil
}

// Schema is the metadata of the first message, which has no body.
func (e *Encoder) Schema() []byte { return e.metadata }

// Release gives the dictionaries back that the encoder remembers.
func (e *Encoder) Release() {
	for id := range e.written {
		e.forget(id)
	}
}

func (e *Encoder) forget(id int64) {
	if old := e.written[id]; old != nil {
		old.Release()
		e.seen[id].Release()
	}
	delete(e.written, id)
	delete(e.seen, id)
}

// Encode returns the messages of a batch, the batch's last; see EncodeRecordBatch.
// A batch of another schema is an error that is arrow.ErrInvalid.
func (e *Encoder) Encode(batch arrow.RecordBatch) (messages []*Message, err error) {
	if batch == nil {
		return nil, errNoBatch
	}
	if schema := batch.Schema(); schema == nil || !schema.Equal(e.schema) {
		return nil, fmt.Errorf("a record batch of another schema: %v, expected %v: %w", schema, e.schema, arrow.ErrInvalid)
	}
	var changed []remembered
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
			e.written[d.id], e.seen[d.id] = d.host, d.values
		}
	}()
	var dictionaries []found
	next := int64(0)
	for i, column := range batch.Columns() {
		if dictionaries, err = collect(dictionaries, &next, column.DataType(), column.Data()); err != nil {
			return messages, fmt.Errorf("column %d, %q, of type %s: %w", i, batch.ColumnName(i), column.DataType(), err)
		}
	}
	for _, one := range dictionaries {
		m, d, err := e.dictionary(one)
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

// found is a dictionary of a batch.
type found struct {
	id     int64
	values arrow.ArrayData
}

// collect adds the dictionaries of an array, those inside others first. Ids are
// counted as the fields are met.
func collect(all []found, next *int64, dtype arrow.DataType, data arrow.ArrayData) ([]found, error) {
	var err error
	dtype = storageOf(dtype)
	if t, ok := dtype.(*arrow.DictionaryType); ok {
		id := *next
		*next++
		values, ok := data.Dictionary().(*array.Data)
		if !ok || values == nil {
			return all, fmt.Errorf("a dictionary array without its dictionary: %w", arrow.ErrInvalid)
		}
		if all, err = collectInside(all, next, t.ValueType, values); err != nil {
			return all, err
		}
		return append(all, found{id, values}), nil
	}
	return collectInside(all, next, dtype, data)
}

func collectInside(all []found, next *int64, dtype arrow.DataType, data arrow.ArrayData) ([]found, error) {
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
		if all, err = collect(all, next, field.Type, children[i]); err != nil {
			return all, err
		}
	}
	return all, nil
}

// remembered is a dictionary as it was sent: on the host, and where it came from.
type remembered struct {
	id     int64
	host   arrow.Array
	values arrow.ArrayData
}

func (d remembered) release() {
	d.host.Release()
	d.values.Release()
}

// dictionary returns the message of a dictionary, or nil where it was written
// already. What decides is a comparison on the host, as arrow-go's but to the bit.
func (e *Encoder) dictionary(d found) (m *Message, sent remembered, err error) {
	if e.seen[d.id] == d.values {
		return nil, sent, nil
	}
	defer rescue("comparing dictionaries", &err) // of offsets that nobody checked
	values := arrowbuf.NewArray(d.values)
	defer values.Release()
	host, err := arrowbuf.CopyArrayTo(values, arrowbuf.CPU())
	if err != nil {
		return nil, sent, err
	}
	defer host.Release()
	from := 0
	if old := e.written[d.id]; old != nil {
		switch {
		case arrowbuf.BitwiseEqual(old, host):
			d.values.Retain()
			e.seen[d.id].Release()
			e.seen[d.id] = d.values
			return nil, sent, nil
		case e.file:
			return nil, sent, ErrReplacement
		case e.deltas && host.Len() > old.Len() && joins(host.DataType()) && begins(host, old):
			from = old.Len()
		}
	}
	if m, err = e.encodeDictionary(d.id, values, from); err != nil {
		return nil, sent, err
	}
	host.Retain()
	d.values.Retain()
	return m, remembered{d.id, host, d.values}, nil
}

// joins tells whether a reader can put values of a type behind others: arrow-go's, and
// so the Decoder, cannot if there are unions or dictionaries among them.
func joins(dtype arrow.DataType) bool {
	switch t := storageOf(dtype).(type) {
	case *arrow.DictionaryType, arrow.UnionType:
		return false
	case arrow.NestedType:
		return !slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return !joins(f.Type) })
	}
	return true
}

// begins tells whether an array begins with the values of another.
func begins(arr, first arrow.Array) bool {
	part := array.NewSlice(arr, 0, int64(first.Len()))
	defer part.Release()
	return arrowbuf.BitwiseEqual(part, first)
}
