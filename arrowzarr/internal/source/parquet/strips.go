package parquet

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
)

// AllowStrips lets a rule decide whether the file is read in strips. Otherwise, all batches
// have all columns. It must be called before open.
func (s *Source) AllowStrips(rule source.StripRule) { s.rule = rule }

// stripReader reads row groups in strips.
type stripReader struct {
	columns *batchReader
	widths  []float64    // of a row of each column, in bytes, about
	strip   source.Strip // the next one
	left    int64        // rows, from the first of the current chunk
	skip    int64        // rows before the first chunk
	done    int64        // rows before the current chunk, from the first of a row group
}

// newStripReader returns the reader of the fields of some row groups in strips, or nil if they
// are not needed.
func (s *Source) newStripReader(ctx context.Context, fields, groups []int) (*stripReader, error) {
	if s.rule == nil {
		return nil, nil
	}
	rows := s.to - s.from - s.cutter.Skip
	if s.cutter.Left >= 0 {
		rows = s.cutter.Left
	}
	wide := s.reader.MetaData().Schema.NumColumns() >= wideColumns
	widths := make([]float64, len(fields))
	var unknown []int
	for i, field := range fields {
		var ok bool
		if widths[i], ok = s.rule.RowBytes(i, nil); ok {
			continue
		}
		unknown = append(unknown, i)
		for _, leaf := range appendLeaves(nil, s.arrow.Manifest.Fields[field]) {
			widths[i] += float64(leafBytes(s.reader.MetaData(), groups, leaf)) / float64(max(s.to-s.from, 1))
		}
	}
	first, ok := s.rule.Choose(widths, rows, wide)
	if ok && len(unknown) > 0 { // an encoding may hide the widths
		if err := s.sampleWidths(ctx, fields, groups, unknown, widths); err != nil {
			return nil, err
		}
		first, ok = s.rule.Choose(widths, rows, wide)
	}
	if !ok {
		return nil, nil
	}
	columns, err := s.newBatchReader(ctx, fields, groups, true)
	return &stripReader{columns: columns, widths: widths, strip: first, left: rows, skip: s.cutter.Skip}, err
}

// sampleWidths sets the widths of some columns to those of the first rows.
func (s *Source) sampleWidths(ctx context.Context, fields, groups, sampled []int, widths []float64) error {
	chosen := make([]int, len(sampled))
	for i, column := range sampled {
		chosen[i] = fields[column]
	}
	columns, err := s.newBatchReader(ctx, chosen, groups, true)
	if err != nil {
		return err
	}
	defer columns.close()
	batch, err := columns.next()
	if err != nil {
		return fmt.Errorf("the first rows: %w", source.UnexpectedEOF(err))
	}
	defer arrowdata.ReleaseArrays(batch)
	for i, column := range sampled {
		widths[column], _ = s.rule.RowBytes(column, batch[i])
	}
	return nil
}

// rowsRead returns the number of rows of the current chunk that are read, counting columns.
func (s *stripReader) rowsRead() float64 {
	if s == nil {
		return 0
	}
	rows := min(s.strip.ChunkRows, s.left)
	return float64(rows) * float64(s.strip.First) / float64(len(s.columns.columns))
}

// nextStrip returns the next strip as a batch, or io.EOF.
func (s *Source) nextStrip() (l source.Batch, err error) {
	current := s.strips.strip
	var arrays []arrow.Array
	err = arrowdata.CatchPanic(func() error {
		arrays, err = s.strips.next()
		return err
	})
	if err != nil {
		return l, err
	}
	defer arrowdata.ReleaseArrays(arrays)
	rows := int64(arrays[0].Len())
	s.consumed = s.from + s.strips.done
	fields := s.fields[current.First : current.First+len(arrays)]
	l.Record = array.NewRecordBatch(arrowdata.SelectSchema(s.whole, fields), arrays, rows)
	l.Strip, l.Dictionaries = &current, ownDictionaryBytes(l.Record)
	l.Bytes = arrowdata.BatchBytes(l.Record, arrowdata.BufferCap) + l.Dictionaries
	return l, nil
}

// next returns the columns of the next strip, or io.EOF. The caller owns them.
func (s *stripReader) next() ([]arrow.Array, error) {
	rows, c := min(s.strip.ChunkRows, s.left), s.columns
	if rows == 0 {
		return nil, io.EOF
	}
	columns := c.columns[s.strip.First:]
	arrays, ends := make([]arrow.Array, len(columns)), make([]position, len(columns))
	errs := make([]error, len(columns))
	var bytes atomic.Int64 // of columns that are read, or are being read
	var group errgroup.Group
	group.SetLimit(c.jobs)
	n := 0
	for ; n < len(columns) && (n == 0 || bytes.Load() < c.most); n++ {
		i, expected := n, int64(s.widths[s.strip.First+n]*float64(rows))
		bytes.Add(expected)
		group.Go(func() error {
			errs[i] = arrowdata.CatchPanic(func() (err error) {
				arrays[i], ends[i], err = c.readColumn(columns[i], s.skip, rows)
				if err == nil {
					bytes.Add(arrowdata.ArrayBytes(arrays[i].Data(), arrowdata.BufferCap) - expected)
				}
				return err
			})
			return errs[i]
		})
	}
	if group.Wait() != nil {
		i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
		arrowdata.ReleaseArrays(arrays)
		return nil, fmt.Errorf("after row %d: column %q: %w", s.done, columns[i].name, source.UnexpectedEOF(errs[i]))
	}
	if s.strip.First += n; s.strip.First == len(c.columns) {
		s.strip.First, c.at = 0, ends[0]
		s.left -= rows
		s.done += s.skip + rows
		s.skip = 0
	}
	return arrays[:n], nil
}

// readColumn skips rows of a column, and then reads some as one array. It returns the
// position after them. The caller owns the array.
func (c *batchReader) readColumn(column *columnReader, skip, rows int64) (arrow.Array, position, error) {
	at := c.at
	var pieces []arrow.Array
	defer func() {
		if column.made != nil { // after an error
			column.made.Release()
			column.made = nil
		}
		arrowdata.ReleaseArrays(pieces)
	}()
	for rows > 0 {
		n := at.rowsLeft(c.footer)
		if n == 0 {
			return nil, at, io.ErrUnexpectedEOF
		}
		if skip > 0 {
			n = min(n, skip, c.rows)
		} else {
			n = min(n, rows)
		}
		for leaf := range column.leaves {
			if err := c.read(readTask{column: column, leaf: leaf}, n); err != nil {
				return nil, at, err
			}
		}
		if err := c.finish(column, at, n); err != nil {
			return nil, at, err
		}
		if at.row += n; skip > 0 {
			skip -= n
			column.made.Release()
		} else {
			rows -= n
			pieces = append(pieces, column.made)
		}
		column.made = nil
	}
	if len(pieces) == 1 {
		pieces[0].Retain()
		return pieces[0], at, nil
	}
	array, err := array.Concatenate(pieces, c.memory)
	return array, at, err
}
