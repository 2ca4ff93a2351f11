package zarr

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// GroupMetadata is the metadata document of a group.
type GroupMetadata struct {
	// Attributes are the user's: anything that encoding/json writes. Numbers
	// are read as json.Number.
	Attributes map[string]any
	// Consolidated is the metadata of all nodes below the group, by their
	// paths from it; nil for a group that is not consolidated.
	Consolidated map[string]Node
	// Extra are further keys of the document. Each value is an object with
	// "must_understand": false.
	Extra map[string]json.RawMessage
}

func (*GroupMetadata) node() {}

var groupKeys = []string{"zarr_format", "node_type", "attributes", "consolidated_metadata"}

// MarshalJSON writes the document.
func (m *GroupMetadata) MarshalJSON() ([]byte, error) {
	if err := checkExtra(m.Extra, groupKeys); err != nil {
		return nil, err
	}
	doc := metajson.Members{
		{Key: "zarr_format", Value: 3},
		{Key: "node_type", Value: "group"},
		{Key: "attributes", Value: attributes(m.Attributes)},
	}
	if m.Consolidated != nil {
		doc = append(doc, metajson.Member{Key: "consolidated_metadata", Value: metajson.Members{
			{Key: "kind", Value: "inline"},
			{Key: "must_understand", Value: false},
			{Key: "metadata", Value: consolidated(m.Consolidated)},
		}})
	}
	return append(doc, extra(m.Extra)...).MarshalJSON()
}

