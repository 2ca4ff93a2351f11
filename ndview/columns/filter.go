package columns

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Filter returns the elements of arr at which a mask is true, in order. The result has
// the same type and device as arr; the caller must release it. The mask is a bool array
// of the same length, on the host or on the device of arr. A null in the mask excludes
// the element. Filter returns arrow.ErrInvalid if the mask has another type or length.
// [Take] says what the result shares with arr.
func Filter(arr, mask arrow.Array) (arrow.Array, error) {
	if arr == nil || mask == nil {
		return nil, fmt.Errorf("columns.Filter: %w", errNil)
	}
	w := &workspace{dev: deviceOf(arr, mask)}
	defer w.release()
	result, err := w.filterArray(arr, mask)
	if err != nil {
		return nil, fmt.Errorf("columns.Filter: array of type %s: %w", arr.DataType(), err)
	}
	return result, nil
}

// FilterBatch is [Filter] for the rows of a record batch.
func FilterBatch(batch arrow.RecordBatch, mask arrow.Array) (arrow.RecordBatch, error) {
	return selectRows(batch, mask, "columns.FilterBatch", func(w *workspace) (selection, error) { return w.resolveMask(mask, batch.NumRows()) })
}

func (w *workspace) filterArray(arr, mask arrow.Array) (arrow.Array, error) {
	s, err := w.resolveMask(mask, int64(arr.Len()))
	if err != nil {
		return nil, err
	}
	return w.takeArray(arr, s)
}

// resolveMask converts a mask for n elements into a selection.
func (w *workspace) resolveMask(mask arrow.Array, n int64) (selection, error) {
	if mask.DataType().ID() != arrow.BOOL {
		return selection{}, fmt.Errorf("mask of type %s, want bool: %w", mask.DataType(), arrow.ErrInvalid)
	}
	if int64(mask.Len()) != n {
		return selection{}, fmt.Errorf("mask of %d elements, want %d: %w", mask.Len(), n, arrow.ErrInvalid)
	}
	s, err := w.selectTrue(mask)
	if err != nil {
		return s, fmt.Errorf("mask: %w", err)
	}
	return s, nil
}

func (w *workspace) selectTrue(mask arrow.Array) (selection, error) {
	moved, err := w.copyToDevice(mask)
	if err != nil {
		return selection{}, err
	}
	set, err := w.viewBits(moved.Data(), 1)
	if err != nil {
		return selection{}, err
	}
	valid, err := w.viewValidity(moved.Data())
	if err != nil {
		return selection{}, err
	}
	return w.selectSetBits(set, valid)
}

// selectSetBits returns the selection of bits that are both set and valid.
func (w *workspace) selectSetBits(set, valid bitmap) (selection, error) {
	mask, err := w.unpackBits(set, false)
	if err != nil {
		return selection{}, err
	}
	if valid.bytes != nil {
		missing, err := w.unpackBits(valid, true)
		if err != nil {
			return selection{}, err
		}
		if err := mask.FillWhere(missing, 0); err != nil {
			return selection{}, err
		}
	}
	at, err := w.trueIndices(mask)
	if err != nil {
		return selection{}, err
	}
	return selection{indices: at, n: at.Size()}, nil
}

// unpackBits converts bits to bytes, inverted if invert is true.
func (w *workspace) unpackBits(b bitmap, invert bool) (*ndview.NDBuffer, error) {
	out, err := w.alloc(ndview.Bool, b.n)
	if err != nil || b.n == 0 {
		return out, err
	}
	return out, out.UnpackBits(b.bytes.Buffer(), 8*b.bytes.Offset()+b.first, invert)
}

// selectRows applies one selection of rows to all columns. If no column has memory, the
// work runs on the device of by, the indices or the mask.
func selectRows(batch arrow.RecordBatch, by arrow.Array, caller string, resolve func(*workspace) (selection, error)) (arrow.RecordBatch, error) {
	if batch == nil || by == nil {
		return nil, fmt.Errorf("%s: %w", caller, errNil)
	}
	outer := &workspace{dev: deviceOfAll(batch.Columns())}
	if outer.dev == arrowbuf.CPU() && !slices.ContainsFunc(batch.Columns(), func(column arrow.Array) bool { return hasBuffers(column.Data()) }) {
		outer.dev = arrowbuf.DeviceOf(by)
	}
	defer outer.release()
	s, err := resolve(outer)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caller, err)
	}
	return mapColumns(batch, s.n, func(i int) (arrow.Array, error) {
		w := &workspace{dev: outer.dev}
		defer w.release()
		result, err := w.takeArray(batch.Column(i), s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", caller, err)
		}
		return result, nil
	})
}

// mapColumns returns a record batch with the schema of like and the columns that column
// returns.
func mapColumns(like arrow.RecordBatch, rows int64, column func(i int) (arrow.Array, error)) (arrow.RecordBatch, error) {
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
	result, err := arrowbuf.NewRecordBatch(like.Schema(), columns, rows)
	if err != nil {
		return nil, err
	}
	return result, nil
}
