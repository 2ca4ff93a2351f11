package cdevice

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// check refuses an array whose buffers and children have less than it says, since C takes
// them for as large as they have to be. Offsets on a GPU are not read.
func (x *exporter) check(data arrow.ArrayData, storage arrow.DataType) error {
	length, offset, all := int64(data.Len()), int64(data.Offset()), data.Buffers()
	switch {
	case length < 0 || offset < 0 || offset > most-length:
		return refuse("%d elements at offset %d", length, offset)
	case int64(data.NullN()) > length:
		return refuse("%d of %d elements are null", data.NullN(), length)
	case length == 0:
		return nil // of which nothing is read
	}
	end, l := offset+length, layoutOf(storage)
	if l.validity {
		switch have, need := sizeOf(all, 0), bitutil.BytesForBits(end); {
		case have == 0 && data.NullN() > 0:
			return refuse("%d nulls, and no validity bitmap", data.NullN())
		case have > 0 && have < need:
			return refuse("validity bitmap of %d bytes, the array needs %d", have, need)
		}
	}
	inside := int64(-1) // elements or bytes that offsets say
	for i, k := range l.buffers {
		need, ok := k.size(end)
		if k.what == heap {
			need = inside
		}
		if have := sizeOf(all, i+1); !ok || have < need {
			return refuse("buffer %d has %d bytes, the array needs %d", i+1, have, need)
		}
		if k.what == offsets && readable(x.dev) {
			var err error
			if inside, err = lastOffset(all[i+1], offset, end, k.width); err != nil {
				return fmt.Errorf("buffer %d: %w", i+1, err)
			}
		}
	}
	need := int64(0)
	switch t := storage.(type) {
	case *arrow.ListType, *arrow.LargeListType, *arrow.MapType:
		need = inside
	case *arrow.FixedSizeListType:
		if end > math.MaxInt64/max(int64(t.Len()), 1) {
			return refuse("%d lists of %d", end, t.Len())
		}
		need = end * int64(t.Len())
	case *arrow.StructType, *arrow.SparseUnionType:
		need = end
	}
	for i, child := range data.Children() {
		if c, ok := child.(*array.Data); ok && c != nil && int64(c.Len()) < need {
			return refuse("child %d has %d elements, the array needs %d", i, c.Len(), need)
		}
	}
	return nil
}

// sizeOf is how many bytes a buffer has, none if there is none.
func sizeOf(all []*memory.Buffer, i int) int64 {
	if i >= len(all) || all[i] == nil {
		return 0
	}
	return int64(all[i].Len())
}

// lastOffset is the last of an array's offsets, which are of width bytes each.
func lastOffset(b *memory.Buffer, first, last, width int64) (int64, error) {
	from, err := arrowbuf.BufferOf(b)
	if err != nil {
		return 0, err
	}
	defer from.Release()
	return lastOf(from, first, last, width)
}