// consolidated orders nodes by depth, then by path.
func consolidated(nodes map[string]Node) metajson.Members {
	paths := slices.SortedFunc(maps.Keys(nodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	members := metajson.Members{} // {}, never null
	for _, path := range paths {
		members = append(members, metajson.Member{Key: path, Value: nodes[path]})
	}
	return members
}

func parseGroup(o *metajson.Object, depth int) (*GroupMetadata, error) {
	m := new(GroupMetadata)
	var err error
	if m.Attributes, err = parseAttributes(o); err != nil {
		return nil, err
	}
	raw, ok := o.Take("consolidated_metadata")
	if ok && string(raw) != "null" { // which zarr-python has written for none
		if m.Consolidated, err = parseConsolidated(raw, depth+1); err != nil {
			return nil, err
		}
	}
	m.Extra = rest(o)
	return m, checkExtra(m.Extra, groupKeys)
}

// mostConsolidated bounds how deep consolidated metadata may nest, each level of which is
// read as many times as there are levels around it. Those of real groups are flat.
const mostConsolidated = 16

func parseConsolidated(raw json.RawMessage, depth int) (map[string]Node, error) {
	if depth > mostConsolidated {
		return nil, fmt.Errorf("consolidated_metadata nests deeper than %d", mostConsolidated)
	}
	o, err := metajson.ParseObject("consolidated_metadata", raw)
	if err != nil {
		return nil, err
	}
	var kind string
	if err := o.Need("kind", &kind); err != nil {
		return nil, err
	}
	if kind != "inline" {
		return nil, fmt.Errorf("consolidated_metadata of kind %q: %w", kind, errors.ErrUnsupported)
	}
	var must bool
	if _, err := o.Maybe("must_understand", &must); err != nil {
		return nil, err
	}
	var members json.RawMessage
	if err := o.Need("metadata", &members); err != nil {
		return nil, err
	}
	if err := o.Done(); err != nil {
		return nil, err
	}
	docs, err := metajson.ParseObject("consolidated_metadata", members)
	if err != nil {
		return nil, err
	}
	nodes := map[string]Node{}
	for _, path := range docs.Keys() {
		doc, _ := docs.Take(path)
		if err := errors.Join(checkNotRoot(path), checkPath(path)); err != nil {
			return nil, fmt.Errorf("consolidated_metadata: %w", err)
		}
		if nodes[path], err = parseMember(doc, depth); err != nil {
			return nil, fmt.Errorf("consolidated_metadata: %q: %w", path, err)
		}
	}
	return nodes, nil
}

func checkNotRoot(path string) error {
	if path == "" {
		return CheckName(path)
	}
	return nil
}

// Group is a group in a store.
type Group struct {
	store store.Store
	path  string
	meta  GroupMetadata
}

// CreateGroup returns a new group, whose metadata it writes; nil metadata has
// nothing in it. Nodes that are stored below the path become its members.
func CreateGroup(ctx context.Context, s store.Store, path string, meta *GroupMetadata) (*Group, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	g := &Group{store: s, path: path}
	if meta != nil {
		g.meta = *meta
	}
	return g, writeNode(ctx, s, path, &g.meta)
}

// OpenGroup returns the group under a path. Where there is nothing the error is
// store.ErrNotFound, where there is an array ErrNodeType.
func OpenGroup(ctx context.Context, s store.Store, path string) (*Group, error) {
	node, err := readNode(ctx, s, path)
	if err != nil {
		return nil, err
	}
	return groupOf(s, path, node)
}

func groupOf(s store.Store, path string, node Node) (*Group, error) {
	meta, err := nodeAs[*GroupMetadata](node)
	if err != nil {
		return nil, fmt.Errorf("opening group %q: %w", path, err)
	}
	return &Group{store: s, path: path, meta: *meta}, nil
}

// Path is where the group is in its store.
func (g *Group) Path() string { return g.path }

// Metadata returns a copy of the metadata. What it points to is not to be
// changed.
func (g *Group) Metadata() *GroupMetadata {
	meta := g.meta
	return &meta
}

// SetAttributes replaces the attributes and writes the metadata.
func (g *Group) SetAttributes(ctx context.Context, attributes map[string]any) error {
	g.meta.Attributes = attributes
	return writeNode(ctx, g.store, g.path, &g.meta)
}

// Child is a node directly in a group.
type Child struct {
	Name string
	Node Node
}

// Children returns the nodes directly in the group, by name: from the
// consolidated metadata where there is some, else from the store. Malformed
// metadata of one is an error.
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
	_, names, err := g.store.ListDir(ctx, g.path)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if CheckName(name) != nil {
			continue // no node can be there
		}
		node, err := readNode(ctx, g.store, join(g.path, name))
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

// OpenArray opens an array of the group by its path from there. Consolidated
// metadata is taken instead of the array's own.
func (g *Group) OpenArray(ctx context.Context, path string) (*Array, error) {
	node, err := g.member(ctx, path)
	if err != nil {
		return nil, err
	}
	return arrayOf(g.store, join(g.path, path), node)
}

// OpenGroup opens a group of the group by its path from there. Consolidated
// metadata is taken instead of the group's own, and handed down.
func (g *Group) OpenGroup(ctx context.Context, path string) (*Group, error) {
	node, err := g.member(ctx, path)
	if err != nil {
		return nil, err
	}
	inner, err := groupOf(g.store, join(g.path, path), node)
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

func (g *Group) member(ctx context.Context, path string) (Node, error) {
	if err := errors.Join(checkNotRoot(path), checkPath(path)); err != nil {
		return nil, err
	}
	if g.meta.Consolidated == nil {
		return readNode(ctx, g.store, join(g.path, path))
	}
	node, ok := g.meta.Consolidated[path]
	if !ok {
		return nil, fmt.Errorf("opening %q in consolidated group %q: %w", path, g.path, store.ErrNotFound)
	}
	return node, nil
}

// Consolidate reads the metadata of all nodes below the group and writes it
// into the group's own. It is to be done again when a node changes.
func (g *Group) Consolidate(ctx context.Context) error {
	nodes := map[string]Node{}
	if err := g.collect(ctx, "", nodes); err != nil {
		return fmt.Errorf("consolidating %q: %w", g.path, err)
	}
	g.meta.Consolidated = nodes
	return writeNode(ctx, g.store, g.path, &g.meta)
}

// collect adds the nodes below a path from the group. It does not look into
// arrays, whose chunks may be many.
func (g *Group) collect(ctx context.Context, path string, nodes map[string]Node) error {
	here := &Group{store: g.store, path: join(g.path, path)}
	children, err := here.Children(ctx)
	if err != nil {
		return err
	}
	for _, child := range children {
		below := join(path, child.Name)
		group, isGroup := child.Node.(*GroupMetadata)
		if !isGroup {
			nodes[below] = child.Node
			continue
		}
		member := *group
		member.Consolidated = nil // said once, above
		nodes[below] = &member
		if err := g.collect(ctx, below, nodes); err != nil {
			return err
		}
	}
	return nil
}
