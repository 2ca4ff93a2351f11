package cpu

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Unravel writes the index along each axis of each position, in C order in a shape. out
// has one array per axis.
func Unravel(positions []int64, shape, out []int64) {
	n := int64(len(positions))
	Parallel(n, grain/8, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			rest := positions[j]
			for k := len(shape) - 1; k >= 0; k-- {
				out[int64(k)*n+j] = rest % shape[k]
				rest /= shape[k]
			}
		}
	})
}

// Mode is the treatment of an index outside its axis, as NumPy's mode argument.
type Mode int32

// The modes. Raise counts negative indices from the end, and rejects others outside.
// Wrap is modulo the extent. Clip takes the first or the last element.
const (
	Raise Mode = iota
	Wrap
	Clip
)

type index interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// resolve returns the element that an index selects on an axis of extent elements, at
// least 1. It returns 0, false for a bad index.
func resolve[I index](i I, extent int64, mode Mode) (int64, bool) {
	k := int64(i)
	if i >= 0 && uint64(i) < uint64(extent) {
		return k, true
	}
	switch {
	case mode == Wrap && i > 0:
		return int64(uint64(i) % uint64(extent)), true
	case mode == Wrap:
		k %= extent
		if k < 0 {
			k += extent
		}
		return k, true
	case mode == Clip && i > 0:
		return extent - 1, true
	case mode == Clip:
		return 0, true
	case i < 0 && k >= -extent:
		return k + extent, true
	default:
		return 0, false
	}
}

// FirstBadIndex is the first item with a bad index, or NoFlag. Kernels lower it atomically.
type FirstBadIndex uint64

// NoBadIndex is the initial value of a flag: all bits are set.
const NoBadIndex = ^FirstBadIndex(0)

// BadIndexReport records bad indices of a walk in Flag. First is the number of the walk's first
// item.
type BadIndexReport struct {
	Flag  *FirstBadIndex
	First int64
}

// Record lowers the flag to an item.
func (r BadIndexReport) Record(item int64) {
	item += r.First
	at := (*uint64)(r.Flag)
	for {
		old := atomic.LoadUint64(at)
		if uint64(item) >= old || atomic.CompareAndSwapUint64(at, old, uint64(item)) {
			return
		}
	}
}

// IndexMap maps indices to positions. Kernels take it by value, as struct IndexMap.
type IndexMap struct {
	Extent      int64 // of the axis; at least 1
	Scale, Bias int64
	Mode        Mode
	Add         int32 // 1 to add to the previous value
	Size        int32 // bytes per index
	Signed      int32 // 1 if indices are signed
}

// ResolveIndices resolves the index of each item of a walk. pos receives the element times Scale
// plus Bias; with Add it is added to the previous value. A bad index counts as 0 and is
// reported.
func ResolveIndices(pos, indices unsafe.Pointer, w *Walk, f *IndexMap, r BadIndexReport) {
	fold := map[int32][2]func(*int64, unsafe.Pointer, *Walk, *IndexMap, BadIndexReport, int64, int64){
		1: {fold[uint8], fold[int8]}, 2: {fold[uint16], fold[int16]},
		4: {fold[uint32], fold[int32]}, 8: {fold[uint64], fold[int64]},
	}[f.Size][f.Signed]
	Parallel(w.Items, grain/8, func(lo, hi int64) { fold((*int64)(pos), indices, w, f, r, lo, hi) })
}

func fold[I index](pos *int64, indices unsafe.Pointer, w *Walk, f *IndexMap, r BadIndexReport, lo, hi int64) {
	out := unsafe.Slice(pos, w.Items)
	step := w.Index[max(w.Axes-1, 0)]
	w.rows(lo, hi, func(item, n int64, at Offset) {
		row := out[item : item+n]
		for j := range row {
			k, ok := resolve(*(*I)(unsafe.Add(indices, at.Index+int64(j)*step)), f.Extent, f.Mode)
			if !ok {
				r.Record(item + int64(j))
			}
			to := k*f.Scale + f.Bias
			if f.Add != 0 {
				to += row[j]
			}
			row[j] = to
		}
	})
}

