package zarr_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func hierarchy(t *testing.T) store.Store {
	t.Helper()
	s := store.NewMemory()
	for _, path := range []string{"root", "root/inner", "root/inner/deep"} {
		_, err := zarr.CreateGroup(ctx, s, path, &zarr.GroupMetadata{Attributes: map[string]any{"path": path, "big": json.Number("9007199254740993")}})
		require.NoError(t, err)
	}
	for _, path := range []string{"root/b", "root/a-array", "root/inner/x", "root/inner/deep/y"} {
		create(t, s, path, ints([]int64{2}, []int64{1}))
	}
	require.NoError(t, s.Set(ctx, "root/not a node/file", nil))
	return s
}

func names(children []zarr.Child) []string {
	var out []string
	for _, c := range children {
		out = append(out, c.Name)
	}
	return out
}

func TestGroupListsAndOpensMembers(t *testing.T) {
	s := hierarchy(t)
	for _, consolidated := range []bool{false, true} {
		g, err := zarr.OpenGroup(ctx, s, "root")
		require.NoError(t, err)
		if consolidated {
			require.NoError(t, g.Consolidate(ctx))
			g, err = zarr.OpenGroup(ctx, s, "root")
			require.NoError(t, err)
			require.Len(t, g.Metadata().Consolidated, 6)
		}
		children, err := g.Children(ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{"a-array", "b", "inner"}, names(children))
		assert.IsType(t, &zarr.ArrayMetadata{}, children[0].Node)
		assert.IsType(t, &zarr.GroupMetadata{}, children[2].Node)

		inner, err := g.OpenGroup(ctx, "inner")
		require.NoError(t, err)
		assert.Equal(t, "root/inner", inner.Metadata().Attributes["path"])
		assert.Equal(t, json.Number("9007199254740993"), inner.Metadata().Attributes["big"])
		children, err = inner.Children(ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{"deep", "x"}, names(children))
		a, err := g.OpenArray(ctx, "inner/deep/y")
		require.NoError(t, err)
		assert.Equal(t, "root/inner/deep/y", a.Path())
		_, err = g.OpenArray(ctx, "inner")
		assert.ErrorIs(t, err, zarr.ErrNodeType)
		_, err = g.OpenGroup(ctx, "b")
		assert.ErrorIs(t, err, zarr.ErrNodeType)
		_, err = g.OpenArray(ctx, "absent")
		assert.ErrorIs(t, err, store.ErrNotFound)
		_, err = g.OpenArray(ctx, "")
		assert.ErrorIs(t, err, zarr.ErrInvalidName)
	}
}

func TestNodesAreReadWhateverTheyAre(t *testing.T) {
	s := store.NewMemory()
	create(t, s, "g/a", ints([]int64{4}, []int64{2}))
	require.NoError(t, s.Set(ctx, "old/.zgroup", []byte(`{"zarr_format":2}`)))
	require.NoError(t, s.Set(ctx, "bad/zarr.json", []byte(`{"zarr_format":3,"node_type":"group","x":1}`)))
	for path, want := range map[string]zarr.Node{"g": &zarr.GroupMetadata{}, "g/a": &zarr.ArrayMetadata{}, "old": &zarr.GroupMetadata{}} {
		node, err := zarr.ReadNode(ctx, s, path)
		require.NoError(t, err)
		assert.IsType(t, want, node, path)
	}
	_, err := zarr.ReadNode(ctx, s, "none")
	assert.ErrorIs(t, err, store.ErrNotFound)
	_, err = zarr.ReadNode(ctx, s, "bad")
	assert.ErrorContains(t, err, `"x"`)
}

