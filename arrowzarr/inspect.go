package arrowzarr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Contents describes an input or a hierarchy. A number that the format does not store
// is -1.
type Contents struct {
	Path        string        `json:"path"`
	Format      string        `json:"format"`
	Rows        int64         `json:"rows"`
	StoredBytes int64         `json:"stored_bytes"`
	RawBytes    int64         `json:"raw_bytes"`
	Columns     []ColumnStats `json:"columns"`
}

// ColumnStats describes one column of Arrow or Parquet, or one array of Zarr.
type ColumnStats struct {
	Name        string   `json:"name"` // the path of an array
	Type        string   `json:"type"`
	Shape       []int64  `json:"shape"`
	Nulls       int64    `json:"nulls"`
	Chunks      []int64  `json:"chunks"` // the chunk shape of an array
	Shards      []int64  `json:"shards,omitempty"`
	Codecs      []string `json:"codecs"`
	StoredBytes int64    `json:"stored_bytes"`
	RawBytes    int64    `json:"raw_bytes"`
}

// Inspect describes an Arrow IPC file or stream, a Parquet file or a Zarr v3
// hierarchy in a directory. "-" is an Arrow IPC stream on standard input. It reads
// all of an Arrow input, but only the metadata of Parquet and Zarr. The error is an
// *Error, or the cause of the context.
func Inspect(ctx context.Context, path string) (*Contents, error) {
	if path != "-" {
		if isZarr(path) {
			c, err := inspectZarr(ctx, path)
			return c, markPart(PartInput, err)
		}
	}
	var c *Contents
	err := runUntilDone(ctx, func() (err error) { c, err = inspectFile(ctx, path); return err }, func() {})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// isZarr reports whether a path is a folder with the metadata of a Zarr node.
func isZarr(path string) bool {
	for _, name := range []string{"zarr.json", ".zgroup", ".zarray"} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return true
		}
	}
	return false
}

func inspectFile(ctx context.Context, path string) (*Contents, error) {
	src, err := openInputs(ctx, []string{path}, sourceOptions{allocator: arrowbuf.CPU().HostAllocator(), allowMapping: true, maxBuffer: DefaultMaxMemory, jobs: 1})
	if err != nil {
		return nil, markPart(PartInput, err)
	}
	var c *Contents
	inner := src
	if t, ok := src.(*treeSource); ok {
		inner = t.source
	}
	if parquet, ok := inner.(*parquetSource); ok {
		err = catchPanic(func() (err error) { c, err = inspectParquet(parquet); return err })
	} else {
		err = catchPanic(func() (err error) { c, err = inspectArrow(ctx, src); return err })
	}
	if err = errors.Join(err, src.close()); err != nil {
		return nil, markPart(PartInput, err)
	}
	c.Path, c.Format = path, src.format()
	return c, nil
}

// storedBytes returns the size of the files below a directory.
func storedBytes(root string) (int64, error) {
	var total int64
	err := filepath.WalkDir(root, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		return nil
	})
	return total, err
}

// inspectZarr describes the arrays of a hierarchy.
func inspectZarr(ctx context.Context, root string) (*Contents, error) {
	c := &Contents{Path: root, Format: "Zarr v3"}
	s := store.NewLocal(root)
	array, err := zarr.Open(ctx, s, "")
	switch {
	case err == nil:
		err = c.addArray(root, "", array.Metadata())
		c.Rows = firstAxisLen(array.Metadata().Shape)
	case errors.Is(err, zarr.ErrNodeType):
		err = c.addGroups(ctx, s, root)
	case errors.Is(err, store.ErrNotFound):
		err = fmt.Errorf("no zarr.json, expected a Zarr v3 hierarchy, or an Arrow or Parquet file: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", root, err)
	}
	c.StoredBytes, err = storedBytes(root)
	return c, err
}

func (c *Contents) addGroups(ctx context.Context, s store.Store, root string) error {
	group, err := zarr.OpenGroup(ctx, s, "")
	if err != nil {
		return err
	}
	c.Rows = rowCount(group.Metadata().Attributes)
	return c.addGroup(ctx, group, root, "")
}

