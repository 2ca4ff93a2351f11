// Package grid computes with chunk grids and boxes of C-ordered arrays. Shapes are
// lists of extents; an array of shape () has one element.
package grid

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"slices"
)

// Size returns the number of elements of a shape.
func Size(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// ByteSize returns the size in bytes of an array with elements of the given width. It
// returns an error if that exceeds 2^63-1 or an extent is negative.
func ByteSize(shape []int64, width int64) (int64, error) {
	n, empty := width, false
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("shape %v has a negative extent", shape)
		case d == 0:
			empty = true
		case n > math.MaxInt64/d:
			return 0, fmt.Errorf("shape %v of elements of %d bytes exceeds 2^63 bytes", shape, width)
		default:
			n *= d
		}
	}
	if empty {
		n = 0
	}
	return n, nil
}

// GridShape returns the number of chunks along each axis.
func GridShape(shape, chunk []int64) []int64 {
	counts := make([]int64, len(shape))
	for i := range shape {
		counts[i] = shape[i] / chunk[i]
		if shape[i]%chunk[i] != 0 {
			counts[i]++
		}
	}
	return counts
}

// Indices yields every index below counts in C order. The caller owns each slice.
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

// Box is a box of elements: its first index and its extents.
type Box struct{ Origin, Shape []int64 }

// WholeBox returns the box that covers a whole array.
func WholeBox(shape []int64) Box { return Box{Origin: make([]int64, len(shape)), Shape: shape} }

// ChunkBox returns the box that a chunk of a regular grid covers.
func ChunkBox(index, chunk []int64) Box {
	at := make([]int64, len(index))
	for i := range index {
		at[i] = index[i] * chunk[i]
	}
	return Box{Origin: at, Shape: chunk}
}

// Intersect returns the intersection of two boxes, or false if it is empty.
func (b Box) Intersect(c Box) (Box, bool) {
	out := Box{Origin: make([]int64, len(b.Origin)), Shape: make([]int64, len(b.Origin))}
	for i := range b.Origin {
		low := max(b.Origin[i], c.Origin[i])
		high := min(b.Origin[i]+b.Shape[i], c.Origin[i]+c.Shape[i])
		if high <= low {
			return out, false
		}
		out.Origin[i], out.Shape[i] = low, high-low
	}
	return out, true
}

// Contains reports whether c lies within the box.
func (b Box) Contains(c Box) bool {
	for i := range b.Origin {
		if c.Origin[i] < b.Origin[i] || c.Origin[i]+c.Shape[i] > b.Origin[i]+b.Shape[i] {
			return false
		}
	}
	return true
}

// RelativeTo returns the box in coordinates relative to origin.
func (b Box) RelativeTo(origin []int64) Box {
	at := make([]int64, len(b.Origin))
	for i := range at {
		at[i] = b.Origin[i] - origin[i]
	}
	return Box{Origin: at, Shape: b.Shape}
}

// Covers reports whether the box is a whole array of the given shape.
func (b Box) Covers(shape []int64) bool {
	return slices.Equal(b.Shape, shape) && !slices.ContainsFunc(b.Origin, func(n int64) bool { return n != 0 })
}

// ContiguousRange returns the first element of the box in a C-ordered array, and
// whether the box is one contiguous range there.
func (b Box) ContiguousRange(shape []int64) (start int64, ok bool) {
	partial := false // an inner axis is not whole
	for i := len(shape) - 1; i >= 0; i-- {
		if partial && b.Shape[i] != 1 {
			return 0, false
		}
		partial = partial || b.Shape[i] != shape[i]
	}
	for i, n := range shape {
		start = start*n + b.Origin[i]
	}
	return start, true
}

// Enclosing returns the smallest box around a box of at least one element that is one
// contiguous range in a C-ordered array: whole along the axes after the first of several
// elements.
func (b Box) Enclosing(shape []int64) Box {
	out := Box{Origin: slices.Clone(b.Origin), Shape: slices.Clone(b.Shape)}
	for i := range shape {
		if i > 0 && out.Shape[i-1] > 1 {
			copy(out.Shape[i:], shape[i:])
			clear(out.Origin[i:])
			break
		}
	}
	return out
}

// ChunkIndices yields the index of every chunk of a regular grid that intersects the
// box.
func (b Box) ChunkIndices(chunk []int64) iter.Seq[[]int64] {
	first, counts := make([]int64, len(chunk)), make([]int64, len(chunk))
	for i, c := range chunk {
		first[i] = b.Origin[i] / c
		if b.Shape[i] > 0 {
			counts[i] = (b.Origin[i]+b.Shape[i]-1)/c - first[i] + 1
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

// Copy copies a box of elements between C-ordered arrays. An element is width
// consecutive T: the bytes of a number, or one byte string.
func Copy[T any](dst []T, dstShape, dstAt []int64, src []T, srcShape, srcAt, extent []int64, width int64) {
	if Size(extent) == 0 {
		return
	}
	// Inner axes that the box covers in both arrays form one contiguous run.
	axis, run := len(extent), width
	for axis > 0 {
		axis--
		run *= extent[axis]
		if extent[axis] != dstShape[axis] || extent[axis] != srcShape[axis] {
			break
		}
	}
	to, from := strides(dstShape, width), strides(srcShape, width)
	var d, s int64
	for i := range extent {
		d += dstAt[i] * to[i]
		s += srcAt[i] * from[i]
	}
	copyRuns(dst, src, d, s, extent[:axis], to, from, run)
}

func copyRuns[T any](dst, src []T, d, s int64, extent, to, from []int64, run int64) {
	if len(extent) == 0 {
		copy(dst[d:d+run], src[s:s+run])
		return
	}
	for i := range extent[0] {
		copyRuns(dst, src, d+i*to[0], s+i*from[0], extent[1:], to[1:], from[1:], run)
	}
}

// Transpose copies a C-ordered array of the given shape into C order of its transpose.
// Axis i of the transpose is axis order[i] of the source.
func Transpose[T any](dst, src []T, shape []int64, order []int, width int64) {
	from := strides(shape, width)
	extent, stride := make([]int64, len(order)), make([]int64, len(order))
	for i, axis := range order {
		extent[i], stride[i] = shape[axis], from[axis]
	}
	if Size(extent) > 0 {
		transpose(dst, src, 0, extent, stride, width)
	}
}

func transpose[T any](dst, src []T, s int64, extent, stride []int64, width int64) {
	if len(extent) == 0 {
		copy(dst[:width], src[s:s+width])
		return
	}
	part := int64(len(dst)) / extent[0]
	for i := range extent[0] {
		transpose(dst[i*part:(i+1)*part], src, s+i*stride[0], extent[1:], stride[1:], width)
	}
}

func strides(shape []int64, width int64) []int64 {
	out := make([]int64, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = width
		width *= shape[i]
	}
	return out
}

// Fill repeats a pattern over dst, whose length must be a multiple of the pattern's.
func Fill(dst, pattern []byte) {
	if len(dst) == 0 {
		return
	}
	for n := copy(dst, pattern); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// IsFilled reports whether raw consists of repetitions of the pattern, bitwise.
func IsFilled(raw, pattern []byte) bool {
	n := len(pattern)
	if len(raw) == 0 {
		return true
	}
	// All elements are equal if the array equals itself shifted by one element.
	return bytes.Equal(raw[:n], pattern) && bytes.Equal(raw[:len(raw)-n], raw[n:])
}
