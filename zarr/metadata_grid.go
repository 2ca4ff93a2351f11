package zarr

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
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

// parseGrid parses the chunk_grid member of metadata: "regular" or "rectilinear". Runs
// are nil for a regular grid, and for an axis of equal chunks.
func parseGrid(raw json.RawMessage) (shape []int64, runs [][]ChunkRun, err error) {
	ext, err := metajson.ParseExtension("chunk_grid", raw)
	if err != nil {
		return nil, nil, err
	}
	if !ext.MustUnderstand {
		return nil, nil, fmt.Errorf("chunk_grid %q: must_understand cannot be false", ext.Name)
	}
	switch ext.Name {
	case "regular":
		err = ext.Config.DecodeRequired("chunk_shape", &shape)
	case "rectilinear":
		shape, runs, err = parseRectilinear(ext.Config)
	default:
		return nil, nil, fmt.Errorf("chunk_grid %q: %w", ext.Name, errors.ErrUnsupported)
	}
	if err != nil {
		return nil, nil, err
	}
	return shape, runs, ext.Config.CheckEmpty()
}

func parseRectilinear(config *metajson.Object) (shape []int64, runs [][]ChunkRun, err error) {
	var kind string
	if err := config.DecodeRequired("kind", &kind); err != nil {
		return nil, nil, err
	}
	if kind != "inline" {
		return nil, nil, fmt.Errorf("chunk_grid of kind %q: %w", kind, errors.ErrUnsupported)
	}
	var axes []json.RawMessage
	if err := config.DecodeRequired("chunk_shapes", &axes); err != nil {
		return nil, nil, err
	}
	shape, runs = make([]int64, len(axes)), make([][]ChunkRun, len(axes))
	for i, raw := range axes {
		if shape[i], runs[i], err = parseAxis(raw); err != nil {
			return nil, nil, fmt.Errorf("chunk_shapes[%d]: %w", i, err)
		}
	}
	return shape, runs, nil
}

// parseAxis parses the extents of chunks along an axis: one for all chunks, or a list of
// extents and of [extent, count]. It returns the largest extent.
func parseAxis(raw json.RawMessage) (int64, []ChunkRun, error) {
	if extent, err := metajson.ParseInt(string(raw)); err == nil {
		return extent, nil, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil || len(items) == 0 {
		return 0, nil, fmt.Errorf("expected an extent or a list of extents and [extent, count], got %s", metajson.Excerpt(raw))
	}
	runs := make([]ChunkRun, 0, len(items))
	largest := int64(0)
	for k, item := range items {
		run := ChunkRun{Count: 1}
		var err error
		if run.Size, err = metajson.ParseInt(string(item)); err != nil {
			var pair []int64
			if metajson.Decode("run", item, &pair) != nil || len(pair) != 2 {
				return 0, nil, fmt.Errorf("item %d: expected an extent or [extent, count], got %s", k, metajson.Excerpt(item))
			}
			run = ChunkRun{Size: pair[0], Count: pair[1]}
		}
		if run.Size < 1 || run.Count < 1 {
			return 0, nil, fmt.Errorf("item %d: extent %d and count %d, want at least 1", k, run.Size, run.Count)
		}
		largest = max(largest, run.Size)
		if n := len(runs) - 1; n >= 0 && runs[n].Size == run.Size {
			runs[n].Count += run.Count
			if runs[n].Count < 1 {
				return 0, nil, fmt.Errorf("item %d: more than 2^63 chunks", k)
			}
			continue
		}
		runs = append(runs, run)
	}
	return largest, runs, nil
}

// formatGrid returns the chunk_grid member of metadata. Equal extents that follow each
// other become a run.
func formatGrid(shape []int64, runs [][]ChunkRun) metajson.Members {
	if runs == nil {
		return metajson.FormatExtension("regular", metajson.Members{{Key: "chunk_shape", Value: metajson.NonNil(shape)}})
	}
	axes := make([]any, len(shape))
	for i := range axes {
		if runs[i] == nil {
			axes[i] = shape[i]
			continue
		}
		list := []any{}
		for _, run := range runs[i] {
			if run.Count == 1 {
				list = append(list, run.Size)
			} else {
				list = append(list, []int64{run.Size, run.Count})
			}
		}
		axes[i] = list
	}
	return metajson.FormatExtension("rectilinear", metajson.Members{{Key: "kind", Value: "inline"}, {Key: "chunk_shapes", Value: axes}})
}
