package grid

import "bytes"

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
