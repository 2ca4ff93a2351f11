package arrowzarr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/inputs"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// openHierarchy opens the store of the Zarr hierarchy at a location. It returns nil if the
// location has something else, which a source may read.
func openHierarchy(ctx context.Context, location string) (store.Store, error) {
	if location == "-" {
		return nil, nil
	}
	info, err := os.Stat(location)
	isLocal := err == nil || !strings.Contains(location, "://")
	switch {
	case isLocal && err == nil && info.IsDir() && inputs.IsZarr(location):
	case isLocal && strings.EqualFold(filepath.Ext(location), ".zip") && err == nil:
	case isLocal:
		return nil, nil
	}
	s, err := openLocation(ctx, location)
	if err != nil {
		return nil, err
	}
	for _, key := range inputs.NodeDocuments {
		found, err := store.Exists(ctx, s, key)
		if err != nil && isLocal {
			return nil, errors.Join(fmt.Errorf("%s: %w", location, err), store.Close(s))
		}
		if err != nil { // a server may refuse the key of a file; reading it as one says why
			break
		}
		if found {
			return s, nil
		}
	}
	return nil, store.Close(s)
}

// storedBytes returns the size of the values below a path of a store, or -1 if the store
// cannot list them.
func storedBytes(ctx context.Context, s store.Store, path string) (int64, error) {
	n, err := store.TotalSize(ctx, s, path)
	if errors.Is(err, errors.ErrUnsupported) {
		return -1, nil
	}
	return n, err
}

// inspectZarr describes the arrays of a hierarchy.
func inspectZarr(ctx context.Context, s store.Store, location string, options InspectOptions) (*Contents, error) {
	format := "Zarr v2"
	isV3, err := store.Exists(ctx, s, "zarr.json")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", location, err)
	}
	if isV3 {
		format = "Zarr v3"
	}
	c := &Contents{Path: location, Format: format}
	array, err := zarr.Open(ctx, s, "")
	switch {
	case err == nil:
		err = c.addArray(ctx, s, "", array.Metadata())
		c.Rows = firstAxisLen(array.Metadata().Shape)
	case errors.Is(err, zarr.ErrNodeType):
		if err = c.addGroups(ctx, s); err == nil {
			err = c.addTable(ctx, s, options)
		}
	}
	if err == nil {
		c.StoredBytes, err = storedBytes(ctx, s, "")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", location, err)
	}
	return c, nil
}

// addTable adds the columns of the table that a group is, and with Stats their values. A
// group that is no table has no columns.
func (c *Contents) addTable(ctx context.Context, s store.Store, options InspectOptions) error {
	t, err := NewTable(ctx, s, TableOptions{})
	if err != nil {
		if options.Stats {
			return fmt.Errorf("statistics are of tables only: %w", err)
		}
		return nil
	}
	defer func() { _ = t.Close() }() // it closes no store
	c.Rows = t.rows
	for _, reader := range t.columns {
		column := reader.column
		field := column.field
		c.Table = append(c.Table, ColumnStats{
			Name: field.Name, Type: field.Type.String(), Shape: []int64{t.rows}, Nulls: -1, StoredBytes: -1, RawBytes: -1,
			Becomes: &ZarrForm{Node: column.name, Form: column.form(-1)},
		})
	}
	if !options.Stats {
		return nil
	}
	scanners := newColumnScanners(t.schema, true)
	for i := range c.Table {
		c.Table[i].Nulls, c.Table[i].RawBytes = 0, 0
	}
	c.Rows = 0
	err = t.forEachBlock(ctx, 0, t.rows, 0, func(batch arrow.RecordBatch) error { return c.addBatch(c.Table, batch, scanners) })
	for i := range c.Table {
		c.Table[i].Values = scanners[i].result()
	}
	c.Rows = t.rows
	return err
}

func (c *Contents) addGroups(ctx context.Context, s store.Store) error {
	group, err := zarr.OpenGroup(ctx, s, "")
	if err != nil {
		return err
	}
	c.Rows = rowCount(group.Metadata().Attributes)
	return c.addGroup(ctx, s, group, "")
}

func (c *Contents) addGroup(ctx context.Context, s store.Store, group *zarr.Group, at string) error {
	children, err := group.Children(ctx)
	if err != nil {
		return err
	}
	for _, child := range children {
		nodePath := path.Join(at, child.Name)
		switch node := child.Node.(type) {
		case *zarr.ArrayMetadata:
			err = c.addArray(ctx, s, nodePath, node)
		case *zarr.UnreadableNode:
			err = c.addUnreadable(ctx, s, nodePath, node)
		case *zarr.GroupMetadata:
			var inner *zarr.Group
			if inner, err = group.OpenGroup(ctx, child.Name); err == nil {
				err = c.addGroup(ctx, s, inner, nodePath)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addUnreadable adds a node that zarr cannot read, with the reason as its type.
func (c *Contents) addUnreadable(ctx context.Context, s store.Store, path string, node *zarr.UnreadableNode) error {
	stored, err := storedBytes(ctx, s, path)
	if err == nil {
		c.Columns = append(c.Columns, ColumnStats{Name: path, Type: node.Err.Error(), Nulls: -1, StoredBytes: stored, RawBytes: -1})
	}
	return err
}

func (c *Contents) addArray(ctx context.Context, s store.Store, path string, m *zarr.ArrayMetadata) error {
	stored, err := storedBytes(ctx, s, path)
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
