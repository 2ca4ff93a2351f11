package arrowzarr

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

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
	next() (loan, error)
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

// loan is a record batch that a source lends.
type loan struct {
	batch arrow.RecordBatch
	// bytes of memory that the batch takes, without what it shows in place.
	bytes int64
}

// reading says how a source gets its memory.
type reading struct {
	// mem is where the batches' memory comes from.
	mem memory.Allocator
	// mapped lets a file be looked at in place, through the page cache,
	// instead of being copied to mem.
	mapped bool
	// limit is the most bytes that one message, page or buffer may take.
	limit int64
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
func openSource(path string, r reading) (source, error) {
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
	src, err := recognise(path, file, info, r)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return src, nil
}

func recognise(path string, file *os.File, info os.FileInfo, r reading) (source, error) {
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
	case startsStream(head, info.Size()):
		return newStreamSource(path, file, info.Size(), r)
	default:
		return nil, fmt.Errorf("%s is neither an Arrow IPC file or stream nor a Parquet file: it starts with % x", path, head)
	}
}

// startsStream tells whether the bytes can be the start of an IPC stream: the
// continuation marker, or, before Arrow 0.15, the length of the first message.
func startsStream(head []byte, size int64) bool {
	if len(head) < 4 {
		return false
	}
	first := binary.LittleEndian.Uint32(head)
	return first == 0xFFFFFFFF || int64(first) < size
}

// limited is an allocator that refuses single allocations above a limit, so
// that a lying length in a malformed input is an error and not the end of the
// program's memory. arrow-go has no way to return the error, so it panics;
// protect catches it.
type limited struct {
	memory.Allocator
	limit int64
}

func (l *limited) Allocate(size int) []byte {
	l.check(size)
	return l.Allocator.Allocate(size)
}

func (l *limited) Reallocate(size int, b []byte) []byte {
	l.check(size)
	return l.Allocator.Reallocate(size, b)
}

func (l *limited) check(size int) {
	if int64(size) > l.limit {
		panic(fmt.Errorf("one buffer of %d bytes is over the limit of %d (see --max-memory)", size, l.limit))
	}
}
