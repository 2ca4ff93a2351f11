package layout

import (
	"cmp"
	"slices"
)

// Run says where the elements of an array lie: Size bytes at Offset and at each
// place that the strides reach from there. Offsets of two runs count from one
// origin; addresses serve too. All bytes lie within memory, so that positions
// and their differences are far below 2^62.
type Run struct {
	Offset, Size   int64
	Shape, Strides []int64
}

// Overlap tells whether two arrays have a byte in common. The answer is exact:
// it is no matter of extents only, so the even and the odd columns of a matrix
// do not overlap. One bound is kept on the search: layouts contrived so that it
// would take seconds are said to overlap.
func Overlap(a, b Run) bool {
	if Product(a.Shape) == 0 || Product(b.Shape) == 0 {
		return false
	}
	lowA, highA, _ := Extent(a.Size, a.Offset, a.Shape, a.Strides)
	lowB, highB, _ := Extent(b.Size, b.Offset, b.Shape, b.Strides)
	if highA <= lowB || highB <= lowA {
		return false
	}
	// With every axis turned to rise, a byte of a is lowA + Σ sᵢxᵢ + p, one of b
	// is lowB + Σ tⱼyⱼ + q. Counting y from the other end, y = last - y', makes
	// all signs of "they are equal" positive: Σ sᵢxᵢ + Σ tⱼy'ⱼ is to be
	// lowB - lowA + Σ tⱼlastⱼ + q - p, with -a.Size < q-p < b.Size.
	terms := append(steps(a), steps(b)...)
	middle := (highB - b.Size) - lowA
	return reaches(terms, middle-a.Size+1, middle+b.Size-1)
}

// Overlaps tells whether two different elements of an array have a byte in
// common, as those of a broadcast array do, so that the order of writes to it
// matters. It is exact as Overlap is.
func (r Run) Overlaps() bool {
	if Product(r.Shape) == 0 {
		return false
	}
	axes := steps(r)
	slices.SortFunc(axes, func(x, y term) int { return cmp.Compare(x.step, y.step) })
	if len(axes) > 0 && axes[0].step == 0 {
		return true
	}
	// Two elements differ by Σ sᵢdᵢ with -lastᵢ <= dᵢ <= lastᵢ, not all 0. Let i
	// be the last axis, by stride, with dᵢ ≠ 0; dᵢ > 0 without loss. The smaller
	// axes then must come back from sᵢ or more to less than an element's size.
	below, reach := []term{}, int64(0)
	for _, a := range axes {
		if a.step < reach+r.Size {
			terms := append(slices.Clone(below), term{a.step, a.count - 1})
			if target := reach - a.step; reaches(terms, target-r.Size+1, target+r.Size-1) {
				return true
			}
		}
		below = append(below, term{a.step, 2 * a.count})
		reach += a.step * a.count
	}
	return false
}

// steps are the axes along which an array has more than one element, all taken
// to rise.
func steps(r Run) []term {
	var out []term
	for i, d := range r.Shape {
		if d > 1 {
			out = append(out, term{magnitude(r.Strides[i]), d - 1})
		}
	}
	return out
}