// unit is the type in which elements, and runs of them, are copied.
type unit interface {
	uint8 | uint16 | uint32 | uint64 | [2]uint64
}

// Gather copies the items of a walk, units of width bytes, 1, 2, 4, 8 or 16, to out,
// which is contiguous. An item is at w.Data plus step times the element selected by its
// index, on an axis of extent elements. Indices are int32 or int64, as indexSize says;
// negative ones count from the end. A bad index is reported, and its unit not written.
func Gather(out, src, indices unsafe.Pointer, width, indexSize int64, w *Walk, extent, step int64, r BadIndexReport) {
	do := gathers[width][indexSize/8]
	w.parallel(width, func(lo, hi int64) { do(out, src, indices, w, extent, step, r, lo, hi) })
}

var gathers = map[int64][2]func(out, src, indices unsafe.Pointer, w *Walk, extent, step int64, r BadIndexReport, lo, hi int64){
	1:  {gather[uint8, int32], gather[uint8, int64]},
	2:  {gather[uint16, int32], gather[uint16, int64]},
	4:  {gather[uint32, int32], gather[uint32, int64]},
	8:  {gather[uint64, int32], gather[uint64, int64]},
	16: {gather[[2]uint64, int32], gather[[2]uint64, int64]},
}

func gather[T unit, I int32 | int64](out, src, indices unsafe.Pointer, w *Walk, extent, step int64, r BadIndexReport, lo, hi int64) {
	var one T
	var i I
	last := max(w.Axes-1, 0)
	data, index := w.Data[last], w.Index[last]
	gapless := data == 0 && step == int64(unsafe.Sizeof(one)) && index == int64(unsafe.Sizeof(i))
	dst := unsafe.Slice((*T)(out), w.Items)
	if run := max(w.Extent[last], 1); w.Axes == 2 && w.Data[0] == 0 && w.Index[0] == int64(unsafe.Sizeof(i)) &&
		index == 0 && data == int64(unsafe.Sizeof(one)) && lo%run == 0 && hi%run == 0 {
		rows := unsafe.Slice((*I)(indices), w.Extent[0])[lo/run : hi/run]
		if bad := gatherRuns(dst[lo:hi], src, rows, int(run), extent, step); bad >= 0 {
			r.Record(lo + bad*run)
		}
		return
	}
	w.rows(lo, hi, func(item, n int64, at Offset) {
		row := dst[item : item+n]
		from, by := unsafe.Add(src, at.Data), unsafe.Add(indices, at.Index)
		bad := int64(-1)
		switch {
		case index == 0: // one index per row
			if k, ok := resolveIndex(*(*I)(by), extent); ok {
				copyRow(row, unsafe.Add(from, k*step), data)
			} else {
				bad = 0
			}
		case gapless:
			bad = gatherRow(row, unsafe.Slice((*T)(from), extent), unsafe.Slice((*I)(by), n))
		default:
			bad = gatherStrided[T, I](row, from, by, data, index, extent, step)
		}
		if bad >= 0 {
			r.Record(item + bad)
		}
	})
}

// resolveIndex is resolve in mode Raise.
func resolveIndex[I int32 | int64](i I, extent int64) (int64, bool) {
	k := int64(i)
	if k < 0 {
		k += extent
	}
	return k, uint64(k) < uint64(extent)
}

// copyRow copies units that are stride bytes apart.
func copyRow[T unit](row []T, from unsafe.Pointer, stride int64) {
	if stride == int64(unsafe.Sizeof(row[0])) {
		src := unsafe.Slice((*T)(from), len(row))
		if len(row) > 8 {
			copy(row, src)
			return
		}
		for j := range row {
			row[j] = src[j]
		}
		return
	}
	for j := range row {
		row[j] = *(*T)(unsafe.Add(from, int64(j)*stride))
	}
}

