package zarr_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openedHierarchy returns a group of hierarchy with and without consolidated metadata.
func openedHierarchy(t *testing.T, consolidated bool) (*zarr.Group, store.Store) {
	t.Helper()
	s := hierarchy(t)
	g, err := zarr.OpenGroup(ctx, s, "root")
	require.NoError(t, err)
	if consolidated {
		require.NoError(t, g.Consolidate(ctx))
	}
	return g, s
}

func memberNames(t *testing.T, g *zarr.Group, depth int) []string {
	t.Helper()
	var names []string
	for child, err := range g.Members(ctx, depth) {
		require.NoError(t, err)
		names = append(names, child.Name)
	}
	return names
}

func TestMembersAreWalkedToADepth(t *testing.T) {
	for _, consolidated := range []bool{false, true} {
		g, _ := openedHierarchy(t, consolidated)
		assert.Equal(t, []string{"a-array", "b", "inner"}, memberNames(t, g, 1))
		assert.Equal(t, []string{"a-array", "b", "inner", "inner/deep", "inner/x"}, memberNames(t, g, 2))
		all := []string{"a-array", "b", "inner", "inner/deep", "inner/deep/y", "inner/x"}
		assert.Equal(t, all, memberNames(t, g, 0))
		for child, err := range g.Members(ctx, 0) {
			require.NoError(t, err)
			if child.Name == "inner" {
				break // an early end must not continue below
			}
		}
	}
}

func TestTreeDrawsMembers(t *testing.T) {
	for _, consolidated := range []bool{false, true} {
		g, _ := openedHierarchy(t, consolidated)
		tree, err := g.Tree(ctx, 0)
		require.NoError(t, err)
		assert.Equal(t, strings.TrimLeft(`
/root
├── a-array [2] int32
├── b [2] int32
└── inner
    ├── deep
    │   └── y [2] int32
    └── x [2] int32
`, "\n"), tree)
	}
}

func TestDeleteAndMoveKeepConsolidatedMetadataRight(t *testing.T) {
	for _, consolidated := range []bool{false, true} {
		g, s := openedHierarchy(t, consolidated)
		inner, err := g.OpenArray(ctx, "inner/x")
		require.NoError(t, err)
		require.NoError(t, inner.Write(ctx, oneTo(t, 2), 1))

		require.NoError(t, g.Delete(ctx, "inner/deep"))
		assert.ErrorIs(t, g.Delete(ctx, "inner/deep"), store.ErrNotFound)
		require.NoError(t, g.Move(ctx, "inner", "new/place"))
		assert.ErrorIs(t, g.Move(ctx, "inner", "other"), store.ErrNotFound)
		assert.ErrorIs(t, g.Move(ctx, "b", "a-array"), store.ErrExists)
		assert.ErrorIs(t, g.Move(ctx, "b", "a-array/c"), zarr.ErrNodeType)
		assert.ErrorIs(t, g.Move(ctx, "new", "new/deeper"), zarr.ErrInvalidName)
		assert.ErrorIs(t, g.Delete(ctx, ""), zarr.ErrInvalidName)

		for _, group := range []*zarr.Group{g, reopened(t, s, "root")} {
			assert.Equal(t, consolidated, group.Metadata().Consolidated != nil)
			assert.Equal(t, []string{"a-array", "b", "new", "new/place", "new/place/x"}, memberNames(t, group, 0))
			moved, err := group.OpenArray(ctx, "new/place/x")
			require.NoError(t, err)
			assert.Equal(t, []int32{1, 2}, readInts(t, moved))
			there, err := group.Contains(ctx, "new/place")
			require.NoError(t, err)
			assert.True(t, there)
			there, err = group.Contains(ctx, "inner/x")
			require.NoError(t, err)
			assert.False(t, there)
		}
		for _, key := range keysOf(t, s) {
			assert.False(t, strings.HasPrefix(key, "root/inner"), key)
		}
	}
}

func reopened(t *testing.T, s store.Store, path string) *zarr.Group {
	t.Helper()
	g, err := zarr.OpenGroup(ctx, s, path)
	require.NoError(t, err)
	return g
}

// plain hides the optional interfaces of a store.
type plain struct{ store.Store }

