package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// byteCount checks a dtype and a shape and returns the bytes of a gapless
// array.
func byteCount(dtype DType, shape []int64) (int64, error) {
	if dtype.size < 1 {
		return 0, fmt.Errorf("dtype %s: %w", dtype, ErrDType)
	}
	return layout.Bytes(dtype.Size(), shape)
}

func product(shape []int64) int64 { return layout.Product(shape) }

func cStrides(dtype DType, shape []int64) []int64 { return layout.C(dtype.Size(), shape) }
