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
	// format is the name of the input's format, for people.
	format() string
	// schema is the schema of the whole input.
	schema() *arrow.Schema
	// rows is the number of rows, or -1 if the input does not say it in advance.
	rows() int64
	// count returns the number of rows. It reads metadata only. It returns an error
	// wrapping errors.ErrUnsupported if the input can be read only once, as a pipe.
	count(ctx context.Context) (int64, error)
	// nulls returns the number of nulls of each field of the schema, from metadata.
	// It is -1 if only the values tell. Those of a run-end encoded column are of the
	// values that it encodes, and those of a dictionary of its indices. It reads what
	// count reads, and returns the same errors.
	nulls(ctx context.Context) ([]int64, error)
	// fingerprint identifies the content of the input: it has the names, sizes and
	// times of the files.
	fingerprint() string
	// open begins reading. The batches have the fields at these indices of the
	// schema, in this order, and only rows of a range. What lies before the range is
	// skipped.
	open(ctx context.Context, fields []int, rows rowRange) error
	// next returns the next batch, or io.EOF. The caller owns it.
	next() (sourceBatch, error)
	// mapping is the mapped input that the batches view; nil if they view none.
	mapping() *mapping
	// position returns the number of bytes that are read, and the size of the
	// input. The total is -1 if it is unknown.
	position() (done, total int64)
	// interrupt is called while another goroutine is in next. It reports whether
	// next will return soon: a read of a pipe can block forever, and not every
	// pipe has deadlines.
	interrupt() bool
	close() error
}

// rowRange is the rows [from, to) of an input. A to of -1 is the end. Rows that the
// input does not have are no error.
type rowRange struct{ from, to int64 }

// allRows is the range of all rows.
var allRows = rowRange{0, -1}

// within returns the range's bounds in an input of n rows.
func (r rowRange) within(n int64) (from, to int64) {
	to = n
	if r.to >= 0 {
		to = min(r.to, n)
	}
	return min(r.from, to), to
}

// rowCutter cuts batches that come in order to a range of rows.
type rowCutter struct {
	skip int64 // rows to drop
	left int64 // rows to keep after those, or -1 for all
}

func newRowCutter(r rowRange) rowCutter {
	c := rowCutter{skip: r.from, left: -1}
	if r.to >= 0 {
		c.left = max(r.to-r.from, 0)
	}
	return c
}

// done reports whether all rows of the range were cut.
func (c *rowCutter) done() bool { return c.left == 0 }

// cut returns the rows of a batch that are in the range. It returns nil if none are. It
// releases the given batch.
func (c *rowCutter) cut(batch arrow.RecordBatch) arrow.RecordBatch {
	rows := batch.NumRows()
	from := min(c.skip, rows)
	c.skip -= from
	to := rows
	if c.left >= 0 {
		to = min(rows, from+c.left)
		c.left -= to - from
	}
	if from == 0 && to == rows {
		return batch
	}
	defer batch.Release()
	if from == to {
		return nil
	}
	return batch.NewSlice(from, to)
}

// sourceBatch is a record batch of a source. The caller of next must release it.
type sourceBatch struct {
	batch arrow.RecordBatch
	bytes int64 // of memory, without the parts of the mapping that it views
}

// sourceOptions are the options of openSource.
type sourceOptions struct {
	// allocator allocates the memory of the batches.
	allocator memory.Allocator
	// allowMapping allows batches to view the page cache of the file, instead of
	// copying it to memory of the allocator.
	allowMapping bool
	// maxBuffer is the largest message, page or buffer, in bytes.
	maxBuffer int64
	// batchRows is the number of rows of a batch, if the format leaves it open:
	// that of a chunk. 0 means DefaultChunkRows. A batch that would take more
	// than a sixteenth of maxBuffer has fewer.
	batchRows int64
	// jobs is the number of goroutines that may read at once.
	jobs int
}

var (
	magicIPC     = []byte("ARROW1")
	magicParquet = []byte("PAR1")
	magicFeather = []byte("FEA1")
)

// openSource opens an input, whose format it recognizes by the content. The path "-"
// is an IPC stream on standard input.
func openSource(path string, r sourceOptions) (source, error) {
	if path == "-" {
		return newStreamSource("standard input", os.Stdin, nil, r)
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
		return newStreamSource(path, file, nil, r)
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
		return newFileSource(path, file, info, r)
	case bytes.HasPrefix(head, magicParquet):
		return newParquetSource(path, file, info, r)
	case bytes.HasPrefix(head, magicFeather):
		return nil, fmt.Errorf("%s is Feather version 1, which is not supported: write it again as Feather version 2 (Arrow IPC)", path)
	case isStreamStart(head, info.Size()):
		return newStreamSource(path, file, info, r)
	default:
		return nil, fmt.Errorf("%s is neither an Arrow IPC file or stream nor a Parquet file: it starts with % x", path, head)
	}
}

// isStreamStart reports whether an input of a size can be an IPC stream. A stream
// starts with the continuation marker or, before Arrow 0.15, with the length of the
// first message.
func isStreamStart(head []byte, size int64) bool {
	if len(head) < 4 {
		return false
	}
	first := binary.LittleEndian.Uint32(head)
	return first == 0xFFFFFFFF || int64(first) < size
}

// fingerprintOf identifies the content of a regular file.
func fingerprintOf(path string, info os.FileInfo) string {
	return fmt.Sprintf("%q %d %d", path, info.Size(), info.ModTime().UnixNano())
}

// runUntilDone runs f, which may block forever (on a terminal, or a stuck pipe). It
// returns f's error, or the cause of the context if that ends first. Then f continues
// in its goroutine, and cleanup is called if it succeeds.
func runUntilDone(ctx context.Context, f func() error, cleanup func()) error {
	done := make(chan error, 1)
	go func() {
		debug.SetPanicOnFault(true) // see startStage
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		go func() {
			if <-done == nil {
				cleanup()
			}
		}()
		return context.Cause(ctx)
	}
}