func TestStaleConsolidatedMetadataCanBeIgnored(t *testing.T) {
	for _, format := range []int{2, 3} {
		s := store.NewMemory()
		g, err := zarr.CreateGroup(ctx, s, "", &zarr.GroupMetadata{Format: format})
		require.NoError(t, err)
		_, err = g.CreateGroup(ctx, "old/inner", nil)
		require.NoError(t, err)
		require.NoError(t, g.Consolidate(ctx))
		plain, err := zarr.CreateGroup(ctx, s, "new", &zarr.GroupMetadata{Format: format}) // beside the group
		require.NoError(t, err)
		require.NoError(t, plain.SetAttributes(ctx, map[string]any{"x": "y"}))

		stale, err := zarr.OpenGroupMode(ctx, s, "", zarr.ModeRead, nil)
		require.NoError(t, err)
		_, err = stale.OpenGroup(ctx, "new")
		require.ErrorIs(t, err, store.ErrNotFound)
		fresh := stale.IgnoreConsolidated()
		found, err := fresh.OpenGroup(ctx, "new")
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"x": "y"}, found.Metadata().Attributes)
		children, err := fresh.Children(ctx)
		require.NoError(t, err)
		assert.Len(t, children, 2)
		assert.ErrorIs(t, fresh.SetAttributes(ctx, nil), store.ErrReadOnly)

		// Groups below have consolidated metadata of their own, which stays in use.
		again, err := zarr.OpenGroup(ctx, s, "")
		require.NoError(t, err)
		assert.NotNil(t, again.Metadata().Consolidated, "the store is unchanged")
		inner, err := again.OpenGroup(ctx, "old")
		require.NoError(t, err)
		assert.Contains(t, inner.Metadata().Consolidated, "inner")
	}
}

