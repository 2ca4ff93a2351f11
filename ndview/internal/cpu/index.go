package cpu

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Unravel writes what places, in C order in a shape, are along each axis, one
// axis after the other.
func Unravel(places []int64, shape, out []int64) {
	n := int64(len(places))
	Parallel(n, grain/8, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			rest := places[j]
			for k := len(shape) - 1; k >= 0; k-- {
				out[int64(k)*n+j] = rest % shape[k]
				rest /= shape[k]
			}
		}
	})
}

// Mode is what becomes of an index that is outside its axis.
type Mode int32

// The modes. In Raise an index counts from the end where it is negative, and any
// other outside is bad; Wrap goes around; Clip takes the first or the last.
const (
	Raise Mode = iota
	Wrap
	Clip
)

type index interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// resolve is the element that an index means of an axis of extent elements, at
// least 1, and whether it means one; the first if not.
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

// Flag is the first item whose index is bad, or NoFlag: the lowest that any
// goroutine has found. Kernels have a word of memory for it.
type Flag uint64

// NoFlag is what a flag is at first: all bits are set.
const NoFlag = ^Flag(0)

// Report is where bad indices of a walk are flagged, whose first item is First.
type Report struct {
	Flag  *Flag
	First int64
}

// Bad lowers the flag to an item.
func (r Report) Bad(item int64) {
	item += r.First
	at := (*uint64)(r.Flag)
	for {
		old := atomic.LoadUint64(at)
		if uint64(item) >= old || atomic.CompareAndSwapUint64(at, old, uint64(item)) {
			return
		}
	}
}

// Folding is how indices become positions. Kernels take it by value.
type Folding struct {
	Extent      int64 // of the axis, at least 1
	Scale, Bias int64
	Mode        Mode
	Add         int32 // 1 to add to what is there
	Size        int32 // bytes of an index
	Signed      int32 // 1 if indices are signed
}

// Fold resolves the index of each item of a walk, and writes it times Scale plus
// Bias to pos, one an item, or adds it to what is there. A bad index counts as 0,
// and is flagged.
func Fold(pos, indices unsafe.Pointer, w *Walk, f *Folding, r Report) {
	fold := map[int32][2]func(*int64, unsafe.Pointer, *Walk, *Folding, Report, int64, int64){
		1: {fold[uint8], fold[int8]}, 2: {fold[uint16], fold[int16]},
		4: {fold[uint32], fold[int32]}, 8: {fold[uint64], fold[int64]},
	}[f.Size][f.Signed]
	Parallel(w.Items, grain/8, func(lo, hi int64) { fold((*int64)(pos), indices, w, f, r, lo, hi) })
}

func fold[I index](pos *int64, indices unsafe.Pointer, w *Walk, f *Folding, r Report, lo, hi int64) {
	out := unsafe.Slice(pos, w.Items)
	step := w.Index[max(w.Axes-1, 0)]
	w.rows(lo, hi, func(item, n int64, at Offset) {
		row := out[item : item+n]
		for j := range row {
			k, ok := resolve(*(*I)(unsafe.Add(indices, at.Index+int64(j)*step)), f.Extent, f.Mode)
			if !ok {
				r.Bad(item + int64(j))
			}
			to := k*f.Scale + f.Bias
			if f.Add != 0 {
				to += row[j]
			}
			row[j] = to
		}
	})
}

// unit is what elements and runs of them are moved in.
type unit interface {
	uint8 | uint16 | uint32 | uint64 | [2]uint64
}

// Gather writes the items of a walk, units of width bytes, 1, 2, 4, 8 or 16, to
// out, which is gapless: from src at the walk's Data plus step times the element
// that the item's index means of an axis of extent elements. Indices are of
// indexSize bytes, int32 or int64, and count from the end where they are
// negative. A bad one is flagged, and its unit left as it is.
func Gather(out, src, indices unsafe.Pointer, width, indexSize int64, w *Walk, extent, step int64, r Report) {
	do := gathers[width][indexSize/8]
	w.parallel(width, func(lo, hi int64) { do(out, src, indices, w, extent, step, r, lo, hi) })
}

var gathers = map[int64][2]func(out, src, indices unsafe.Pointer, w *Walk, extent, step int64, r Report, lo, hi int64){
	1:  {gather[uint8, int32], gather[uint8, int64]},
	2:  {gather[uint16, int32], gather[uint16, int64]},
	4:  {gather[uint32, int32], gather[uint32, int64]},
	8:  {gather[uint64, int32], gather[uint64, int64]},
	16: {gather[[2]uint64, int32], gather[[2]uint64, int64]},
}

func gather[T unit, I int32 | int64](out, src, indices unsafe.Pointer, w *Walk, extent, step int64, r Report, lo, hi int64) {
	var one T
	var i I
	last := max(w.Axes-1, 0)
	data, index := w.Data[last], w.Index[last]
	gapless := data == 0 && step == int64(unsafe.Sizeof(one)) && index == int64(unsafe.Sizeof(i))
	dst := unsafe.Slice((*T)(out), w.Items)
	if run := max(w.Extent[last], 1); w.Axes == 2 && w.Data[0] == 0 && w.Index[0] == int64(unsafe.Sizeof(i)) &&
		index == 0 && data == int64(unsafe.Sizeof(one)) && lo%run == 0 && hi%run == 0 {
		rows := unsafe.Slice((*I)(indices), w.Extent[0])[lo/run : hi/run]
		if bad := pickRuns(dst[lo:hi], src, rows, int(run), extent, step); bad >= 0 {
			r.Bad(lo + bad*run)
		}
		return
	}
	w.rows(lo, hi, func(item, n int64, at Offset) {
		row := dst[item : item+n]
		from, by := unsafe.Add(src, at.Data), unsafe.Add(indices, at.Index)
		bad := int64(-1)
		switch {
		case index == 0: // one index for the row
			if k, ok := element(*(*I)(by), extent); ok {
				copyRow(row, unsafe.Add(from, k*step), data)
			} else {
				bad = 0
			}
		case gapless:
			bad = pick(row, unsafe.Slice((*T)(from), extent), unsafe.Slice((*I)(by), n))
		default:
			bad = pickApart[T, I](row, from, by, data, index, extent, step)
		}
		if bad >= 0 {
			r.Bad(item + bad)
		}
	})
}

// element is the element that an index means, negative ones from the end.
func element[I int32 | int64](i I, extent int64) (int64, bool) {
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

// pick is row[j] = src[indices[j]] up to the first bad index, of which it returns
// the place, or -1.
func pick[T unit, I int32 | int64](row, src []T, indices []I) int64 {
	indices = indices[:len(row)]
	for j, i := range indices {
		k, ok := element(i, int64(len(src)))
		if !ok {
			return int64(j)
		}
		row[j] = src[k]
	}
	return -1
}

// pickRuns is pick of runs of units that lie without gaps, step bytes apart.
func pickRuns[T unit, I int32 | int64](out []T, src unsafe.Pointer, indices []I, run int, extent, step int64) int64 {
	for j, i := range indices {
		k, ok := element(i, extent)
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

// pickApart is pick of operands that have gaps.
func pickApart[T unit, I int32 | int64](row []T, from, by unsafe.Pointer, data, index, extent, step int64) int64 {
	for j := range row {
		k, ok := element(*(*I)(unsafe.Add(by, int64(j)*index)), extent)
		if !ok {
			return int64(j)
		}
		row[j] = *(*T)(unsafe.Add(from, int64(j)*data+k*step))
	}
	return -1
}

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