// gatherRow sets row[j] = src[indices[j]] up to the first bad index, whose position it
// returns, or -1.
func gatherRow[T unit, I int32 | int64](row, src []T, indices []I) int64 {
	indices = indices[:len(row)]
	for j, i := range indices {
		k, ok := resolveIndex(i, int64(len(src)))
		if !ok {
			return int64(j)
		}
		row[j] = src[k]
	}
	return -1
}

// gatherRuns is gatherRow for contiguous runs of units, step bytes apart.
func gatherRuns[T unit, I int32 | int64](out []T, src unsafe.Pointer, indices []I, run int, extent, step int64) int64 {
	for j, i := range indices {
		k, ok := resolveIndex(i, extent)
		if !ok {
			return int64(j)
		}
		from, to := unsafe.Add(src, k*step), out[j*run:(j+1)*run]
		switch run {
		case 2:
			*(*[2]T)(to) = *(*[2]T)(from)
		case 4:
			*(*[4]T)(to) = *(*[4]T)(from)
		default:
			copy(to, unsafe.Slice((*T)(from), run))
		}
	}
	return -1
}

// gatherStrided is gatherRow for strided operands.
func gatherStrided[T unit, I int32 | int64](row []T, from, by unsafe.Pointer, data, index, extent, step int64) int64 {
	for j := range row {
		k, ok := resolveIndex(*(*I)(unsafe.Add(by, int64(j)*index)), extent)
		if !ok {
			return int64(j)
		}
		row[j] = *(*T)(unsafe.Add(from, int64(j)*data+k*step))
	}
	return -1
}

// Discarded is a position that Scatter skips.
const Discarded = -1

// Scatter writes the values of a walk's items, units of width bytes, 1, 2, 4, 8 or 16.
// The value at w.Value goes to dst at w.Data plus step times the int64 position at
// w.Index, if that is less than extent. If a position repeats, the last value wins. The
// caller may set distinct if positions are distinct, which is faster.
func Scatter(dst, pos, values unsafe.Pointer, width int64, w *Walk, extent, step int64, distinct bool) {
	do := scatters[width]
	if distinct {
		w.parallel(width, func(lo, hi int64) { do(dst, pos, values, w, 0, extent, step, lo, hi) })
		return
	}
	// Each goroutine handles a range of positions, for all items in order.
	parts := max(min(w.Items/(grain/width), int64(runtime.GOMAXPROCS(0))), 1)
	Parallel(extent, max(extent/parts, 1), func(from, to int64) { do(dst, pos, values, w, from, to, step, 0, w.Items) })
}

var scatters = map[int64]func(dst, pos, values unsafe.Pointer, w *Walk, from, to, step, lo, hi int64){
	1: scatter[uint8], 2: scatter[uint16], 4: scatter[uint32], 8: scatter[uint64], 16: scatter[[2]uint64],
}

// scatter writes items [lo, hi) whose positions are in [start, stop).
func scatter[T unit](dst, pos, values unsafe.Pointer, w *Walk, start, stop, step, lo, hi int64) {
	var one T
	last := max(w.Axes-1, 0)
	data, index, value := w.Data[last], w.Index[last], w.Value[last]
	size, span := int64(unsafe.Sizeof(one)), uint64(stop-start)
	w.rows(lo, hi, func(_, n int64, at Offset) {
		to, by, from := unsafe.Add(dst, at.Data), unsafe.Add(pos, at.Index), unsafe.Add(values, at.Value)
		switch {
		case index == 0: // one position per row
			if k := *(*int64)(by); uint64(k-start) < span {
				copyStridedRow[T](unsafe.Add(to, k*step), from, n, data, value)
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

// copyStridedRow copies n units; toStep and fromStep are the bytes between them.
func copyStridedRow[T unit](to, from unsafe.Pointer, n, toStep, fromStep int64) {
	var one T
	if toStep == int64(unsafe.Sizeof(one)) {
		copyRow(unsafe.Slice((*T)(to), n), from, fromStep)
		return
	}
	for j := range n {
		*(*T)(unsafe.Add(to, j*toStep)) = *(*T)(unsafe.Add(from, j*fromStep))
	}
}
