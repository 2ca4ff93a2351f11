package arrowzarr

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/inputs"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/parquet"
)

// SourceFacts is what a source says without reading values.
type SourceFacts struct {
	Schema      *arrow.Schema
	Rows        int64
	Count       int64
	Nulls       []int64
	Fingerprint string
}

// TestInput are the input options of the sources that tests open.
var TestInput InputOptions

// TestMaxBuffer is the largest buffer of the sources that tests open.
var TestMaxBuffer int64 = 64 << 20

func openTestSource(names ...string) (source.Source, error) {
	return inputs.Open(context.Background(), names, testSourceOptions())
}

func testSourceOptions() source.Options {
	return source.Options{Text: TestInput.text(), Allocator: arrowbuf.CPU().HostAllocator(), AllowMapping: true, MaxBuffer: TestMaxBuffer, BatchRows: 7, Jobs: 2}
}

// DescribeSource returns what a source says without reading values.
func DescribeSource(inputs ...string) (f SourceFacts, err error) {
	src, err := openTestSource(inputs...)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	info := src.Info()
	f = SourceFacts{Schema: info.Schema, Rows: info.Rows, Fingerprint: info.Fingerprint}
	counts, err := src.Count(context.Background())
	f.Count, f.Nulls = counts.Rows, counts.Nulls
	return f, err
}

// ReadSource calls visit for each batch of a range of rows of a source.
func ReadSource(inputs []string, fields []int, from, to int64, visit func(arrow.RecordBatch)) (err error) {
	src, err := openTestSource(inputs...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if err := src.Open(context.Background(), fields, source.RowRange{From: from, To: to}); err != nil {
		return err
	}
	for {
		b, err := src.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := countNulls(b.Record); err != nil {
			return err
		}
		visit(b.Record)
		b.Record.Release()
	}
}

// SchemaOfSource returns the schema of a source.
func SchemaOfSource(inputs ...string) (*arrow.Schema, error) {
	src, err := openTestSource(inputs...)
	if err != nil {
		return nil, err
	}
	return src.Info().Schema, src.Close()
}

// ReadAsConvert reads an input as Convert reads it, and returns the size of its batches.
func ReadAsConvert(input string) (bytes int64, err error) {
	options, err := Options{}.withDefaults()
	if err != nil {
		return 0, err
	}
	debug.SetMemoryLimit(options.GoMemoryLimit())
	src, err := openInput(context.Background(), input, options, &hostAllocator{Allocator: options.Device.HostAllocator()})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	fields := make([]int, src.Info().Schema.NumFields())
	for i := range fields {
		fields[i] = i
	}
	if err := src.Open(context.Background(), fields, source.WholeInput); err != nil {
		return 0, err
	}
	for {
		b, err := src.Next()
		if errors.Is(err, io.EOF) {
			return bytes, nil
		}
		if err != nil {
			return 0, err
		}
		bytes += arrowdata.BatchBytes(b.Record, arrowdata.BufferLen)
		b.Record.Release()
	}
}

// TargetRows returns the most rows of a batch that a table's reader returns by default.
func (t *Table) TargetRows(ctx context.Context) (int64, error) { return t.targetRows(ctx) }

// WriteParquet writes the table as Restore does.
func (t *Table) WriteParquet(ctx context.Context, w io.Writer) error { return t.writeParquet(ctx, w) }

// StripSizes returns the bytes of each strip of chunks of some rows, as a Parquet file in a
// store is read.
func StripSizes(path string, rows int64) (sizes []int64, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := parquet.Open(source.NewRemoteFile(path, int64(len(content)), "", bytes.NewReader(content)), testSourceOptions())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	chosen, err := chooseColumns(p.Info().Schema, Options{})
	if err != nil {
		return nil, err
	}
	p.AllowStrips(&stripSizer{columns: chosen.plans, grid: rowGrid{chunkRows: rows}})
	if err := p.Open(context.Background(), chosen.fields, source.WholeInput); err != nil {
		return nil, err
	}
	for {
		b, err := p.Next()
		if errors.Is(err, io.EOF) {
			return sizes, nil
		}
		if err != nil {
			return sizes, err
		}
		if b.Strip == nil {
			return sizes, errors.New("a batch that is no strip")
		}
		sizes = append(sizes, b.Bytes)
		b.Record.Release()
	}
}
