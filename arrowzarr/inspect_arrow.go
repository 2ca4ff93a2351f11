package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// inspectArrow counts the batches of an Arrow IPC file or stream.
func inspectArrow(ctx context.Context, src source) (*Contents, error) {
	schema := src.schema()
	c := &Contents{Columns: make([]ColumnStats, schema.NumFields())}
	fields := make([]int, schema.NumFields())
	for i, f := range schema.Fields() {
		fields[i] = i
		c.Columns[i] = ColumnStats{Name: f.Name, Type: f.Type.String(), StoredBytes: -1}
	}
	if err := src.open(ctx, fields); err != nil {
		return nil, err
	}
	for {
		l, err := src.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		err = settleNulls(l.batch)
		for i, column := range l.batch.Columns() {
			c.Columns[i].Nulls += int64(max(column.NullN(), 0))
			c.Columns[i].RawBytes += arrayBytes(column.Data(), filled)
		}
		c.Rows += l.batch.NumRows()
		l.batch.Release()
		if err != nil {
			return nil, err
		}
	}
	for i := range c.Columns {
		c.Columns[i].Shape = []int64{c.Rows}
		c.RawBytes += c.Columns[i].RawBytes
	}
	c.StoredBytes, _ = src.position()
	return c, nil
}

// inspectParquet adds up what the footer says of the column chunks.
func inspectParquet(src *parquetSource) (*Contents, error) {
	footer := src.reader.MetaData()
	c := &Contents{Rows: src.total, StoredBytes: src.size}
	for f, field := range src.whole.Fields() {
		stats := ColumnStats{Name: field.Name, Type: field.Type.String(), Shape: []int64{src.total}}
		codecs := map[string]bool{}
		for _, leaf := range appendLeaves(nil, src.arrow.Manifest.Fields[f]) {
			for g := range footer.NumRowGroups() {
				chunk, err := footer.RowGroup(g).ColumnChunk(leaf)
				if err != nil {
					return nil, fmt.Errorf("row group %d, column %q: %w", g, field.Name, err)
				}
				stats.StoredBytes += chunk.TotalCompressedSize()
				stats.RawBytes += chunk.TotalUncompressedSize()
				stats.addNulls(chunk)
				if name := chunk.Compression().String(); !codecs[name] {
					codecs[name] = true
					stats.Codecs = append(stats.Codecs, name)
				}
			}
		}
		if !src.arrow.Manifest.Fields[f].IsLeaf() { // the nulls of parts are not those of the whole
			stats.Nulls = -1
		}
		c.RawBytes += stats.RawBytes
		c.Columns = append(c.Columns, stats)
	}
	return c, nil
}

// addNulls counts the nulls of a column chunk, unless its statistics, or those
// of an earlier one, leave them open.
func (s *ColumnStats) addNulls(chunk *metadata.ColumnChunkMetaData) {
	statistics, err := chunk.Statistics()
	if s.Nulls < 0 || err != nil || statistics == nil || !statistics.HasNullCount() {
		s.Nulls = -1
		return
	}
	s.Nulls += statistics.NullCount()
}
