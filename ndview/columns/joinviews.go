package columns

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/ndview"
)

// joinViews shares the buffers that the views point into, those of slices of one
// array only once.
func (w *work) joinViews(parts []arrow.ArrayData, n int64, valid *memory.Buffer) (arrow.ArrayData, error) {
	const width = int64(arrow.ViewHeaderSizeBytes)
	if err := w.allHave(parts, width); err != nil {
		return nil, err
	}
	views, err := w.empty(dtypeOf(width), n)
	if err != nil {
		return nil, err
	}
	shared := []*memory.Buffer{valid, nil}
	at := int64(0)
	for _, part := range parts {
		from, err := w.fixed(part, 1, width)
		if err != nil {
			return nil, err
		}
		var pointed []*memory.Buffer
		if all := part.Buffers(); len(all) > 2 {
			pointed = all[2:]
		}
		first := indexOf(shared[2:], pointed)
		if first < 0 {
			first, shared = len(shared)-2, append(shared, pointed...)
		}
		to, err := w.array(views.Slice(0, at, at+from.Size()))
		if err != nil {
			return nil, err
		}
		if err := w.run(joinProgram, "quiver_shift_views", from.Size(), perTile, from, from.Size(), int64(first), written{to}); err != nil {
			return nil, err
		}
		at += from.Size()
	}
	shared[1], err = w.buffer(views, n*width)
	return w.data(parts[0].DataType(), n, shared), err
}

// indexOf is where a list is in another, or -1.
func indexOf(all, part []*memory.Buffer) int {
	for i := 0; i+len(part) <= len(all); i++ {
		if slices.Equal(all[i:i+len(part)], part) {
			return i
		}
	}
	return -1
}

// all is the selection of n elements, one after the other.
func (w *work) all(n int64) (selection, error) {
	zero, err := w.array(ndview.Zeros(w.dev, ndview.Int64, 1))
	if err != nil || n == 1 {
		return selection{at: zero, n: 1}, err
	}
	return w.spread(selection{at: zero, n: 1}, n)
}
