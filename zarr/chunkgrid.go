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

// setShape sets the shape. If a rectilinear grid ends before it, a chunk is added that
// covers the rest.
func (m *ArrayMetadata) setShape(shape []int64) {
	m.Shape = slices.Clone(shape)
	m.ChunkShape, m.ChunkRuns = slices.Clone(m.ChunkShape), slices.Clone(m.ChunkRuns)
	for i, runs := range m.ChunkRuns {
		axis, err := grid.Runs(gridRuns(runs)...)
		if runs == nil || err != nil || i >= len(shape) || shape[i] <= axis.End() {
			continue // Check reports errors
		}
		rest := shape[i] - axis.End()
		runs = slices.Clone(runs)
		if last := len(runs) - 1; runs[last].Size == rest {
			runs[last].Count++
		} else {
			runs = append(runs, ChunkRun{Size: rest, Count: 1})
		}
		m.ChunkRuns[i], m.ChunkShape[i] = runs, max(m.ChunkShape[i], rest)
	}
}

// checkChunks returns an error unless the codecs fit chunks of all extents.
func (m *ArrayMetadata) checkChunks() error {
	for i, runs := range m.ChunkRuns {
		shape, seen := slices.Clone(m.ChunkShape), map[int64]bool{m.ChunkShape[i]: true}
		for _, run := range runs {
			if shape[i] = run.Size; seen[run.Size] {
				continue
			}
			seen[run.Size] = true
			if _, err := m.compileFor(shape); err != nil {
				return fmt.Errorf("chunks of extent %d along axis %d: %w", run.Size, i, err)
			}
		}
	}
	return nil
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
