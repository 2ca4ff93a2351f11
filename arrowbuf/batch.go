package arrowbuf

import (
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// arrowBatch is arrow-go's record batch, most of whose methods do not access the
// memory of the columns.
type arrowBatch = arrow.RecordBatch

// RecordBatch is a record batch whose columns may be on a device. It behaves as
// arrow-go's own, with the same errors and panics, and never accesses device memory
// from the host.
type RecordBatch struct {
	arrowBatch
	refs atomic.Int64
}

func newRecordBatch(b arrowBatch) *RecordBatch {
	r := &RecordBatch{arrowBatch: b}
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
	// arrow-go panics if the columns do not match the schema.
	defer func() {
		if mismatch := recover(); mismatch != nil {
			err = fmt.Errorf("arrowbuf.NewRecordBatch: %v: %w", mismatch, arrow.ErrInvalid)
		}
	}()
	return newRecordBatch(array.NewRecordBatchWithMetadata(schema, columns, rows, meta)), nil
}

// Retain adds a reference. It panics after the last release.
func (r *RecordBatch) Retain() {
	if r.refs.Add(1) <= 1 {
		r.refs.Add(-1)
		panic(fmt.Errorf("arrowbuf.RecordBatch.Retain: %w", ErrReleased))
	}
}

// Release releases one reference; the last releases the columns. It panics if there
// are more releases than references.
func (r *RecordBatch) Release() {
	switch n := r.refs.Add(-1); {
	case n == 0:
		r.arrowBatch.Release()
	case n < 0:
		panic(fmt.Errorf("arrowbuf.RecordBatch.Release: %w", ErrReleased))
	}
}

// NewSlice returns rows [i, j) without a copy. It panics if they are out of range.
// The caller owns one reference to the result.
func (r *RecordBatch) NewSlice(i, j int64) arrow.RecordBatch {
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
	changed, err := r.arrowBatch.SetColumn(i, column)
	if err != nil {
		return nil, err
	}
	return newRecordBatch(changed), nil
}

// Metadata returns the custom metadata of the batch.
func (r *RecordBatch) Metadata() arrow.Metadata {
	return r.arrowBatch.(arrow.RecordBatchWithMetadata).Metadata()
}

// String formats the schema and the rows as arrow-go does. It copies the columns.
func (r *RecordBatch) String() string { return fmt.Sprint(r.arrowBatch) }

// MarshalJSON encodes the rows as arrow-go does. It copies the batch.
func (r *RecordBatch) MarshalJSON() ([]byte, error) {
	host, err := ToHost(r)
	if err != nil {
		return nil, err
	}
	defer host.Release()
	return host.MarshalJSON()
}
