package arrowbuf

import (
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// RecordBatch is a record batch whose columns may be on a device. It behaves as
// arrow-go's own, with the same errors and panics, and never accesses device memory
// from the host. A nil or zero RecordBatch has no columns and no rows.
type RecordBatch struct {
	batch arrow.RecordBatch // arrow-go's own
	refs  atomic.Int64
}

func newRecordBatch(b arrow.RecordBatch) *RecordBatch {
	r := &RecordBatch{batch: b}
	r.refs.Store(1)
	return r
}

var _ arrow.RecordBatchWithMetadata = (*RecordBatch)(nil)

// NewRecordBatch returns a record batch of the columns, to each of which it takes a
// reference. A negative rows means the length of the first column. It returns an
// error wrapping arrow.ErrInvalid if the columns do not match the schema or have too
// few rows.
func NewRecordBatch(schema *arrow.Schema, columns []arrow.Array, rows int64) (*RecordBatch, error) {
	return NewRecordBatchWithMetadata(schema, columns, rows, arrow.Metadata{})
}

// NewRecordBatchWithMetadata is NewRecordBatch with custom metadata, as an IPC
// message carries it.
func NewRecordBatchWithMetadata(schema *arrow.Schema, columns []arrow.Array, rows int64, meta arrow.Metadata) (made *RecordBatch, err error) {
	if schema == nil {
		return nil, fmt.Errorf("arrowbuf.NewRecordBatch: nil schema: %w", arrow.ErrInvalid)
	}
	for i, column := range columns {
		if isNil(column) {
			return nil, fmt.Errorf("arrowbuf.NewRecordBatch: column %d is nil: %w", i, arrow.ErrInvalid)
		}
	}
	// arrow-go panics if the columns do not match the schema.
	defer func() {
		if mismatch := recover(); mismatch != nil {
			err = fmt.Errorf("arrowbuf.NewRecordBatch: %v: %w", mismatch, arrow.ErrInvalid)
		}
	}()
	return newRecordBatch(array.NewRecordBatchWithMetadata(schema, columns, rows, meta)), nil
}

// noColumns is the batch of a zero RecordBatch.
var noColumns = array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 0)

// inner returns arrow-go's batch.
func (r *RecordBatch) inner() arrow.RecordBatch {
	if r == nil || r.batch == nil {
		return noColumns
	}
	return r.batch
}

// Schema returns the names and types of the columns.
func (r *RecordBatch) Schema() *arrow.Schema { return r.inner().Schema() }

// NumRows returns the number of rows.
func (r *RecordBatch) NumRows() int64 { return r.inner().NumRows() }

// NumCols returns the number of columns.
func (r *RecordBatch) NumCols() int64 { return r.inner().NumCols() }

// Columns returns the columns. They stay the batch's.
func (r *RecordBatch) Columns() []arrow.Array { return r.inner().Columns() }

// Column returns column i, which stays the batch's. It panics if i is out of range.
func (r *RecordBatch) Column(i int) arrow.Array {
	r.mustHave(i)
	return r.batch.Column(i)
}

// ColumnName returns the name of column i. It panics if i is out of range.
func (r *RecordBatch) ColumnName(i int) string {
	r.mustHave(i)
	return r.batch.ColumnName(i)
}

// mustHave panics unless the batch has a column i.
func (r *RecordBatch) mustHave(i int) {
	if err := CheckRange(int64(i), 1, r.NumCols()); err != nil {
		panic(fmt.Errorf("arrowbuf.RecordBatch: column %d of %d: %w", i, r.NumCols(), ErrOutOfRange))
	}
}

// Retain adds a reference. It panics after the last release.
func (r *RecordBatch) Retain() {
	if r == nil || r.refs.Add(1) <= 1 {
		if r != nil {
			r.refs.Add(-1)
		}
		panic(fmt.Errorf("arrowbuf.RecordBatch.Retain: %w", ErrReleased))
	}
}

// Release releases one reference; the last releases the columns. It panics if there
// are more releases than references.
func (r *RecordBatch) Release() {
	if r == nil {
		panic(fmt.Errorf("arrowbuf.RecordBatch.Release: nil batch: %w", ErrReleased))
	}
	switch n := r.refs.Add(-1); {
	case n == 0:
		r.batch.Release()
	case n < 0:
		panic(fmt.Errorf("arrowbuf.RecordBatch.Release: %w", ErrReleased))
	}
}

// NewSlice returns rows [i, j) without a copy. It panics if they are out of range.
// The caller owns one reference to the result.
func (r *RecordBatch) NewSlice(i, j int64) arrow.RecordBatch {
	if i < 0 || j < i || j > r.NumRows() {
		panic(fmt.Errorf("arrowbuf.RecordBatch.NewSlice: rows [%d, %d) of %d: %w", i, j, r.NumRows(), ErrOutOfRange))
	}
	columns := make([]arrow.Array, 0, r.NumCols())
	defer func() { releaseAll(columns) }()
	for _, column := range r.Columns() {
		columns = append(columns, NewSlice(column, i, j))
	}
	return newRecordBatch(array.NewRecordBatchWithMetadata(r.Schema(), columns, j-i, r.Metadata()))
}

// SetColumn returns a batch with column i replaced. The new column may be on any
// device. The caller owns one reference to the result.
func (r *RecordBatch) SetColumn(i int, column arrow.Array) (arrow.RecordBatch, error) {
	if isNil(column) {
		return nil, fmt.Errorf("arrowbuf.RecordBatch.SetColumn: nil column: %w", arrow.ErrInvalid)
	}
	changed, err := r.inner().SetColumn(i, column)
	if err != nil {
		return nil, err
	}
	return newRecordBatch(changed), nil
}

// Metadata returns the custom metadata of the batch.
func (r *RecordBatch) Metadata() arrow.Metadata {
	return r.inner().(arrow.RecordBatchWithMetadata).Metadata()
}

// String formats the schema and the rows as arrow-go does. It copies the columns.
func (r *RecordBatch) String() string { return fmt.Sprint(r.inner()) }

// MarshalJSON encodes the rows as arrow-go does. It copies the batch.
func (r *RecordBatch) MarshalJSON() ([]byte, error) {
	host, err := ToHost(r.inner())
	if err != nil {
		return nil, err
	}
	defer host.Release()
	return host.MarshalJSON()
}