func TestConsolidatedMetadataIsOrderedByDepthThenName(t *testing.T) {
	s := hierarchy(t)
	g, err := zarr.OpenGroup(ctx, s, "root")
	require.NoError(t, err)
	require.NoError(t, g.Consolidate(ctx))
	require.NoError(t, g.SetAttributes(ctx, map[string]any{"title": "t"}))
	raw, err := s.Get(ctx, "root/zarr.json", store.Range{})
	require.NoError(t, err)
	var doc struct {
		Attributes   map[string]any
		Consolidated struct {
			Kind           string
			MustUnderstand *bool `json:"must_understand"`
			Metadata       json.RawMessage
		} `json:"consolidated_metadata"`
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	assert.Equal(t, map[string]any{"title": "t"}, doc.Attributes)
	assert.Equal(t, "inline", doc.Consolidated.Kind)
	require.NotNil(t, doc.Consolidated.MustUnderstand)
	assert.False(t, *doc.Consolidated.MustUnderstand)
	last := -1
	for _, path := range []string{"a-array", "b", "inner", "inner/deep", "inner/x", "inner/deep/y"} {
		at := strings.Index(string(doc.Consolidated.Metadata), `"`+path+`": {`)
		assert.Greater(t, at, last, path)
		last = at
	}
}

func TestUnsupportedMemberDoesNotHideOthers(t *testing.T) {
	s := hierarchy(t)
	lacking := parts{shape: "[2]", dtype: `"int8"`, grid: regular("[2]"), keys: `"default"`, fill: "0", codecs: `["n5_default"]`}
	require.NoError(t, s.Set(ctx, "root/squeezed/zarr.json", lacking.document()))
	for _, consolidated := range []bool{false, true} {
		g, err := zarr.OpenGroup(ctx, s, "root")
		require.NoError(t, err)
		if consolidated {
			require.NoError(t, g.Consolidate(ctx))
		}
		children, err := g.Children(ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{"a-array", "b", "inner", "squeezed"}, names(children))
		require.IsType(t, &zarr.UnreadableNode{}, children[3].Node)
		_, err = g.OpenArray(ctx, "squeezed")
		assert.ErrorIs(t, err, errors.ErrUnsupported)
		assert.ErrorContains(t, err, "n5_default")
		_, err = g.OpenArray(ctx, "b")
		assert.NoError(t, err)
	}
}

func TestMalformedMembersStayVisible(t *testing.T) {
	s := hierarchy(t)
	require.NoError(t, s.Set(ctx, "root/cut/zarr.json", []byte("{")))
	require.NoError(t, s.Set(ctx, "root/kind/zarr.json", []byte(`{"zarr_format":3,"node_type":"thing"}`)))
	g, err := zarr.OpenGroup(ctx, s, "root")
	require.NoError(t, err)
	check := func(want ...string) {
		t.Helper()
		children, err := g.Children(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, names(children))
		for _, c := range children {
			if c.Name != "cut" && c.Name != "kind" {
				_, broken := c.Node.(*zarr.UnreadableNode)
				assert.False(t, broken, c.Name)
				continue
			}
			require.IsType(t, &zarr.UnreadableNode{}, c.Node)
			assert.ErrorContains(t, c.Node.(*zarr.UnreadableNode).Err, map[string]string{"cut": "no end", "kind": `node_type "thing"`}[c.Name])
			_, err := g.OpenGroup(ctx, c.Name)
			assert.Error(t, err)
		}
	}
	check("a-array", "b", "cut", "inner", "kind")
	require.NoError(t, g.Consolidate(ctx))
	check("a-array", "b", "cut", "inner", "kind")
	// A document that is not JSON cannot stand within another one.
	g, err = zarr.OpenGroup(ctx, s, "root")
	require.NoError(t, err)
	check("a-array", "b", "inner", "kind")
	_, err = zarr.Open(ctx, s, "root/cut")
	assert.ErrorContains(t, err, "root/cut")
}

func TestDeeplyNestedConsolidatedMetadataIsUnreadable(t *testing.T) {
	doc := `{"zarr_format":3,"node_type":"group","attributes":{}}`
	for range 40 {
		doc = `{"zarr_format":3,"node_type":"group","attributes":{},"consolidated_metadata":{"kind":"inline","must_understand":false,"metadata":{"a":` + doc + `}}}`
	}
	node, err := zarr.ParseNode([]byte(doc))
	require.NoError(t, err)
	depth := 0
	for ; ; depth++ {
		group, ok := node.(*zarr.GroupMetadata)
		if !ok {
			break
		}
		node = group.Consolidated["a"]
	}
	assert.Equal(t, 16, depth)
	require.IsType(t, &zarr.UnreadableNode{}, node)
	assert.ErrorContains(t, node.(*zarr.UnreadableNode).Err, "nests deeper")
}

func TestGroupsThatConsolidatedMetadataOmitAreUnreadable(t *testing.T) {
	const array = `{"zarr_format":3,"node_type":"array","shape":[2],"data_type":"int8","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2]}},"chunk_key_encoding":{"name":"default"},"fill_value":7,"codecs":["bytes"]}`
	const v2Array = `{"zarr_format":2,"shape":[2],"chunks":[2],"dtype":"|i1","fill_value":7,"order":"C","filters":null,"compressor":null}`
	for key, document := range map[string]string{
		"zarr.json": `{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline","must_understand":false,"metadata":{
			"a/b/x":` + array + `,"c":{"zarr_format":3,"node_type":"group"},"c/d/x":` + array + `}}}`,
		".zmetadata": `{"zarr_consolidated_format":1,"metadata":{".zgroup":{"zarr_format":2},"a/b/x/.zarray":` + v2Array + `,"c/.zgroup":{"zarr_format":2},"c/d/x/.zarray":` + v2Array + `}}`,
	} {
		s := store.NewMemory()
		require.NoError(t, s.Set(ctx, key, []byte(document)))
		require.NoError(t, s.Set(ctx, ".zgroup", []byte(`{"zarr_format":2}`)))
		g, err := zarr.OpenGroup(ctx, s, "")
		require.NoError(t, err)
		var names, broken []string
		for child, err := range g.Members(ctx, 0) {
			require.NoError(t, err)
			names = append(names, child.Name)
			if node, ok := child.Node.(*zarr.UnreadableNode); ok {
				broken = append(broken, node.Err.Error())
			}
		}
		assert.Equal(t, []string{"a", "c", "c/d"}, names, key)
		assert.Equal(t, []string{`consolidated metadata has "a/b/x", but not the group "a" above it`, `consolidated metadata has "d/x", but not the group "d" above it`}, broken, key)
		for _, path := range []string{"a/b/x", "c/d/x"} {
			_, err := g.OpenArray(ctx, path)
			assert.NoError(t, err, "%s %s", key, path)
		}
		_, err = g.OpenGroup(ctx, "a")
		assert.ErrorIs(t, err, store.ErrNotFound)
	}
}
