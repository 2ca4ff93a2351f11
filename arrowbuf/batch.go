package arrowbuf

import (
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// batch is arrow-go's record batch, which counts, checks and prints without a
// look at its columns' memory.
type batch = arrow.RecordBatch

// RecordBatch is a record batch whose columns may live on a device. It behaves
// as arrow-go's own, with the same errors and panics, and never touches device
// memory from the host.
type RecordBatch struct {
	batch
	refs atomic.Int64
}

func newRecordBatch(b batch) *RecordBatch {
	r := &RecordBatch{batch: b}
	r.refs.Store(1)
	return r
}

var _ arrow.RecordBatchWithMetadata = (*RecordBatch)(nil)

// NewRecordBatch returns a record batch of the columns, to each of which it
// takes a reference. A negative number of rows means that of the first column.
// Columns that do not fit the schema or have fewer rows are an error, in
// arrow-go's words.
func NewRecordBatch(schema *arrow.Schema, columns []arrow.Array, rows int64) (*RecordBatch, error) {
	return NewRecordBatchWithMetadata(schema, columns, rows, arrow.Metadata{})
}

// NewRecordBatchWithMetadata is NewRecordBatch with the custom metadata of the
// IPC message that the columns came in.
func NewRecordBatchWithMetadata(schema *arrow.Schema, columns []arrow.Array, rows int64, meta arrow.Metadata) (made *RecordBatch, err error) {
	// arrow-go reports a misfit by a panic.
	defer func() {
		if misfit := recover(); misfit != nil {
			err = fmt.Errorf("%v: %w", misfit, arrow.ErrInvalid)
		}
	}()
	return newRecordBatch(array.NewRecordBatchWithMetadata(schema, columns, rows, meta)), nil
}

// Retain adds a reference.
func (r *RecordBatch) Retain() {
	if r.refs.Add(1) <= 1 {
		r.refs.Add(-1)
		panic(fmt.Errorf("arrowbuf: Retain of a record batch: %w", ErrReleased))
	}
}

// Release gives one reference back; with the last the columns go. Releasing more
// often than retaining panics.
func (r *RecordBatch) Release() {
	switch n := r.refs.Add(-1); {
	case n == 0:
		r.batch.Release()
	case n < 0:
		panic(fmt.Errorf("arrowbuf: Release of a record batch: %w", ErrReleased))
	}
}

// ToHost copies the batch to the host: CopyTo(r, CPU()).
func (r *RecordBatch) ToHost() (arrow.RecordBatch, error) { return CopyTo(r, CPU()) }

// NewSlice returns rows [i, j) without a copy. It panics if they are out of
// range.
func (r *RecordBatch) NewSlice(i, j int64) arrow.RecordBatch {
	columns := make([]arrow.Array, 0, r.NumCols())
	defer func() { releaseAll(columns) }()
	for _, column := range r.Columns() {
		columns = append(columns, NewSlice(column, i, j))
	}
	return newRecordBatch(array.NewRecordBatchWithMetadata(r.Schema(), columns, j-i, r.Metadata()))
}

// SetColumn returns a batch with another column i, which may live on any
// device.
func (r *RecordBatch) SetColumn(i int, column arrow.Array) (arrow.RecordBatch, error) {
	changed, err := r.batch.SetColumn(i, column)
	if err != nil {
		return nil, err
	}
	return newRecordBatch(changed), nil
}

// Metadata is the custom metadata of the IPC message that the batch came in.
func (r *RecordBatch) Metadata() arrow.Metadata {
	return r.batch.(arrow.RecordBatchWithMetadata).Metadata()
}

// String prints the schema and the rows as arrow-go prints them. It copies the
// columns.
func (r *RecordBatch) String() string { return fmt.Sprint(r.batch) }

// MarshalJSON writes the rows as arrow-go writes them. It copies the batch.
func (r *RecordBatch) MarshalJSON() ([]byte, error) {
	host, err := r.ToHost()
	if err != nil {
		return nil, err
	}
	defer host.Release()
	return host.MarshalJSON()
}
