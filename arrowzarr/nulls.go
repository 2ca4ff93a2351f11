package arrowzarr

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// settleNulls makes sure that a batch's arrays know how many nulls they have.
// Readers may leave a count open; it decides whether a column gets a mask, and
// on a device nobody could count any more.
func settleNulls(batch arrow.RecordBatch) error {
	for i, c := range batch.Columns() {
		if int64(c.Len()) != batch.NumRows() {
			return fmt.Errorf("column %q has %d rows in a batch of %d", batch.ColumnName(i), c.Len(), batch.NumRows())
		}
		if err := settle(c.Data()); err != nil {
			return fmt.Errorf("column %q: %w", batch.ColumnName(i), err)
		}
	}
	return nil
}

func settle(data arrow.ArrayData) error {
	buffers := data.Buffers()
	if len(buffers) > 0 && data.NullN() != 0 && data.DataType().ID() != arrow.NULL {
		validity := buffers[0]
		switch {
		case validity == nil || validity.Len() == 0:
			data.(*array.Data).SetNullN(0)
		case int64(validity.Len())*8 < int64(data.Offset())+int64(data.Len()):
			return fmt.Errorf("a validity bitmap of %d bytes for %d values", validity.Len(), data.Offset()+data.Len())
		case data.NullN() < 0:
			set := bitutil.CountSetBits(validity.Bytes(), data.Offset(), data.Len())
			data.(*array.Data).SetNullN(data.Len() - set)
		}
	}
	for _, child := range data.Children() {
		if err := settle(child); err != nil {
			return err
		}
	}
	return nil
}
