package arrowzarr

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/parquet"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
)

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

// TextOptions returns the options of sources.
func (o InputOptions) TextOptions() source.TextOptions { return o.text() }

// TargetRows returns the most rows of a batch that a table's reader returns by default.
func (t *Table) TargetRows(ctx context.Context) (int64, error) { return t.targetRows(ctx) }

// WriteParquet writes the table as Restore does.
func (t *Table) WriteParquet(ctx context.Context, w io.Writer) error { return t.writeParquet(ctx, w) }

// StripSizes returns the bytes of each strip of chunks of some rows, as a Parquet file in a
// store is read with buffers of at most maxBuffer bytes.
func StripSizes(path string, rows, maxBuffer int64) (sizes []int64, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	options := sourcetest.Options()
	options.MaxBuffer = maxBuffer
	p, err := parquet.Open(source.NewRemoteFile(path, int64(len(content)), "", bytes.NewReader(content)), options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	chosen, err := chooseColumns(p.Info().Schema, Options{})
	if err != nil {
		return nil, err
	}
	p.AllowStrips(&stripSizer{columns: chosen.columns, grid: rowGrid{chunkRows: rows}})
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

// ForEachBlock calls f with the rows that are read at once for batches of some rows.
func (t *Table) ForEachBlock(ctx context.Context, rows int64, f func(arrow.RecordBatch) error) error {
	return t.forEachBlock(ctx, 0, t.rows, rows, f)
}
