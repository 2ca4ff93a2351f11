package zarr

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/zarr/store"
)

// Child is a member of a group.
type Child struct {
	// Name is the path of the member relative to the group: one name for a direct
	// member, otherwise names joined by "/".
	Name string
	Node Node
}

// memberRequests is the number of metadata documents that are read at once.
const memberRequests = 16

// Children returns the direct members of the group, sorted by name. It uses
// consolidated metadata if the group has it, otherwise the store. A member whose metadata
// cannot be read, is malformed or needs a missing feature is an [UnreadableNode] with
// the error. So is a group that consolidated metadata omits above another node, which can
// still be opened by its path.
func (g *Group) Children(ctx context.Context) ([]Child, error) {
	if g.meta.Consolidated != nil {
		return g.consolidatedChildren(), nil
	}
	_, names, err := store.ListDir(ctx, g.store, g.path)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return checkName(name) != nil }) // not nodes
	nodes := make([]Node, len(names))
	err = forEachParallel(ctx, memberRequests, maps.Keys(maps.Collect(slices.All(names))), func(ctx context.Context, i int) error {
		node, err := readNode(ctx, g.store, joinPath(g.path, names[i]))
		switch {
		case errors.Is(err, store.ErrNotFound):
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			nodes[i] = &UnreadableNode{Err: err}
		default:
			nodes[i] = node
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var children []Child
	for i, node := range nodes {
		if node != nil {
			children = append(children, Child{names[i], node})
		}
	}
	return children, nil
}

func (g *Group) consolidatedChildren() []Child {
	nodes := map[string]Node{}
	for _, path := range slices.Sorted(maps.Keys(g.meta.Consolidated)) {
		name, _, below := strings.Cut(path, "/")
		if !below {
			nodes[name] = g.meta.Consolidated[name]
		} else if nodes[name] == nil { // a group sorts before what is below it
			nodes[name] = &UnreadableNode{Err: fmt.Errorf("consolidated metadata has %q, but not the group %q above it", path, name)}
		}
	}
	var children []Child
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		children = append(children, Child{name, nodes[name]})
	}
	return children
}

// Members yields the members of the group and of the groups below it, each group before
// its members, with names such as "a/b". Depth is the number of levels: 1 for direct
// members, or all levels if it is not positive. It stops after the first error.
func (g *Group) Members(ctx context.Context, depth int) iter.Seq2[Child, error] {
	return func(yield func(Child, error) bool) { g.walk(ctx, "", depth, yield) }
}

func (g *Group) walk(ctx context.Context, prefix string, depth int, yield func(Child, error) bool) bool {
	children, err := g.Children(ctx)
	if err != nil {
		yield(Child{}, fmt.Errorf("group %q: %w", g.path, err))
		return false
	}
	for _, child := range children {
		if !yield(Child{joinPath(prefix, child.Name), child.Node}, nil) {
			return false
		}
		group, isGroup := child.Node.(*GroupMetadata)
		if !isGroup || depth == 1 {
			continue
		}
		below := &Group{store: g.store, path: joinPath(g.path, child.Name), meta: *group}
		below.meta.Consolidated = g.consolidatedBelow(child.Name)
		if !below.walk(ctx, joinPath(prefix, child.Name), depth-1, yield) {
			return false
		}
	}
	return true
}

// Contains reports whether a node is at a path, even one that cannot be opened.
func (g *Group) Contains(ctx context.Context, path string) (bool, error) {
	_, err := g.memberNode(ctx, path)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// CreateArray creates an array below the group, as [Create] does. It has the Zarr format
// of the group unless the metadata says otherwise.
func (g *Group) CreateArray(ctx context.Context, path string, meta *ArrayMetadata) (*Array, error) {
	return g.openArrayMode(ctx, path, ModeCreate, meta)
}

// RequireArray returns the array at a path, or creates it. It returns an error wrapping
// store.ErrExists if an array of another shape or data type is there.
func (g *Group) RequireArray(ctx context.Context, path string, meta *ArrayMetadata) (*Array, error) {
	a, err := g.openArrayMode(ctx, path, ModeAppend, meta)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(a.Shape(), meta.Shape) || a.dataType != meta.DataType {
		return nil, fmt.Errorf("zarr.Group.RequireArray: array %q of %s %v, want %s %v: %w",
			a.path, a.dataType, a.Shape(), meta.DataType, meta.Shape, store.ErrExists)
	}
	return a, nil
}

func (g *Group) openArrayMode(ctx context.Context, path string, mode Mode, meta *ArrayMetadata) (*Array, error) {
	if err := g.checkNewMember(path); err != nil {
		return nil, err
	}
	if meta == nil {
		return nil, fmt.Errorf("group %q: array %q: nil metadata", g.path, path)
	}
	own := *meta
	if own.Format == 0 {
		own.Format = g.meta.Format
	}
	a, err := OpenMode(ctx, g.store, joinPath(g.path, path), mode, &own)
	if err != nil {
		return nil, err
	}
	return a, g.consolidateMember(ctx, path, a.Metadata())
}

// CreateGroup creates a group below the group, as the function CreateGroup does. It has
// the Zarr format of the group unless the metadata says otherwise. Nil metadata is empty.
func (g *Group) CreateGroup(ctx context.Context, path string, meta *GroupMetadata) (*Group, error) {
	return g.openGroupMode(ctx, path, ModeCreate, meta)
}

// RequireGroup returns the group at a path, or creates it.
func (g *Group) RequireGroup(ctx context.Context, path string) (*Group, error) {
	return g.openGroupMode(ctx, path, ModeAppend, nil)
}

func (g *Group) openGroupMode(ctx context.Context, path string, mode Mode, meta *GroupMetadata) (*Group, error) {
	if err := g.checkNewMember(path); err != nil {
		return nil, err
	}
	own := GroupMetadata{}
	if meta != nil {
		own = *meta
	}
	if own.Format == 0 {
		own.Format = g.meta.Format
	}
	inner, err := OpenGroupMode(ctx, g.store, joinPath(g.path, path), mode, &own)
	if err != nil {
		return nil, err
	}
	return inner, g.consolidateMember(ctx, path, inner.Metadata())
}

func (g *Group) checkNewMember(path string) error {
	return errors.Join(g.checkWritable(), checkNotRoot(path), checkPath(path))
}

// Delete deletes a member and everything below it. It returns an error wrapping
// store.ErrNotFound if no node is at the path.
func (g *Group) Delete(ctx context.Context, path string) error {
	if err := g.checkNewMember(path); err != nil {
		return err
	}
	if err := g.mustHave(ctx, path); err != nil {
		return err
	}
	if err := store.DeleteAll(ctx, g.store, joinPath(g.path, path)); err != nil {
		return fmt.Errorf("zarr.Group.Delete: node %q: %w", joinPath(g.path, path), err)
	}
	return g.changeConsolidated(ctx, func(nodes map[string]Node) {
		maps.DeleteFunc(nodes, func(name string, _ Node) bool { return isAtOrBelow(name, path) })
	})
}

// Move moves a member, with everything below it, to another path below the group. It
// returns an error wrapping store.ErrNotFound if no node is at from, and
// store.ErrExists if one is at to. It is atomic if the store can rename a prefix;
// otherwise all values are copied before the old ones are deleted.
func (g *Group) Move(ctx context.Context, from, to string) error {
	fail := func(err error) error {
		return fmt.Errorf("zarr.Group.Move: node %q to %q: %w", joinPath(g.path, from), joinPath(g.path, to), err)
	}
	if err := errors.Join(g.checkNewMember(from), g.checkNewMember(to), checkNewPath(to, &g.meta)); err != nil {
		return fail(err)
	}
	if isAtOrBelow(from, to) || isAtOrBelow(to, from) {
		return fail(fmt.Errorf("one is below the other: %w", ErrInvalidName))
	}
	if err := g.mustHave(ctx, from); err != nil {
		return fail(err)
	}
	source, target := joinPath(g.path, from), joinPath(g.path, to)
	if _, err := readNode(ctx, g.store, target); err == nil {
		return fail(store.ErrExists)
	} else if !errors.Is(err, store.ErrNotFound) {
		return fail(err)
	}
	missing, err := missingParents(ctx, g.store, target)
	if err != nil {
		return fail(err)
	}
	for _, parent := range missing {
		if err := writeNode(ctx, g.store, parent, &GroupMetadata{Format: g.meta.Format}); err != nil {
			return fail(err)
		}
	}
	err = store.Move(ctx, g.store, source, target)
	if errors.Is(err, errors.ErrUnsupported) {
		err = copyAndDelete(ctx, g.store, source, target)
	}
	if err != nil {
		return fail(err)
	}
	return g.changeConsolidated(ctx, func(nodes map[string]Node) {
		for name, node := range maps.Clone(nodes) {
			if isAtOrBelow(name, from) {
				delete(nodes, name)
				nodes[to+strings.TrimPrefix(name, from)] = node
			}
		}
		g.addGroupsAbove(nodes, to)
	})
}

func copyAndDelete(ctx context.Context, s store.Store, from, to string) error {
	keys, err := s.List(ctx, from)
	if err != nil {
		return err
	}
	err = forEachParallel(ctx, memberRequests, slices.Values(keys), func(ctx context.Context, key string) error {
		value, err := s.Get(ctx, key, store.Range{})
		if err != nil {
			return err
		}
		return s.Set(ctx, to+strings.TrimPrefix(key, from), value)
	})
	if err != nil {
		return err
	}
	return store.DeleteAll(ctx, s, from)
}

// mustHave returns an error unless a node is stored at a path.
func (g *Group) mustHave(ctx context.Context, path string) error {
	_, err := readNode(ctx, g.store, joinPath(g.path, path))
	return err
}

func isAtOrBelow(name, path string) bool {
	return name == path || strings.HasPrefix(name, path+"/")
}

// Tree returns a drawing of the group and its members, with the shapes and data types of
// arrays. Depth is that of [Group.Members].
func (g *Group) Tree(ctx context.Context, depth int) (string, error) {
	children := map[string][]Child{} // by the path of the parent
	for child, err := range g.Members(ctx, depth) {
		if err != nil {
			return "", err
		}
		parent := ""
		if i := strings.LastIndexByte(child.Name, '/'); i >= 0 {
			parent = child.Name[:i]
		}
		children[parent] = append(children[parent], child)
	}
	var out strings.Builder
	out.WriteString("/" + g.path + "\n")
	drawTree(&out, children, "", "")
	return out.String(), nil
}

func drawTree(out *strings.Builder, children map[string][]Child, parent, indent string) {
	for i, child := range children[parent] {
		branch, below := "├── ", "│   "
		if i == len(children[parent])-1 {
			branch, below = "└── ", "    "
		}
		out.WriteString(indent + branch + child.Name[strings.LastIndexByte(child.Name, '/')+1:])
		switch node := child.Node.(type) {
		case *ArrayMetadata:
			fmt.Fprintf(out, " %v %s", node.Shape, node.DataType)
		case *UnreadableNode:
			out.WriteString(" (unreadable)")
		}
		out.WriteByte('\n')
		drawTree(out, children, child.Name, indent+below)
	}
}

// CreateHierarchy creates nodes by their paths below path, which are relative; "" is the
// node at path. Missing groups are created, and what [OpenMode] adds to the metadata of
// an array is added. It checks all paths first: if one exists
// already, the error wraps store.ErrExists, and if one is below an array, [ErrNodeType].
// Then nothing is written.
func CreateHierarchy(ctx context.Context, s store.Store, path string, nodes map[string]Node) error {
	if s == nil {
		return fmt.Errorf("zarr.CreateHierarchy: path %q: %w", path, errNilStore)
	}
	nodes = maps.Clone(nodes)
	for name, node := range nodes {
		if m, ok := node.(*ArrayMetadata); ok && m != nil {
			own, err := m.completed()
			if err != nil {
				return fmt.Errorf("zarr.CreateHierarchy: node %q: %w", joinPath(path, name), err)
			}
			nodes[name] = own
		}
	}
	names := sortedPaths(nodes)
	fail := func(name string, err error) error {
		return fmt.Errorf("zarr.CreateHierarchy: node %q: %w", joinPath(path, name), err)
	}
	for _, name := range names {
		full := joinPath(path, name)
		if err := checkNewPath(full, nodes[name]); err != nil {
			return fail(name, err)
		}
		if _, err := documents(nodes[name]); err != nil {
			return fail(name, err)
		}
		for above := range nodes {
			if above != name && (above == "" || isAtOrBelow(name, above)) && kindOf(nodes[above]) != "a group" {
				return fail(name, fmt.Errorf("%s is above it, at %q: %w", kindOf(nodes[above]), above, ErrNodeType))
			}
		}
		if _, err := missingParents(ctx, s, full); err != nil {
			return fail(name, err)
		}
		if old, err := readNode(ctx, s, full); err == nil {
			return fail(name, fmt.Errorf("it is %s: %w", kindOf(old), store.ErrExists))
		} else if !errors.Is(err, store.ErrNotFound) {
			return fail(name, err)
		}
	}
	for _, name := range names {
		if err := createNode(ctx, s, joinPath(path, name), ModeCreate, nodes[name]); err != nil {
			return fail(name, err)
		}
	}
	return nil
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
	return g.update(ctx, func(m *GroupMetadata) { m.Consolidated = nodes })
}

// Unconsolidate removes the consolidated metadata from the group, which then reads the
// documents of its members.
func (g *Group) Unconsolidate(ctx context.Context) error {
	if err := g.update(ctx, func(m *GroupMetadata) { m.Consolidated = nil }); err != nil {
		return err
	}
	if g.meta.Format != 2 {
		return nil
	}
	return g.store.Delete(ctx, joinPath(g.path, v2ConsolidatedKey))
}

// consolidatedBelow returns the consolidated metadata of the nodes below a member, or
// nil if the group is not consolidated.
func (g *Group) consolidatedBelow(path string) map[string]Node {
	if g.meta.Consolidated == nil {
		return nil
	}
	nodes := map[string]Node{}
	for name, node := range g.meta.Consolidated {
		if below, ok := strings.CutPrefix(name, path+"/"); ok {
			nodes[below] = node
		}
	}
	return nodes
}

// consolidateMember adds a new node, and the groups that were created above it, to the
// consolidated metadata, if there is some.
func (g *Group) consolidateMember(ctx context.Context, path string, node Node) error {
	if g.meta.Consolidated != nil && g.meta.Consolidated[path] != nil {
		return nil // an older node, which was opened
	}
	return g.changeConsolidated(ctx, func(nodes map[string]Node) {
		nodes[path] = node
		g.addGroupsAbove(nodes, path)
	})
}

func (g *Group) addGroupsAbove(nodes map[string]Node, path string) {
	for i, c := range path {
		if c == '/' && nodes[path[:i]] == nil {
			nodes[path[:i]] = &GroupMetadata{Format: g.meta.Format}
		}
	}
}

// changeConsolidated changes the consolidated metadata and writes it, if there is some.
func (g *Group) changeConsolidated(ctx context.Context, change func(map[string]Node)) error {
	if g.meta.Consolidated == nil {
		return nil
	}
	nodes := maps.Clone(g.meta.Consolidated)
	change(nodes)
	return g.update(ctx, func(m *GroupMetadata) { m.Consolidated = nodes })
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
		if broken, ok := child.Node.(*UnreadableNode); ok && broken.Raw == nil {
			return broken.Err // of the store, which may succeed later
		}
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
