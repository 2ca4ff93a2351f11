package zarr

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// MigrateToV3 writes metadata of Zarr v3 for the node at a path, which is of Zarr v2, and
// for all nodes below it. The metadata of v2 and the chunks stay as they are, so that both
// versions can be read; [RemoveMetadata] removes the old one. The attribute
// _ARRAY_DIMENSIONS becomes the dimension names. It does what zarr-python's command "zarr
// migrate v3" does, and also migrates consolidated metadata.
//
// Nothing is written if a node cannot be read, if Zarr v3 lacks something that it uses
// (errors.ErrUnsupported), or if it has metadata of v3 already (store.ErrExists).
func MigrateToV3(ctx context.Context, s store.Store, at string) error {
	fail := func(name string, err error) error {
		return fmt.Errorf("zarr.MigrateToV3: node %q: %w", joinPath(at, name), err)
	}
	if s == nil {
		return fail("", errNilStore)
	}
	root, err := readNode(ctx, s, at)
	if err != nil {
		return fail("", err)
	}
	old, nodes := map[string]Node{"": root}, map[string]Node{}
	if _, ok := root.(*GroupMetadata); ok {
		for child, err := range (&Group{store: s, path: at}).Members(ctx, 0) {
			if err != nil {
				return fail("", err)
			}
			old[child.Name] = child.Node
		}
	}
	for name, node := range old {
		if nodes[name], err = migratedNode(node); err != nil {
			return fail(name, err)
		}
	}
	names := sortedPaths(nodes)
	slices.Reverse(names) // the root is last
	for _, name := range names {
		node := nodes[name]
		if group, ok := old[name].(*GroupMetadata); ok && group.Consolidated != nil {
			own := *node.(*GroupMetadata)
			own.Consolidated = nodesBelow(nodes, name)
			node = &own
		}
		if err := writeNode(ctx, s, joinPath(at, name), node); err != nil {
			return fail(name, err)
		}
	}
	return nil
}

// nodesBelow returns the nodes below a path, by their paths relative to it.
func nodesBelow(nodes map[string]Node, at string) map[string]Node {
	out := map[string]Node{}
	for name, node := range nodes {
		if at != "" {
			var below bool
			if name, below = strings.CutPrefix(name, at+"/"); !below {
				continue
			}
		}
		if name != "" {
			out[name] = node
		}
	}
	return out
}

// migratedNode returns the metadata of Zarr v3, without what is consolidated.
func migratedNode(node Node) (Node, error) {
	if broken, ok := node.(*UnreadableNode); ok {
		return nil, broken.Err
	}
	if formatOf(node) == 3 {
		return nil, fmt.Errorf("metadata of Zarr v3: %w", store.ErrExists)
	}
	if group, ok := node.(*GroupMetadata); ok {
		return &GroupMetadata{Format: 3, Attributes: group.Attributes}, nil
	}
	m := *node.(*ArrayMetadata)
	m.Format, m.FillValue = 3, m.fillValue()
	var err error
	if m.DataType, err = migratedType(m.DataType); err != nil {
		return nil, err
	}
	m.Codecs, err = m.Codecs.V3(codec.ChunkSpec{Type: m.DataType, Shape: m.ChunkShape, Fill: m.FillValue})
	if err == nil {
		_, err = m.MarshalJSON() // types may have no name in Zarr v3
	}
	return &m, err
}

// migratedType returns the type with raw bytes that have the name of zarr-python, which does
// not read r*.
func migratedType(t element.Type) (element.Type, error) {
	dtype, ok := t.DType()
	switch {
	case ok && t == element.Of(dtype) && dtype.Kind() == ndview.KindBytes:
		return element.RawBytes(int32(dtype.Size())), nil
	case !t.IsStruct():
		return t, nil
	}
	fields := t.Fields()
	for i := range fields {
		var err error
		if fields[i].Type, err = migratedType(fields[i].Type); err != nil {
			return t, err
		}
	}
	return element.Struct(fields...)
}

// v2Keys are the documents of Zarr v2.
var v2Keys = []string{v2ArrayKey, v2GroupKey, v2AttributesKey, v2ConsolidatedKey}

// RemoveMetadata deletes the metadata documents of one version of Zarr, 2 or 3, of the node
// at a path and of all nodes below it. It returns an error, and deletes nothing, if a node
// has no metadata of the other version. It does what zarr-python's command "zarr
// remove-metadata" does.
func RemoveMetadata(ctx context.Context, s store.Store, at string, format int) error {
	fail := func(err error) error { return fmt.Errorf("zarr.RemoveMetadata: node %q: %w", at, err) }
	if s == nil {
		return fail(errNilStore)
	}
	if format != 2 && format != 3 {
		return fail(fmt.Errorf("format %d, want 2 or 3", format))
	}
	if err := checkPath(at); err != nil {
		return fail(err)
	}
	keys, err := s.List(ctx, at)
	if err != nil {
		return fail(err)
	}
	nodes := map[int]map[string]bool{2: {}, 3: {}} // by version, the folders with metadata
	var remove []string
	for _, key := range keys {
		folder, name := path.Split(key)
		var version int
		switch {
		case name == metadataKey:
			version = 3
		case slices.Contains(v2Keys, name):
			version = 2
		default:
			continue
		}
		if version == 3 || name == v2ArrayKey || name == v2GroupKey {
			nodes[version][folder] = true
		}
		if version == format {
			remove = append(remove, key)
		}
	}
	for _, key := range remove {
		if folder, _ := path.Split(key); !nodes[5-format][folder] {
			return fail(fmt.Errorf("%q has no metadata of Zarr v%d beside it: %w", key, 5-format, store.ErrNotFound))
		}
	}
	var errs []error
	for _, key := range remove {
		errs = append(errs, s.Delete(ctx, key))
	}
	if err := errors.Join(errs...); err != nil {
		return fail(err)
	}
	return nil
}
