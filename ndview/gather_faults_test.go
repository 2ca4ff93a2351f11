package ndview_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// Each call of the driver that moves data fails once; whatever was made by then
// must be given back, which the machine checks.
func TestFailuresWhileIndicesAreFollowedLeaveNothing(t *testing.T) {
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
	a := fromHost(t, dev, ndview.Float32, make([]float32, 24), 2, 3, 4)
	one := fromHost(t, dev, ndview.Float32, make([]float32, 1))
	row := fromHost(t, dev, ndview.Float32, make([]float32, 4), 4)
	mask := maskOf(t, dev, []int64{1, 0, 1, 1, 0, 0}, 0, 2, 3)
	all := maskOf(t, dev, make([]int64, 24), 0, 2, 3, 4)
	four := maskOf(t, dev, []int64{1, 0, 1, 1}, 0, 4)
	wide, short := integers(t, dev, ndview.Int64, []int64{1, 0, 1}, []int64{3}), integers(t, dev, ndview.Int8, []int64{1, 0, 1}, []int64{3})
	turned, err := a.Transpose()
	own(t, turned, err)
	made := func(out *ndview.NDBuffer, err error) error {
		if err == nil {
			out.Release()
		}
		return err
	}
	for name, work := range map[string]func() error{
		"Take":        func() error { return made(ndview.Take(a, wide, 1, ndview.ModeRaise)) },
		"Take folded": func() error { return made(ndview.Take(a, short, 1, ndview.ModeWrap)) },
		"TakeFlat":    func() error { return made(ndview.TakeFlat(turned, wide, ndview.ModeRaise)) },
		"Put":         func() error { return ndview.Put(a, wide, row, ndview.ModeRaise) },
		"Put turned":  func() error { return ndview.Put(turned, wide, row, ndview.ModeRaise) },
		"Get indices": func() error { return made(a.Get(ndview.IntArray(wide), ndview.All, ndview.Ints(0, 1, 2))) },
		"Set indices": func() error { return a.Set(row, ndview.IntArray(wide), ndview.Ints(0, 1, 2)) },
		"Get mask":    func() error { return made(turned.Get(ndview.Mask(four), ndview.At(0))) },
		"Get rows":    func() error { return made(a.Get(ndview.Mask(mask))) },
		"Get compact": func() error { return made(a.Get(ndview.Mask(all))) },
		"Set rows":    func() error { return a.Set(row, ndview.Mask(mask)) },
		"Set expand":  func() error { return row.Set(one, ndview.Mask(four)) },
		"Compress":    func() error { return made(ndview.Compress(four, a, 2)) },
		"ArgWhere":    func() error { return made(ndview.ArgWhere(mask)) },
		"Concatenate": func() error { return made(ndview.Concatenate([]*ndview.NDBuffer{turned, turned}, 1)) },
		"DStack":      func() error { return made(ndview.DStack([]*ndview.NDBuffer{a, a})) },
	} {
		t.Run(name, func(t *testing.T) {
			for n := int64(1); ; n++ {
				left.Store(n)
				err := work()
				if left.Swap(0) > 0 {
					assert.NoError(t, err)
					assert.Greater(t, n, int64(1), "something was to fail")
					return
				}
				require.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "call %d", n)
			}
		})
	}
}
