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

// NewTableReader returns a reader of the rows of a table on any device, in
// batches of the largest number of rows, rows at most where that is positive,
// that need no copy. Its batches are valid until the next, unless they are
// retained.
func NewTableReader(t arrow.Table, rows int64) array.RecordReader {
	t.Retain()
	walks := make([]walk, t.NumCols())
	for i := range walks {
		walks[i].chunks = t.Column(i).Data().Chunks()
	}
	done := int64(0)
	return NewReaderFunc(t.Schema(), func() (arrow.RecordBatch, error) {
		if done >= t.NumRows() {
			return nil, io.EOF
		}
		n := t.NumRows() - done
		if rows > 0 {
			n = min(n, rows)
		}
		for i := range walks {
			n = min(n, walks[i].left())
		}
		columns := make([]arrow.Array, len(walks))
		for i := range walks {
			columns[i] = walks[i].take(n)
		}
		defer releaseAll(columns)
		done += n
		return NewRecordBatch(t.Schema(), columns, n)
	}, t.Release)
}

// walk is a position in chunks.
type walk struct {
	chunks []arrow.Array
	at     int64 // in the first
}

// left is how many elements of the chunk are left; empty chunks are left behind.
func (w *walk) left() int64 {
	for int64(w.chunks[0].Len()) == w.at {
		w.chunks, w.at = w.chunks[1:], 0
	}
	return int64(w.chunks[0].Len()) - w.at
}

func (w *walk) take(n int64) arrow.Array {
	w.at += n
	return NewSlice(w.chunks[0], w.at-n, w.at)
}
