package parquet

import (
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// zeroingAllocator allocates zeroed memory, which arrow-go's Parquet reader relies
// on: it writes all offsets of a list column but the first.
type zeroingAllocator struct{ memory.Allocator }

func (z zeroingAllocator) Allocate(size int) []byte {
	b := z.Allocator.Allocate(size)
	clear(b)
	return b
}

func (z zeroingAllocator) Reallocate(size int, b []byte) []byte {
	had := len(b)
	b = z.Allocator.Reallocate(size, b)
	clear(b[min(had, size):])
	return b
}
