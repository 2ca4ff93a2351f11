package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Index returns what the keys take, one key an axis from the first on, as a
// view: a.Index(At(0), Span(1, -1)) is NumPy's a[0, 1:-1]. Axes without a key
// are taken whole. An index outside its axis is arrowbuf.ErrOutOfRange, more
// keys than axes or a step of 0 are ErrShape, and so are keys that are arrays.
func (a *NDBuffer) Index(keys ...Key) (*NDBuffer, error) {
	basic := make([]layout.Key, len(keys))
	for i, k := range keys {
		if k.chosen != nil {
			return nil, fmt.Errorf("key %d is an array, of which there is no view: use Get or Set: %w", i, ErrShape)
		}
		basic[i] = k.basic
	}
	run, err := a.run().Index(basic)
	return a.show(a.dtype, run, err)
}
