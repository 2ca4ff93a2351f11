package arrowzarr

import (
	"math/bits"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// recycler is an allocator that gives freed memory out again. A conversion
// needs buffers of the same few sizes over and over, and new memory costs a
// page fault and a zeroing every 4 KiB, more than what is then done with it.
//
// Memory holds anything: see zeroed.
type recycler struct {
	upstream memory.Allocator
	most     int64 // of bytes in use and idle, unless those in use are more
	idleMost int64 // of idle bytes, unless they are one buffer

	mu    sync.Mutex
	idle  map[int][][]byte // by capacity
	bytes int64            // in idle
	used  int64
}

// newRecycler keeps idle bytes, but hardly more than held and idle ones together.
func newRecycler(upstream memory.Allocator, held, idle int64) *recycler {
	return &recycler{upstream: upstream, most: held + idle, idleMost: idle, idle: map[int][][]byte{}}
}

// classOf rounds a size up, to at most an eighth more.
func classOf(size int) int {
	step := max(1<<max(bits.Len(uint(size))-4, 0), 64)
	return (size + step - 1) / step * step
}

func (r *recycler) Allocate(size int) []byte {
	class := classOf(size)
	r.mu.Lock()
	r.used += int64(class)
	if list := r.idle[class]; len(list) > 0 {
		b := list[len(list)-1]
		r.idle[class] = list[:len(list)-1]
		r.bytes -= int64(class)
		r.mu.Unlock()
		return b[:size]
	}
	if r.used+r.bytes > r.most {
		r.drop()
	}
	r.mu.Unlock()
	return r.upstream.Allocate(class)[:size:class]
}

func (r *recycler) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:size]
	}
	moved := r.Allocate(size)
	copy(moved, b)
	r.Free(b)
	return moved
}

func (r *recycler) Free(b []byte) {
	class := cap(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	if class == 0 || class != classOf(class) {
		r.upstream.Free(b)
		return
	}
	r.used -= int64(class)
	if r.bytes+int64(class) > r.idleMost {
		if int64(class) <= r.idleMost {
			r.upstream.Free(b)
			return
		}
		r.drop() // the batches are large, and the next will want a buffer like this
	}
	r.idle[class] = append(r.idle[class], b[:0])
	r.bytes += int64(class)
}

// drop lets go of all that is idle.
func (r *recycler) drop() {
	for _, list := range r.idle {
		for _, b := range list {
			r.upstream.Free(b)
		}
	}
	clear(r.idle)
	r.bytes = 0
}
