package arrowbuf

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// reader is that of NewReaderFunc.
type reader struct {
	refs   atomic.Int64
	schema *arrow.Schema
	next   func() (arrow.RecordBatch, error)
	close  func()
	batch  arrow.RecordBatch
	err    error
}

var _ array.RecordReader = (*reader)(nil)

// NewReaderFunc returns a reader of the batches that a function gives: next hands
// over a reference to each, and answers io.EOF after the last; closing is called
// with the reader's last Release. Its batches are valid until the next, unless
// they are retained. After an error, next is not called again.
func NewReaderFunc(schema *arrow.Schema, next func() (arrow.RecordBatch, error), closing func()) array.RecordReader {
	r := &reader{schema: schema, next: next, close: closing}
	r.refs.Store(1)
	return r
}

func (r *reader) Schema() *arrow.Schema          { return r.schema }
func (r *reader) RecordBatch() arrow.RecordBatch { return r.batch }
func (r *reader) Record() arrow.RecordBatch      { return r.batch }

func (r *reader) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}

func (r *reader) Next() bool {
	r.drop()
	if r.err == nil {
		r.batch, r.err = r.next()
	}
	return r.err == nil
}

func (r *reader) drop() {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
}

func (r *reader) Retain() {
	if r.refs.Add(1) <= 1 {
		r.refs.Add(-1)
		panic(fmt.Errorf("arrowbuf: Retain of a reader: %w", ErrReleased))
	}
}

func (r *reader) Release() {
	switch n := r.refs.Add(-1); {
	case n == 0:
		r.drop()
		r.close()
	case n < 0:
		panic(fmt.Errorf("arrowbuf: Release of a reader: %w", ErrReleased))
	}
}

// NewReader returns a reader of the batches of another one, which it copies to
// a device by CopyTo and takes a reference to. Dictionaries that did not change
// since the last batch, as they do not in most streams, are not copied again:
// the batches share them. Its batches are valid until the next, unless they are
// retained; its errors are those of CopyTo and of the other reader.
func NewReader(from array.RecordReader, dev Device) (array.RecordReader, error) {
	if dev == nil {
		return nil, errors.New("copying record batches: there is no device")
	}
	if from == nil {
		return nil, fmt.Errorf("copying record batches: there is no reader: %w", arrow.ErrInvalid)
	}
	from.Retain()
	there := dictionaries{}
	return NewReaderFunc(from.Schema(), func() (arrow.RecordBatch, error) {
		if !from.Next() {
			if err := from.Err(); err != nil {
				return nil, err
			}
			return nil, io.EOF
		}
		return copyBatch(from.RecordBatch(), dev, copying{there: &there})
	}, func() {
		there.release()
		from.Release()
	}), nil
}

// dictionaries are those of the last batch, with the copies that were made of
// them on a device.
type dictionaries map[*array.Data]*array.Data

// replace keeps the dictionaries of cuts, and forgets the others.
func (d *dictionaries) replace(cuts []cut) {
	next := dictionaries{}
	for i := range cuts {
		cuts[i].collect(next)
	}
	for source, copied := range next {
		source.Retain()
		copied.Retain()
	}
	d.release()
	*d = next
}

func (d *dictionaries) release() {
	for source, copied := range *d {
		source.Release()
		copied.Release()
	}
	*d = nil
}

// collect adds the dictionaries of a cut that was built.
func (out *cut) collect(all dictionaries) {
	if d := out.dictionary; d != nil {
		all[d.source] = d.built
		d.collect(all)
	}
	for i := range out.children {
		out.children[i].collect(all)
	}
}
