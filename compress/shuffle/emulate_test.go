//go:build emulate

package shuffle

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// TestKernelsCopyWithinTheirMemory runs the kernels under AddressSanitizer: buffers end
// with the last range.
func TestKernelsCopyWithinTheirMemory(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(1, 2))
	for round := range 8 {
		for _, size := range []int64{1, 2, 3, 4, 5, 8, 12, 16, 100, 255} {
			for _, tr := range []Transform{{}, {Bits: true}, {Inverse: true}, {Bits: true, Inverse: true}} {
				if tr.Size = int(size); size == 1 && !tr.Bits {
					continue
				}
				pieces := batch.Pieces{TileBytes: tileBytes / size / 32 * 32 * size}
				var src, dst int64
				for range 1 + r.IntN(10) {
					n := (1 + r.Int64N(600)) * size
					if r.IntN(10) == 0 {
						n = (1 + r.Int64N(1+50_000/size)) * size
					}
					if tr.Bits {
						n = n / (8 * size) * (8 * size)
					}
					src, dst = src+r.Int64N(20), dst+r.Int64N(20)
					pieces.Add(src, dst, n)
					src, dst = src+n, dst+n
				}
				if len(pieces.All) == 0 {
					continue
				}
				from, want, got := make([]byte, src), make([]byte, dst), make([]byte, dst)
				for i := range from {
					from[i] = byte(r.Uint32())
				}
				for _, p := range pieces.All {
					require.NoError(t, tr.run(want[p.Dst:p.Dst+p.Size], from[p.Src:p.Src+p.Size]))
				}
				e.Launch(tr.name(), pieces.Tiles, threads, got, from, batch.Bytes(pieces.All), int64(len(pieces.All)), size)
				require.Equal(t, want, got, "round %d, %+v", round, tr)
			}
		}
	}
}
