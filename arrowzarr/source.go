package arrowzarr

import (
	"context"

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

// columnMemory is for what is known of a column: its place in the footer, its plan, its
// arrays and what is at work for it. Measured with 10,000 columns of Parquet.
const columnMemory = 8 << 10

// textOptions say what the content of a text does not.
type textOptions struct {
	format    string // csv, tsv or json; empty if the content or the extension says it
	delimiter string // one character; empty means that of the format
	types     string // of columns, such as "id:int64,zip:text"
	// inferRows is the number of rows that the types of other columns come from. Less than
	// 0 means all.
	inferRows int
	// inferHead means that these are of the first MiB, or one row, and need not be read twice.
	inferHead bool
}

// strip says which part of an input a batch is: one chunk of rows, of columns from first on.
// A Parquet file is read in strips if a chunk of all columns takes too much memory: all
// columns of the first chunk, some at a time, then those of the second.
type strip struct {
	chunkRows int64
	shardRows int64 // 0: no shards
	first     int
}

// stripRule decides whether a Parquet file is read in strips.
type stripRule interface {
	// rowBytes returns the bytes of a row of a column of those that are read. If they vary,
	// it returns the average of values, or false if those are nil.
	rowBytes(column int, values arrow.Array) (bytes float64, ok bool)
	// choose returns the first strip of some rows, and whether there must be any. widths
	// has the bytes of a row of each column. A file is wide if it has many columns.
	choose(widths []float64, rows int64, wide bool) (first strip, ok bool)
}