func TestMoveCopiesWhereTheStoreCannotRename(t *testing.T) {
	memory := store.NewMemory()
	g, err := zarr.CreateGroup(ctx, plain{memory}, "", nil)
	require.NoError(t, err)
	a, err := g.CreateArray(ctx, "a", ints([]int64{4}, []int64{2}))
	require.NoError(t, err)
	require.NoError(t, a.Write(ctx, oneTo(t, 4), 1))
	require.NoError(t, g.Move(ctx, "a", "x/b"))
	assert.Equal(t, []string{"x/b/c/0", "x/b/c/1", "x/b/zarr.json", "x/zarr.json", "zarr.json"}, keysOf(t, memory))
	b, err := g.OpenArray(ctx, "x/b")
	require.NoError(t, err)
	assert.Equal(t, []int32{1, 2, 3, 4}, readInts(t, b))
}

func TestMembersAreCreatedAndRequired(t *testing.T) {
	for _, consolidated := range []bool{false, true} {
		g, s := openedHierarchy(t, consolidated)
		meta := ints([]int64{4}, []int64{2})
		_, err := g.CreateArray(ctx, "p/q", meta)
		require.NoError(t, err)
		_, err = g.CreateArray(ctx, "p/q", meta)
		assert.ErrorIs(t, err, store.ErrExists)
		_, err = g.RequireArray(ctx, "p/q", meta)
		assert.NoError(t, err)
		_, err = g.RequireArray(ctx, "p/q", ints([]int64{5}, []int64{2}))
		assert.ErrorIs(t, err, store.ErrExists)
		_, err = g.RequireArray(ctx, "p", meta)
		assert.ErrorIs(t, err, zarr.ErrNodeType)
		_, err = g.RequireGroup(ctx, "p/q")
		assert.ErrorIs(t, err, zarr.ErrNodeType)
		_, err = g.RequireGroup(ctx, "p/r")
		assert.NoError(t, err)
		_, err = g.CreateGroup(ctx, "p/r", nil)
		assert.ErrorIs(t, err, store.ErrExists)
		_, err = g.CreateArray(ctx, "n", nil)
		assert.Error(t, err)
		_, err = g.CreateGroup(ctx, "", nil)
		assert.ErrorIs(t, err, zarr.ErrInvalidName)
		want := []string{"a-array", "b", "inner", "p"}
		assert.Equal(t, want, memberNames(t, g, 1))
		assert.Equal(t, want, memberNames(t, reopened(t, s, "root"), 1))
		if consolidated {
			require.NoError(t, g.Unconsolidate(ctx))
			assert.Nil(t, reopened(t, s, "root").Metadata().Consolidated)
			assert.Equal(t, want, memberNames(t, g, 1))
		}
	}
}

func TestReadOnlyGroupsRefuseEveryWrite(t *testing.T) {
	s := hierarchy(t)
	g, err := zarr.OpenGroupMode(ctx, s, "root", zarr.ModeRead, nil)
	require.NoError(t, err)
	inner, err := g.OpenGroup(ctx, "inner")
	require.NoError(t, err)
	a, err := inner.OpenArray(ctx, "x")
	require.NoError(t, err)
	_, array := g.CreateArray(ctx, "new", ints([]int64{4}, []int64{2}))
	_, group := inner.RequireGroup(ctx, "new")
	before := keysOf(t, s)
	for _, err := range []error{
		array, group, a.Write(ctx, oneTo(t, 2), 1), g.Delete(ctx, "b"), g.Move(ctx, "b", "c"), g.Consolidate(ctx),
		inner.SetAttributes(ctx, nil), inner.UpdateAttributes(ctx, nil), g.Unconsolidate(ctx),
	} {
		assert.ErrorIs(t, err, store.ErrReadOnly)
	}
	assert.Equal(t, before, keysOf(t, s))
}

func TestHierarchyIsCreatedWholeOrNotAtAll(t *testing.T) {
	s := store.NewMemory()
	meta := ints([]int64{4}, []int64{2})
	nodes := map[string]zarr.Node{"": &zarr.GroupMetadata{Attributes: map[string]any{"a": "b"}}, "x/y/z": meta, "x/w": meta}
	require.NoError(t, zarr.CreateHierarchy(ctx, s, "top", nodes))
	g := reopened(t, s, "top")
	assert.Equal(t, "b", g.Metadata().Attributes["a"])
	assert.Equal(t, []string{"x", "x/w", "x/y", "x/y/z"}, memberNames(t, g, 0))

	before := keysOf(t, s)
	assert.ErrorIs(t, zarr.CreateHierarchy(ctx, s, "top", map[string]zarr.Node{"new": meta, "x/w": meta}), store.ErrExists)
	assert.ErrorIs(t, zarr.CreateHierarchy(ctx, s, "top", map[string]zarr.Node{"new": meta, "new/a": meta}), zarr.ErrNodeType)
	assert.ErrorIs(t, zarr.CreateHierarchy(ctx, s, "top", map[string]zarr.Node{"new": meta, "x/w/a": meta}), zarr.ErrNodeType)
	assert.ErrorIs(t, zarr.CreateHierarchy(ctx, s, "top", map[string]zarr.Node{"new": meta, "__a": meta}), zarr.ErrInvalidName)
	assert.Equal(t, before, keysOf(t, s))
}

