package layout_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// visits returns the sorted tuples of addresses that a nest visits.
func visits(shape []int64, strides [][]int64, at []int64) [][]int64 {
	if len(shape) == 0 {
		return [][]int64{slices.Clone(at)}
	}
	var all [][]int64
	for i := range shape[0] {
		next, rest := slices.Clone(at), make([][]int64, len(strides))
		for a, s := range strides {
			next[a] += i * s[0]
			rest[a] = s[1:]
		}
		all = append(all, visits(shape[1:], rest, next)...)
	}
	slices.SortFunc(all, slices.Compare[[]int64])
	return all
}

func TestCollapseVisitsTheSameElements(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		shape := make([]int64, r.IntN(5))
		strides := make([][]int64, 1+r.IntN(3))
		for a := range strides {
			strides[a] = make([]int64, len(shape))
		}
		for i := range shape {
			shape[i] = r.Int64N(5)
			for a := range strides {
				strides[a][i] = []int64{-24, -12, -8, -4, 0, 4, 8, 12, 16, 24, 48}[r.IntN(11)]
			}
		}
		n := layout.Collapse(shape, strides...)
		assert.LessOrEqual(t, len(n.Shape), max(1, len(shape)))
		want := visits(shape, strides, make([]int64, len(strides)))
		require.Equal(t, want, visits(n.Shape, n.Strides, n.Offsets), "shape %v strides %v: %+v", shape, strides, n)
	}
}

func TestCollapseMergesAndReversesAxes(t *testing.T) {
	n := layout.Collapse([]int64{2, 3, 4}, layout.CStrides(8, []int64{2, 3, 4}), layout.CStrides(4, []int64{2, 3, 4}))
	assert.Equal(t, layout.Nest{Shape: []int64{24}, Strides: [][]int64{{8}, {4}}, Offsets: []int64{0, 0}}, n)
	n = layout.Collapse([]int64{2, 3}, layout.FStrides(8, []int64{2, 3}), layout.FStrides(8, []int64{2, 3}))
	assert.Equal(t, []int64{6}, n.Shape, "Fortran order too")
	n = layout.Collapse([]int64{6}, []int64{-4})
	assert.Equal(t, layout.Nest{Shape: []int64{6}, Strides: [][]int64{{4}}, Offsets: []int64{-20}}, n)
	n = layout.Collapse([]int64{3, 4}, []int64{16, 4}, []int64{0, 4})
	assert.Equal(t, []int64{3, 4}, n.Shape, "what one array repeats is no run")
	assert.Empty(t, layout.Collapse([]int64{1, 1}, []int64{7, 9}).Shape)
}

func TestBroadcast(t *testing.T) {
	shape, err := layout.Broadcast([]int64{3, 1}, []int64{4}, nil)
	require.NoError(t, err)
	assert.Equal(t, []int64{3, 4}, shape)
	shape, err = layout.Broadcast([]int64{0, 1}, []int64{1, 5})
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 5}, shape)
	_, err = layout.Broadcast([]int64{3}, []int64{4})
	assert.ErrorIs(t, err, layout.ErrShape)
	strides, err := layout.BroadcastStrides([]int64{4, 1}, []int64{8, 8}, []int64{3, 4, 5})
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 8, 0}, strides)
	_, err = layout.BroadcastStrides([]int64{3}, []int64{8}, []int64{4})
	assert.ErrorIs(t, err, layout.ErrShape)
	_, err = layout.BroadcastStrides([]int64{1, 3}, []int64{8, 8}, []int64{3})
	assert.ErrorIs(t, err, layout.ErrShape)
}
