package ndview_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// tilesOf returns the tiles of an array of two axes, row by row. Those at the ends are
// smaller.
func tilesOf(t *testing.T, a *ndview.NDBuffer, rows, columns int64) (tiles []*ndview.NDBuffer) {
	t.Helper()
	shape := a.Shape()
	for r := int64(0); r < shape[0]; r += rows {
		for c := int64(0); c < shape[1]; c += columns {
			tile, err := a.Index(ndview.Span(r, min(r+rows, shape[0])), ndview.Span(c, min(c+columns, shape[1])))
			require.NoError(t, err)
			t.Cleanup(tile.Release)
			tiles = append(tiles, tile)
		}
	}
	return tiles
}

func TestCopyAllCopiesEachArray(t *testing.T) {
	test := func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range [][4]int64{{12, 20, 3, 4}, {12, 20, 12, 4}, {12, 20, 3, 20}, {13, 22, 3, 4}, {7, 5, 1, 1}, {4, 4, 9, 9}, {1, 30, 1, 7}} {
			raw := make([]int32, c[0]*c[1])
			for i := range raw {
				raw[i] = rand.Int32()
			}
			whole, err := ndview.FromHost(dev, ndview.Int32, raw, c[0], c[1])
			require.NoError(t, err)
			t.Cleanup(whole.Release)
			src := tilesOf(t, whole, c[2], c[3])
			const gap = 60 // bytes after each tile
			slab, err := ndview.Zeros(dev, ndview.Uint8, int64(len(src))*(c[2]*c[3]*4+gap))
			require.NoError(t, err)
			t.Cleanup(slab.Release)
			dst := make([]*ndview.NDBuffer, len(src))
			for i, tile := range src {
				dst[i], err = ndview.FromBuffer(slab.Buffer(), ndview.Int32, int64(i)*(c[2]*c[3]*4+gap), tile.Shape(), nil)
				require.NoError(t, err)
				t.Cleanup(dst[i].Release)
			}
			require.NoError(t, ndview.CopyAll(dst, src))
			var elements int64
			for i, tile := range src {
				want, err := ndview.ToHost[int32](tile)
				require.NoError(t, err)
				got, err := ndview.ToHost[int32](dst[i])
				require.NoError(t, err)
				require.Equal(t, want, got, "%v: tile %d", c, i)
				elements += int64(len(want))
			}
			require.Equal(t, c[0]*c[1], elements)
			back, err := ndview.Zeros(dev, ndview.Int32, c[0], c[1])
			require.NoError(t, err)
			t.Cleanup(back.Release)
			require.NoError(t, ndview.CopyAll(tilesOf(t, back, c[2], c[3]), dst))
			got, err := ndview.ToHost[int32](back)
			require.NoError(t, err)
			require.Equal(t, raw, got, fmt.Sprint(c))
		}
	}
	cudatest.ForEachArrowDevice(t, test)
}

func TestCopyAllOfTilesIsOneLaunch(t *testing.T) {
	var launches atomic.Int64
	driver := cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		if call == "cuLaunchKernel" {
			launches.Add(1)
		}
		return 0
	}})
	dev, err := driver.Device(0)
	require.NoError(t, err)
	whole, err := ndview.Zeros(dev, ndview.Int32, 64, 64)
	require.NoError(t, err)
	t.Cleanup(whole.Release)
	slab, err := ndview.Zeros(dev, ndview.Int32, 64*64)
	require.NoError(t, err)
	t.Cleanup(slab.Release)
	src := tilesOf(t, whole, 8, 8)
	dst := make([]*ndview.NDBuffer, len(src))
	for i := range dst {
		dst[i], err = ndview.FromBuffer(slab.Buffer(), ndview.Int32, int64(i)*256, []int64{8, 8}, nil)
		require.NoError(t, err)
		t.Cleanup(dst[i].Release)
	}
	before := launches.Load()
	require.NoError(t, ndview.CopyAll(dst, src))
	assert.EqualValues(t, 1, launches.Load()-before, "64 tiles")
}

func TestCopyAllRefusesArraysThatDiffer(t *testing.T) {
	a, err := ndview.Zeros(arrowbuf.CPU(), ndview.Int32, 4)
	require.NoError(t, err)
	defer a.Release()
	b, err := ndview.Zeros(arrowbuf.CPU(), ndview.Int32, 1)
	require.NoError(t, err)
	defer b.Release()
	c, err := ndview.Zeros(arrowbuf.CPU(), ndview.Int64, 4)
	require.NoError(t, err)
	defer c.Release()
	assert.ErrorIs(t, ndview.CopyAll([]*ndview.NDBuffer{a}, []*ndview.NDBuffer{b}), ndview.ErrShape)
	assert.ErrorIs(t, ndview.CopyAll([]*ndview.NDBuffer{a}, nil), ndview.ErrShape)
	assert.ErrorIs(t, ndview.CopyAll([]*ndview.NDBuffer{a}, []*ndview.NDBuffer{c}), ndview.ErrDType)
	assert.ErrorIs(t, ndview.CopyAll([]*ndview.NDBuffer{a}, []*ndview.NDBuffer{nil}), ndview.ErrNil)
}
