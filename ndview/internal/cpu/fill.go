package cpu

import "unsafe"

// Fill writes a pattern over and over to n bytes, the first of which is byte
// phase of it.
func Fill(dst unsafe.Pointer, n int64, pattern []byte, phase int64) {
	size := int64(len(pattern))
	zero := true
	for _, b := range pattern {
		zero = zero && b == 0
	}
	Parallel(n, 4*grain, func(lo, hi int64) {
		out := unsafe.Slice((*byte)(unsafe.Add(dst, lo)), hi-lo)
		if zero {
			clear(out)
			return
		}
		at := (lo + phase) % size
		filled := min(int64(copy(out, pattern[at:])), hi-lo)
		filled += int64(copy(out[filled:], pattern[:at])) // once around
		// What is there is doubled as long as the cache holds it, and copied then.
		const cached = 16 << 10
		for filled < min(cached, hi-lo) {
			filled += int64(copy(out[filled:], out[:filled]))
		}
		for block := filled; filled < hi-lo; {
			filled += int64(copy(out[filled:], out[:block]))
		}
	})
}
