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

func openTestSource(names ...string) (source, error) {
	return openInputs(context.Background(), names, testSourceOptions())
}

func testSourceOptions() sourceOptions {
	return sourceOptions{text: TestInput.text(), allocator: arrowbuf.CPU().HostAllocator(), allowMapping: true, maxBuffer: TestMaxBuffer, batchRows: 7, jobs: 2}
}

// DescribeSource returns what a source says without reading values.
func DescribeSource(inputs ...string) (f SourceFacts, err error) {
	src, err := openTestSource(inputs...)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	f = SourceFacts{Schema: src.schema(), Rows: src.rows(), Fingerprint: src.fingerprint()}
	if f.Count, err = src.count(context.Background()); err == nil {
		f.Nulls, err = src.nulls(context.Background())
	}
	return f, err
}

// ReadSource calls visit for each batch of a range of rows of a source.
func ReadSource(inputs []string, fields []int, from, to int64, visit func(arrow.RecordBatch)) (err error) {
	src, err := openTestSource(inputs...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	if err := src.open(context.Background(), fields, rowRange{from, to}); err != nil {
		return err
	}
	for {
		b, err := src.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := countNulls(b.batch); err != nil {
			return err
		}
		visit(b.batch)
		b.batch.Release()
	}
}

// SchemaOfSource returns the schema of a source.
func SchemaOfSource(inputs ...string) (*arrow.Schema, error) {
	src, err := openTestSource(inputs...)
	if err != nil {
		return nil, err
	}
	return src.schema(), src.close()
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
	defer func() { err = errors.Join(err, src.close()) }()
	fields := make([]int, src.schema().NumFields())
	for i := range fields {
		fields[i] = i
	}
	if err := src.open(context.Background(), fields, allRows); err != nil {
		return 0, err
	}
	for {
		b, err := src.next()
		if errors.Is(err, io.EOF) {
			return bytes, nil
		}
		if err != nil {
			return 0, err
		}
		bytes += batchBytes(b.batch, bufferLen)
		b.batch.Release()
	}
}

// TargetRows returns the most rows of a batch that a table's reader returns by default.
func (t *Table) TargetRows(ctx context.Context) (int64, error) { return t.targetRows(ctx) }

// WriteParquet writes the table as Restore does.
func (t *Table) WriteParquet(ctx context.Context, w io.Writer) error { return writeParquet(ctx, t, w) }

// StripSizes returns the bytes of each strip of chunks of some rows, as a Parquet file in a
// store is read.
func StripSizes(path string, rows int64) (sizes []int64, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := newParquetSource(newRemoteFile(path, int64(len(content)), "", bytes.NewReader(content)), testSourceOptions())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	chosen, err := chooseColumns(p.schema(), Options{})
	if err != nil {
		return nil, err
	}
	p.allowStrips(&stripSizer{columns: chosen.plans, grid: rowGrid{chunkRows: rows}})
	if err := p.open(context.Background(), chosen.fields, allRows); err != nil {
		return nil, err
	}
	for {
		b, err := p.next()
		if errors.Is(err, io.EOF) {
			return sizes, nil
		}
		if err != nil {
			return sizes, err
		}
		if b.strip == nil {
			return sizes, errors.New("a batch that is no strip")
		}
		sizes = append(sizes, b.bytes)
		b.batch.Release()
	}
}
