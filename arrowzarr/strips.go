package arrowzarr

import (
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
)

// stripSizer sizes the strips of a Parquet file by the columns of a conversion.
type stripSizer struct {
	columns []*column
	sizer   chunkSizer
	grid    rowGrid // of the options or the output; chunkRows is 0 if it is to be found
}

// allowStrips lets the input be read in strips, if it can be.
func (c *conversion) allowStrips(grid rowGrid, sizer chunkSizer) {
	p := c.parquetInput()
	// Shards of all columns are open at a time. Codecs are chosen before the first chunk, by
	// samples of all columns.
	if p != nil && grid.shardRows == 0 && !slices.ContainsFunc(c.chosen.columns, func(c *column) bool { return c.codecs.hasAuto() }) {
		p.AllowStrips(&stripSizer{columns: c.chosen.columns, sizer: sizer, grid: grid})
	}
}

// longestArray is the size in bytes of the longest array of text, whose offsets are int32. A
// strip has one array of each column.
const longestArray = math.MaxInt32

func (s *stripSizer) RowBytes(column int, values arrow.Array) (bytes float64, ok bool) {
	c := s.columns[column]
	switch {
	case c.kind == kindFixed || c.kind == kindDictionary:
		return c.rowBytes(nil, 0), true
	case values == nil:
		return 0, false
	}
	return c.rowBytes(values, int64(values.Len())), true
}

func (s *stripSizer) Choose(widths []float64, total int64, wide bool) (first source.Strip, ok bool) {
	var row, widest float64
	for _, width := range widths {
		row, widest = row+width, max(widest, width)
	}
	grid := s.grid
	if grid.chunkRows > 0 {
		rows := float64(min(grid.chunkRows, total))
		return source.Strip{ChunkRows: grid.chunkRows}, row*rows > float64(s.sizer.shares.batches/2) && widest*rows <= longestArray
	}
	grid.chunkRows = min(s.sizer.chunkRows(s.columns, widths, 0), total)
	ok = wide && s.sizer.chunkRows(s.columns, widths, row) < grid.chunkRows && widest*float64(grid.chunkRows) <= longestArray
	grid = s.sizer.withShards(grid, s.columns, widths)
	return source.Strip{ChunkRows: grid.chunkRows, ShardRows: grid.shardRows}, ok
}
