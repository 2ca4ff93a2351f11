package arrowzarr

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// rowGrid is how rows are divided into chunks, and chunks into shards.
type rowGrid struct {
	chunkRows int64
	shardRows int64 // 0: no shards
}

// unit returns the rows that are stored together: those of a shard, or of a chunk.
func (g rowGrid) unit() int64 { return max(g.shardRows, g.chunkRows) }

// chunkSizer fits the sizes of chunks and shards to the memory.
type chunkSizer struct {
	automatic bool // Options.ChunkRows is 0
	shares    memoryShares
	jobs      int
	codec     codecSet
	// shardMemory is the memory of the shards that are open, if the store keeps them in
	// memory; otherwise it is 0.
	shardMemory int64
	// choosesShards reports whether defaultGrid has shards, and shardMemory is no limit of
	// the caller's.
	choosesShards bool
}

// objectBytes is the most that an object of a store has by default, without compression.
// Requests of 8 to 64 MiB are as fast as a store is, and larger ones must be repeated whole.
const objectBytes = 64 << 20

// arrayHeaderBytes is what Go has of an array beside its values.
const arrayHeaderBytes = 1 << 10

// defaultGrid returns the grid of an input whose options do not say it. Shards have as many
// chunks as fit into an object, if that is at least two: those of the widest column, and of
// all in memory. Encoded chunks may be longer than those of the first batch.
//
// Of a mapped input, flat columns are gathered in the page cache: only what Go has of each
// of their arrays counts.
func (s chunkSizer) defaultGrid(columns []*column, widths []float64, batchRows int64, mapped bool) rowGrid {
	var gathered float64
	for i, width := range widths {
		if mapped && columns[i].kind != kindNested {
			width = arrayHeaderBytes / float64(max(batchRows, 1))
		}
		gathered += width
	}
	return s.withShards(rowGrid{chunkRows: s.chunkRows(columns, widths, gathered)}, columns, widths)
}

// withShards returns a grid with shards, if the sizer chooses them.
func (s chunkSizer) withShards(grid rowGrid, columns []*column, widths []float64) rowGrid {
	if !s.choosesShards {
		return grid
	}
	var row, widest float64
	for i, c := range columns {
		if c.kind != kindNested { // its arrays have grids of their own
			row, widest = row+widths[i], max(widest, widths[i])
		}
	}
	if row == 0 {
		return grid
	}
	rows := min(objectBytes/widest, float64(s.shardMemory)/2/row)
	if chunks := int64(rows / float64(grid.chunkRows)); chunks >= 2 {
		grid.shardRows = chunks * grid.chunkRows
	}
	return grid
}

// chunkRows returns DefaultChunkRows, halved until the rows at work fit into the
// memory. The chunk of all columns that is gathered may take an eighth of it. The
// chunks that are encoded, which take three times their size, may take the chunks'
// share. widths has the bytes of a row of each column, and gathered those of a row that is
// gathered.
func (s chunkSizer) chunkRows(columns []*column, widths []float64, gathered float64) int64 {
	rows := int64(DefaultChunkRows)
	var widest float64
	for i, c := range columns {
		if c.kind != kindNested { // its arrays have chunks of their own
			widest = max(widest, widths[i])
		}
	}
	fits := func() bool {
		encoding := widest * float64(rows) * 3
		alone := encoding + float64(outsideHeap(int64(s.codec.tableBytes(widest*float64(rows)))))
		share := float64(s.shares.chunks)
		return gathered*float64(rows) <= float64(s.shares.total/8) && encoding*float64(s.jobs) <= share && alone <= share
	}
	for rows > 1 && !fits() {
		rows /= 2
	}
	return rows
}

// rowWidths returns the bytes of a row of each column of a batch.
func rowWidths(columns []*column, batch arrow.RecordBatch) []float64 {
	widths := make([]float64, len(columns))
	for i, c := range columns {
		widths[i] = c.rowBytes(batch.Column(i), batch.NumRows())
	}
	return widths
}

// checkShardMemory refuses shards that would not fit into memory, if the store keeps them
// there until they are whole. Each column has one that is open.
func (s chunkSizer) checkShardMemory(grid rowGrid, widths []float64) error {
	if grid.shardRows == 0 || s.shardMemory == 0 || s.choosesShards {
		return nil
	}
	var row float64
	for _, width := range widths {
		row += width
	}
	if need := row * float64(grid.shardRows); need > float64(s.shardMemory) {
		return partErrorf(PartUsage, "the shards of all columns take %.0f bytes of memory, which an object store needs to write them whole, more than the %d that are for them: lower --shard-rows, or raise --max-memory", need, s.shardMemory)
	}
	return nil
}

// checkShardIndexes refuses shards of such a number of chunks that the indexes of
// the shards that are open at a time take much of the memory.
func (s chunkSizer) checkShardIndexes(grid rowGrid, columns int) error {
	const entryBytes = 80 // of an index entry and what is made of it
	share := s.shares.total / 8 / int64(columns+1)
	if chunks := grid.shardRows / grid.chunkRows; chunks > share/entryBytes {
		return partErrorf(PartUsage, "a shard of %d chunks has an index of %d bytes for each column: lower --shard-rows, raise --chunk-rows, or raise --max-memory", chunks, 16*chunks)
	}
	return nil
}

// rowBytes is the size of a row of the column. If it varies, it is the average of
// an array of values.
func (c *column) rowBytes(values arrow.Array, rows int64) float64 {
	if c.kind == kindFixed || c.kind == kindDictionary {
		return float64(c.layout.elements() * c.layout.dtype.Size())
	}
	data := values.Data()
	if c.runs {
		runs := arrowdata.UnwrapRuns(values).Data()
		data, rows = runs, int64(runs.Len())
	}
	return float64(arrowdata.ArrayBytes(data, arrowdata.BufferLen)) / float64(max(rows, 1))
}
