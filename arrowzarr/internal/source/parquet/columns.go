package parquet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/parquet/parquetcolumn"
)

// batchReader reads the columns of row groups, batch by batch. A batch has rows of one
// row group.
type batchReader struct {
	ctx     context.Context
	arrow   *pqarrow.FileReader
	footer  *metadata.FileMetaData
	memory  memory.Allocator // zeroed, for arrow-go
	at      position
	rows    int64 // of a batch
	most    int64 // bytes of a batch of a wide file
	wide    bool
	columns []*columnReader
	tasks   []readTask // the longest first
	jobs    int
}

// position is a row of row groups.
type position struct {
	groups []int // not begun, and the current one
	row    int64 // of groups[0]
}

// rowsLeft returns the number of rows that the current row group has yet, after it has
// passed those that have none. It is 0 at the end.
func (p *position) rowsLeft(footer *metadata.FileMetaData) int64 {
	for len(p.groups) > 0 {
		if left := footer.RowGroup(p.groups[0]).NumRows() - p.row; left > 0 {
			return left
		}
		p.groups, p.row = p.groups[1:], 0
	}
	return 0
}

// columnReader is one column. arrow-go reads what parquetcolumn does not.
type columnReader struct {
	number int // in batchReader
	field  int
	name   string
	leaves int
	kind   arrow.DataType        // in the schema of the source
	own    *parquetcolumn.Column // nil if arrow-go reads the column
	other  atomic.Bool           // own has found a page that only arrow-go reads
	left   atomic.Int64          // leaves that are not read
	arrow  *pqarrow.ColumnReader // nil unless it is open
	made   arrow.Array           // of the current batch
}

// readTask is a Parquet column to read for a batch.
type readTask struct {
	column *columnReader
	leaf   int
	bytes  int64 // of the column in the file, decoded
}

// A wide file has so small column chunks that no memory is kept between two batches of a
// column. That of all columns at once would be more than the batches'.
const wideColumns = 256

// newBatchReader returns the reader of the fields of some row groups. If it releases, it keeps
// no memory between two batches, as for a wide file.
func (s *Source) newBatchReader(ctx context.Context, fields, groups []int, releases bool) (*batchReader, error) {
	footer := s.reader.MetaData()
	c := &batchReader{
		ctx: ctx, arrow: s.arrow, footer: footer, memory: s.memory, at: position{groups: groups}, jobs: s.jobs,
		rows: s.batchRows, wide: releases || footer.Schema.NumColumns() >= wideColumns,
		most: max(s.limit-(s.footerBytes()+int64(len(fields))*source.ColumnMemory)/2, 0) / 3,
	}
	if s.file.IsRemote() {
		c.jobs = max(c.jobs, len(fields)) // which wait for a store
	}
	options := &parquetcolumn.Options{
		Source: s.file, Size: s.file.Size, Memory: s.unzeroed, MaxPage: s.limit, Buffer: s.readSize, Release: c.wide,
	}
	if c.wide {
		c.rows = max(c.rows/8, 1) // until it is known how much memory a row takes
	}
	for _, f := range fields {
		field := &s.arrow.Manifest.Fields[f]
		makeReadable(field)
		s.readDense(field.Field, f)
		column := &columnReader{number: len(c.columns), field: f, name: s.whole.Field(f).Name, kind: s.whole.Field(f).Type}
		own, err := parquetcolumn.New(*field, footer, groups, options)
		switch {
		case err == nil:
			column.own = own
		case !errors.Is(err, errors.ErrUnsupported):
			return nil, fmt.Errorf("column %q: %w", column.name, err)
		}
		c.columns = append(c.columns, column)
		leaves := appendLeaves(nil, *field)
		column.leaves = len(leaves)
		for i, leaf := range leaves {
			c.tasks = append(c.tasks, readTask{column: column, leaf: i, bytes: leafBytes(footer, groups, leaf)})
		}
	}
	slices.SortStableFunc(c.tasks, func(a, b readTask) int { return cmp.Compare(b.bytes, a.bytes) })
	return c, nil
}

