// Package grid is the arithmetic of chunk grids and of boxes in C-ordered
// arrays. Shapes are lists of extents; an array of extents () has one element.
package grid

import (
	"fmt"
	"iter"
	"math"
	"slices"
)

// Size is the number of elements of a shape.
func Size(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// Bytes is the size in bytes of a shape of elements of the given width, or an
// error where that is 2^63 or more, or an extent is negative.
func Bytes(shape []int64, width int64) (int64, error) {
	n, empty := width, false
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("shape %v has a negative extent", shape)
		case d == 0:
			empty = true
		case n > math.MaxInt64/d:
			return 0, fmt.Errorf("shape %v of elements of %d bytes is larger than 2^63 bytes", shape, width)
		default:
			n *= d
		}
	}
	if empty {
		n = 0
	}
	return n, nil
}

// Counts is the number of chunks along each axis.
func Counts(shape, chunk []int64) []int64 {
	counts := make([]int64, len(shape))
	for i := range shape {
		counts[i] = shape[i] / chunk[i]
		if shape[i]%chunk[i] != 0 {
			counts[i]++
		}
	}
	return counts
}

// Indices yields every index below counts, in C order. The slice is the
// caller's.
func Indices(counts []int64) iter.Seq[[]int64] {
	return func(yield func([]int64) bool) {
		if slices.Contains(counts, 0) {
			return
		}
		index := make([]int64, len(counts))
		for {
			if !yield(slices.Clone(index)) {
				return
			}
			axis := len(counts) - 1
			for ; axis >= 0; axis-- {
				if index[axis]++; index[axis] < counts[axis] {
					break
				}
				index[axis] = 0
			}
			if axis < 0 {
				return
			}
		}
	}
}

// Box is a range of elements along each axis.
type Box struct{ At, Extent []int64 }

// Whole is the box of a whole array.
func Whole(shape []int64) Box { return Box{At: make([]int64, len(shape)), Extent: shape} }

// Chunk is the box that a chunk of a regular grid covers.
func Chunk(index, chunk []int64) Box {
	at := make([]int64, len(index))
	for i := range index {
		at[i] = index[i] * chunk[i]
	}
	return Box{At: at, Extent: chunk}
}

// Intersect is the box that two boxes share, and whether there is any of it.
func (b Box) Intersect(c Box) (Box, bool) {
	out := Box{At: make([]int64, len(b.At)), Extent: make([]int64, len(b.At))}
	for i := range b.At {
		low := max(b.At[i], c.At[i])
		high := min(b.At[i]+b.Extent[i], c.At[i]+c.Extent[i])
		if high <= low {
			return out, false
		}
		out.At[i], out.Extent[i] = low, high-low
	}
	return out, true
}

// From gives the box in coordinates that begin at an origin.
func (b Box) From(origin []int64) Box {
	at := make([]int64, len(b.At))
	for i := range at {
		at[i] = b.At[i] - origin[i]
	}
	return Box{At: at, Extent: b.Extent}
}

// IsWhole tells whether the box is all of an array of the given shape.
func (b Box) IsWhole(shape []int64) bool {
	return slices.Equal(b.Extent, shape) && !slices.ContainsFunc(b.At, func(n int64) bool { return n != 0 })
}

// Run tells whether the box is one run of consecutive elements of a C-ordered
// array, and where the run starts.
func (b Box) Run(shape []int64) (start int64, ok bool) {
	partial := false // an inner axis is not whole
	for i := len(shape) - 1; i >= 0; i-- {
		if partial && b.Extent[i] != 1 {
			return 0, false
		}
		partial = partial || b.Extent[i] != shape[i]
	}
	for i, n := range shape {
		start = start*n + b.At[i]
	}
	return start, true
}

// Indices yields the index of every chunk of a regular grid that meets the box.
func (b Box) Indices(chunk []int64) iter.Seq[[]int64] {
	first, counts := make([]int64, len(chunk)), make([]int64, len(chunk))
	for i, c := range chunk {
		first[i] = b.At[i] / c
		if b.Extent[i] > 0 {
			counts[i] = (b.At[i]+b.Extent[i]-1)/c - first[i] + 1
		}
	}
	return func(yield func([]int64) bool) {
		for index := range Indices(counts) {
			for i := range index {
				index[i] += first[i]
			}
			if !yield(index) {
				return
			}
		}
	}
}
