package source

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// ReaderName stands for the input of ConvertReader in reports and errors.
const ReaderName = "record reader"

// readerSource reads the batches of a record reader.
type readerSource struct {
	reader array.RecordReader
	fields []int
	chosen *arrow.Schema
	cutter RowCutter
	bytes  int64 // of batches so far
}

// NewReader returns a source of the batches of a reader, which the caller owns.
func NewReader(r array.RecordReader) Source { return &readerSource{reader: r} }

func (s *readerSource) Info() Info {
	return Info{Format: "Arrow record batches", Schema: s.reader.Schema(), Rows: -1, Fingerprint: ReaderName}
}

func (s *readerSource) Position() (done, total int64) { return s.bytes, -1 }
func (s *readerSource) Close() error                  { return nil } // the caller owns the reader

// Interrupt returns true, because the caller cannot release the reader before its Next
// has returned.
func (s *readerSource) Interrupt() bool { return true }

func (s *readerSource) Count(context.Context) (Counts, error) {
	return Counts{}, fmt.Errorf("a record reader can be read only once: %w", errors.ErrUnsupported)
}

func (s *readerSource) Open(_ context.Context, fields []int, rows RowRange) error {
	s.fields, s.chosen, s.cutter = fields, arrowdata.SelectSchema(s.reader.Schema(), fields), NewRowCutter(rows)
	return nil
}

func (s *readerSource) Next() (b Batch, err error) {
	for b.Record == nil && err == nil {
		if s.cutter.Done() {
			return b, io.EOF
		}
		err = arrowdata.CatchPanic(func() error {
			if !s.reader.Next() {
				if err := s.reader.Err(); err != nil {
					return err
				}
				return io.EOF
			}
			batch := s.reader.RecordBatch()
			if !batch.Schema().Equal(s.reader.Schema()) {
				return fmt.Errorf("a batch of another schema than the reader's: %v, expected %v", batch.Schema(), s.reader.Schema())
			}
			batch.Retain()
			b.Record = s.cutter.Cut(arrowdata.SelectColumns(batch, s.chosen, s.fields))
			return nil
		})
	}
	if b.Record != nil {
		b.Bytes = arrowdata.BatchBytes(b.Record, arrowdata.BufferLen)
		s.bytes += b.Bytes
	}
	return b, err
}
