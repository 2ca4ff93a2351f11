package columns

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Filter returns the elements of an array at which a mask is true, in their order:
// an array of the same type on the same device, which the caller releases. The
// mask is an array of bool of the same length, on the host or on the device of
// the array; where it is null the element is left out. A mask of another type or
// length is arrow.ErrInvalid. For the rest see [Take].
func Filter(arr, mask arrow.Array) (arrow.Array, error) {
	if arr == nil || mask == nil {
		return nil, fmt.Errorf("filtering an array: %w", errAbsent)
	}
	w := &work{dev: deviceOf(arr, mask)}
	defer w.end()
	made, err := w.filter(arr, mask)
	if err != nil {
		return nil, fmt.Errorf("filtering an array of type %s: %w", arr.DataType(), err)
	}
	return made, nil
}

// FilterBatch is [Filter] for the rows of a record batch.
func FilterBatch(batch arrow.RecordBatch, mask arrow.Array) (arrow.RecordBatch, error) {
	return selectRows(batch, mask, "filtering rows", func(w *work) (selection, error) { return w.choose(mask, batch.NumRows()) })
}

func (w *work) filter(arr, mask arrow.Array) (arrow.Array, error) {
	s, err := w.choose(mask, int64(arr.Len()))
	if err != nil {
		return nil, err
	}
	return w.takeArray(arr, s)
}

// choose makes a selection from a mask for n elements.
func (w *work) choose(mask arrow.Array, n int64) (selection, error) {
	if mask.DataType().ID() != arrow.BOOL {
		return selection{}, fmt.Errorf("a mask of type %s: bool is expected: %w", mask.DataType(), arrow.ErrInvalid)
	}
	if int64(mask.Len()) != n {
		return selection{}, fmt.Errorf("a mask of %d elements for %d: %w", mask.Len(), n, arrow.ErrInvalid)
	}
	s, err := w.trueOnes(mask)
	if err != nil {
		return s, fmt.Errorf("mask: %w", err)
	}
	return s, nil
}

func (w *work) trueOnes(mask arrow.Array) (selection, error) {
	moved, err := w.bring(mask)
	if err != nil {
		return selection{}, err
	}
	set, err := w.bits(moved.Data(), 1)
	if err != nil {
		return selection{}, err
	}
	valid, err := w.validity(moved.Data())
	if err != nil {
		return selection{}, err
	}
	return w.setBits(set, valid)
}

// setBits is the selection of those bits that are set, and valid.
func (w *work) setBits(set, valid bits) (selection, error) {
	mask, err := w.unpack(set, false)
	if err != nil {
		return selection{}, err
	}
	if valid.bytes != nil {
		missing, err := w.unpack(valid, true)
		if err != nil {
			return selection{}, err
		}
		if err := mask.FillWhere(missing, 0); err != nil {
			return selection{}, err
		}
	}
	at, err := w.places(mask)
	if err != nil {
		return selection{}, err
	}
	return selection{at: at, n: at.Size()}, nil
}

// unpack makes bytes of bits, the other way round when inverted.
func (w *work) unpack(b bits, invert bool) (*ndview.NDBuffer, error) {
	out, err := w.empty(ndview.Bool, b.n)
	if err != nil || b.n == 0 {
		return out, err
	}
	return out, out.UnpackBits(b.bytes.Buffer(), 8*b.bytes.Offset()+b.first, invert)
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
