package arrowzarr

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// rowGrid is how rows are cut: into chunks, and chunks into shards.
type rowGrid struct {
	chunkRows int64
	shardRows int64 // 0: no shards
}

// chooseChunkRows fixes the number of rows in a chunk with the first batch in
// hand.
func (c *conversion) chooseChunkRows(batch arrow.RecordBatch) {
	if c.grid.chunkRows == 0 {
		c.grid.chunkRows = c.defaultChunkRows(batch)
	}
}

// beginArrays makes the arrays, once: when the first chunk is full, or at the
// end of an input that is shorter than a chunk, whose chunks are then as long
// as it is, unless the user wanted another length.
func (c *conversion) beginArrays(atEnd bool) error {
	if c.begun {
		return nil
	}
	c.begun = true
	if atEnd && c.options.ChunkRows == 0 {
		c.grid.chunkRows = max(c.cutter.rows, 1)
	}
	if err := c.checkIndexes(); err != nil {
		return err
	}
	for i, w := range c.writers {
		if err := w.begin(c, fmt.Sprintf("%s/%d", c.building(), i)); err != nil {
			return err
		}
	}
	return nil
}

// checkIndexes refuses shards of so many chunks that the indexes of those that are
// written at a time take much of the memory.
func (c *conversion) checkIndexes() error {
	const each = 80 // bytes of an entry and of what is made of it
	share := c.options.MaxMemory / 8 / int64(len(c.writers)+1)
	if chunks := c.grid.shardRows / c.grid.chunkRows; chunks > share/each {
		return failedf(PartUsage, "a shard of %d chunks has an index of %d bytes for each column: lower --shard-rows, raise --chunk-rows, or raise --max-memory", chunks, 16*chunks)
	}
	return nil
}

// rowsAtOnce is how many rows to cut off: those of a chunk, or, where no column
// stores anything, all. A message of a few bytes can have 2^62 such rows.
func (c *conversion) rowsAtOnce() int64 {
	for _, plan := range c.columns {
		if plan.form != formNull {
			return c.grid.chunkRows
		}
	}
	return c.cutter.rows
}

// building is where the arrays are built: a name that no column has.
func (c *conversion) building() string {
	name := ".building"
	for slices.ContainsFunc(c.columns, func(plan *column) bool { return plan.name == name }) {
		name += "."
	}
	return name
}

// defaultChunkRows is DefaultChunkRows, halved until the rows that are in work
// at a time fit in a part of --max-memory: an eighth for the chunk of all
// columns that is gathered, the share of the work for the chunks that are being
// encoded, which take their size three times.
func (c *conversion) defaultChunkRows(batch arrow.RecordBatch) int64 {
	rows := int64(DefaultChunkRows)
	var row, widest float64
	for i, plan := range c.columns {
		width := plan.rowBytes(batch.Column(i), batch.NumRows())
		row += width
		widest = max(widest, width)
	}
	fits := func() bool {
		gathered, encoding := row*float64(rows), widest*float64(rows)*3
		alone := encoding + float64(outside(int64(c.options.Codec.tables(widest*float64(rows)))))
		share := float64(c.options.MaxMemory / workShare)
		return gathered <= float64(c.options.MaxMemory/8) && encoding*float64(c.options.Jobs) <= share && alone <= share
	}
	for rows > 1 && !fits() {
		rows /= 2
	}
	return rows
}

// rowBytes is the size of a row of the column: of fixed width, or as the first
// batch has it on average.
func (c *column) rowBytes(values arrow.Array, rows int64) float64 {
	if c.form == formFixed || c.form == formDictionary {
		return float64(c.layout.elements() * c.layout.dtype.Size())
	}
	var total int64
	for _, b := range values.Data().Buffers() {
		if b != nil {
			total += int64(b.Len())
		}
	}
	return float64(total) / float64(max(rows, 1))
}