// leafBytes returns the size of a Parquet column, decoded, but for its dictionary.
func leafBytes(footer *metadata.FileMetaData, groups []int, leaf int) (n int64) {
	for _, g := range groups {
		if chunk, err := footer.RowGroup(g).ColumnChunk(leaf); err == nil {
			n += chunk.TotalUncompressedSize()
		}
	}
	return n
}

// next returns the columns of the next batch, or io.EOF. The caller owns them.
func (c *batchReader) next() ([]arrow.Array, error) {
	left := c.at.rowsLeft(c.footer)
	if left == 0 {
		return nil, io.EOF
	}
	rows := min(c.rows, left)
	err := c.readTasks(rows)
	columns := make([]arrow.Array, 0, len(c.columns))
	var bytes int64
	for _, column := range c.columns {
		if column.made != nil {
			columns = append(columns, column.made)
			column.made = nil
		}
	}
	if err != nil {
		arrowdata.ReleaseArrays(columns)
		return nil, err
	}
	c.at.row += rows
	if c.wide {
		for _, column := range columns {
			bytes += arrowdata.ArrayBytes(column.Data(), arrowdata.BufferCap)
		}
		c.rows = max(c.most*rows/max(bytes, 1), 1)
	}
	return columns, nil
}

// readTasks reads rows of each column, some at once. Its error is that of the first column
// that has one.
func (c *batchReader) readTasks(rows int64) error {
	var group errgroup.Group
	errs := make([]error, len(c.columns))
	var mu sync.Mutex
	group.SetLimit(c.jobs)
	for _, column := range c.columns {
		column.left.Store(int64(column.leaves))
	}
	for _, t := range c.tasks {
		group.Go(func() error {
			err := arrowdata.CatchPanic(func() error {
				if err := c.read(t, rows); err != nil {
					return err
				}
				if t.column.left.Add(-1) > 0 {
					return nil
				}
				return c.finish(t.column, c.at, rows)
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs[t.column.number] = fmt.Errorf("column %q: %w", t.column.name, source.UnexpectedEOF(err))
			}
			return err
		})
	}
	if group.Wait() == nil {
		return nil
	}
	return errs[slices.IndexFunc(errs, func(err error) bool { return err != nil })]
}

// read reads rows of a leaf. arrow-go reads all leaves of a column, when finish is called.
func (c *batchReader) read(t readTask, rows int64) error {
	if t.column.own == nil {
		return nil
	}
	err := t.column.own.ReadLeaf(t.leaf, rows)
	if errors.Is(err, errors.ErrUnsupported) {
		t.column.other.Store(true)
		return nil
	}
	return err
}

// readArrow reads rows of a column with arrow-go.
func (c *batchReader) readArrow(column *columnReader, at position, rows int64) error {
	if column.arrow == nil {
		var err error
		if column.arrow, err = c.openArrow(column.field, at); err != nil {
			return err
		}
	}
	made, err := c.nextOfArrow(column.arrow, rows)
	if err != nil {
		return err
	}
	if column.made = made; c.wide {
		column.closeArrow()
	}
	return nil
}

// openArrow opens arrow-go's reader of a field at a position.
func (c *batchReader) openArrow(field int, at position) (*pqarrow.ColumnReader, error) {
	leaves := map[int]bool{}
	for _, leaf := range appendLeaves(nil, c.arrow.Manifest.Fields[field]) {
		leaves[leaf] = true
	}
	r, err := c.arrow.GetFieldReader(c.ctx, field, leaves, at.groups)
	if err != nil {
		return nil, err
	}
	for skipped := int64(0); skipped < at.row; {
		n := min(c.rows, at.row-skipped)
		made, err := c.nextOfArrow(r, n)
		if err != nil {
			r.Release()
			return nil, err
		}
		made.Release()
		skipped += n
	}
	return r, nil
}

// nextOfArrow returns the next rows of arrow-go's reader as one array.
func (c *batchReader) nextOfArrow(r *pqarrow.ColumnReader, rows int64) (arrow.Array, error) {
	chunked, err := r.NextBatch(rows)
	if err != nil {
		return nil, err
	}
	defer chunked.Release()
	switch chunks := chunked.Chunks(); {
	case int64(chunked.Len()) != rows:
		return nil, fmt.Errorf("%d rows where others have %d: %w", chunked.Len(), rows, arrowdata.ErrMalformed)
	case len(chunks) == 1:
		chunks[0].Retain()
		return chunks[0], nil
	default:
		return array.Concatenate(chunks, c.memory)
	}
}

// finish makes the array of the leaves that are read, or reads the column with arrow-go,
// from a position.
func (c *batchReader) finish(column *columnReader, at position, rows int64) (err error) {
	if column.own != nil && !column.other.Load() {
		column.made, err = column.own.Array()
	}
	if column.own != nil && (column.other.Load() || errors.Is(err, errors.ErrUnsupported)) {
		column.own.Close()
		column.own = nil
	}
	if column.own == nil {
		err = c.readArrow(column, at, rows)
	}
	if err != nil {
		return err
	}
	if int64(column.made.Len()) != rows {
		return fmt.Errorf("%d rows where others have %d: %w", column.made.Len(), rows, arrowdata.ErrMalformed)
	}
	made, err := arrowdata.ConvertTo(column.made, column.kind, c.memory)
	column.made.Release()
	column.made = made
	return err
}

func (c *columnReader) closeArrow() {
	if c.arrow != nil {
		c.arrow.Release()
		c.arrow = nil
	}
}

func (c *batchReader) close() {
	for _, column := range c.columns {
		column.closeArrow()
		if column.own != nil {
			column.own.Close()
		}
	}
}

// maxDictionaryPage is the largest dictionary that is kept as such, in bytes as it is
// stored: it counts as memory of each batch.
const maxDictionaryPage = 1 << 20

// hasLargeDictionary reports whether a column chunk has a dictionary over maxDictionaryPage.
func hasLargeDictionary(chunk *metadata.ColumnChunkMetaData) bool {
	return chunk.HasDictionaryPage() && chunk.DataPageOffset()-chunk.DictionaryPageOffset() > maxDictionaryPage
}

// readDense reads a column as its values if its dictionaries are large, or if it has values
// that are in none: arrow-go would collect those of the whole file. arrowdata.ConvertTo gives each
// batch a dictionary of its rows.
func (s *Source) readDense(field *arrow.Field, f int) {
	t, ok := field.Type.(*arrow.DictionaryType)
	node := s.arrow.Manifest.Fields[f]
	if !ok || t.Ordered || !node.IsLeaf() {
		return
	}
	footer := s.reader.MetaData()
	for g := range footer.NumRowGroups() {
		chunk, err := footer.RowGroup(g).ColumnChunk(node.ColIndex)
		if err == nil && (hasLargeDictionary(chunk) || !isDictionaryEncoded(chunk)) {
			field.Type = t.ValueType
			return
		}
	}
}

// dictionaryPageType is DICTIONARY_PAGE of Parquet's PageType.
const dictionaryPageType = 2

// isDictionaryEncoded reports whether all values of a column chunk are known to be in its
// dictionary.
func isDictionaryEncoded(chunk *metadata.ColumnChunkMetaData) bool {
	if statistics := chunk.EncodingStats(); len(statistics) > 0 {
		return !slices.ContainsFunc(statistics, func(s metadata.PageEncodingStats) bool {
			return s.PageType != dictionaryPageType && s.Encoding != parquet.Encodings.PlainDict && s.Encoding != parquet.Encodings.RLEDict
		})
	}
	return chunk.HasDictionaryPage() && !slices.Contains(chunk.Encodings(), parquet.Encodings.Plain)
}

// appendLeaves appends the indices of the Parquet columns of one Arrow field.
func appendLeaves(leaves []int, field pqarrow.SchemaField) []int {
	if field.IsLeaf() {
		return append(leaves, field.ColIndex)
	}
	for _, child := range field.Children {
		leaves = appendLeaves(leaves, child)
	}
	return leaves
}
