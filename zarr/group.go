package zarr

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/zarr/store"
)

// Group is a group in a store. Its methods may be called concurrently, except
// SetAttributes and Consolidate, which change it.
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

// SetAttributes replaces the attributes and writes the metadata.
func (g *Group) SetAttributes(ctx context.Context, attributes map[string]any) error {
	g.meta.Attributes = attributes
	return writeNode(ctx, g.store, g.path, &g.meta)
}

// Child is a direct member of a group.
type Child struct {
	Name string
	Node Node
}

// Children returns the direct members of the group, sorted by name. It uses
// consolidated metadata if the group has it, otherwise the store. A member whose metadata
// is malformed or needs a missing feature is an [UnreadableNode] with the error.
func (g *Group) Children(ctx context.Context) ([]Child, error) {
	var children []Child
	if g.meta.Consolidated != nil {
		for _, name := range slices.Sorted(maps.Keys(g.meta.Consolidated)) {
			if !strings.Contains(name, "/") {
				children = append(children, Child{name, g.meta.Consolidated[name]})
			}
		}
		return children, nil
	}
	_, names, err := store.ListDir(ctx, g.store, g.path)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if CheckName(name) != nil {
			continue // not a node
		}
		node, err := readNode(ctx, g.store, joinPath(g.path, name))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		children = append(children, Child{name, node})
	}
	return children, nil
}

// OpenArray opens an array by its path relative to the group. If the group is
// consolidated, the array's own document is not read.
func (g *Group) OpenArray(ctx context.Context, path string) (*Array, error) {
	node, err := g.memberNode(ctx, path)
	if err != nil {
		return nil, err
	}
	return newArrayOfNode(g.store, joinPath(g.path, path), node)
}

// OpenGroup opens a group by its path relative to this group. If this group is
// consolidated, the result is, too, and its own document is not read.
func (g *Group) OpenGroup(ctx context.Context, path string) (*Group, error) {
	node, err := g.memberNode(ctx, path)
	if err != nil {
		return nil, err
	}
	inner, err := newGroupOfNode(g.store, joinPath(g.path, path), node)
	if err != nil || g.meta.Consolidated == nil {
		return inner, err
	}
	inner.meta.Consolidated = map[string]Node{}
	for name, node := range g.meta.Consolidated {
		if below, ok := strings.CutPrefix(name, path+"/"); ok {
			inner.meta.Consolidated[below] = node
		}
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

// Consolidate reads the metadata of all nodes below the group and writes it into the
// group's own document. Call it again after a node has changed. The document of an
// [UnreadableNode] is written as it is stored, but left out if it is not JSON. The error
// wraps errors.ErrUnsupported if a node is of another version of Zarr than the group.
func (g *Group) Consolidate(ctx context.Context) error {
	nodes := map[string]Node{}
	if err := g.collectNodes(ctx, "", nodes); err != nil {
		return fmt.Errorf("zarr.Group.Consolidate: group %q: %w", g.path, err)
	}
	g.meta.Consolidated = nodes
	return writeNode(ctx, g.store, g.path, &g.meta)
}

// collectNodes adds the nodes below a relative path. It does not list arrays, which may
// have many chunks.
func (g *Group) collectNodes(ctx context.Context, path string, nodes map[string]Node) error {
	here := &Group{store: g.store, path: joinPath(g.path, path)}
	children, err := here.Children(ctx)
	if err != nil {
		return err
	}
	for _, child := range children {
		below := joinPath(path, child.Name)
		group, isGroup := child.Node.(*GroupMetadata)
		if !isGroup {
			nodes[below] = child.Node
			continue
		}
		member := *group
		member.Consolidated = nil // nodes already lists the members below
		nodes[below] = &member
		if err := g.collectNodes(ctx, below, nodes); err != nil {
			return err
		}
	}
	return nil
}
