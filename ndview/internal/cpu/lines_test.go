package cpu

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestLinesWithGapsAreCopiedUnitByUnit(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, width := range []int64{1, 2, 4, 8, 16} {
		for _, step := range []int64{1, 2, 3, 5, 8, 9, -1, -2} {
			for n := int64(1); n <= 130; n++ {
				span := ((n-1)*max(step, -step) + 1) * width // not a byte more is the array's
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
