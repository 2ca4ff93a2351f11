package index_test

import (
	"math/rand/v2"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/index"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// randomPositions returns positions below extent: a range with any step, or a list.
func randomPositions(random *rand.Rand, extent int64) index.Positions {
	n := random.Int64N(extent + 2)
	if random.IntN(2) == 0 {
		list := make([]int64, n)
		for i := range list {
			list[i] = random.Int64N(extent)
		}
		return index.List(list)
	}
	start, step := random.Int64N(extent), random.Int64N(5)-2
	for n > 0 && (start+(n-1)*step < 0 || start+(n-1)*step >= extent) {
		n--
	}
	return index.Range(start, step, n)
}

// randomAxis returns an axis with chunks of one extent or of several.
func randomAxis(t *testing.T, random *rand.Rand, extent int64) grid.Axis {
	t.Helper()
	if random.IntN(2) == 0 {
		a, err := grid.Regular(1 + random.Int64N(extent+2))
		require.NoError(t, err)
		return a
	}
	var runs []grid.Run
	for sum := int64(0); sum < extent; {
		r := grid.Run{Size: 1 + random.Int64N(4), Count: 1 + random.Int64N(2)}
		runs, sum = append(runs, r), sum+r.Size*r.Count
	}
	a, err := grid.Runs(runs...)
	require.NoError(t, err)
	return a
}

func TestPartsOfChunksMakeTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	for range 500 {
		shape := make([]int64, random.IntN(4))
		g, axes := make(grid.Grid, len(shape)), make([]index.Positions, len(shape))
		for i := range shape {
			shape[i] = 1 + random.Int64N(9)
			g[i], axes[i] = randomAxis(t, random, shape[i]), randomPositions(random, shape[i])
		}
		data := make([]byte, 3*grid.Size(shape)) // elements of three bytes
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		s := index.Whole(shape).Outer(axes, make([]bool, len(axes)))
		if random.IntN(2) == 0 && grid.Size(s.Shape) > 0 {
			n := 1 + random.Int64N(8)
			points := make([][]int64, len(s.Shape))
			for i, extent := range s.Shape {
				for range n {
					points[i] = append(points[i], random.Int64N(extent))
				}
			}
			s = s.Pick(points, []int64{n})
		}
		full := s.FullShape()
		want := make([]byte, 3*grid.Size(full))
		index.Gather(s.Part(), want, full, data, shape, 3)

		got := make([]byte, len(want))
		for chunk, part := range s.Part().Split(g) {
			box := g.Box(chunk)
			region := make([]byte, 3*grid.Size(box.Shape))
			inside, ok := box.Intersect(grid.WholeBox(shape))
			require.True(t, ok)
			grid.Copy(region, box.Shape, make([]int64, len(shape)), data, shape, inside.Origin, inside.Shape, 3)
			index.Gather(part, got, full, region, box.Shape, 3)

			// The bounds of the part have all of it.
			bounds := part.Bounds()
			inner := make([]byte, 3*grid.Size(bounds.Shape))
			grid.Copy(inner, bounds.Shape, make([]int64, len(shape)), region, box.Shape, bounds.Origin, bounds.Shape, 3)
			ofRegion, ofInner := make([]byte, len(want)), make([]byte, len(want))
			index.Gather(part, ofRegion, full, region, box.Shape, 3)
			index.Gather(part.RelativeTo(bounds.Origin), ofInner, full, inner, bounds.Shape, 3)
			require.Equal(t, ofRegion, ofInner, "%v in %v", part, bounds)

			// Writing what was read changes nothing.
			before := append([]byte{}, region...)
			index.Scatter(part, region, box.Shape, want, full, 3)
			require.Equal(t, before, region)

			// A part covers the chunk if writing it leaves nothing.
			for i := range region {
				region[i] = 0
			}
			ones := make([]byte, len(want))
			for i := range ones {
				ones[i] = 1
			}
			index.Scatter(part, region, box.Shape, ones, full, 3)
			covered := true
			for _, b := range region {
				covered = covered && b == 1
			}
			require.Equal(t, covered, part.Covers(box.Shape), "%v of %v", part, box)
		}
		require.Equal(t, want, got)
	}
}

func TestBoxesAreRecognized(t *testing.T) {
	shape := []int64{5, 6}
	s := index.Whole(shape).Outer([]index.Positions{index.Range(1, 1, 3), index.Range(4, 7, 1)}, []bool{false, true})
	box, ok := s.Box()
	assert.True(t, ok)
	assert.Equal(t, grid.Box{Origin: []int64{1, 4}, Shape: []int64{3, 1}}, box)
	assert.Equal(t, []int64{3}, s.Shape)
	for _, p := range []index.Positions{index.Range(0, 2, 3), index.List([]int64{1, 2}), index.Range(3, -1, 2)} {
		_, ok := index.Whole(shape).Outer([]index.Positions{p, index.Range(0, 1, 6)}, make([]bool, 2)).Box()
		assert.False(t, ok)
	}
}
