package elementwise

import "github.com/quiver-gpu/quiver/ndview/internal/cpu"

// leastStream is how many bytes a result has that is streamed: written by blocks,
// which are computed in the cache, straight to memory. Else the processor reads
// what it is about to overwrite.
const leastStream = 8 << 20

// canBeStreamed tells whether the result is large, has rows without gaps, and is
// no operand, which then is in the cache already.
func (e *engine) canBeStreamed(n int64) bool {
	out := &e.operands[0]
	if !cpu.Streams || n*out.size < leastStream || !out.same || out.inner != out.size || e.inner < shortRow {
		return false
	}
	for i := range e.inputs {
		if e.In[i].Base == out.Base {
			return false
		}
	}
	return true
}
