package grid_test

import (
	"math"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunsMapElementsToChunks(t *testing.T) {
	a, err := grid.Runs(grid.Run{Size: 5, Count: 2}, grid.Run{Size: 1, Count: 3}, grid.Run{Size: 10, Count: 1})
	require.NoError(t, err)
	assert.EqualValues(t, 23, a.End())
	assert.EqualValues(t, 6, a.Len())
	assert.EqualValues(t, 10, a.Max())
	element := int64(0)
	for chunk := range a.Len() {
		start, stop := a.Chunk(chunk)
		assert.Equal(t, element, start)
		for ; element < stop; element++ {
			assert.Equal(t, chunk, a.Find(element), element)
			assert.Equal(t, chunk+1, a.Count(element+1), element)
		}
	}
	assert.EqualValues(t, 23, element)
	assert.Zero(t, a.Count(0))
}

func TestRegularAxisEqualsRunsOfOneSize(t *testing.T) {
	a, err := grid.Regular(3)
	require.NoError(t, err)
	b, err := grid.Runs(grid.Run{Size: 3, Count: 7})
	require.NoError(t, err)
	for i := range int64(21) {
		assert.Equal(t, a.Find(i), b.Find(i))
	}
	for i := range int64(7) {
		start, stop := a.Chunk(i)
		start2, stop2 := b.Chunk(i)
		assert.Equal(t, []int64{start, stop}, []int64{start2, stop2})
	}
}

func TestGridYieldsTheChunksOfABox(t *testing.T) {
	rows, err := grid.Runs(grid.Run{Size: 2, Count: 1}, grid.Run{Size: 3, Count: 2})
	require.NoError(t, err)
	columns, err := grid.Regular(4)
	require.NoError(t, err)
	g := grid.Grid{rows, columns}
	got := slices.Collect(g.Chunks(grid.Box{Origin: []int64{1, 3}, Shape: []int64{2, 2}}))
	assert.Equal(t, [][]int64{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, got)
	assert.Empty(t, slices.Collect(g.Chunks(grid.Box{Origin: []int64{8, 3}, Shape: []int64{0, 2}})))
	assert.Equal(t, grid.Box{Origin: []int64{5, 4}, Shape: []int64{3, 4}}, g.Box([]int64{2, 1}))
	counts, err := g.Counts([]int64{8, 9})
	require.NoError(t, err)
	assert.Equal(t, []int64{3, 3}, counts)
	_, err = g.Counts([]int64{9, 9})
	assert.ErrorContains(t, err, "cover 8")
	assert.True(t, g.Has([]int64{2, 100}))
	assert.False(t, g.Has([]int64{3, 0}))
	assert.False(t, g.Has([]int64{-1, 0}))
	assert.False(t, g.Has([]int64{0}))
	_, ok := g.Regular()
	assert.False(t, ok)
}

func TestMalformedAxesAreErrors(t *testing.T) {
	for _, runs := range [][]grid.Run{nil, {{0, 1}}, {{1, 0}}, {{-1, 2}}, {{math.MaxInt64, 2}}, {{math.MaxInt64, 1}, {1, 1}}} {
		_, err := grid.Runs(runs...)
		assert.Error(t, err, runs)
	}
	_, err := grid.RegularGrid([]int64{2, 0})
	assert.ErrorContains(t, err, "[2 0]")
}
