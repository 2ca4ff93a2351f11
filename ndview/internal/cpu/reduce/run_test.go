package reduce

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Many contiguous results are written with non-temporal stores.
func TestStreamedResultsMatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const n, rows, guard = 10_000_019, 3, 0x5a
	r := rand.New(rand.NewPCG(3, 4))
	x := make([]int8, n*rows)
	for i := range x {
		x[i] = int8(r.Uint32())
	}
	for _, gap := range []int64{0, 1} {
		for _, first := range []int64{0, 1, 70} {
			out := make([]int8, first+n*(1+gap)+9)
			for i := range out {
				out[i] = guard
			}
			p := &Plan{Outputs: n, Length: rows, Stride: n, KeptAxes: 1, OutSize: 1}
			p.Kept[0] = Axis{Extent: NewDivisor(n), In: 1, Out: 1 + gap}
			Run(p, Reducers["max_8"], unsafe.Pointer(&x[0]), unsafe.Pointer(&out[first]))
			wrong := 0
			for i, got := range out {
				want := int8(guard)
				if at := int64(i) - first; at >= 0 && at%(1+gap) == 0 && at/(1+gap) < n {
					at /= 1 + gap
					want = max(x[at], x[n+at], x[2*n+at])
				}
				if got != want {
					wrong++
				}
			}
			require.Zero(t, wrong, "gaps of %d, from %d", gap, first)
		}
	}
}
