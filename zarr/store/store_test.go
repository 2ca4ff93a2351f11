package store_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stores are the implementations that TestConformance tests.
var stores = map[string]func(t *testing.T) store.Store{
	"memory":         func(*testing.T) store.Store { return store.NewMemory() },
	"local":          func(t *testing.T) store.Store { return store.NewLocal(filepath.Join(t.TempDir(), "a", "root")) },
	"local in place": func(t *testing.T) store.Store { return store.NewLocal(t.TempDir(), store.InPlace()) },
}

// conformance is the contract of store.Store, one claim per entry.
var conformance = []struct {
	claim string
	check func(t *testing.T, s store.Store)
}{
	{"Get returns the value that was set", func(t *testing.T, s store.Store) {
		for _, key := range []string{"c/0", "foo/c/0.0", "foo/0/0", "a name with spaces/é", "c2"} {
			for _, value := range []string{"\x01\x02\x03\x04", ""} {
				set(t, s, key, value)
				assert.Equal(t, value, get(t, s, key, store.Range{}))
			}
		}
	}},
	{"Set replaces a value", func(t *testing.T, s store.Store) {
		set(t, s, "k", "a longer value")
		set(t, s, "k", "short")
		assert.Equal(t, "short", get(t, s, "k", store.Range{}))
	}},
	{"Set copies the value", func(t *testing.T, s store.Store) {
		value := []byte("before")
		require.NoError(t, s.Set(ctx(), "k", value))
		copy(value, "after!")
		assert.Equal(t, "before", get(t, s, "k", store.Range{}))
	}},
	{"ranges are clamped to the value", func(t *testing.T, s store.Store) {
		set(t, s, "k", "0123456789")
		for _, c := range []struct {
			r    store.Range
			want string
		}{
			{store.Range{}, "0123456789"},
			{store.Between(1, 4), "123"}, {store.Between(0, 10), "0123456789"}, {store.Between(8, 100), "89"},
			{store.Between(3, 3), ""}, {store.Between(10, 20), ""}, {store.Between(50, 60), ""},
			{store.From(0), "0123456789"}, {store.From(7), "789"}, {store.From(10), ""}, {store.From(11), ""},
			{store.Last(1), "9"}, {store.Last(0), ""}, {store.Last(10), "0123456789"}, {store.Last(99), "0123456789"},
		} {
			assert.Equal(t, c.want, get(t, s, "k", c.r), c.r)
		}
		for _, r := range []store.Range{store.Between(-1, 3), store.Between(4, 3), store.From(-1), store.Last(-1)} {
			_, err := s.Get(ctx(), "k", r)
			assert.ErrorIs(t, err, store.ErrInvalidRange, r)
		}
	}},
	{"missing keys are ErrNotFound and named", func(t *testing.T, s store.Store) {
		set(t, s, "foo/zarr.json", "{}")
		for _, key := range []string{"absent", "foo", "foo/bar", "foo/zarr.json/below"} {
			_, err := s.Get(ctx(), key, store.Range{})
			assert.ErrorIs(t, err, store.ErrNotFound, key)
			assert.ErrorContains(t, err, key)
			_, err = s.Size(ctx(), key)
			assert.ErrorIs(t, err, store.ErrNotFound, key)
		}
	}},
	{"Size is the length", func(t *testing.T, s store.Store) {
		for _, value := range []string{"", "abc"} {
			set(t, s, "k", value)
			n, err := s.Size(ctx(), "k")
			require.NoError(t, err)
			assert.EqualValues(t, len(value), n)
		}
	}},
	{"Delete is idempotent and keeps prefixes", func(t *testing.T, s store.Store) {
		set(t, s, "foo/c/0", "x")
		require.NoError(t, s.Delete(ctx(), "absent"))
		require.NoError(t, s.Delete(ctx(), "foo"))
		require.NoError(t, s.Delete(ctx(), "foo/c"))
		assert.Equal(t, []string{"foo/c/0"}, list(t, s, ""))
		require.NoError(t, s.Delete(ctx(), "foo/c/0"))
		require.NoError(t, s.Delete(ctx(), "foo/c/0"))
		assert.Empty(t, list(t, s, ""))
	}},
	{"DeleteAll deletes only the prefix", func(t *testing.T, s store.Store) {
		for _, key := range []string{"foo/zarr.json", "foo/c/0", "foo-bar/zarr.json", "foo2"} {
			set(t, s, key, "x")
		}
		require.NoError(t, s.DeleteAll(ctx(), "foo"))
		assert.Equal(t, []string{"foo-bar/zarr.json", "foo2"}, list(t, s, ""))
		require.NoError(t, s.DeleteAll(ctx(), "foo2"), "a key is its own prefix")
		require.NoError(t, s.DeleteAll(ctx(), "absent"))
		require.NoError(t, s.DeleteAll(ctx(), ""))
		assert.Empty(t, list(t, s, ""))
		set(t, s, "foo/c/0", "again")
		assert.Equal(t, "again", get(t, s, "foo/c/0", store.Range{}))
	}},
	{"List is sorted and limited to the prefix", func(t *testing.T, s store.Store) {
		for _, key := range []string{"b", "a/z/1", "a-b/0", "a/b", "ab"} {
			set(t, s, key, "x")
		}
		assert.Equal(t, []string{"a-b/0", "a/b", "a/z/1", "ab", "b"}, list(t, s, ""))
		assert.Equal(t, []string{"a/b", "a/z/1"}, list(t, s, "a"))
		assert.Empty(t, list(t, s, "b"), "a value is not under itself")
		assert.Empty(t, list(t, s, "absent"))
	}},
	{"ListDir lists direct names", func(t *testing.T, s store.Store) {
		for _, key := range []string{"zarr.json", "foo/zarr.json", "foo/c/1", "foo/c/0", "bar/deep/er/k"} {
			set(t, s, key, "x")
		}
		for prefix, want := range map[string][2][]string{
			"":       {{"zarr.json"}, {"bar", "foo"}},
			"foo":    {{"zarr.json"}, {"c"}},
			"foo/c":  {{"0", "1"}, nil},
			"bar":    {nil, {"deep"}},
			"absent": {nil, nil},
		} {
			keys, prefixes, err := s.ListDir(ctx(), prefix)
			require.NoError(t, err)
			assert.Equal(t, want, [2][]string{keys, prefixes}, prefix)
		}
		require.NoError(t, s.Delete(ctx(), "bar/deep/er/k"))
		_, prefixes, err := s.ListDir(ctx(), "")
		require.NoError(t, err)
		assert.Equal(t, []string{"foo"}, prefixes, "an empty prefix is not listed")
	}},
	{"Move moves a whole prefix", func(t *testing.T, s store.Store) {
		for _, key := range []string{"tmp/zarr.json", "tmp/x/c/0", "tmp2"} {
			set(t, s, key, key)
		}
		require.NoError(t, s.Move(ctx(), "tmp", "deep/out.zarr"))
		assert.Equal(t, []string{"deep/out.zarr/x/c/0", "deep/out.zarr/zarr.json", "tmp2"}, list(t, s, ""))
		assert.Equal(t, "tmp/x/c/0", get(t, s, "deep/out.zarr/x/c/0", store.Range{}))
		set(t, s, "tmp/x/c/0", "the old prefix can be reused")
		assert.ErrorIs(t, s.Move(ctx(), "tmp", "deep/out.zarr"), store.ErrExists)
		assert.ErrorIs(t, s.Move(ctx(), "tmp", "tmp2"), store.ErrExists)
		assert.ErrorIs(t, s.Move(ctx(), "absent", "new"), store.ErrNotFound)
		assert.ErrorIs(t, s.Move(ctx(), "tmp2", "new"), store.ErrNotFound, "a value is not under itself")
		assert.ErrorIs(t, s.Move(ctx(), "tmp", "tmp/x"), store.ErrInvalidKey)
		assert.ErrorIs(t, s.Move(ctx(), "tmp/x", "tmp"), store.ErrInvalidKey)
		assert.ErrorIs(t, s.Move(ctx(), "tmp", "tmp"), store.ErrInvalidKey)
	}},
	{"Move to a deleted prefix works", func(t *testing.T, s store.Store) {
		set(t, s, "to/c/0", "x")
		require.NoError(t, s.Delete(ctx(), "to/c/0"))
		set(t, s, "from/c/0", "y")
		require.NoError(t, s.Move(ctx(), "from", "to"))
		assert.Equal(t, "y", get(t, s, "to/c/0", store.Range{}))
	}},
	{"Create stores a stream on Commit", func(t *testing.T, s store.Store) {
		w, err := s.Create(ctx(), "foo/c/0")
		require.NoError(t, err)
		write(t, w, "....")
		write(t, w, "tail")
		_, err = w.WriteAt([]byte("head"), 0)
		require.NoError(t, err)
		_, err = w.WriteAt([]byte("beyond"), 4)
		assert.ErrorIs(t, err, store.ErrInvalidRange, "WriteAt is limited to written bytes")
		_, err = w.WriteAt([]byte("x"), -1)
		assert.ErrorIs(t, err, store.ErrInvalidRange)
		write(t, w, "!")
		require.NoError(t, w.Commit())
		assert.Equal(t, "headtail!", get(t, s, "foo/c/0", store.Range{}))
		assert.Error(t, w.Commit())
		assert.NoError(t, w.Abort(), "Abort after Commit does nothing")
		_, err = w.Write([]byte("more"))
		assert.Error(t, err)
		_, err = w.WriteAt([]byte("more"), 0)
		assert.Error(t, err)
		assert.Equal(t, "headtail!", get(t, s, "foo/c/0", store.Range{}))
	}},
	{"Abort leaves nothing", func(t *testing.T, s store.Store) {
		w, err := s.Create(ctx(), "foo/c/0")
		require.NoError(t, err)
		write(t, w, "half")
		require.NoError(t, w.Abort())
		require.NoError(t, w.Abort())
		assert.Error(t, w.Commit())
		assert.Empty(t, list(t, s, ""))
	}},
	{"every method rejects malformed keys", func(t *testing.T, s store.Store) {
		for _, key := range []string{"", "/", "/etc/passwd", "a/", "a//b", "..", "../x", "a/../b", ".", "a/./b", "a\x00b"} {
			errs := map[string]error{"Set": s.Set(ctx(), key, nil), "Delete": s.Delete(ctx(), key), "Move": s.Move(ctx(), key, "x")}
			_, errs["Get"] = s.Get(ctx(), key, store.Range{})
			_, errs["Size"] = s.Size(ctx(), key)
			_, errs["Create"] = s.Create(ctx(), key)
			if key != "" {
				errs["DeleteAll"] = s.DeleteAll(ctx(), key)
				_, errs["List"] = s.List(ctx(), key)
				_, _, errs["ListDir"] = s.ListDir(ctx(), key)
			}
			for method, err := range errs {
				assert.ErrorIs(t, err, store.ErrInvalidKey, "%s of %q", method, key)
			}
		}
	}},
	{"every method returns the error of a done context", func(t *testing.T, s store.Store) {
		set(t, s, "k/x", "v")
		done, cancel := context.WithCancel(ctx())
		cancel()
		errs := map[string]error{"Set": s.Set(done, "k", nil), "Delete": s.Delete(done, "k/x"),
			"DeleteAll": s.DeleteAll(done, "k"), "Move": s.Move(done, "k", "x")}
		_, errs["Get"] = s.Get(done, "k/x", store.Range{})
		_, errs["Size"] = s.Size(done, "k/x")
		_, errs["Create"] = s.Create(done, "k/y")
		_, errs["List"] = s.List(done, "")
		_, _, errs["ListDir"] = s.ListDir(done, "")
		for method, err := range errs {
			assert.ErrorIs(t, err, context.Canceled, method)
		}
		assert.Equal(t, []string{"k/x"}, list(t, s, ""))
	}},
	{"methods are safe for concurrent use", func(t *testing.T, s store.Store) {
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				for j := range 20 {
					key, value := fmt.Sprintf("a/c/%d/%d", j, i), fmt.Sprint(i, j)
					if assert.NoError(t, s.Set(ctx(), key, []byte(value))) {
						got, err := s.Get(ctx(), key, store.Range{})
						assert.NoError(t, err)
						assert.Equal(t, value, string(got))
					}
					if j%3 == 0 {
						assert.NoError(t, s.Delete(ctx(), key))
					}
				}
			})
		}
		group.Wait()
		assert.Len(t, list(t, s, "a"), 8*13)
	}},
}

func TestConformance(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			for _, c := range conformance {
				t.Run(c.claim, func(t *testing.T) { c.check(t, open(t)) })
			}
		})
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
	assert.Equal(t, []string{"c/0"}, list(t, s, ""), "temporary files are not listed")
	_, err = s.Get(ctx(), "c/"+entries[0].Name(), store.Range{})
	assert.ErrorIs(t, err, store.ErrInvalidKey, "temporary files are not readable")
	require.NoError(t, w.Commit())
	assert.Equal(t, "new", get(t, s, "c/0", store.Range{}))
	entries, err = os.ReadDir(filepath.Join(root, "c"))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
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
	assert.Equal(t, []string{"a", "dir/x"}, list(t, s, ""))
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

func list(t *testing.T, s store.Store, prefix string) []string {
	t.Helper()
	keys, err := s.List(ctx(), prefix)
	require.NoError(t, err)
	return keys
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	n, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}
