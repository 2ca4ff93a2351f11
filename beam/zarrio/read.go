package zarrio

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// Table is what Read reads.
type Table struct {
	// Location is the path or URL of the table.
	Location string
	// Columns are names or patterns, as of arrowzarr.Table.Read. None means all.
	Columns []string
	// Rows is the number of rows that a worker reads at once, at least 1. Whole chunks are
	// read and decoded, so a multiple of the rows of a chunk or shard is best.
	Rows int64
}

// Check returns an error if the table cannot be read.
func (t Table) Check() error {
	if t.Location == "" {
		return errors.New("zarrio.Read: no location")
	}
	if t.Rows < 1 {
		return fmt.Errorf("zarrio.Read: %d rows at once: expected at least 1", t.Rows)
	}
	return nil
}

// Read returns the rows of a table when the pipeline runs, as a collection of
// KV<int64, []byte>: the number of the first row, and an Arrow IPC stream of it and the
// rows after it. It panics if Table.Check returns an error, as transforms do.
func Read(s beam.Scope, t Table) beam.PCollection {
	if err := t.Check(); err != nil {
		panic(err)
	}
	s = s.Scope("zarrio.Read")
	return beam.ParDo(s, &readFn{Table: t}, beam.Reshuffle(s, beam.ParDo(s, &splitFn{Table: t}, beam.Impulse(s))))
}

// splitFn emits the first rows of ranges of rows.
type splitFn struct{ Table Table }

func (f *splitFn) ProcessElement(ctx context.Context, _ []byte, emit func(int64)) (err error) {
	t, err := arrowzarr.OpenTable(ctx, f.Table.Location, arrowzarr.TableOptions{})
	if err != nil {
		return err
	}
	for first := int64(0); first < t.NumRows(); first += f.Table.Rows {
		emit(first)
	}
	return t.Close()
}

// readFn emits the rows of a range. It keeps the table open, since opening it reads the
// metadata of all arrays.
type readFn struct {
	Table Table

	open *arrowzarr.Table
}

func (f *readFn) ProcessElement(ctx context.Context, first int64, emit func(int64, []byte)) error {
	if f.open == nil {
		open, err := arrowzarr.OpenTable(ctx, f.Table.Location, arrowzarr.TableOptions{})
		if err != nil {
			return err
		}
		f.open = open
	}
	stream, err := f.read(ctx, first)
	if err != nil {
		return fmt.Errorf("rows from %d on of %s: %w", first, f.Table.Location, err)
	}
	emit(first, stream)
	return nil
}

func (f *readFn) read(ctx context.Context, first int64) ([]byte, error) {
	end := min(first+f.Table.Rows, f.open.NumRows())
	r, err := f.open.Reader(ctx, first, end, f.Table.Columns...)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(r.Schema()))
	for r.Next() {
		if err := w.Write(r.RecordBatch()); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	if err := errors.Join(r.Err(), w.Close()); err != nil {
		return nil, err
	}
	return stream.Bytes(), nil
}

func (f *readFn) Teardown() error {
	if f.open == nil {
		return nil
	}
	open := f.open
	f.open = nil
	return open.Close()
}

func init() {
	register.DoFn3x1[context.Context, []byte, func(int64), error](&splitFn{})
	register.DoFn3x1[context.Context, int64, func(int64, []byte), error](&readFn{})
	register.Emitter2[int64, []byte]()
}
