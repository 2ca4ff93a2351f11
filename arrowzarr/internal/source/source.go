package source

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Source yields the record batches of one input, in order.
type Source interface {
	// Info describes the input. It reads nothing.
	Info() Info
	// Count counts rows and nulls. It reads metadata only. It returns an error wrapping
	// errors.ErrUnsupported if metadata does not have the number of rows, or the input can
	// be read only once, as a pipe.
	Count(ctx context.Context) (Counts, error)
	// Open begins reading. The batches have the fields at these indices of the
	// schema, in this order, and only rows of a range. What lies before the range is
	// skipped.
	Open(ctx context.Context, fields []int, rows RowRange) error
	// Next returns the next batch, or io.EOF. The caller owns it.
	Next() (Batch, error)
	// Position returns the number of bytes that are read, and the size of the
	// input. The total is -1 if it is unknown.
	Position() (done, total int64)
	// Interrupt is called while another goroutine is in Next. It reports whether
	// Next will return soon: a read of a pipe can block forever, and not every
	// pipe has deadlines.
	Interrupt() bool
	// Close releases what the source has, and its files. Batches stay valid unless they
	// view a mapping.
	Close() error
}

// Info is what an open source knows of its input.
type Info struct {
	Format string        // its name, for people
	Schema *arrow.Schema // of the whole input
	Rows   int64         // -1 if the input does not say it in advance
	// Fingerprint identifies the content: it has the names, sizes and times of the files.
	Fingerprint string
	Mapping     *Mapping // that the batches view; nil if they view none
}

// Counts is what the metadata of an input counts.
type Counts struct {
	Rows int64
	// Nulls has the number of nulls of each field of the schema, -1 if only the values
	// tell. Those of a run-end encoded column are of the values that it encodes, and those of
	// a dictionary of its indices.
	Nulls []int64
}

// RowRange is the rows [From, To) of an input. A To of -1 is the end. Rows that the
// input does not have are no error.
type RowRange struct{ From, To int64 }

// WholeInput is the range of all rows.
var WholeInput = RowRange{0, -1}

// Within returns the range's bounds in an input of n rows.
func (r RowRange) Within(n int64) (from, to int64) {
	to = n
	if r.To >= 0 {
		to = min(r.To, n)
	}
	return min(r.From, to), to
}

// RowCutter cuts batches that come in order to a range of rows.
type RowCutter struct {
	Skip int64 // rows to drop
	Left int64 // rows to keep after those, or -1 for all
}

// NewRowCutter returns a cutter for the batches of an input from its first row on.
func NewRowCutter(r RowRange) RowCutter {
	c := RowCutter{Skip: r.From, Left: -1}
	if r.To >= 0 {
		c.Left = max(r.To-r.From, 0)
	}
	return c
}

// Done reports whether all rows of the range were cut.
func (c *RowCutter) Done() bool { return c.Left == 0 }

// Cut returns the rows of a batch that are in the range. It returns nil if none are. It
// releases the given batch.
func (c *RowCutter) Cut(batch arrow.RecordBatch) arrow.RecordBatch {
	rows := batch.NumRows()
	from := min(c.Skip, rows)
	c.Skip -= from
	to := rows
	if c.Left >= 0 {
		to = min(rows, from+c.Left)
		c.Left -= to - from
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

// Batch is a record batch of a source. The caller of Next must release its record.
type Batch struct {
	Record arrow.RecordBatch
	Bytes  int64 // of memory, without the parts of the mapping that it views
	// Dictionaries is the part of Bytes that is of values of dictionaries.
	Dictionaries int64
	Strip        *Strip // nil if the batch has all columns
}

// Options are the options of opening a source.
type Options struct {
	// Allocator allocates the memory of the batches.
	Allocator memory.Allocator
	// AllowMapping allows batches to view the page cache of the file, instead of
	// copying it to memory of the allocator.
	AllowMapping bool
	// MaxBuffer is the largest message, page or buffer, in bytes.
	MaxBuffer int64
	// BatchRows is the number of rows of a batch, if the format leaves it open.
	// A batch that would take more than a sixteenth of MaxBuffer has fewer.
	BatchRows int64
	// Jobs is the number of goroutines that may read at once.
	Jobs int
	// Text says what the content of a text does not.
	Text TextOptions
	// TextFields are columns whose types are known, because another file of the input
	// has them.
	TextFields []arrow.Field
}

// ColumnMemory is for what is known of a column: its place in the footer, its plan, its
// arrays and what is at work for it. Measured with 10,000 columns of Parquet.
const ColumnMemory = 8 << 10

// TextOptions say what the content of a text does not.
type TextOptions struct {
	Format    string // csv, tsv or json; empty if the content or the extension says it
	Delimiter string // one character; empty means that of the format
	Types     string // of columns, such as "id:int64,zip:text"
	// InferRows is the number of rows that the types of other columns come from. Less than
	// 0 means all.
	InferRows int
	// InferHead means that these are of the first MiB, or one row, and need not be read twice.
	InferHead bool
}

// Strip says which part of an input a batch is: one chunk of rows, of columns from First on.
// A Parquet file is read in strips if a chunk of all columns takes too much memory: all
// columns of the first chunk, some at a time, then those of the second.
type Strip struct {
	ChunkRows int64
	ShardRows int64 // 0: no shards
	First     int
}

// StripRule decides whether a Parquet file is read in strips.
type StripRule interface {
	// RowBytes returns the bytes of a row of a column of those that are read. If they vary,
	// it returns the average of values, or false if those are nil.
	RowBytes(column int, values arrow.Array) (bytes float64, ok bool)
	// Choose returns the first strip of some rows, and whether there must be any. widths
	// has the bytes of a row of each column. A file is wide if it has many columns.
	Choose(widths []float64, rows int64, wide bool) (first Strip, ok bool)
}

// Limited returns the allocator, which panics if one buffer is larger than MaxBuffer.
func (o Options) Limited() memory.Allocator {
	return &limitedAllocator{Allocator: o.Allocator, limit: o.MaxBuffer}
}

// limitedAllocator refuses single allocations above a limit. A wrong length in a
// malformed input is then an error instead of exhausting memory. arrow-go cannot
// return the error, so Allocate panics; arrowdata.CatchPanic makes it an error again.
type limitedAllocator struct {
	memory.Allocator
	limit int64
}

func (l *limitedAllocator) Allocate(size int) []byte {
	l.checkSize(size)
	return l.Allocator.Allocate(size)
}

func (l *limitedAllocator) Reallocate(size int, b []byte) []byte {
	l.checkSize(size)
	return l.Allocator.Reallocate(size, b)
}

func (l *limitedAllocator) checkSize(size int) {
	if size < 0 { // which the allocator of a device could not tell from a failure of its own
		panic(fmt.Errorf("one buffer of %d bytes", size))
	}
	if int64(size) > l.limit {
		panic(fmt.Errorf("one buffer of %d bytes is over the limit of %d (see --max-memory)", size, l.limit))
	}
}
