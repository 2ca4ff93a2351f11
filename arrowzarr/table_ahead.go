package arrowzarr

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/zarr"
)

// Where each read of the store takes a round trip, chunks of all columns and of several batches
// are read at once: a block of rows, of which batches are slices.

const (
	// requestBatches is how many times BatchBytes the chunks have together that are read at
	// once.
	requestBatches = 4
	// textBatches is the most batches of a block with text, of which a later one may be far
	// longer than those before.
	textBatches = 4
)

func (t *Table) onHost() bool {
	return t.options.Device == nil || t.options.Device == arrowbuf.CPU()
}

// requestsAtOnce returns how many chunks are read at once: Jobs, or more where each read takes a
// round trip.
func (t *Table) requestsAtOnce(ctx context.Context) (int, error) {
	if t.requests > 0 || len(t.columns) == 0 {
		return max(t.requests, t.options.Jobs, 1), nil
	}
	t.requests = max(t.options.Jobs, 1)
	if !t.remote {
		return t.requests, nil
	}
	largest := 1.0
	err := t.forEachArray(ctx, func(_ string, m *zarr.ArrayMetadata) {
		size := float64(max(m.DataType.Size(), 1))
		for _, d := range m.ChunkShape {
			size *= float64(d)
		}
		largest = max(largest, size)
	})
	bound := min(requestBatches*float64(t.options.BatchBytes)/largest, DefaultStoreConcurrency)
	t.requests = max(t.requests, int(bound))
	return t.requests, err
}

// shareRequests divides the chunks that are read at once among the columns, and returns how many
// there are. Columns of a device are read one after another. Where reads take no round trip, each
// column keeps all processors busy, as one may take longer than the others.
func (t *Table) shareRequests(ctx context.Context) (int, error) {
	requests, err := t.requestsAtOnce(ctx)
	if err != nil || !t.remote {
		return requests, err
	}
	for _, c := range t.columns {
		if c.jobs = requests; t.onHost() {
			c.jobs = ceilDiv(requests, len(t.columns))
		}
	}
	return requests, nil
}

// blockRows returns how many rows to read at once for batches of some rows: as many batches as
// take about BatchBytes.
func (t *Table) blockRows(ctx context.Context, rows int64) (int64, error) {
	requests, err := t.requestsAtOnce(ctx)
	if err != nil || !t.remote || !t.onHost() {
		return rows, err
	}
	width, text := int64(0), false
	for _, c := range t.columns {
		fixed, isText := rowWidth(c.column.field.Type)
		if fixed == 0 && !isText {
			return rows, nil
		}
		width, text = width+fixed, text || isText
	}
	most := int64(requests)
	if text {
		if t.rowBytes == 0 { // the first batch shows how long it is
			return rows, nil
		}
		most, width = textBatches, max(width, t.rowBytes)
	}
	return rows * min(max(t.options.BatchBytes/max(width, 1)/rows, 1), most), nil
}

// rowWidth returns about how many bytes an element of a type takes, and 0 for types without a
// fixed width. It reports whether the type is text or bytes in one buffer.
func rowWidth(t arrow.DataType) (fixed int64, text bool) {
	switch t := arrowdata.StorageType(t).(type) {
	case *arrow.FixedSizeListType:
		element, _ := rowWidth(t.Elem())
		return int64(t.Len()) * element, false
	case *arrow.StringType, *arrow.BinaryType, *arrow.LargeStringType, *arrow.LargeBinaryType:
		return 0, true
	case arrow.FixedWidthDataType:
		return int64(t.BitWidth())/8 + 1, false
	}
	return 0, false
}

// firstRows returns a batch of at most some rows of a block, and the rest of it; nil for no
// rows. The caller must release both, and no longer the block.
func firstRows(block arrow.RecordBatch, rows int64) (batch, rest arrow.RecordBatch) {
	if block == nil || block.NumRows() <= rows {
		return block, nil
	}
	defer block.Release()
	return block.NewSlice(0, rows), block.NewSlice(rows, block.NumRows())
}
