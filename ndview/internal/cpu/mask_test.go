package cpu

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestTruePositionsListsNonzeroBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, most := range []int{1, 2, 5, 100, 1000} { // one in most elements is true
		for n := range 301 {
			if n > 200 {
				n += Tile // more than a tile
			}
			mask := make([]byte, n)
			var want []uint64
			for i := range mask {
				if random.IntN(most) == 0 {
					mask[i] = byte(1 + random.IntN(255))
					want = append(want, uint64(i))
				}
			}
			counts, starts := make([]uint32, Tiles(int64(n))), make([]int64, Tiles(int64(n))+1)
			CountTiles(mask, counts)
			ScanTiles(counts, starts)
			require.EqualValues(t, len(want), starts[len(counts)], "of %d elements, one of %d", n, most)
			const guard = 1 << 40
			got := make([]uint64, len(want)+8)
			for i := range got {
				got[i] = guard
			}
			TruePositions(mask, starts, got[:len(want)])
			want = append(want, guard, guard, guard, guard, guard, guard, guard, guard)
			require.Equal(t, want, got, "of %d elements, one of %d", n, most)
			if n > 0 {
				src, packed := make([]uint16, n), make([]uint16, len(want)-8+1)
				for i := range src {
					src[i] = uint16(random.Uint32())
				}
				Compact(mask, starts, unsafe.Pointer(&src[0]), unsafe.Pointer(&packed[0]), 2)
				for k, at := range want[:len(want)-8] {
					require.Equal(t, src[at], packed[k], "of %d elements, one of %d", n, most)
				}
			}
			words := make([]uint64, len(want)-8)
			listTrueWords(mask, 0, words)
			require.Equal(t, want[:len(words)], words, "of %d elements, one of %d, without vectors", n, most)
		}
	}
}

func TestAtMost1FindsLargerByte(t *testing.T) {
	for n := range 400 {
		x := make([]byte, n)
		for i := range x {
			x[i] = byte(i & 1)
		}
		require.True(t, atMost1(x))
		for i := range x {
			x[i] ^= 2 << (i % 7)
			require.False(t, atMost1(x), "byte %d of %d", i, n)
			x[i] = byte(i & 1)
		}
	}
}
