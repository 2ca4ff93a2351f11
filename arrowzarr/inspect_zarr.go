package arrowzarr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// inspectZarr lists the arrays of a hierarchy.
func inspectZarr(ctx context.Context, root string) (*Contents, error) {
	c := &Contents{Path: root, Format: "Zarr v3"}
	s := store.NewLocal(root)
	array, err := zarr.Open(ctx, s, "")
	switch {
	case err == nil:
		err = c.addArray(root, "", array.Metadata())
		c.Rows = firstExtent(array.Metadata().Shape)
	case errors.Is(err, zarr.ErrNodeType):
		err = c.addGroups(ctx, s, root)
	case errors.Is(err, store.ErrNotFound):
		err = fmt.Errorf("no zarr.json, expected a Zarr v3 hierarchy, or an Arrow or Parquet file: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", root, err)
	}
	c.StoredBytes, err = storedIn(root)
	return c, err
}

func (c *Contents) addGroups(ctx context.Context, s store.Store, root string) error {
	group, err := zarr.OpenGroup(ctx, s, "")
	if err != nil {
		return err
	}
	c.Rows = rowsOf(group.Metadata().Attributes)
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
		case *zarr.UnsupportedNode:
			err = c.addUnsupported(root, path, node)
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

// addUnsupported lists a node that cannot be read here, with what is lacking as its type.
func (c *Contents) addUnsupported(root, path string, node *zarr.UnsupportedNode) error {
	stored, err := storedIn(filepath.Join(root, path))
	if err == nil {
		c.Columns = append(c.Columns, ColumnStats{Name: path, Type: node.Err.Error(), Nulls: -1, StoredBytes: stored, RawBytes: -1})
	}
	return err
}

func (c *Contents) addArray(root, path string, m *zarr.ArrayMetadata) error {
	stored, err := storedIn(filepath.Join(root, path))
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
			if d > 0 && stats.RawBytes > math.MaxInt64/d { // more than can be said
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

// typeName shows the unit of times, which the name of the type leaves out.
func typeName(t element.Type) string {
	if dtype, ok := t.DType(); ok && (dtype.Kind() == ndview.KindDatetime || dtype.Kind() == ndview.KindTimedelta) {
		return dtype.String()
	}
	return t.String()
}

// rowsOf is the number of rows that Convert noted, or -1.
func rowsOf(attributes map[string]any) int64 {
	if n, ok := attributes[attrRows].(json.Number); ok {
		if rows, err := n.Int64(); err == nil {
			return rows
		}
	}
	return -1
}

func firstExtent(shape []int64) int64 {
	if len(shape) == 0 {
		return 1
	}
	return shape[0]
}
