package zarr

import (
	"context"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/zarr/store"
)

// Group is a group in a store. Methods that write must not be called at the same time as
// another method of the Group; others may be called concurrently.
//
// Paths of members are relative to the group. If the group is consolidated, its methods
// that read metadata use what it was opened with, and those that write members keep the
// consolidated metadata up to date.
type Group struct {
	store    store.Store
	path     string
	readOnly bool
	meta     GroupMetadata
}

func newGroupOfNode(s store.Store, path string, node Node) (*Group, error) {
	meta, err := nodeAs[*GroupMetadata](node)
	if err != nil {
		return nil, fmt.Errorf("group %q: %w", path, err)
	}
	return &Group{store: s, path: path, meta: *meta}, nil
}

// Path returns the path of the group in its store.
func (g *Group) Path() string { return g.path }

// Metadata returns a shallow copy of the metadata. The caller must not modify the maps
// in it.
func (g *Group) Metadata() *GroupMetadata {
	meta := g.meta
	return &meta
}

// IgnoreConsolidated returns the group without its consolidated metadata, which may be
// stale: it reads the documents of its members. The store is not changed. Writing the
// metadata of the returned group removes what is consolidated in Zarr v3.
func (g *Group) IgnoreConsolidated() *Group {
	plain := &Group{store: g.store, path: g.path, readOnly: g.readOnly, meta: g.meta}
	plain.meta.Consolidated = nil
	return plain
}

// SetAttributes replaces the attributes and writes the metadata.
func (g *Group) SetAttributes(ctx context.Context, attributes map[string]any) error {
	return g.update(ctx, func(m *GroupMetadata) { m.Attributes = attributes })
}

// UpdateAttributes sets some attributes, keeps the others and writes the metadata.
func (g *Group) UpdateAttributes(ctx context.Context, attributes map[string]any) error {
	return g.update(ctx, func(m *GroupMetadata) { m.Attributes = mergedAttributes(m.Attributes, attributes) })
}

// update changes a copy of the metadata and keeps it if the store has accepted it.
func (g *Group) update(ctx context.Context, change func(*GroupMetadata)) error {
	if err := g.checkWritable(); err != nil {
		return err
	}
	meta := g.meta
	change(&meta)
	if err := writeNode(ctx, g.store, g.path, &meta); err != nil {
		return err
	}
	g.meta = meta
	return nil
}

func (g *Group) checkWritable() error {
	if g.readOnly {
		return fmt.Errorf("group %q: opened with mode %q: %w", g.path, ModeRead, store.ErrReadOnly)
	}
	return nil
}

// OpenArray opens an array by its path relative to the group. If the group is
// consolidated, the array's own document is not read.
func (g *Group) OpenArray(ctx context.Context, path string) (*Array, error) {
	node, err := g.memberNode(ctx, path)
	if err != nil {
		return nil, err
	}
	a, err := newArrayOfNode(g.store, joinPath(g.path, path), node)
	if err != nil {
		return nil, err
	}
	a.readOnly = g.readOnly
	return a, nil
}

// OpenGroup opens a group by its path relative to this group. If this group is
// consolidated, the result is, too, and its own document is not read.
func (g *Group) OpenGroup(ctx context.Context, path string) (*Group, error) {
	node, err := g.memberNode(ctx, path)
	if err != nil {
		return nil, err
	}
	inner, err := newGroupOfNode(g.store, joinPath(g.path, path), node)
	if err != nil {
		return nil, err
	}
	inner.readOnly = g.readOnly
	if g.meta.Consolidated != nil {
		inner.meta.Consolidated = g.consolidatedBelow(path)
	}
	return inner, nil
}

func (g *Group) memberNode(ctx context.Context, path string) (Node, error) {
	if err := errors.Join(checkNotRoot(path), checkPath(path)); err != nil {
		return nil, err
	}
	if g.meta.Consolidated == nil {
		return readNode(ctx, g.store, joinPath(g.path, path))
	}
	node, ok := g.meta.Consolidated[path]
	if !ok {
		return nil, fmt.Errorf("node %q of consolidated group %q: %w", path, g.path, store.ErrNotFound)
	}
	return node, nil
}
