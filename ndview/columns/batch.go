package columns

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// ConcatenateBatches is [Concatenate] for record batches of one schema, column by
// column. The result has the schema of the first.
func ConcatenateBatches(batches ...arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(batches) == 0 {
		return nil, errors.New("concatenating record batches: there is none")
	}
	if i := slices.Index(batches, nil); i >= 0 {
		return nil, fmt.Errorf("concatenating record batches: batch %d: %w", i, errAbsent)
	}
	schema, rows := batches[0].Schema(), int64(0)
	for i, b := range batches {
		if !b.Schema().Equal(schema) {
			return nil, fmt.Errorf("concatenating record batches: batch %d has the schema %s, not %s: %w", i, b.Schema(), schema, arrow.ErrInvalid)
		}
		rows += b.NumRows()
	}
	return eachColumn(batches[0], rows, func(i int) (arrow.Array, error) {
		parts := make([]arrow.Array, len(batches))
		for k, b := range batches {
			parts[k] = b.Column(i)
		}
		return Concatenate(parts...)
	})
}

// TakeBatch is [Take] for the rows of a record batch: of each column the same. The
// indices are on the host or on the device of the columns, which is one; columns
// of the host beside others come to it.
func TakeBatch(batch arrow.RecordBatch, indices arrow.Array) (arrow.RecordBatch, error) {
	return selectRows(batch, indices, "taking rows", func(w *work) (selection, error) { return w.resolve(indices, batch.NumRows()) })
}

// FilterBatch is [Filter] for the rows of a record batch.
func FilterBatch(batch arrow.RecordBatch, mask arrow.Array) (arrow.RecordBatch, error) {
	return selectRows(batch, mask, "filtering rows", func(w *work) (selection, error) { return w.choose(mask, batch.NumRows()) })
}

// selectRows makes a batch of a selection of rows, which is made once. Where no column
// has memory it is made where that lies by which rows are selected.
func selectRows(batch arrow.RecordBatch, by arrow.Array, what string, of func(*work) (selection, error)) (arrow.RecordBatch, error) {
	if batch == nil || by == nil {
		return nil, fmt.Errorf("%s: %w", what, errAbsent)
	}
	outer := &work{dev: deviceOfAll(batch.Columns())}
	if outer.dev == arrowbuf.CPU() && !slices.ContainsFunc(batch.Columns(), func(column arrow.Array) bool { return hasBuffers(column.Data()) }) {
		outer.dev = arrowbuf.DeviceOf(by)
	}
	defer outer.end()
	s, err := of(outer)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return eachColumn(batch, s.n, func(i int) (arrow.Array, error) {
		w := &work{dev: outer.dev}
		defer w.end()
		made, err := w.takeArray(batch.Column(i), s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return made, nil
	})
}

// eachColumn makes a batch like another whose columns are made one by one.
func eachColumn(like arrow.RecordBatch, rows int64, column func(i int) (arrow.Array, error)) (arrow.RecordBatch, error) {
	var columns []arrow.Array
	defer func() {
		for _, one := range columns {
			one.Release()
		}
	}()
	for i := range int(like.NumCols()) {
		one, err := column(i)
		if err != nil {
			return nil, fmt.Errorf("column %d, %q: %w", i, like.ColumnName(i), err)
		}
		columns = append(columns, one)
	}
	made, err := arrowbuf.NewRecordBatch(like.Schema(), columns, rows)
	if err != nil {
		return nil, err
	}
	return made, nil
}
