package zarr

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// ChunkRun is Count consecutive chunks of extent Size along one axis of a rectilinear
// chunk grid.
type ChunkRun struct{ Size, Count int64 }

// grid returns the chunk grid. It returns an error unless the grid covers the shape.
func (m *ArrayMetadata) grid() (grid.Grid, error) {
	if m.ChunkRuns == nil {
		g, err := grid.RegularGrid(m.ChunkShape)
		if err != nil {
			return nil, err
		}
		return g, g.Covers(m.Shape)
	}
	if len(m.ChunkRuns) != len(m.ChunkShape) {
		return nil, fmt.Errorf("chunk runs for %d axes, want %d", len(m.ChunkRuns), len(m.ChunkShape))
	}
	g := make(grid.Grid, len(m.ChunkRuns))
	for i, runs := range m.ChunkRuns {
		var err error
		if runs == nil {
			g[i], err = grid.Regular(m.ChunkShape[i])
		} else if g[i], err = grid.Runs(gridRuns(runs)...); err == nil && m.ChunkShape[i] != g[i].Max() {
			err = fmt.Errorf("chunk shape %v, want the largest extent %d of the runs", m.ChunkShape, g[i].Max())
		}
		if err != nil {
			return nil, fmt.Errorf("chunk grid: axis %d: %w", i, err)
		}
	}
	return g, g.Covers(m.Shape)
}

func gridRuns(runs []ChunkRun) []grid.Run {
	out := make([]grid.Run, len(runs))
	for i, r := range runs {
		out[i] = grid.Run(r)
	}
	return out
}

// compileFor returns the codec chain of chunks of a shape.
func (m *ArrayMetadata) compileFor(shape []int64) (*codec.Chain, error) {
	return m.Codecs.Compile(codec.ChunkSpec{Type: m.DataType, Shape: slices.Clone(shape), Fill: slices.Clone(m.fillValue())})
}
