package arrowzarr_test

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// openRoot opens an output.
func openRoot(tb testing.TB, output string) *zarr.Group {
	tb.Helper()
	root, err := zarr.OpenGroup(tb.Context(), store.NewLocal(output), "")
	require.NoError(tb, err)
	return root
}

// requireTable checks that an output holds a table: every column, and nothing
// else.
func requireTable(tb testing.TB, want table, output string) {
	tb.Helper()
	root := openRoot(tb, output)
	nodes := map[string]bool{}
	for i, field := range want.schema.Fields() {
		requireColumn(tb, root, field.Name, expect(field.Type, want.column(i)))
		nodes[field.Name] = true
	}
	children, err := root.Children(tb.Context())
	require.NoError(tb, err)
	for _, c := range children {
		assert.Contains(tb, nodes, c.Name, "a node that is no column")
	}
	assert.Len(tb, children, len(nodes))
}

// requireColumn checks that a node of an output holds what it should.
func requireColumn(tb testing.TB, root *zarr.Group, name string, want map[string]contents) {
	tb.Helper()
	got := readColumn(tb, root, name)
	// The elements of a missing list say nothing, also not of being missing.
	// A mask of elements is there where one is missing in a list that is
	// there, and may be where others are.
	if elements, ok := got["element_mask"]; ok && want["values"].Type != "" {
		if mask, ok := got["mask"]; ok {
			clearRows(elements.Bytes, mask.Bytes)
		}
		if _, ok := want["element_mask"]; !ok {
			assert.NotContains(tb, elements.Bytes, byte(1), "%s: missing elements", name)
			delete(got, "element_mask")
		}
	}
	require.Equal(tb, keys(want), keys(got), "arrays of column %q", name)
	for at, w := range want {
		requireContents(tb, w, got[at], name, at)
	}
}

// requireContents is require.Equal with a short message.
func requireContents(tb testing.TB, want, got contents, name, at string) {
	tb.Helper()
	require.Equal(tb, want.Type, got.Type, "column %q, array %q: type", name, at)
	require.Equal(tb, want.Shape, got.Shape, "column %q, array %q: shape", name, at)
	require.Equal(tb, want.Texts, got.Texts, "column %q, array %q", name, at)
	require.Len(tb, got.Bytes, len(want.Bytes), "column %q, array %q", name, at)
	for i, b := range want.Bytes {
		if got.Bytes[i] != b {
			i = i / 8 * 8
			end := min(i+64, len(want.Bytes))
			require.Equal(tb, want.Bytes[i:end], got.Bytes[i:end], "column %q, array %q: bytes from %d on", name, at, i)
		}
	}
}

func keys(arrays map[string]contents) map[string]bool {
	found := map[string]bool{}
	for k := range arrays {
		found[k] = true
	}
	return found
}

func clearRows(elements, rows []byte) {
	for i, missing := range rows {
		if width := len(elements) / len(rows); missing == 1 {
			clear(elements[i*width : (i+1)*width])
		}
	}
}

// readColumn reads the arrays of a column by their paths below it.
func readColumn(tb testing.TB, root *zarr.Group, name string) map[string]contents {
	tb.Helper()
	arrays := map[string]contents{}
	if node := root.Metadata().Consolidated[name]; assert.NotNil(tb, node, "no node %q", name) {
		if _, ok := node.(*zarr.ArrayMetadata); ok {
			return map[string]contents{"": readArray(tb, root, name)}
		}
	}
	for at, node := range root.Metadata().Consolidated {
		if below, ok := strings.CutPrefix(at, name+"/"); ok {
			require.IsType(tb, &zarr.ArrayMetadata{}, node)
			arrays[below] = readArray(tb, root, at)
		}
	}
	return arrays
}

func readArray(tb testing.TB, root *zarr.Group, at string) contents {
	tb.Helper()
	a, err := root.OpenArray(tb.Context(), at)
	require.NoError(tb, err)
	values, err := a.Read(tb.Context(), zarr.Prototype{}, 1)
	require.NoError(tb, err, "reading %q", at)
	defer values.Release()
	c := contents{Type: a.Metadata().DataType.String(), Shape: values.Shape()}
	switch v := values.(type) {
	case *ndview.NDBuffer:
		c.Type = v.DType().String()
		c.Bytes = make([]byte, v.NBytes())
		require.NoError(tb, v.CopyToHost(c.Bytes))
	case *element.VLen:
		for _, e := range v.Elements() {
			c.Texts = append(c.Texts, string(e))
		}
	}
	return c
}

// files are the metadata documents below a directory, by path.
func documents(tb testing.TB, root string) map[string]string {
	tb.Helper()
	found := map[string]string{}
	require.NoError(tb, filepath.WalkDir(root, func(at string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "zarr.json" {
			return err
		}
		raw, err := os.ReadFile(at)
		rel, _ := filepath.Rel(root, filepath.Dir(at))
		found[path.Clean(filepath.ToSlash(rel))] = string(raw)
		return err
	}))
	return found
}
