package arrowbuf

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// NewChunkedSlice returns elements [i, j) of a chunked array on any device without a
// copy, as array.NewChunkedSlice does on the host. It panics if they are out of range
// or c is nil. The caller owns one reference to the result.
func NewChunkedSlice(c *arrow.Chunked, i, j int64) *arrow.Chunked {
	if c == nil {
		panic(fmt.Errorf("arrowbuf.NewChunkedSlice: nil chunked array: %w", arrow.ErrInvalid))
	}
	if i < 0 || j < i || j > int64(c.Len()) {
		panic(fmt.Errorf("arrowbuf.NewChunkedSlice: elements [%d, %d) of %d: %w", i, j, c.Len(), ErrOutOfRange))
	}
	var parts []arrow.Array
	defer func() { releaseAll(parts) }()
	start := int64(0)
	for _, chunk := range c.Chunks() {
		end := start + int64(chunk.Len())
		if from, to := max(i, start), min(j, end); from < to {
			parts = append(parts, NewSlice(chunk, from-start, to-start))
		}
		start = end
	}
	return arrow.NewChunked(c.DataType(), parts)
}

// CopyChunkedTo returns a chunked array on a device, copied as CopyTo copies the
// columns of a batch. The caller owns one reference to the result.
func CopyChunkedTo(c *arrow.Chunked, dev Device) (*arrow.Chunked, error) {
	if isNil(dev) {
		return nil, errors.New("arrowbuf.CopyChunkedTo: nil device")
	}
	if c == nil {
		return nil, fmt.Errorf("arrowbuf.CopyChunkedTo: nil chunked array: %w", arrow.ErrInvalid)
	}
	chunks, err := copyArraysTo(c.Chunks(), dev, func(i int) string { return fmt.Sprintf("chunk %d, ", i) })
	if err != nil {
		return nil, err
	}
	defer releaseAll(chunks)
	return arrow.NewChunked(c.DataType(), chunks), nil
}

// CopyTableTo returns a table whose columns are on a device. It copies as CopyTo
// does, with one allocation per column. The caller owns one reference to the result.
// The result is arrow-go's own table. All its methods are safe, but
// array.NewTableReader and array.NewColumnSlice are not; use NewTableReader and
// NewChunkedSlice instead.
func CopyTableTo(t arrow.Table, dev Device) (arrow.Table, error) {
	if isNil(dev) {
		return nil, errors.New("arrowbuf.CopyTableTo: nil device")
	}
	if isNil(t) {
		return nil, fmt.Errorf("arrowbuf.CopyTableTo: nil table: %w", arrow.ErrInvalid)
	}
	columns := make([]arrow.Column, 0, t.NumCols())
	defer func() {
		for i := range columns {
			columns[i].Release()
		}
	}()
	for i := range int(t.NumCols()) {
		column := t.Column(i)
		chunks, err := CopyChunkedTo(column.Data(), dev)
		if err != nil {
			return nil, fmt.Errorf("column %d, %q, %w", i, column.Name(), err)
		}
		columns = append(columns, *arrow.NewColumn(column.Field(), chunks))
		chunks.Release()
	}
	return array.NewTable(t.Schema(), columns, t.NumRows()), nil
}

// NewTableReader returns a reader of the rows of a table on any device. Each batch
// has as many rows as the chunks allow without a copy, and at most rows if rows is
// positive. A batch is valid until the next call of Next, unless it is retained. If t
// is nil, the reader has no batch, and its error wraps arrow.ErrInvalid.
func NewTableReader(t arrow.Table, rows int64) array.RecordReader {
	if isNil(t) {
		return NewReaderFunc(arrow.NewSchema(nil, nil), func() (arrow.RecordBatch, error) {
			return nil, fmt.Errorf("arrowbuf.NewTableReader: nil table: %w", arrow.ErrInvalid)
		}, nil)
	}
	t.Retain()
	cursors := make([]chunkCursor, t.NumCols())
	for i := range cursors {
		cursors[i].chunks = t.Column(i).Data().Chunks()
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
		for i := range cursors {
			n = min(n, cursors[i].remaining())
		}
		columns := make([]arrow.Array, len(cursors))
		for i := range cursors {
			columns[i] = cursors[i].next(n)
		}
		defer releaseAll(columns)
		done += n
		return NewRecordBatch(t.Schema(), columns, n)
	}, t.Release)
}

// chunkCursor is a position in the chunks of a column.
type chunkCursor struct {
	chunks []arrow.Array
	offset int64 // in the first chunk
}

// remaining skips exhausted chunks, and returns the number of elements that the
// current chunk still has.
func (w *chunkCursor) remaining() int64 {
	for int64(w.chunks[0].Len()) == w.offset {
		w.chunks, w.offset = w.chunks[1:], 0
	}
	return int64(w.chunks[0].Len()) - w.offset
}

// next returns the next n elements of the current chunk.
func (w *chunkCursor) next(n int64) arrow.Array {
	w.offset += n
	return NewSlice(w.chunks[0], w.offset-n, w.offset)
}
