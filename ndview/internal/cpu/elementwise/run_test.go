package elementwise

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Large results are written with non-temporal stores, at any alignment and with every
// kind of operand.
func TestStreamedResultsMatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const rows, columns = 2253, 2251
	const guard = 0xa5a5a5a5
	x := make([]uint32, rows*columns)
	for i := range x {
		x[i] = uint32(i)
	}
	for _, layout := range []struct {
		name   string
		stride [2]int64 // strides of y
	}{{"dense", [2]int64{4 * columns, 4}}, {"row", [2]int64{0, 4}}, {"column", [2]int64{4, 0}}, {"scalar", [2]int64{}}} {
		for _, gap := range []int64{0, 3} { // between rows of the result
			for _, first := range []int64{0, 1, 3, 8} { // offset of the result
				t.Run(fmt.Sprint(layout.name, gap, first), func(t *testing.T) {
					out := make([]uint32, first+rows*(columns+gap)+9)
					for i := range out {
						out[i] = guard
					}
					w := Operation{Op: Add, Type: Uint32, Axes: 2}
					w.Shape = [MaxAxes]int64{rows, columns}
					w.Out = Operand{Type: Uint32, Base: unsafe.Pointer(&out[first]), Stride: [MaxAxes]int64{4 * (columns + gap), 4}}
					w.In[0] = Operand{Type: Uint32, Base: unsafe.Pointer(&x[0]), Stride: [MaxAxes]int64{4 * columns, 4}}
					w.In[1] = Operand{Type: Uint32, Base: unsafe.Pointer(&x[0]), Stride: [MaxAxes]int64{layout.stride[0], layout.stride[1]}}
					if layout.name == "scalar" {
						w.In[1] = Operand{Scalar: [16]byte{0: 7}}
					}
					w.Run()
					wrong := 0
					for i, got := range out {
						at := int64(i) - first
						row, column := at/(columns+gap), at%(columns+gap)
						want := uint32(guard)
						if at >= 0 && row < rows && column < columns {
							want = uint32(row*columns+column) + uint32(row*layout.stride[0]+column*layout.stride[1])/4
							if layout.name == "scalar" {
								want = uint32(row*columns+column) + 7
							}
						}
						if got != want {
							wrong++
						}
					}
					require.Zero(t, wrong)
				})
			}
		}
	}
}
