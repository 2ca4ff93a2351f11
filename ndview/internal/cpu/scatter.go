package cpu

import "unsafe"

// StruckOut is a position at which Scatter writes nothing.
const StruckOut = -1

// Scatter writes values to the items of a walk, units of width bytes, 1, 2, 4, 8
// or 16: the one at the walk's Value to dst at its Data plus step times the
// item's position, an int64 at its Index, if that is less than extent. In order,
// unless positions are said to be apart, which is faster: then none repeats with
// another value.
func Scatter(dst, pos, values unsafe.Pointer, width int64, w *Walk, extent, step int64, apart bool) {
	do := map[int64]func(dst, pos, values unsafe.Pointer, w *Walk, extent, step, lo, hi int64){
		1: scatter[uint8], 2: scatter[uint16], 4: scatter[uint32], 8: scatter[uint64], 16: scatter[[2]uint64],
	}[width]
	if !apart {
		do(dst, pos, values, w, extent, step, 0, w.Items)
		return
	}
	Parallel(w.Items, grain/width, func(lo, hi int64) { do(dst, pos, values, w, extent, step, lo, hi) })
}

func scatter[T unit](dst, pos, values unsafe.Pointer, w *Walk, extent, step, lo, hi int64) {
	last := max(w.Axes-1, 0)
	data, index, value := w.Data[last], w.Index[last], w.Value[last]
	w.rows(lo, hi, func(_, n int64, at Offset) {
		to, by, from := unsafe.Add(dst, at.Data), unsafe.Add(pos, at.Index), unsafe.Add(values, at.Value)
		if index == 0 { // one position for the row
			if k := *(*int64)(by); uint64(k) < uint64(extent) {
				moveRow[T](unsafe.Add(to, k*step), from, n, data, value)
			}
			return
		}
		for j := range n {
			if k := *(*int64)(unsafe.Add(by, j*index)); uint64(k) < uint64(extent) {
				*(*T)(unsafe.Add(to, j*data+k*step)) = *(*T)(unsafe.Add(from, j*value))
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
