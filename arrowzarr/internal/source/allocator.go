package source

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Limited returns the allocator, which panics if one buffer is larger than MaxBuffer.
func (o Options) Limited() memory.Allocator {
	return &limitedAllocator{Allocator: o.Allocator, limit: o.MaxBuffer}
}

// limitedAllocator refuses single allocations above a limit. A wrong length in a
// malformed input is then an error instead of exhausting memory. arrow-go cannot
// return the error, so Allocate panics; arrowdata.CatchPanic makes it an error again.
type limitedAllocator struct {
	memory.Allocator
	limit int64
}

func (l *limitedAllocator) Allocate(size int) []byte {
	l.checkSize(size)
	return l.Allocator.Allocate(size)
}

func (l *limitedAllocator) Reallocate(size int, b []byte) []byte {
	l.checkSize(size)
	return l.Allocator.Reallocate(size, b)
}

func (l *limitedAllocator) checkSize(size int) {
	if size < 0 { // which the allocator of a device could not tell from a failure of its own
		panic(fmt.Errorf("one buffer of %d bytes", size))
	}
	if int64(size) > l.limit {
		panic(fmt.Errorf("one buffer of %d bytes is over the limit of %d (see --max-memory)", size, l.limit))
	}
}
