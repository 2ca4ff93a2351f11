package store_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// minimal has only the four methods of store.Store.
type minimal struct{ store.Store }

func under(t *testing.T, s store.Store) store.Store {
	s, err := store.Under(s, "some/prefix")
	require.NoError(t, err)
	return s
}

func cached(t *testing.T, s store.Store) store.Store {
	c, err := store.NewCache(s, store.CacheOptions{MaxBytes: 1 << 20})
	require.NoError(t, err)
	return c
}

func TestStores(t *testing.T) {
	for name, c := range map[string]struct {
		open    func(t *testing.T) store.Store
		options storetest.Options
	}{
		"memory":  {open: func(*testing.T) store.Store { return store.NewMemory() }},
		"minimal": {open: func(*testing.T) store.Store { return minimal{store.NewMemory()} }},
		"local":   {open: func(t *testing.T) store.Store { return store.NewLocal(filepath.Join(t.TempDir(), "a", "root")) }},
		"local in place": {
			open:    func(t *testing.T) store.Store { return store.NewLocal(t.TempDir(), store.InPlace()) },
			options: storetest.Options{TearsWrites: true},
		},
		"local synced":  {open: func(t *testing.T) store.Store { return store.NewLocal(t.TempDir(), store.Sync()) }},
		"under memory":  {open: func(t *testing.T) store.Store { return under(t, store.NewMemory()) }},
		"under minimal": {open: func(t *testing.T) store.Store { return under(t, minimal{store.NewMemory()}) }},
		"under local":   {open: func(t *testing.T) store.Store { return under(t, store.NewLocal(t.TempDir())) }},
		"logging": {open: func(*testing.T) store.Store {
			return store.NewLogging(store.NewMemory(), slog.New(slog.DiscardHandler))
		}},
		"cache": {open: func(t *testing.T) store.Store { return cached(t, store.NewMemory()) }},
		"cache of local": {open: func(t *testing.T) store.Store {
			return cached(t, store.NewLocal(t.TempDir()))
		}},
		"zip": {
			open: func(t *testing.T) store.Store {
				z, err := store.OpenZip(filepath.Join(t.TempDir(), "a.zip"), store.ZipCreate)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, z.Close()) })
				return z
			},
			options: storetest.Options{NoDelete: true},
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.Test(t, c.open, c.options) })
	}
}

func TestLocalHidesUncommittedValues(t *testing.T) {
	root := t.TempDir()
	s := store.NewLocal(root)
	set(t, s, "c/0", "old")
	w, err := s.Create(ctx(), "c/0")
	require.NoError(t, err)
	write(t, w, "new")
	assert.Equal(t, "old", get(t, s, "c/0", store.Range{}))
	entries, err := os.ReadDir(filepath.Join(root, "c"))
	require.NoError(t, err)
	require.Len(t, entries, 2, "the value and a temporary file")
	assert.Equal(t, []string{"c/0"}, list(t, s), "temporary files are not listed")
	_, err = s.Get(ctx(), "c/"+entries[0].Name(), store.Range{})
	assert.ErrorIs(t, err, store.ErrInvalidKey, "temporary files are not readable")
	require.NoError(t, w.Commit())
	assert.Equal(t, "new", get(t, s, "c/0", store.Range{}))
	entries, err = os.ReadDir(filepath.Join(root, "c"))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

func TestLocalSetIfNotExistsLeavesNoTemporaryFile(t *testing.T) {
	root := t.TempDir()
	s := store.NewLocal(root, store.Sync())
	require.NoError(t, s.SetIfNotExists(ctx(), "k", []byte("a")))
	assert.ErrorIs(t, s.SetIfNotExists(ctx(), "k", []byte("b")), store.ErrExists)
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	assert.Equal(t, "a", get(t, s, "k", store.Range{}))
}

func TestLocalRecreatesDeletedDirectories(t *testing.T) {
	root := t.TempDir()
	s := store.NewLocal(root)
	set(t, s, "a/c/0", "x")
	require.NoError(t, os.RemoveAll(filepath.Join(root, "a")))
	set(t, s, "a/c/0", "y")
	assert.Equal(t, "y", get(t, s, "a/c/0", store.Range{}))
}

func TestLocalErrorsNameKeyAndPath(t *testing.T) {
	root := t.TempDir()
	s := store.NewLocal(root)
	set(t, s, "a", "a value where a directory would have to be")
	err := s.Set(ctx(), "a/c/0", nil)
	assert.ErrorContains(t, err, `"a/c/0"`)
	assert.ErrorContains(t, err, root)
	set(t, s, "dir/x", "")
	_, err = s.Create(ctx(), "dir")
	if err == nil { // the temporary file can be created, but not renamed to a directory
		err = s.Set(ctx(), "dir", []byte("x"))
	}
	assert.ErrorContains(t, err, `"dir"`)
	assert.ErrorContains(t, err, root)
	assert.Equal(t, []string{"a", "dir/x"}, list(t, s))
}

func TestLocalUsesDefaultPermissions(t *testing.T) {
	root := t.TempDir()
	plain := filepath.Join(root, "plain")
	f, err := os.Create(plain)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	set(t, store.NewLocal(root), "set", "x")
	want, err := os.Stat(plain)
	require.NoError(t, err)
	got, err := os.Stat(filepath.Join(root, "set"))
	require.NoError(t, err)
	assert.Equal(t, want.Mode(), got.Mode())
}

func ctx() context.Context { return context.Background() }

func set(t *testing.T, s store.Store, key, value string) {
	t.Helper()
	require.NoError(t, s.Set(ctx(), key, []byte(value)))
}

func get(t *testing.T, s store.Store, key string, r store.Range) string {
	t.Helper()
	value, err := s.Get(ctx(), key, r)
	require.NoError(t, err)
	return string(value)
}

func list(t *testing.T, s store.Store) []string {
	t.Helper()
	keys, err := s.List(ctx(), "")
	require.NoError(t, err)
	return keys
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	n, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}

// Deleted values leave their directories behind.
func TestLocalValuesReplaceOnlyEmptyDirectories(t *testing.T) {
	ctx := t.Context()
	for _, options := range [][]store.LocalOption{nil, {store.InPlace()}} {
		s := store.NewLocal(t.TempDir(), options...)
		require.NoError(t, s.Set(ctx, "deleted/inner/value", []byte("old")))
		require.NoError(t, s.Delete(ctx, "deleted/inner/value"))
		require.NoError(t, s.Set(ctx, "deleted", []byte("new")))
		value, err := s.Get(ctx, "deleted", store.Range{})
		require.NoError(t, err)
		assert.Equal(t, "new", string(value))

		require.NoError(t, s.Set(ctx, "kept/value", []byte("old")))
		require.Error(t, s.Set(ctx, "kept", []byte("new")))
		keys, err := s.List(ctx, "")
		require.NoError(t, err)
		assert.Equal(t, []string{"deleted", "kept/value"}, keys)
	}
}
