package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// readerName stands for the input of ConvertReader in reports and errors.
const readerName = "record reader"

// readerSource reads the batches of a record reader.
type readerSource struct {
	reader array.RecordReader
	fields []int
	chosen *arrow.Schema
	cutter rowCutter
	bytes  int64 // of batches so far
}

// newReaderSource returns a source of the batches of a reader, which the caller owns.
func newReaderSource(r array.RecordReader) source { return &readerSource{reader: r} }

func (s *readerSource) format() string                { return "Arrow record batches" }
func (s *readerSource) schema() *arrow.Schema         { return s.reader.Schema() }
func (s *readerSource) rows() int64                   { return -1 }
func (s *readerSource) mapping() *mapping             { return nil }
func (s *readerSource) fingerprint() string           { return readerName }
func (s *readerSource) position() (done, total int64) { return s.bytes, -1 }
func (s *readerSource) close() error                  { return nil } // the caller owns the reader

// interrupt returns true, because the caller cannot release the reader before its Next
// has returned.
func (s *readerSource) interrupt() bool { return true }

func (s *readerSource) count(context.Context) (int64, error) {
	return 0, fmt.Errorf("a record reader can be read only once: %w", errors.ErrUnsupported)
}

func (s *readerSource) nulls(ctx context.Context) ([]int64, error) {
	_, err := s.count(ctx)
	return nil, err
}

func (s *readerSource) open(_ context.Context, fields []int, rows rowRange) error {
	s.fields, s.chosen, s.cutter = fields, selectSchema(s.schema(), fields), newRowCutter(rows)
	return nil
}

func (s *readerSource) next() (b sourceBatch, err error) {
	for b.batch == nil && err == nil {
		if s.cutter.done() {
			return b, io.EOF
		}
		err = catchPanic(func() error {
			if !s.reader.Next() {
				if err := s.reader.Err(); err != nil {
					return err
				}
				return io.EOF
			}
			batch := s.reader.RecordBatch()
			if !batch.Schema().Equal(s.schema()) {
				return fmt.Errorf("a batch of another schema than the reader's: %v, expected %v", batch.Schema(), s.schema())
			}
			batch.Retain()
			b.batch = s.cutter.cut(selectColumns(batch, s.chosen, s.fields))
			return nil
		})
	}
	if b.batch != nil {
		b.bytes = batchBytes(b.batch, bufferLen)
		s.bytes += b.bytes
	}
	return b, err
}
