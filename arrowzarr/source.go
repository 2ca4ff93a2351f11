package arrowzarr

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// source yields the record batches of one input, in order.
type source interface {
	// format is the name of the input's format, as users read it.
	format() string
	// schema is that of the whole input, before any selection of columns.
	schema() *arrow.Schema
	// rows is the number of rows, or -1 where only reading on tells.
	rows() int64
	// open begins reading; the batches have just the fields at these indices
	// of the schema, in this order.
	open(ctx context.Context, fields []int) error
	// next returns the next batch, or io.EOF. The caller owns it.
	next() (sourceBatch, error)
	// mapping is what the batches show in place; nil where they show nothing.
	mapping() *mapping
	// position is how many of the input's bytes are read, of how many; the
	// total is -1 where it is not known.
	position() (done, total int64)
	// interrupt is called from another goroutine than the one that reads. It
	// tells whether a next that is under way ends soon: reading a pipe may wait
	// without end, and not every pipe can be told to stop.
	interrupt() bool
	close() error
}

// sourceBatch is a record batch that a source lends.
type sourceBatch struct {
	batch arrow.RecordBatch
	// bytes of memory that the batch takes, without what it shows in place.
	bytes int64
}

// sourceOptions says how a source gets its memory.
type sourceOptions struct {
	// allocator is where the batches' memory comes from.
	allocator memory.Allocator
	// allowMapping lets a file be looked at in place, through the page cache,
	// instead of being copied to mem.
	allowMapping bool
	// maxBuffer is the most bytes that one message, page or buffer may take.
	maxBuffer int64
	// batchRows is how many rows a batch should have where the format leaves
	// it open: those of a chunk. 0 means DefaultChunkRows. A batch that would
	// take more than a sixteenth of limit has fewer.
	batchRows int64
	// jobs is how many goroutines may read at once.
	jobs int
}

var (
	magicIPC     = []byte("ARROW1")
	magicParquet = []byte("PAR1")
	magicFeather = []byte("FEA1")
)

// openSource recognises an input by its content. The path "-" is standard
// input, read as an IPC stream.
func openSource(path string, r sourceOptions) (source, error) {
	if path == "-" {
		return newStreamSource("standard input", os.Stdin, -1, r)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory: expected an Arrow IPC file or stream, or a Parquet file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	src, err := openByContent(path, file, info, r)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return src, nil
}

func openByContent(path string, file *os.File, info os.FileInfo, r sourceOptions) (source, error) {
	if !info.Mode().IsRegular() {
		return newStreamSource(path, file, -1, r)
	}
	head := make([]byte, 8)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	head = head[:n]
	switch {
	case n == 0:
		return nil, fmt.Errorf("%s is empty: expected an Arrow IPC file or stream, or a Parquet file", path)
	case bytes.HasPrefix(head, magicIPC):
		return newFileSource(path, file, info.Size(), r)
	case bytes.HasPrefix(head, magicParquet):
		return newParquetSource(path, file, info.Size(), r)
	case bytes.HasPrefix(head, magicFeather):
		return nil, fmt.Errorf("%s is Feather version 1, which is not supported: write it again as Feather version 2 (Arrow IPC)", path)
	case isStreamStart(head, info.Size()):
		return newStreamSource(path, file, info.Size(), r)
	default:
		return nil, fmt.Errorf("%s is neither an Arrow IPC file or stream nor a Parquet file: it starts with % x", path, head)
	}
}

// isStreamStart tells whether the bytes can be the start of an IPC stream: the
// continuation marker, or, before Arrow 0.15, the length of the first message.
func isStreamStart(head []byte, size int64) bool {
	if len(head) < 4 {
		return false
	}
	first := binary.LittleEndian.Uint32(head)
	return first == 0xFFFFFFFF || int64(first) < size
}

// runUntilDone runs f, which reads from something that may never come (a terminal,
// a stuck pipe). It returns f's error, or, when the context ends before f does,
// the context's. Then f goes on by itself, and when it succeeds late, tidy is
// called.
func runUntilDone(ctx context.Context, f func() error, tidy func()) error {
	done := make(chan error, 1)
	go func() {
		debug.SetPanicOnFault(true) // as in run
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		go func() {
			if <-done == nil {
				tidy()
			}
		}()
		return context.Cause(ctx)
	}
}
