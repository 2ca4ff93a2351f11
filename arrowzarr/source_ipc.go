package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

func ipcOptions(r reading) []ipc.Option {
	return []ipc.Option{
		ipc.WithAllocator(&limited{Allocator: r.mem, limit: r.limit}),
		ipc.WithBodySizeLimit(r.limit),
	}
}

// project keeps some columns of a batch that it takes over.
func project(batch arrow.RecordBatch, schema *arrow.Schema, fields []int) arrow.RecordBatch {
	defer batch.Release()
	columns := make([]arrow.Array, len(fields))
	for i, f := range fields {
		columns[i] = batch.Column(f)
	}
	return array.NewRecordBatch(schema, columns, batch.NumRows())
}

func selectFields(schema *arrow.Schema, fields []int) *arrow.Schema {
	chosen := make([]arrow.Field, len(fields))
	for i, f := range fields {
		chosen[i] = schema.Field(f)
	}
	metadata := schema.Metadata()
	return arrow.NewSchema(chosen, &metadata)
}

// fileSource reads an Arrow IPC file (Feather version 2), either through a
// mapping of the page cache or by reading into an allocator's memory.
type fileSource struct {
	file   *os.File
	size   int64
	mapped *mapping // nil when read by copies
	reader *ipc.FileReader
	// batches is their number, from the footer, which lies in the mapping.
	batches int
	fields  []int
	chosen  *arrow.Schema
	at      int
}

func newFileSource(path string, file *os.File, size int64, r reading) (source, error) {
	s := &fileSource{file: file, size: size}
	err := protect(func() (err error) {
		swapped, err := arrowipc.CheckFile(file, size)
		if err != nil {
			return err
		}
		s.reader, err = ipc.NewFileReader(wideReader{file, file, r.jobs}, ipcOptions(r)...)
		// arrow-go's reader of mapped files cannot hold dictionaries, nor turn
		// bytes around.
		if err != nil || !r.mapped || swapped || slices.ContainsFunc(s.reader.Schema().Fields(), hasDictionary) {
			return err
		}
		if err := s.reader.Close(); err != nil {
			return err
		}
		if s.mapped, err = newMapping(file, size); err != nil {
			return err
		}
		// A mapped batch may be of any size: it is looked at span by span.
		s.reader, err = ipc.NewMappedFileReader(s.mapped.bytes, append(ipcOptions(r), ipc.WithBodySizeLimit(0))...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: Arrow IPC file: %w", path, errors.Join(err, s.mapped.close()))
	}
	s.batches = s.reader.NumRecords()
	return s, nil
}

// hasDictionary tells whether a field, or one inside it, is a dictionary.
func hasDictionary(field arrow.Field) bool {
	t := storage(field.Type)
	if nested, ok := t.(arrow.NestedType); ok {
		return slices.ContainsFunc(nested.Fields(), hasDictionary)
	}
	return t.ID() == arrow.DICTIONARY
}

func (s *fileSource) format() string        { return "Arrow IPC file" }
func (s *fileSource) schema() *arrow.Schema { return s.reader.Schema() }

// rows is not in the footer, and counting would read every batch's metadata.
func (s *fileSource) rows() int64 { return -1 }

func (s *fileSource) open(_ context.Context, fields []int) error {
	s.fields, s.chosen = fields, selectFields(s.schema(), fields)
	return nil
}

func (s *fileSource) next() (l loan, err error) {
	if s.at >= s.batches {
		return loan{}, io.EOF
	}
	err = protect(func() error {
		batch, err := s.reader.RecordBatchAt(s.at)
		if err != nil {
			return err
		}
		l.batch = project(batch, s.chosen, s.fields)
		l.bytes = batchBytes(l.batch, s.mapped.beside)
		if l.bytes > 0 && s.mapped != nil {
			s.mapped.clear(s.mapped.bytes) // decompressing is done with what it read
		}
		return nil
	})
	if err != nil {
		return loan{}, fmt.Errorf("record batch %d: %w", s.at, err)
	}
	s.at++
	return l, nil
}

func (s *fileSource) position() (int64, int64) {
	n := int64(s.batches)
	if n == 0 {
		return s.size, s.size
	}
	return s.size / n * int64(s.at), s.size
}

func (s *fileSource) mapping() *mapping { return s.mapped }

func (s *fileSource) interrupt() bool { return true }

func (s *fileSource) close() error {
	return errors.Join(protect(s.reader.Close), s.mapped.close(), s.file.Close())
}

// streamSource reads an Arrow IPC stream.
type streamSource struct {
	name   string
	input  *countingReader
	size   int64
	reader *ipc.Reader
	fields []int
	chosen *arrow.Schema
	at     int
}

func newStreamSource(name string, file *os.File, size int64, r reading) (source, error) {
	s := &streamSource{name: name, input: &countingReader{file: file}, size: size}
	err := protect(func() (err error) {
		in := &messages{input: s.input, mem: &limited{Allocator: r.mem, limit: r.limit}, limit: r.limit}
		s.reader, err = ipc.NewReaderFromMessageReader(in, ipcOptions(r)...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: Arrow IPC stream: %w", name, err)
	}
	return s, nil
}

func (s *streamSource) format() string        { return "Arrow IPC stream" }
func (s *streamSource) schema() *arrow.Schema { return s.reader.Schema() }
func (s *streamSource) rows() int64           { return -1 }

func (s *streamSource) open(_ context.Context, fields []int) error {
	s.fields, s.chosen = fields, selectFields(s.schema(), fields)
	return nil
}

func (s *streamSource) next() (l loan, err error) {
	err = protect(func() error {
		if !s.reader.Next() {
			if err := s.reader.Err(); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			return io.EOF
		}
		batch := s.reader.RecordBatch()
		batch.Retain()
		l.batch = project(batch, s.chosen, s.fields)
		l.bytes = batchBytes(l.batch, filled)
		return nil
	})
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return loan{}, io.EOF
	}
	if err != nil {
		return loan{}, fmt.Errorf("record batch %d: %w", s.at, err)
	}
	s.at++
	return l, nil
}

func (s *streamSource) mapping() *mapping { return nil }

func (s *streamSource) position() (int64, int64) { return s.input.n.Load(), s.size }

func (s *streamSource) interrupt() bool {
	return s.size >= 0 || s.input.file.SetReadDeadline(time.Unix(1, 0)) == nil
}

func (s *streamSource) close() error {
	err := protect(func() error { s.reader.Release(); return nil })
	return errors.Join(err, s.input.file.Close())
}
