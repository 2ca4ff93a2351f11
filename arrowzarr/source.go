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
	"slices"
	"time"

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
	// dictionaries is the part of bytes that is of values of dictionaries.
	dictionaries int64
	strip        *strip // nil if the batch has all columns
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
	// batchRows is the number of rows of a batch, if the format leaves it open.
	// A batch that would take more than a sixteenth of maxBuffer has fewer.
	batchRows int64
	// jobs is the number of goroutines that may read at once.
	jobs int
	// text says what the content of a text does not.
	text textOptions
	// textFields are columns whose types are known, because another file of the input
	// has them.
	textFields []arrow.Field
}

var (
	magicIPC     = []byte("ARROW1")
	magicParquet = []byte("PAR1")
	magicFeather = []byte("FEA1")

	magicParquetEncrypted = []byte("PARE")
)

// inputFile is a file that a source reads.
type inputFile struct {
	// ReaderAt reads the content; nil if it can be read only once, as that of a pipe.
	io.ReaderAt
	name    string   // as errors name it
	size    int64    // in bytes, -1 if it can be read only once
	version string   // what changes with the content, beside the size
	local   *os.File // nil if it is not in the file system
	head    []byte   // what has been read of content that can be read only once
	closing func() error
}

// openLocal opens a file of the file system.
func openLocal(path string) (*inputFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := newLocalFile(path, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

func newLocalFile(name string, file *os.File) (*inputFile, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f := &inputFile{name: name, size: -1, local: file, closing: file.Close}
	if info.Mode().IsRegular() {
		f.ReaderAt, f.size, f.version = file, info.Size(), fmt.Sprint(info.ModTime().UnixNano())
	}
	return f, nil
}

// once reports whether the content can be read only once.
func (f *inputFile) once() bool { return f.ReaderAt == nil }

// sequential reads the content, from its start. It must not be called if once is true.
func (f *inputFile) sequential() *io.SectionReader { return io.NewSectionReader(f.ReaderAt, 0, f.size) }

// stream reads the content, from its start.
func (f *inputFile) stream() io.Reader {
	if f.once() {
		return io.MultiReader(bytes.NewReader(f.head), f.local)
	}
	return f.sequential()
}

// fingerprint identifies the content.
func (f *inputFile) fingerprint() string {
	if f.once() {
		return f.name
	}
	return fmt.Sprintf("%q %d %s", f.name, f.size, f.version)
}

// interrupt reports whether a read will return soon, see source.
func (f *inputFile) interrupt() bool {
	return !f.once() || f.local.SetReadDeadline(time.Unix(1, 0)) == nil
}

func (f *inputFile) close() error { return f.closing() }

// openStandardInput opens standard input. If it is a file, it is read as any other.
func openStandardInput(r sourceOptions) (source, error) {
	file, err := newLocalFile("standard input", os.Stdin)
	if err != nil {
		return nil, err
	}
	if at, err := os.Stdin.Seek(0, io.SeekCurrent); !file.once() && (err != nil || at != 0) {
		file.ReaderAt, file.size = nil, -1
	}
	return openByContent(file, r)
}

// openByContent returns a source that owns the file, or an error. It recognizes the
// format by the content, or, of text, by the extension.
func openByContent(file *inputFile, r sourceOptions) (source, error) {
	text, isText := textFormatOf(file.name, r.text)
	if isText && r.text.format != "" {
		return newTextSource(file, text, r)
	}
	head, err := file.readHead()
	if err != nil {
		return nil, err
	}
	isFile, isParquet := bytes.HasPrefix(head, magicIPC), bytes.HasPrefix(head, magicParquet)
	switch {
	case isText && !isFile && !isParquet:
		return newTextSource(file, text, r)
	case len(head) == 0:
		return nil, fmt.Errorf("%s is empty: expected %s", file.name, expectedFormats)
	case isFile && file.once():
		return nil, fmt.Errorf("%s is an Arrow IPC file, which cannot be read in order: give it by name", file.name)
	case isParquet && file.once():
		return nil, fmt.Errorf("%s is a Parquet file, which cannot be read in order: give it by name", file.name)
	case isFile:
		return newFileSource(file, r)
	case isParquet:
		return newParquetSource(file, r)
	case bytes.HasPrefix(head, magicParquetEncrypted):
		return nil, fmt.Errorf("%s is an encrypted Parquet file: encrypted Parquet is not supported", file.name)
	case bytes.HasPrefix(head, magicFeather):
		return nil, fmt.Errorf("%s is Feather version 1, which is not supported: write it again as Feather version 2 (Arrow IPC)", file.name)
	case head[0] == '{' && isASCII(head):
		return newTextSource(file, textFormat{json: true}, r)
	case isStreamStart(head, file.size):
		return newStreamSource(file, r)
	case compressionOf(head) != "":
		return nil, fmt.Errorf("%s is compressed, which only text may be: decompress it, or give the --format of the text", file.name)
	default:
		return nil, fmt.Errorf("%s is neither an Arrow IPC file or stream nor a Parquet file: it starts with % x (CSV is recognized by the extension, or give --format csv)", file.name, head)
	}
}

// expectedFormats names the formats of inputs.
const expectedFormats = "an Arrow IPC file or stream, a Parquet file, CSV or JSON lines"

// readHead returns the first bytes of the content, at most 8.
func (f *inputFile) readHead() ([]byte, error) {
	if f.head != nil {
		return f.head, nil
	}
	head := make([]byte, 8)
	var n int
	var err error
	if f.once() {
		n, err = io.ReadFull(f.local, head)
		f.head = head[:n]
	} else {
		n, err = f.ReadAt(head, 0)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:n], err
}

func isASCII(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c >= 0x7f || c < ' ' && c != '\t' && c != '\r' && c != '\n' })
}

// isStreamStart reports whether an input of a size, or -1, can be an IPC stream. A stream
// starts with the continuation marker or, before Arrow 0.15, with the length of the
// first message.
func isStreamStart(head []byte, size int64) bool {
	if len(head) < 4 {
		return false
	}
	first := binary.LittleEndian.Uint32(head)
	if size < 0 {
		return first == 0xFFFFFFFF || !isASCII(head)
	}
	return first == 0xFFFFFFFF || int64(first) < size
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