// failing fails to read the keys below a prefix.
type failing struct {
	store.Store
	prefix string
}

var errForbidden = errors.New("forbidden")

func (f failing) Get(ctx context.Context, key string, r store.Range) ([]byte, error) {
	if strings.HasPrefix(key, f.prefix) {
		return nil, errForbidden
	}
	return f.Store.Get(ctx, key, r)
}

func TestMemberThatCannotBeReadDoesNotHideOthers(t *testing.T) {
	g, err := zarr.OpenGroup(ctx, failing{hierarchy(t), "root/b/"}, "root")
	require.NoError(t, err)
	children, err := g.Children(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{"a-array", "b", "inner"}, names(children))
	require.IsType(t, &zarr.UnreadableNode{}, children[1].Node)
	assert.ErrorIs(t, children[1].Node.(*zarr.UnreadableNode).Err, errForbidden)
	assert.ErrorIs(t, g.Consolidate(ctx), errForbidden, "consolidated metadata must not lack it")
	tree, err := g.Tree(ctx, 1)
	require.NoError(t, err)
	assert.Contains(t, tree, "b (unreadable)")
	_, err = g.Contains(ctx, "b")
	assert.ErrorIs(t, err, errForbidden)
}

func TestHierarchyCompletesMetadataAsCreateDoes(t *testing.T) {
	s := store.NewMemory()
	plain := &zarr.ArrayMetadata{Format: 2, Shape: []int64{3}, DataType: element.Of(ndview.Int32)}
	require.NoError(t, zarr.CreateHierarchy(ctx, s, "", map[string]zarr.Node{"a": plain}))
	a, err := zarr.Open(ctx, s, "a")
	require.NoError(t, err)
	created := create(t, store.NewMemory(), "a", plain)
	assert.Equal(t, created.Metadata().ChunkShape, a.Metadata().ChunkShape)
	assert.True(t, a.Metadata().ChunkKeyEncoding.V2)
	assert.Len(t, a.Metadata().Codecs, 2)
	assert.Nil(t, plain.Codecs, "the argument is not changed")
}

// AnnData before 0.8 kept the labels of categories in groups "__categories".
func TestMembersWithReservedNamesAreRead(t *testing.T) {
	for _, format := range []int{2, 3} {
		s := store.NewMemory()
		meta := ints([]int64{4}, []int64{2})
		meta.Format, meta.ChunkKeyEncoding.V2 = format, format == 2
		root, err := zarr.CreateGroup(ctx, s, "", &zarr.GroupMetadata{Format: format})
		require.NoError(t, err)
		_, err = root.CreateArray(ctx, "__categories/a", meta)
		if format == 3 {
			require.ErrorIs(t, err, zarr.ErrInvalidName, "the specification reserves the name")
			for _, path := range []string{"__categories", "__categories/a"} {
				raw, err := s.Get(ctx, "zarr.json", store.Range{})
				require.NoError(t, err)
				if path != "__categories" {
					raw, err = json.Marshal(meta)
					require.NoError(t, err)
				}
				require.NoError(t, s.Set(ctx, path+"/zarr.json", raw))
			}
		} else {
			require.NoError(t, err)
		}
		for range 2 { // without and with consolidated metadata
			g := reopened(t, s, "")
			assert.Equal(t, []string{"__categories", "__categories/a"}, memberNames(t, g, 0))
			a, err := g.OpenArray(ctx, "__categories/a")
			require.NoError(t, err)
			require.NoError(t, a.SetAttributes(ctx, map[string]any{"k": "v"}))
			_, err = zarr.OpenGroup(ctx, s, "__categories")
			require.NoError(t, err)
			require.NoError(t, g.Consolidate(ctx))
		}
		g := reopened(t, s, "")
		require.NoError(t, g.Move(ctx, "__categories/a", "b"))
		require.NoError(t, g.Delete(ctx, "__categories"))
		assert.Equal(t, []string{"b"}, memberNames(t, g, 0))
		err = g.Move(ctx, "b", "__c")
		if format == 3 {
			assert.ErrorIs(t, err, zarr.ErrInvalidName)
		} else {
			assert.NoError(t, err)
		}
	}
}
