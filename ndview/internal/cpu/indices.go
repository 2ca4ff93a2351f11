package cpu

import (
	"sync/atomic"
	"unsafe"
)

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
