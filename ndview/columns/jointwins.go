package columns

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

var joinProgram = newProgram("columns/concatenate", map[string]twin{
	"quiver_copy_bits":      copyBits,
	"quiver_end_offsets_32": ends[int32],
	"quiver_end_offsets_64": ends[int64],
	"quiver_rebase_32_32":   rebase[int32, int32],
	"quiver_rebase_32_64":   rebase[int32, int64],
	"quiver_rebase_64_32":   rebase[int64, int32],
	"quiver_rebase_64_64":   rebase[int64, int64],
	"quiver_shift_views":    shiftViews,
	"quiver_shift_union":    shiftUnion,
	"quiver_shift_ends_16":  shiftEnds[int16],
	"quiver_shift_ends_32":  shiftEnds[int32],
	"quiver_shift_ends_64":  shiftEnds[int64],
})

func copyBits(c call) {
	from, n, to := bitmap{first: c.Int64(1)}, c.Int64(2), c.Int64(4)
	from.bytes = elements[uint8](c, 0, (from.first+n+7)/8)
	words := elements[uint32](c, 3, (to+n+31)/32)
	out := unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(words))), 4*len(words))
	first := to / 8
	cpu.Parallel((to+n+7)/8-first, grain, func(lo, hi int64) {
		for b := first + lo; b < first+hi; b++ {
			i := b*8 - to // of the bits is bit 0 of the byte
			if i >= 0 && i+8 <= n {
				out[b] = from.byteAt(i)
				continue
			}
			for bit := range int64(8) {
				if i+bit < 0 || i+bit >= n {
					continue
				}
				out[b] &^= 1 << bit
				if from.at(i + bit) {
					out[b] |= 1 << bit
				}
			}
		}
	})
}

// byteAt are the eight bits from bit i on.
func (b bitmap) byteAt(i int64) uint8 {
	if b.bytes == nil {
		return 0xff
	}
	i += b.first
	v := b.bytes[i>>3] >> (i & 7)
	if i&7 != 0 {
		v |= b.bytes[i>>3+1] << (8 - i&7)
	}
	return v
}

func ends[W offset](c call) {
	n := c.Int64(1)
	offsets, out := elements[W](c, 0, n+1), elements[int64](c, 2, 2)
	out[0], out[1] = int64(offsets[0]), int64(offsets[n])
}

func rebase[I, O offset](c call) {
	n, delta := c.Int64(1), c.Int64(2)
	in, out := elements[I](c, 0, n), elements[O](c, 3, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for i, v := range in[lo:hi] {
			out[lo+int64(i)] = O(int64(v) + delta)
		}
	})
}

func shiftViews(c call) {
	const inlined = 12 // bytes at most
	n, shift := c.Int64(1), uint32(c.Int64(2))
	mustAlign(c, 0, 16)
	mustAlign(c, 3, 16)
	in, out := elements[uint32](c, 0, 4*n), elements[uint32](c, 3, 4*n)
	cpu.Parallel(n, grain/4, func(lo, hi int64) {
		copy(out[4*lo:4*hi], in[4*lo:4*hi])
		for i := 4 * lo; i < 4*hi; i += 4 {
			if out[i] > inlined {
				out[i+2] += shift
			}
		}
	})
}

// shifts are of the children of a union, by type code.
type shifts struct{ of [128]int32 }

func shiftUnion(c call) {
	n, shift := c.Int64(2), launch.Parameters[shifts](c, 3)
	ids, in, out := elements[int8](c, 0, n), elements[int32](c, 1, n), elements[int32](c, 4, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			out[i] = in[i] + shift.of[ids[i]&127]
		}
	})
}

func shiftEnds[E int16 | int32 | int64](c call) {
	n, first, elementsOf, before := c.Int64(1), c.Int64(2), c.Int64(3), c.Int64(4)
	in, out := elements[E](c, 0, n), elements[E](c, 5, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			out[i] = E(min(int64(in[i])-first, elementsOf) + before)
		}
	})
}
