package arrowbuf

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// span is a run of elements of an array, counted from the start of its
// buffers.
type span struct {
	data          arrow.ArrayData
	first, length int
}

// buffer returns buffer i of the array, an empty one where there is none.
func (s span) buffer(i int) *memory.Buffer {
	if i >= len(s.data.Buffers()) {
		return orEmpty(nil)
	}
	return orEmpty(s.data.Buffers()[i])
}

// nullCount is the number of nulls of a span that starts at element from: known
// where the array knows it, else counted where the host reaches the bitmap.
func (s span) nullCount(from int) (int, error) {
	known, bitmap := s.data.NullN(), s.buffer(0)
	switch {
	case storageOf(s.data.DataType()).ID() == arrow.NULL:
		return s.length, nil
	case known == 0 || bitmap.Len() == 0:
		return 0, nil
	case known > 0 && from == 0 && s.length == s.data.Len():
		return known, nil
	case !OnHost(bitmap):
		return array.UnknownNullCount, nil
	case int64(bitmap.Len()) < bitutil.BytesForBits(int64(s.first+s.length)):
		return 0, fmt.Errorf("validity bitmap of %d bytes for %d elements: %w", bitmap.Len(), s.first+s.length, arrow.ErrInvalid)
	default:
		return s.length - bitutil.CountSetBits(bitmap.Bytes(), s.first, s.length), nil
	}
}

var empty = memory.NewBufferBytes(nil)

func orEmpty(b *memory.Buffer) *memory.Buffer {
	if b == nil {
		return empty
	}
	return b
}

// storageOf is the type whose layout an array has.
func storageOf(dtype arrow.DataType) arrow.DataType {
	for {
		ext, ok := dtype.(arrow.ExtensionType)
		if !ok {
			return dtype
		}
		dtype = ext.StorageType()
	}
}

// naturalAlign is how values of a width must lie for a kernel to load them: at
// multiples of the largest power of two in the width, 8 at most, which is what
// the Arrow format itself promises.
func naturalAlign(width int) int {
	align := 1
	for align < 8 && width > 0 && width%(2*align) == 0 {
		align *= 2
	}
	return align
}
