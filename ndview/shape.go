package ndview

import (
	"fmt"
	"math"
)

// byteCount checks a dtype and a shape and returns the bytes of a gapless
// array. As in NumPy, the other extents of an empty array must make sense too.
func byteCount(dtype DType, shape []int64) (int64, error) {
	if dtype.size < 1 {
		return 0, fmt.Errorf("dtype %s: %w", dtype, ErrDType)
	}
	n, empty := dtype.Size(), false
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has a negative extent: %w", shape, ErrShape)
		}
		if d == 0 {
			empty = true
			continue
		}
		if n > math.MaxInt64/d {
			return 0, fmt.Errorf("shape %v of %s is larger than 2^63 bytes: %w", shape, dtype, ErrShape)
		}
		n *= d
	}
	if empty {
		return 0, nil
	}
	return n, nil
}

func product(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

func cStrides(dtype DType, shape []int64) []int64 {
	strides := make([]int64, len(shape))
	step := dtype.Size()
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = step
		step *= max(shape[i], 1)
	}
	return strides
}

// extent is the half-open range of bytes that the elements touch, from the
// offset to it where there are none. It answers false when that is beyond an
// int64.
func extent(dtype DType, offset int64, shape, strides []int64) (low, high int64, ok bool) {
	if product(shape) == 0 {
		return offset, offset, true
	}
	low, high = offset, offset
	for i, d := range shape {
		steps := d - 1
		reach := steps * strides[i]
		if steps > 0 && reach/steps != strides[i] {
			return 0, 0, false
		}
		switch {
		case reach < 0 && low < math.MinInt64-reach, reach > 0 && high > math.MaxInt64-reach:
			return 0, 0, false
		case reach < 0:
			low += reach
		default:
			high += reach
		}
	}
	if high > math.MaxInt64-dtype.Size() {
		return 0, 0, false
	}
	return low, high + dtype.Size(), true
}