func (c *Contents) addGroup(ctx context.Context, group *zarr.Group, root, at string) error {
	children, err := group.Children(ctx)
	if err != nil {
		return err
	}
	for _, child := range children {
		path := filepath.Join(at, child.Name)
		switch node := child.Node.(type) {
		case *zarr.ArrayMetadata:
			err = c.addArray(root, path, node)
		case *zarr.UnreadableNode:
			err = c.addUnreadable(root, path, node)
		case *zarr.GroupMetadata:
			var inner *zarr.Group
			if inner, err = group.OpenGroup(ctx, child.Name); err == nil {
				err = c.addGroup(ctx, inner, root, path)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addUnreadable adds a node that zarr cannot read, with the reason as its type.
func (c *Contents) addUnreadable(root, path string, node *zarr.UnreadableNode) error {
	stored, err := storedBytes(filepath.Join(root, path))
	if err == nil {
		c.Columns = append(c.Columns, ColumnStats{Name: path, Type: node.Err.Error(), Nulls: -1, StoredBytes: stored, RawBytes: -1})
	}
	return err
}

func (c *Contents) addArray(root, path string, m *zarr.ArrayMetadata) error {
	stored, err := storedBytes(filepath.Join(root, path))
	if err != nil {
		return err
	}
	stats := ColumnStats{Name: path, Type: typeName(m.DataType), Shape: m.Shape, Nulls: -1, Chunks: m.ChunkShape, StoredBytes: stored, RawBytes: -1}
	codecs := m.Codecs
	if len(codecs) == 1 {
		if sharding, ok := codecs[0].(codec.Sharding); ok {
			stats.Shards, stats.Chunks, codecs = m.ChunkShape, sharding.ChunkShape, sharding.Codecs
		}
	}
	for _, one := range codecs {
		stats.Codecs = append(stats.Codecs, one.Name())
	}
	if size := m.DataType.Size(); size > 0 {
		stats.RawBytes = size
		for _, d := range m.Shape {
			if d > 0 && stats.RawBytes > math.MaxInt64/d { // it overflows
				stats.RawBytes = -1
				break
			}
			stats.RawBytes *= d
		}
		c.RawBytes += max(stats.RawBytes, 0)
	}
	c.Columns = append(c.Columns, stats)
	return nil
}

// typeName returns the name of the type, with the unit of times, which String omits.
func typeName(t element.Type) string {
	if dtype, ok := t.DType(); ok && (dtype.Kind() == ndview.KindDatetime || dtype.Kind() == ndview.KindTimedelta) {
		return dtype.String()
	}
	return t.String()
}

// rowCount returns the number of rows that Convert stored, or -1.
func rowCount(attributes map[string]any) int64 {
	if n, ok := attributes[attrRows].(json.Number); ok {
		if rows, err := n.Int64(); err == nil {
			return rows
		}
	}
	return -1
}

func firstAxisLen(shape []int64) int64 {
	if len(shape) == 0 {
		return 1
	}
	return shape[0]
}

// inspectArrow reads all batches of an Arrow IPC file or stream.
func inspectArrow(ctx context.Context, src source) (*Contents, error) {
	schema := src.schema()
	c := &Contents{Columns: make([]ColumnStats, schema.NumFields())}
	fields := make([]int, schema.NumFields())
	for i, f := range schema.Fields() {
		fields[i] = i
		c.Columns[i] = ColumnStats{Name: f.Name, Type: f.Type.String(), StoredBytes: -1}
	}
	if err := src.open(ctx, fields, allRows); err != nil {
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
		err = countNulls(l.batch)
		for i, column := range l.batch.Columns() {
			c.Columns[i].Nulls += int64(max(column.NullN(), 0))
			c.Columns[i].RawBytes += arrayBytes(column.Data(), bufferLen)
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

// inspectParquet sums the sizes and nulls of the column chunks in the footer.
func inspectParquet(src *parquetSource) (*Contents, error) {
	footer := src.reader.MetaData()
	c := &Contents{Rows: src.total, StoredBytes: src.file.size}
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
		if !src.arrow.Manifest.Fields[f].IsLeaf() { // nulls of elements or fields are not nulls of the column
			stats.Nulls = -1
		}
		c.RawBytes += stats.RawBytes
		c.Columns = append(c.Columns, stats)
	}
	return c, nil
}

// addNulls adds the nulls of a column chunk. The number is -1 if a chunk has no
// statistics of nulls.
func (s *ColumnStats) addNulls(chunk *metadata.ColumnChunkMetaData) {
	n := chunkNulls(chunk)
	if s.Nulls < 0 || n < 0 {
		s.Nulls = -1
		return
	}
	s.Nulls += n
}
