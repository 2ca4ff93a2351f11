package arrowbuf

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// NewReaderFunc returns a reader of the batches that next returns. With each batch,
// next passes one reference to the reader. After the last batch, next returns
// io.EOF. It is not called again after an error. closing is called at the reader's
// last Release, unless it is nil. A batch is valid until the next call of Next, unless
// it is retained. If schema or next is nil, the reader has no batch, and its error
// wraps arrow.ErrInvalid.
func NewReaderFunc(schema *arrow.Schema, next func() (arrow.RecordBatch, error), closing func()) array.RecordReader {
	if schema == nil || next == nil {
		schema, next = arrow.NewSchema(nil, nil), func() (arrow.RecordBatch, error) {
			return nil, fmt.Errorf("arrowbuf.NewReaderFunc: nil schema or function: %w", arrow.ErrInvalid)
		}
	}
	r := &funcReader{schema: schema, next: next, close: closing}
	r.refs.Store(1)
	return r
}

// NewReader returns a reader that copies the batches of another reader to a device,
// as CopyTo does. It holds a reference to from. A dictionary that is the same object
// as in the previous batch is not copied again: the batches share the copy. A batch
// is valid until the next call of Next, unless it is retained. The reader's errors
// are those of CopyTo and of from.
func NewReader(from array.RecordReader, dev Device) (array.RecordReader, error) {
	if isNil(dev) {
		return nil, errors.New("arrowbuf.NewReader: nil device")
	}
	if isNil(from) {
		return nil, fmt.Errorf("arrowbuf.NewReader: nil reader: %w", arrow.ErrInvalid)
	}
	from.Retain()
	cache := dictionaryCache{}
	return NewReaderFunc(from.Schema(), func() (arrow.RecordBatch, error) {
		if !from.Next() {
			if err := from.Err(); err != nil {
				return nil, err
			}
			return nil, io.EOF
		}
		return copyBatch(from.RecordBatch(), dev, copier{cache: &cache})
	}, func() {
		cache.release()
		from.Release()
	}), nil
}

// MapReader returns a reader of the batches that f makes of those of another reader, in
// order. It holds a reference to from. f passes one reference to each result; its
// argument is the reader's. A batch is valid until the next call of Next, unless it is
// retained.
//
// All results must have one schema. To know it, MapReader calls f for the first batch at
// once. If from has no batch, it calls f for a batch of no rows on the host. The reader's
// errors are those of f and of from, and one wrapping arrow.ErrInvalid for a result of another
// schema.
func MapReader(from array.RecordReader, f func(arrow.RecordBatch) (arrow.RecordBatch, error)) (array.RecordReader, error) {
	if isNil(from) || f == nil {
		return nil, fmt.Errorf("arrowbuf.MapReader: nil reader or function: %w", arrow.ErrInvalid)
	}
	more := from.Next()
	if err := from.Err(); err != nil {
		return nil, err
	}
	var first arrow.RecordBatch
	var err error
	if more {
		first, err = f(from.RecordBatch())
	} else {
		rows := array.NewRecordBuilder(memory.DefaultAllocator, from.Schema())
		defer rows.Release()
		none := rows.NewRecordBatch()
		defer none.Release()
		first, err = f(none)
	}
	if err == nil && first == nil {
		err = fmt.Errorf("arrowbuf.MapReader: the function returned nil: %w", arrow.ErrInvalid)
	}
	if err != nil {
		return nil, err
	}
	from.Retain()
	schema := first.Schema()
	if !more {
		first.Release()
		first = nil
	}
	m := &mappedReader{from: from, f: f, schema: schema, first: first}
	return NewReaderFunc(schema, m.next, m.close), nil
}

// mappedReader is the state of a reader of MapReader.
type mappedReader struct {
	from   array.RecordReader
	f      func(arrow.RecordBatch) (arrow.RecordBatch, error)
	schema *arrow.Schema
	first  arrow.RecordBatch // nil after it was returned
}

func (m *mappedReader) next() (arrow.RecordBatch, error) {
	if first := m.first; first != nil {
		m.first = nil
		return first, nil
	}
	if !m.from.Next() {
		if err := m.from.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	batch, err := m.f(m.from.RecordBatch())
	switch {
	case err != nil:
		return nil, err
	case batch == nil:
		return nil, fmt.Errorf("arrowbuf.MapReader: the function returned nil: %w", arrow.ErrInvalid)
	case !batch.Schema().Equal(m.schema):
		batch.Release()
		return nil, fmt.Errorf("arrowbuf.MapReader: schema of a result: got %v, want %v: %w", batch.Schema(), m.schema, arrow.ErrInvalid)
	}
	return batch, nil
}

func (m *mappedReader) close() {
	if m.first != nil {
		m.first.Release()
	}
	m.from.Release()
}

// funcReader implements NewReaderFunc.
type funcReader struct {
	refs   atomic.Int64
	schema *arrow.Schema
	next   func() (arrow.RecordBatch, error)
	close  func()
	batch  arrow.RecordBatch
	err    error
}

var _ array.RecordReader = (*funcReader)(nil)

func (r *funcReader) Schema() *arrow.Schema          { return r.schema }
func (r *funcReader) RecordBatch() arrow.RecordBatch { return r.batch }
func (r *funcReader) Record() arrow.RecordBatch      { return r.batch }

func (r *funcReader) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}

func (r *funcReader) Next() bool {
	r.releaseBatch()
	if r.err == nil {
		r.batch, r.err = r.next()
	}
	return r.err == nil
}

func (r *funcReader) releaseBatch() {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
}

func (r *funcReader) Retain() {
	if r.refs.Add(1) <= 1 {
		r.refs.Add(-1)
		panic(fmt.Errorf("arrowbuf.NewReaderFunc: Retain: %w", ErrReleased))
	}
}

func (r *funcReader) Release() {
	switch n := r.refs.Add(-1); {
	case n == 0:
		r.releaseBatch()
		if r.close != nil {
			r.close()
		}
	case n < 0:
		panic(fmt.Errorf("arrowbuf.NewReaderFunc: Release: %w", ErrReleased))
	}
}

// dictionaryCache maps the dictionaries of the previous batch to their copies on the
// device. It holds a reference to each.
type dictionaryCache map[*array.Data]*array.Data

// replace keeps the dictionaries of arrays and releases the others.
func (d *dictionaryCache) replace(cuts []slicedArray) {
	next := dictionaryCache{}
	for i := range cuts {
		cuts[i].collectDictionaries(next)
	}
	for source, copied := range next {
		source.Retain()
		copied.Retain()
	}
	d.release()
	*d = next
}

func (d *dictionaryCache) release() {
	for source, copied := range *d {
		source.Release()
		copied.Release()
	}
	*d = nil
}

// collectDictionaries adds the dictionaries of an assembled array to all.
func (out *slicedArray) collectDictionaries(all dictionaryCache) {
	if d := out.dictionary; d != nil {
		all[d.source] = d.built
		d.collectDictionaries(all)
	}
	for i := range out.children {
		out.children[i].collectDictionaries(all)
	}
}
