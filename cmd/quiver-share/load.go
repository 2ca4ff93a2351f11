package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc"
)

// publish reads a file to a device, as a table of a catalog.
func publish(ctx context.Context, catalog *ipc.Catalog, name, path string, dev arrowbuf.Device) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// arrow-go panics on some malformed files.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: malformed data: %v", path, p)
		}
	}()
	if gpu, ok := dev.(*cudabuf.Device); ok {
		dev = shareable{gpu}
	}
	reader, err := open(ctx, f, dev)
	if err != nil {
		return fmt.Errorf("%s: expected an Arrow IPC file or stream, or a Parquet file: %w", path, err)
	}
	defer reader.Release()

	var batches []arrow.RecordBatch
	defer func() {
		for _, b := range batches {
			b.Release()
		}
	}()
	for reader.Next() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		batch := reader.RecordBatch()
		if there, ok := batch.(*arrowbuf.RecordBatch); ok { // read to the device
			there.Retain()
		} else if batch, err = arrowbuf.CopyTo(batch, dev); err != nil {
			return fmt.Errorf("%s: batch %d: %w", path, len(batches), err)
		}
		batches = append(batches, batch)
	}
	if err := reader.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: batch %d: %w", path, len(batches), err)
	}
	if err := catalog.PublishTable(name, reader.Schema(), batches); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// shareable is a GPU whose memory other processes can open: what a batch takes is
// an allocation of its own, and so need not be copied to be shared. Memory with a
// file reaches other PID namespaces too, and outlives this process.
type shareable struct{ *cudabuf.Device }

func (d shareable) Alloc(n int64) (arrowbuf.Buffer, error) { return d.NewFDBuffer(n) }

// open recognises a file by how it begins. Batches of Arrow's own formats are read
// to the device; those of Parquet are made on the host.
func open(ctx context.Context, f *os.File, dev arrowbuf.Device) (array.RecordReader, error) {
	status, err := f.Stat()
	if err != nil {
		return nil, err
	}
	magic := make([]byte, 6)
	if _, err := f.ReadAt(magic, 0); err != nil {
		return nil, fmt.Errorf("its first bytes: %w", err)
	}
	switch {
	case bytes.HasPrefix(magic, []byte("PAR1")):
		parquet, err := file.NewParquetReader(f)
		if err != nil {
			return nil, err
		}
		columns, err := pqarrow.NewFileReader(parquet, pqarrow.ArrowReadProperties{Parallel: true, BatchSize: 1 << 20}, dev.HostAllocator())
		if err != nil {
			return nil, err
		}
		return columns.GetRecordReader(ctx, nil, nil)
	case bytes.Equal(magic, []byte("ARROW1")):
		return arrowipc.NewFileReader(f, status.Size(), dev)
	}
	return arrowipc.NewReader(f, dev)
}
