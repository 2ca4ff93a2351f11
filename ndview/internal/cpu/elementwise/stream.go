package elementwise

import "unsafe"

// leastStream is how many bytes a result has that is streamed: written by blocks,
// which are computed in the cache, straight to memory. Else the processor reads
// what it is about to overwrite.
const leastStream = 8 << 20

// canBeStreamed tells whether the result is large, has rows without gaps, and is
// no operand, which then is in the cache already.
func (e *engine) canBeStreamed(n int64) bool {
	out := &e.operands[0]
	if !canStream || n*out.size < leastStream || !out.same || out.inner != out.size || e.inner < shortRow {
		return false
	}
	for i := range e.inputs {
		if e.In[i].Base == out.Base {
			return false
		}
	}
	return true
}

// stream copies n bytes to memory that is not to be in the cache.
func stream(to, from unsafe.Pointer, n int64) {
	head := min(-int64(uintptr(to))&(streamAlignment-1), n)
	copyBytes(to, from, 0, head)
	blocks := (n - head) / 64
	if blocks > 0 {
		streamBlocks(unsafe.Add(to, head), unsafe.Add(from, head), int(blocks))
	}
	copyBytes(to, from, head+blocks*64, n)
}

// copyBytes copies bytes [lo, hi).
func copyBytes(to, from unsafe.Pointer, lo, hi int64) {
	copy(unsafe.Slice((*byte)(to), hi)[lo:], unsafe.Slice((*byte)(from), hi)[lo:])
}
