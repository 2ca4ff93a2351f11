package grid

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
)

// Run is Count consecutive chunks of the same extent along one axis.
type Run struct{ Size, Count int64 }

// Axis divides an axis of an array into chunks. The zero value is invalid. An Axis is
// immutable.
type Axis struct {
	size int64 // extent of every chunk; 0 if the extents differ
	runs []Run
	// Of each run: the element and the chunk at which it begins. One more entry holds
	// the end of the last run.
	elements, chunks []int64
}

// Regular returns an axis whose chunks all have one extent. It has no end.
func Regular(size int64) (Axis, error) {
	if size < 1 {
		return Axis{}, fmt.Errorf("chunk extent %d, want at least 1", size)
	}
	return Axis{size: size}, nil
}

// Runs returns an axis whose chunks have the extents of the runs. It ends with the last
// run. It returns an error if an extent or a count is below 1, or their sum is too
// large for an int64.
func Runs(runs ...Run) (Axis, error) {
	a := Axis{runs: slices.Clone(runs), elements: []int64{0}, chunks: []int64{0}}
	if len(runs) == 0 {
		return Axis{}, fmt.Errorf("no chunk extents, want at least one")
	}
	element, chunk := int64(0), int64(0)
	for _, r := range runs {
		switch {
		case r.Size < 1 || r.Count < 1:
			return Axis{}, fmt.Errorf("%d chunks of extent %d, want at least 1 of each", r.Count, r.Size)
		case r.Count > (math.MaxInt64-element)/r.Size:
			return Axis{}, fmt.Errorf("chunk extents sum to more than 2^63 elements")
		}
		element += r.Size * r.Count
		chunk += r.Count
		a.elements, a.chunks = append(a.elements, element), append(a.chunks, chunk)
	}
	return a, nil
}

// Regular returns the extent that all chunks have, or false if the axis has runs.
func (a Axis) Regular() (int64, bool) { return a.size, a.size > 0 }

// Runs returns the runs, or nil for a regular axis. The caller must not modify them.
func (a Axis) Runs() []Run { return a.runs }

// End returns the number of elements that the chunks cover: 2^63-1 for a regular axis.
func (a Axis) End() int64 {
	if a.size > 0 {
		return math.MaxInt64
	}
	return a.elements[len(a.runs)]
}

// Len returns the number of chunks that the axis has: 2^63-1 divided by the extent, for
// a regular axis.
func (a Axis) Len() int64 {
	if a.size > 0 {
		return math.MaxInt64 / a.size
	}
	return a.chunks[len(a.runs)]
}

// Chunk returns the elements [start, stop) of a chunk, which must be below Len.
func (a Axis) Chunk(chunk int64) (start, stop int64) {
	if a.size > 0 {
		return chunk * a.size, (chunk + 1) * a.size
	}
	r := sort.Search(len(a.runs)-1, func(i int) bool { return a.chunks[i+1] > chunk })
	start = a.elements[r] + (chunk-a.chunks[r])*a.runs[r].Size
	return start, start + a.runs[r].Size
}

// Find returns the chunk that holds an element, which must be below End.
func (a Axis) Find(element int64) int64 {
	if a.size > 0 {
		return element / a.size
	}
	r := sort.Search(len(a.runs)-1, func(i int) bool { return a.elements[i+1] > element })
	return a.chunks[r] + (element-a.elements[r])/a.runs[r].Size
}

// Count returns the number of chunks that hold the first extent elements.
func (a Axis) Count(extent int64) int64 {
	if extent <= 0 {
		return 0
	}
	return a.Find(extent-1) + 1
}

// Max returns the largest extent of a chunk.
func (a Axis) Max() int64 {
	largest := a.size
	for _, r := range a.runs {
		largest = max(largest, r.Size)
	}
	return largest
}

// Grid divides an array into chunks: one Axis per axis.
type Grid []Axis

// RegularGrid returns the grid whose chunks all have one shape.
func RegularGrid(chunk []int64) (Grid, error) {
	g := make(Grid, len(chunk))
	for i, size := range chunk {
		var err error
		if g[i], err = Regular(size); err != nil {
			return nil, fmt.Errorf("chunk shape %v: %w", chunk, err)
		}
	}
	return g, nil
}

// Regular returns the shape that all chunks have, or false if an axis has runs.
func (g Grid) Regular() ([]int64, bool) {
	shape := make([]int64, len(g))
	for i, a := range g {
		if a.size == 0 {
			return nil, false
		}
		shape[i] = a.size
	}
	return shape, true
}

// Counts returns the number of chunks along each axis of an array. It returns an error
// if the chunks do not cover the shape.
func (g Grid) Counts(shape []int64) ([]int64, error) {
	if err := g.Covers(shape); err != nil {
		return nil, err
	}
	counts := make([]int64, len(g))
	for i, a := range g {
		counts[i] = a.Count(shape[i])
	}
	return counts, nil
}

// Covers returns an error unless the chunks cover an array of the shape.
func (g Grid) Covers(shape []int64) error {
	if len(shape) != len(g) {
		return fmt.Errorf("shape %v has %d axes, its chunk grid has %d", shape, len(shape), len(g))
	}
	for i, a := range g {
		if shape[i] < 0 || shape[i] > a.End() {
			return fmt.Errorf("shape %v: extent %d of axis %d, the chunks cover %d", shape, shape[i], i, a.End())
		}
	}
	return nil
}

// Has reports whether the grid has a chunk with this index.
func (g Grid) Has(index []int64) bool {
	if len(index) != len(g) {
		return false
	}
	for i, a := range g {
		if index[i] < 0 || index[i] >= a.Len() {
			return false
		}
	}
	return true
}

// Box returns the elements of a chunk of the grid.
func (g Grid) Box(index []int64) Box {
	both := make([]int64, 2*len(g))
	b := Box{Origin: both[:len(g):len(g)], Shape: both[len(g):]}
	for i, a := range g {
		start, stop := a.Chunk(index[i])
		b.Origin[i], b.Shape[i] = start, stop-start
	}
	return b
}

// Chunks yields the index of every chunk that intersects a box, which the grid covers.
func (g Grid) Chunks(b Box) iter.Seq[[]int64] {
	first, counts := make([]int64, len(g)), make([]int64, len(g))
	for i, a := range g {
		if b.Shape[i] > 0 {
			first[i] = a.Find(b.Origin[i])
			counts[i] = a.Find(b.Origin[i]+b.Shape[i]-1) - first[i] + 1
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
