package cpu

import (
	"runtime"
	"unsafe"
)

// StruckOut is a position at which Scatter writes nothing.
const StruckOut = -1

// Scatter writes values to the items of a walk, units of width bytes, 1, 2, 4, 8
// or 16: the one at the walk's Value to dst at its Data plus step times the
// item's position, an int64 at its Index, if that is less than extent. Where a
// position repeats the last value stays, unless positions are said to be apart,
// which is faster.
func Scatter(dst, pos, values unsafe.Pointer, width int64, w *Walk, extent, step int64, apart bool) {
	do := scatters[width]
	if apart {
		w.parallel(width, func(lo, hi int64) { do(dst, pos, values, w, 0, extent, step, lo, hi) })
		return
	}
	// Each goroutine goes through all items in order, for some of the positions.
	parts := max(min(w.Items/(grain/width), int64(runtime.GOMAXPROCS(0))), 1)
	Parallel(extent, max(extent/parts, 1), func(from, to int64) { do(dst, pos, values, w, from, to, step, 0, w.Items) })
}

var scatters = map[int64]func(dst, pos, values unsafe.Pointer, w *Walk, from, to, step, lo, hi int64){
	1: scatter[uint8], 2: scatter[uint16], 4: scatter[uint32], 8: scatter[uint64], 16: scatter[[2]uint64],
}

// scatter does items [lo, hi) whose positions are in [start, stop).
func scatter[T unit](dst, pos, values unsafe.Pointer, w *Walk, start, stop, step, lo, hi int64) {
	var one T
	last := max(w.Axes-1, 0)
	data, index, value := w.Data[last], w.Index[last], w.Value[last]
	size, span := int64(unsafe.Sizeof(one)), uint64(stop-start)
	w.rows(lo, hi, func(_, n int64, at Offset) {
		to, by, from := unsafe.Add(dst, at.Data), unsafe.Add(pos, at.Index), unsafe.Add(values, at.Value)
		switch {
		case index == 0: // one position for the row
			if k := *(*int64)(by); uint64(k-start) < span {
				moveRow[T](unsafe.Add(to, k*step), from, n, data, value)
			}
		case data == 0 && step == size && index == 8 && value == size:
			elements, source := unsafe.Slice((*T)(to), stop), unsafe.Slice((*T)(from), n)
			for j, k := range unsafe.Slice((*int64)(by), n) {
				if uint64(k-start) < span {
					elements[k] = source[j]
				}
			}
		default:
			for j := range n {
				if k := *(*int64)(unsafe.Add(by, j*index)); uint64(k-start) < span {
					*(*T)(unsafe.Add(to, j*data+k*step)) = *(*T)(unsafe.Add(from, j*value))
				}
			}
		}
	})
}

// moveRow copies n units from and to places that are some bytes apart.
func moveRow[T unit](to, from unsafe.Pointer, n, apart, fromApart int64) {
	var one T
	if apart == int64(unsafe.Sizeof(one)) {
		copyRow(unsafe.Slice((*T)(to), n), from, fromApart)
		return
	}
	for j := range n {
		*(*T)(unsafe.Add(to, j*apart)) = *(*T)(unsafe.Add(from, j*fromApart))
	}
}
