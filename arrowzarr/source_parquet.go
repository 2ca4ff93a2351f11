package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// parquetSource reads a Parquet file as record batches, columns in parallel.
type parquetSource struct {
	path     string
	size     int64
	reader   *file.Reader
	arrow    *pqarrow.FileReader
	whole    *arrow.Schema
	batches  pqarrow.RecordReader
	total    int64
	consumed int64
}

func newParquetSource(path string, input *os.File, size int64, r reading) (source, error) {
	s := &parquetSource{path: path, size: size}
	err := protect(func() (err error) {
		mem := &limited{Allocator: r.mem, limit: r.limit}
		properties := parquet.NewReaderProperties(mem)
		// A column chunk is read in pieces: row groups may be larger than the
		// memory that a conversion may take.
		properties.BufferedStreamEnabled = true
		properties.BufferSize = 1 << 20
		s.reader, err = file.NewParquetReader(input, file.WithReadProps(properties))
		if err != nil {
			return err
		}
		s.arrow, err = pqarrow.NewFileReader(s.reader, pqarrow.ArrowReadProperties{Parallel: true, BatchSize: r.batchRows}, mem)
		if err != nil {
			return err
		}
		s.whole, err = s.arrow.Schema()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: Parquet file: %w", path, err)
	}
	s.total = s.reader.NumRows()
	return s, nil
}

func (s *parquetSource) format() string        { return "Parquet" }
func (s *parquetSource) schema() *arrow.Schema { return s.whole }
func (s *parquetSource) rows() int64           { return s.total }

func (s *parquetSource) open(ctx context.Context, fields []int) error {
	if len(fields) == 0 || s.total == 0 {
		return nil
	}
	return protect(func() (err error) {
		var leaves []int
		for _, f := range fields {
			leaves = appendLeaves(leaves, s.arrow.Manifest.Fields[f])
		}
		s.batches, err = s.arrow.GetRecordReader(ctx, leaves, nil)
		return err
	})
}

// appendLeaves lists the Parquet columns that make up one Arrow field.
func appendLeaves(leaves []int, field pqarrow.SchemaField) []int {
	if field.IsLeaf() {
		return append(leaves, field.ColIndex)
	}
	for _, child := range field.Children {
		leaves = appendLeaves(leaves, child)
	}
	return leaves
}

func (s *parquetSource) next() (l loan, err error) {
	if s.batches == nil {
		return loan{}, io.EOF
	}
	err = protect(func() error {
		batch, err := s.batches.Read()
		if err != nil {
			return err
		}
		batch.Retain()
		l = loan{batch: batch, bytes: batchBytes(batch, nil)}
		return nil
	})
	switch {
	case errors.Is(err, io.EOF) && s.consumed == s.total:
		return loan{}, io.EOF
	case errors.Is(err, io.EOF):
		return loan{}, fmt.Errorf("the file ends after %d of %d rows: %w", s.consumed, s.total, io.ErrUnexpectedEOF)
	case err != nil:
		return loan{}, fmt.Errorf("after row %d: %w", s.consumed, err)
	}
	s.consumed += l.batch.NumRows()
	return l, nil
}

func (s *parquetSource) drop([]byte) {}

func (s *parquetSource) position() (int64, int64) {
	if s.total == 0 {
		return s.size, s.size
	}
	return int64(float64(s.size) * (float64(s.consumed) / float64(s.total))), s.size
}

func (s *parquetSource) close() error {
	return protect(func() error {
		if s.batches != nil {
			s.batches.Release()
		}
		return s.reader.Close()
	})
}
