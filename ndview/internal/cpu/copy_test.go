package cpu

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// TestLongLinesAreCopiedWhole: they are shared out in pieces.
func TestLongLinesAreCopiedWhole(t *testing.T) {
	large := streamed
	t.Cleanup(func() { streamed = large })
	for _, streamed = range []int64{large, 0} {
		for _, width := range []int64{1, 2, 4, 8, 16} {
			for _, n := range []int64{length - 1, length, length + 1, 2*length + 77} {
				for _, steps := range [][2]int64{{1, 2}, {1, 3}, {1, -1}, {2, 1}, {3, 2}} {
					spaced(t, width, n, steps[0], steps[1])
				}
				turned(t, width, 3, n, 2)
			}
		}
	}
}

// spaced wants two lines of units copied from every so many to every so many.
func spaced(t *testing.T, width, n, to, from int64) {
	span := func(step int64) int64 { return ((n-1)*max(step, -step) + 1) * width }
	first := func(step int64) int64 { return max(-step, 0) * (n - 1) * width }
	src, got := make([]byte, 2*span(from)), make([]byte, 2*span(to))
	for i := range src {
		src[i] = byte(i*7 + i>>8 + 1)
	}
	want := make([]byte, len(got))
	for line := range int64(2) {
		for i := range n {
			copy(want[line*span(to)+first(to)+i*to*width:][:width], src[line*span(from)+first(from)+i*from*width:])
		}
	}
	Copy(unsafe.Pointer(&got[first(to)]), unsafe.Pointer(&src[first(from)]), width, layout.Nest{
		Shape: []int64{2, n}, Strides: [][]int64{{span(to), to * width}, {span(from), from * width}}, Offsets: []int64{0, 0},
	})
	require.Equal(t, want, got, "%d units of %d bytes, every %d to every %d", n, width, from, to)
}
