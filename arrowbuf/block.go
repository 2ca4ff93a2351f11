package arrowbuf

import (
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// leastLarge is from where on an allocation of host memory is a block. New memory
// is slow: to clear it and to use it for the first time, page by page, takes longer
// than most of what is done with it.
const leastLarge = 4 << 20

// block is large host memory. It is not cleared, is in large pages where the
// system has them, and after its last release the next block of its size, unless
// Go has collected it. It is the allocator of the arrow buffer that owns it.
type block struct {
	// seen by arrow-go, whose users may go on with values, such as strings, after
	// they release an array: only Go knows when they are done.
	seen atomic.Bool
}

// released are blocks that may be used again, as *[]byte, by the bits of their size.
var released [bits.UintSize + 1]sync.Pool

// Allocate returns undefined bytes, aligned to 64.
func (*block) Allocate(n int) []byte {
	pool := &released[bits.Len(uint(n))]
	if b, ok := pool.Get().(*[]byte); ok {
		if len(*b) >= n {
			return (*b)[:n]
		}
		pool.Put(b)
	}
	var uncleared strings.Builder // whose memory alone Go does not clear
	uncleared.Grow(n + 64)        // so that a pointer to the end is into it, too
	b := unsafe.Slice(unsafe.StringData(uncleared.String()), n)
	useLargePages(b)
	return b
}

// Reallocate moves bytes to memory of another size.
func (k *block) Reallocate(n int, b []byte) []byte {
	moved := k.Allocate(n)
	copy(moved, b)
	k.Free(b)
	return moved
}

// Free is called at the last release.
func (k *block) Free(b []byte) {
	if b = b[:cap(b)]; !k.seen.Load() {
		released[bits.Len(uint(len(b)))].Put(&b)
	}
}

var _ memory.Allocator = (*block)(nil)
