package cpu

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

func TestCopyTransposesPlanesOfAnyExtents(t *testing.T) {
	fastest := registerTransposes
	large := minStreamed
	t.Cleanup(func() { registerTransposes, minStreamed = fastest, large })
	for _, how := range []struct {
		squares  [17]registerTranspose
		streamed int64
	}{{fastest, large}, {fastest, 0}, {goTransposes, large}} {
		registerTransposes, minStreamed = how.squares, how.streamed
		for _, width := range []int64{1, 2, 4, 8, 16} {
			for _, columns := range []int64{1, 2, 3, 4, 7, 8, 9, 16, 31, 33, 64, 65, 129} {
				for _, rows := range []int64{1, 2, 3, 5, 8, 15, 16, 17, 63, 64, 65, 130} {
					requireTransposed(t, width, columns, rows, 0)
					requireTransposed(t, width, columns, rows, 2)
				}
			}
		}
	}
}

// requireTransposed transposes a plane and compares the result. gap is the number of
// units between rows of the result.
func requireTransposed(t *testing.T, width, columns, rows, gap int64) {
	srcStep, dstStep := (columns+1)*width, (rows+gap)*width
	src, got := make([]byte, rows*srcStep+16), make([]byte, columns*dstStep+16)
	for i := range src {
		src[i] = byte(i*7 + i>>8 + 1)
	}
	want := make([]byte, len(got))
	for i := range columns {
		for j := range rows {
			copy(want[i*dstStep+j*width:][:width], src[j*srcStep+i*width:])
		}
	}
	Copy(unsafe.Pointer(&got[0]), unsafe.Pointer(&src[0]), width, layout.Nest{
		Shape: []int64{columns, rows}, Strides: [][]int64{{dstStep, width}, {width, srcStep}}, Offsets: []int64{0, 0},
	})
	require.Equal(t, want, got, "%d columns, %d rows of %d bytes", columns, rows, width)
}
