package arrowbuf

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
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

// children returns the arrays that the array consists of, which are n.
func (s span) children(n int) ([]arrow.ArrayData, error) {
	all := s.data.Children()
	if len(all) != n {
		return nil, fmt.Errorf("%d child arrays, not %d: %w", len(all), n, arrow.ErrInvalid)
	}
	if i := slices.Index(all, nil); i >= 0 {
		return nil, fmt.Errorf("child array %d is absent: %w", i, arrow.ErrInvalid)
	}
	return all, nil
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
