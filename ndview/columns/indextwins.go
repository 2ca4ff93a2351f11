package columns

import (
	"sync/atomic"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// perTile is how many items a block does, and bitWords how many words of a bitmap.
const (
	perTile  = 8 * launch.Threads
	bitWords = launch.Threads
)

// grain is how many items are worth a goroutine.
const grain = 16 << 10

var indexProgram = newProgram("columns/index", map[string]twin{
	"quiver_resolve_i8":   resolve[int8],
	"quiver_resolve_i16":  resolve[int16],
	"quiver_resolve_i32":  resolve[int32],
	"quiver_resolve_i64":  resolve[int64],
	"quiver_resolve_u8":   resolve[uint8],
	"quiver_resolve_u16":  resolve[uint16],
	"quiver_resolve_u32":  resolve[uint32],
	"quiver_resolve_u64":  resolve[uint64],
	"quiver_take_bits":    takeBits,
	"quiver_expand_fixed": spread,
})

// note lowers a flag to an item.
func note(flag []uint64, item int64) {
	for {
		old := atomic.LoadUint64(&flag[0])
		if uint64(item) >= old || atomic.CompareAndSwapUint64(&flag[0], old, uint64(item)) {
			return
		}
	}
}

// bitmap are the bits of a call: bytes of argument i, the first bit of i+1.
// Without bytes all are set.
type bitmap struct {
	bytes []byte
	first int64
}

func bitmapOf(c call, i int, n int64) bitmap {
	first := c.Int64(i + 1)
	return bitmap{elements[uint8](c, i, (first+n+7)/8), first}
}

func (b bitmap) at(i int64) bool {
	if b.bytes == nil {
		return true
	}
	i += b.first
	return b.bytes[i>>3]>>(i&7)&1 != 0
}

func resolve[I int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](c call) {
	n, extent := c.Int64(3), uint64(c.Int64(4))
	indices, valid, out, flag := elements[I](c, 0, n), bitmapOf(c, 1, n), elements[int64](c, 5, n), elements[uint64](c, 6, 1)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			i := int64(indices[j])
			switch {
			case !valid.at(j):
				i = -1
			case uint64(i) >= extent:
				note(flag, j)
				i = -1
			}
			out[j] = i
		}
	})
}

func takeBits(c call) {
	extent, n := c.Int64(2), c.Int64(4)
	from, at, out := bitmapOf(c, 0, extent), elements[int64](c, 3, n), elements[uint32](c, 5, (n+31)/32)
	cpu.Parallel(int64(len(out)), grain/32, func(lo, hi int64) {
		for word := lo; word < hi; word++ {
			var set uint32
			for b, i := range at[word*32 : min(word*32+32, n)] {
				if i >= 0 && from.at(i) {
					set |= 1 << b
				}
			}
			out[word] = set
		}
	})
}

func spread(c call) {
	n, each := c.Int64(1), c.Int64(2)
	at, out := elements[int64](c, 0, n/each), elements[int64](c, 3, n)
	cpu.Parallel(n/each, grain/each+1, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			for k := range each {
				if out[j*each+k] = -1; at[j] >= 0 {
					out[j*each+k] = at[j]*each + k
				}
			}
		}
	})
}
