package arrowbuf

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// NewChunkedSlice returns elements [i, j) of a chunked array on any device
// without a copy, as array.NewChunkedSlice does for those of the host. It panics
// if they are out of range.
func NewChunkedSlice(c *arrow.Chunked, i, j int64) *arrow.Chunked {
	if i < 0 || j < i || j > int64(c.Len()) {
		panic(fmt.Errorf("arrowbuf: elements [%d, %d) of a chunked array of %d: %w", i, j, c.Len(), ErrOutOfRange))
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

// CopyChunkedTo returns a chunked array that lives on a device, as CopyTo does
// for the columns of a batch. The caller owns one reference to it.
func CopyChunkedTo(c *arrow.Chunked, dev Device) (*arrow.Chunked, error) {
	if dev == nil {
		return nil, errors.New("copying a chunked array: there is no device")
	}
	chunks, err := copyArrays(c.Chunks(), dev, func(i int) string { return fmt.Sprintf("chunk %d, ", i) })
	if err != nil {
		return nil, err
	}
	defer releaseAll(chunks)
	return arrow.NewChunked(c.DataType(), chunks), nil
}

// CopyTableTo returns a table whose columns live on a device, as CopyTo does for
// a batch, except that each column gets an allocation of its own. The caller
// owns one reference to the result. It is arrow-go's own table: all its methods
// are safe, but array.NewTableReader and array.NewColumnSlice are for the host;
// NewTableReader and NewChunkedSlice are for any device.
func CopyTableTo(t arrow.Table, dev Device) (arrow.Table, error) {
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
