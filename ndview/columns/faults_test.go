package columns_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// Each call of the driver that moves data fails once; whatever was made by then
// must be given back, which the machine checks.
func TestFailuresLeaveNothing(t *testing.T) {
	var left atomic.Int64
	driver := cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		moves := []string{"cuLaunchKernel", "cuMemsetD8Async", "cuMemAlloc", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync"}
		if slices.Contains(moves, call) && left.Add(-1) == 0 {
			return cudatest.OutOfMemory
		}
		return 0
	}})
	dev, err := driver.Device(0)
	require.NoError(t, err)
	for _, dtype := range types {
		m := newMaker(t, 3, true)
		a, b := on(t, dev, m.array(dtype, 40, true)), on(t, dev, m.array(dtype, 30, true))
		mask := m.array(arrow.FixedWidthTypes.Boolean, 40, true)
		for name, work := range map[string]func() (arrow.Array, error){
			"take":        func() (arrow.Array, error) { return columns.Take(a, columns.Indices(3, 9, 1)) },
			"filter":      func() (arrow.Array, error) { return columns.Filter(a, mask) },
			"concatenate": func() (arrow.Array, error) { return columns.Concatenate(a, b) },
			"flatten":     func() (arrow.Array, error) { return columns.Flatten(a) },
			"decode":      func() (arrow.Array, error) { return columns.Decode(a) },
		} {
			for n := int64(1); ; n++ {
				left.Store(n)
				made, err := work()
				done := left.Swap(0) > 0
				if err == nil {
					made.Release()
				}
				if done {
					break
				}
				require.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "%s of %s: call %d", name, dtype, n)
			}
		}
	}
}
