//go:build emulate

package pack

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// TestKernelsCopyWithinTheirMemory runs the kernel under AddressSanitizer: buffers end
// with the last range.
func TestKernelsCopyWithinTheirMemory(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		pieces := batch.Pieces{TileBytes: tileBytes}
		var src, dst int64
		for range 1 + r.IntN(100) {
			n := 1 + r.Int64N(100)
			if r.IntN(50) == 0 {
				n = 1 + r.Int64N(60_000)
			}
			src, dst = src+r.Int64N(20), dst+r.Int64N(20)
			pieces.Add(src, dst, n)
			src, dst = src+n, dst+n
		}
		from, want, got := make([]byte, src), make([]byte, dst), make([]byte, dst)
		for i := range from {
			from[i] = byte(r.Uint32())
		}
		copyPieces(want, from, pieces)
		e.Launch("quiver_pack", (pieces.Tiles+tilesPerBlock-1)/tilesPerBlock, threads,
			got, from, batch.Bytes(pieces.All), int64(len(pieces.All)), pieces.Tiles)
		require.Equal(t, want, got, "round %d", round)
	}
}
