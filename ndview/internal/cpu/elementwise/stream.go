package elementwise

import "github.com/quiver-gpu/quiver/ndview/internal/cpu"

// canBeStreamed tells whether the result is large, has rows without gaps, and is
// no operand, which then is in the cache already. It is computed by blocks in the
// cache, which are streamed.
func (e *engine) canBeStreamed(n int64) bool {
	out := &e.operands[0]
	bytes := n * out.size
	for i := range e.inputs {
		if o := &e.operands[1+i]; o.Base != nil && o.inner != 0 {
			bytes += n * o.size
		}
	}
	if !cpu.Streams(bytes) || !out.same || out.inner != out.size || e.inner < shortRow {
		return false
	}
	for i := range e.inputs {
		if e.In[i].Base == out.Base {
			return false
		}
	}
	return true
}
