package cpu

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/stretchr/testify/require"
)

// TestCopySplitsLongLines copies lines longer than a tile.
func TestCopySplitsLongLines(t *testing.T) {
	large := minStreamed
	t.Cleanup(func() { minStreamed = large })
	for _, minStreamed = range []int64{large, 0} {
		for _, width := range []int64{1, 2, 4, 8, 16} {
			for _, n := range []int64{tileLength - 1, tileLength, tileLength + 1, 2*tileLength + 77} {
				for _, steps := range [][2]int64{{1, 2}, {1, 3}, {1, -1}, {2, 1}, {3, 2}} {
					requireStridedCopy(t, width, n, steps[0], steps[1])
				}
				requireTransposed(t, width, 3, n, 2)
			}
		}
	}
}

// requireStridedCopy copies two lines of units with the given steps and compares the
// result.
func requireStridedCopy(t *testing.T, width, n, to, from int64) {
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

func TestCopyLineMatchesUnits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, width := range []int64{1, 2, 4, 8, 16} {
		for _, step := range []int64{1, 2, 3, 5, 8, 9, -1, -2} {
			for n := int64(1); n <= 130; n++ {
				span := ((n-1)*max(step, -step) + 1) * width // the array ends with the last unit
				src := make([]byte, span)
				for i := range src {
					src[i] = byte(random.Uint32())
				}
				first := int64(0)
				if step < 0 {
					first = span - width
				}
				want, got := make([]byte, n*width+16), make([]byte, n*width+16)
				for i := range n {
					copy(want[i*width:][:width], src[first+i*step*width:])
				}
				l := line{n, width, step * width}
				copyUnits(width, unsafe.Pointer(&got[0]), unsafe.Pointer(&src[first]), l)
				require.Equal(t, want, got, "%d units of %d bytes, every %d", n, width, step)
				back := make([]byte, span)
				copyUnits(width, unsafe.Pointer(&back[first]), unsafe.Pointer(&got[0]), line{n, step * width, width})
				for i := range n {
					require.Equal(t, got[i*width:][:width], back[first+i*step*width:][:width])
				}
			}
		}
	}
}

func copyUnits(width int64, dst, src unsafe.Pointer, l line) {
	switch width {
	case 1:
		copyLine[uint8](dst, src, l)
	case 2:
		copyLine[uint16](dst, src, l)
	case 4:
		copyLine[uint32](dst, src, l)
	case 8:
		copyLine[uint64](dst, src, l)
	default:
		copyLine[[2]uint64](dst, src, l)
	}
}

func TestStreamCopiesAtAnyAlignment(t *testing.T) {
	src := make([]byte, 1000)
	for i := range src {
		src[i] = byte(i + 1)
	}
	for at := range 70 {
		for n := range 300 {
			dst := make([]byte, 400)
			want := bytes.Clone(dst)
			copy(want[at:], src[at/3:at/3+n])
			Stream(unsafe.Pointer(&dst[at]), unsafe.Pointer(&src[at/3]), int64(n))
			StreamFence()
			require.Equal(t, want, dst, "%d bytes to %d", n, at)
		}
	}
}

func TestSwapBytesReversesEachNumber(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int64{2, 4, 8} {
		for n := range int64(101) {
			src := make([]byte, n*size+1)
			for i := range src {
				src[i] = byte(random.Uint32())
			}
			want := slices.Clone(src)
			for i := range n {
				slices.Reverse(want[i*size : (i+1)*size])
			}
			dst := make([]byte, len(src))
			dst[n*size] = src[n*size]
			SwapBytes(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n*size, size)
			require.Equal(t, want, dst, "%d numbers of %d bytes", n, size)
			SwapBytes(unsafe.Pointer(&src[0]), unsafe.Pointer(&src[0]), n*size, size)
			require.Equal(t, want, src, "%d numbers of %d bytes in place", n, size)
		}
	}
}
