package cpu

import "unsafe"

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
