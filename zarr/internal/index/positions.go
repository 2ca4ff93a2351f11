// Package index computes with selections of elements of N-dimensional arrays: it
// composes them, splits them by chunks and copies the selected elements.
package index

import "slices"

// Positions are positions along one axis, in the order of selection: a range, or a list
// if List is not nil.
type Positions struct {
	Start, Step int64 // of a range: position i is Start + i*Step
	Len         int64
	List        []int64 // Len positions
}

// Range returns the positions start, start+step, ...: n of them.
func Range(start, step, n int64) Positions { return Positions{Start: start, Step: step, Len: n} }

// List returns the positions of a list, which it retains.
func List(positions []int64) Positions {
	if positions == nil {
		positions = []int64{}
	}
	return Positions{Len: int64(len(positions)), List: positions}
}

// At returns position i.
func (p Positions) At(i int64) int64 {
	if p.List != nil {
		return p.List[i]
	}
	return p.Start + i*p.Step
}

// Pick returns the positions of p that q selects.
func (p Positions) Pick(q Positions) Positions {
	if p.List == nil && q.List == nil {
		return Range(p.At(q.Start), p.Step*q.Step, q.Len)
	}
	picked := make([]int64, q.Len)
	for i := range picked {
		picked[i] = p.At(q.At(int64(i)))
	}
	return List(picked)
}

// affine returns the positions p*scale + offset.
func (p Positions) affine(scale, offset int64) Positions {
	if p.List == nil {
		return Range(p.Start*scale+offset, p.Step*scale, p.Len)
	}
	moved := make([]int64, len(p.List))
	for i, n := range p.List {
		moved[i] = n*scale + offset
	}
	return List(moved)
}

// isRun reports whether the positions are a range of the step, or at most one position.
func (p Positions) isRun(step int64) bool {
	return p.List == nil && (p.Step == step || p.Len <= 1)
}

// covers reports whether the positions, which are below extent, are all of [0, extent).
func (p Positions) covers(extent int64) bool {
	if p.Len < extent {
		return false
	}
	if p.List == nil {
		return p.Step == 1 || p.Step == -1 || extent <= 1 && p.Len > 0 || extent == 0
	}
	return distinct(p.List, extent) == extent
}

// distinct returns the number of distinct values below limit.
func distinct(values []int64, limit int64) int64 {
	seen := make([]uint64, limit/64+1)
	n := int64(0)
	for _, v := range values {
		if bit := uint64(1) << (v % 64); seen[v/64]&bit == 0 {
			seen[v/64] |= bit
			n++
		}
	}
	return n
}

// bounds returns the smallest and the largest position of at least one.
func (p Positions) bounds() (low, high int64) {
	if p.List != nil {
		return slices.Min(p.List), slices.Max(p.List)
	}
	last := p.At(p.Len - 1)
	return min(p.Start, last), max(p.Start, last)
}
