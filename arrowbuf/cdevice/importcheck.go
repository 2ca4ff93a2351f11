package cdevice

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// checkChildren checks that the children have the elements that their parent
// shows.
func checkChildren(storage arrow.DataType, children []arrow.ArrayData, b *buffers) error {
	need := int64(0)
	switch t := storage.(type) {
	case *arrow.ListType, *arrow.LargeListType, *arrow.MapType:
		var err error
		if need, err = b.last(); err != nil {
			return fmt.Errorf("buffer 1: %w", err)
		}
	case *arrow.FixedSizeListType:
		if b.end > math.MaxInt64/int64(t.Len()) {
			return refuse("%d lists of %d", b.end, t.Len())
		}
		need = b.end * int64(t.Len())
	case *arrow.StructType, *arrow.SparseUnionType:
		need = b.end
	case *arrow.RunEndEncodedType:
		return checkRuns(b, children[0], children[1])
	}
	for i, child := range children {
		if int64(child.Len()) < need {
			return refuse("child %d has %d elements, the array needs %d", i, child.Len(), need)
		}
	}
	return nil
}

// checkRuns checks that the runs reach the end of the array.
func checkRuns(b *buffers, ends, values arrow.ArrayData) error {
	if ends.NullN() != 0 || ends.Len() > values.Len() {
		return refuse("%d run ends, %d null, for %d values", ends.Len(), ends.NullN(), values.Len())
	}
	if b.c.length == 0 {
		return nil
	}
	if ends.Len() == 0 {
		return refuse("%d elements without a run", b.c.length)
	}
	from, err := arrowbuf.BufferOf(ends.Buffers()[1])
	if err != nil {
		return err
	}
	defer from.Release()
	width := int64(ends.DataType().(arrow.FixedWidthDataType).Bytes())
	last, err := readInt(from, int64(ends.Offset()+ends.Len()-1), width)
	if err != nil {
		return err
	}
	if last < b.end {
		return refuse("runs end at %d, the array at %d", last, b.end)
	}
	return nil
}

// countNulls settles the null counts that arrow-go wants to be known: entries
// and keys of a map have none. On a GPU nothing wants them.
func (m *importer) countNulls(storage arrow.DataType, children []arrow.ArrayData) error {
	if storage.ID() != arrow.MAP || !readable(m.dev) {
		return nil
	}
	for _, part := range []arrow.ArrayData{children[0], children[0].Children()[0]} {
		data := part.(*array.Data)
		if data.NullN() < 0 {
			valid := bitutil.CountSetBits(data.Buffers()[0].Bytes(), data.Offset(), data.Len())
			data.SetNullN(data.Len() - valid)
		}
		if data.NullN() != 0 {
			return refuse("%d of a map's entries or keys are null", data.NullN())
		}
	}
	return nil
}
