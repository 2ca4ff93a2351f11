//go:build emulate

package crc32c

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// TestKernelsDecodeWithinTheirMemory runs the kernels under AddressSanitizer.
func TestKernelsDecodeWithinTheirMemory(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(1, 2))
	for round := range 12 {
		pieces := batch.Pieces{TileBytes: tileBytes}
		var items []batch.Item
		var src int64
		for i := range 1 + r.Int64N(20) {
			n := r.Int64N(100)
			if r.IntN(10) == 0 {
				n = r.Int64N(400_000) // whole tiles between others
			}
			src += r.Int64N(20)
			pieces.AddFrom(src, i, n, src%alignment)
			items = append(items, batch.Item{Src: src, SrcSize: n, Dst: 5 * i})
			src += n
		}
		data, sums, dst, outcomes := make([]byte, src), make([]uint32, len(items)), make([]byte, 5*len(items)-1), make([]batch.Outcome, len(items))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		n := int64(len(items))
		e.Launch("quiver_crc32c_begin", 1, threads, batch.Bytes(items), batch.Bytes(sums), n)
		if pieces.Tiles > 0 {
			e.Launch("quiver_crc32c_add", (pieces.Tiles+tilesPerBlock-1)/tilesPerBlock, addThreads, batch.Bytes(sums), data, batch.Bytes(pieces.All), int64(len(pieces.All)), pieces.Tiles)
		}
		e.Launch("quiver_crc32c_store", 1, threads, dst, batch.Bytes(items), batch.Bytes(sums), n)
		dst[0]++
		e.Launch("quiver_crc32c_verify", 1, threads, dst, batch.Bytes(items), batch.Bytes(sums), batch.Bytes(outcomes), n)
		for i, it := range items {
			want := crc32.Checksum(data[it.Src:it.Src+it.SrcSize], table)
			require.Equal(t, want, sums[i], "round %d, %+v", round, it)
			if i == 0 {
				require.Equal(t, batch.BadChecksum, outcomes[i].Status)
			} else {
				require.Equal(t, batch.Outcome{Size: it.SrcSize}, outcomes[i])
			}
		}
	}
}
