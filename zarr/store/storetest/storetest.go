// Package storetest tests implementations of store.Store, as testing/fstest does for file
// systems. It has every claim of zarr-python's StoreTests that applies to the interface.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Options say what a store cannot do. The zero value is a store that does everything.
type Options struct {
	// NoDelete is for stores that cannot delete what they wrote, such as ZIP files.
	NoDelete bool
	// TearsWrites is for stores in which concurrent writes of one key may mix.
	TearsWrites bool
	// Interrupted is for stores whose transfers break off and go on. A Get during a Set of
	// the same key may return store.ErrChanged.
	Interrupted bool
	// Versions is for stores of which GetRangesVersion returns a version.
	Versions bool
}

// Test tests an empty store that open returns, once per claim. The names of the subtests
// are the claims.
func Test(t *testing.T, open func(t *testing.T) store.Store, options Options) {
	for _, c := range claims {
		t.Run(c.claim, func(t *testing.T) {
			if c.deletes && options.NoDelete {
				t.Skip("this store cannot delete values")
			}
			c.check(&checker{t, open(t), options})
		})
	}
}

// TestReadOnly tests a store whose writes fail. open returns a store that has values, all
// of which are at least one key segment below "".
func TestReadOnly(t *testing.T, values map[string]string, open func(t *testing.T) store.Store, listable bool) {
	t.Run("values are read, and ranges of them", func(t *testing.T) {
		c := &checker{t, open(t), Options{}}
		for key, value := range values {
			assert.Equal(t, value, c.get(key, store.Range{}), key)
			for _, r := range clamped(int64(len(value))) {
				start, end, err := r.Resolve(int64(len(value)))
				require.NoError(t, err)
				assert.Equal(t, value[start:end], c.get(key, r), "%s: %s", key, r)
			}
			n, err := store.Size(ctx(), c.s, key)
			require.NoError(t, err)
			assert.EqualValues(t, len(value), n, key)
		}
		_, err := c.s.Get(ctx(), "absent/c/0", store.Range{})
		assert.ErrorIs(t, err, store.ErrNotFound)
	})
	t.Run("writes fail with ErrReadOnly", func(t *testing.T) {
		s := open(t)
		for key := range values {
			assert.ErrorIs(t, s.Set(ctx(), key, []byte("x")), store.ErrReadOnly)
			assert.ErrorIs(t, s.Delete(ctx(), key), store.ErrReadOnly)
			err := store.SetIfNotExists(ctx(), s, key+"x", nil)
			assert.True(t, errors.Is(err, store.ErrReadOnly) || errors.Is(err, errors.ErrUnsupported), "%v", err)
		}
		w, err := store.Create(ctx(), s, "new")
		if err == nil {
			err = w.Commit()
		}
		assert.ErrorIs(t, err, store.ErrReadOnly)
	})
	if listable {
		t.Run("keys are listed", func(t *testing.T) {
			c := &checker{t, open(t), Options{}}
			var want []string
			for key := range values {
				want = append(want, key)
			}
			slices.Sort(want)
			assert.Equal(t, want, c.list(""))
		})
	}
}

func clamped(n int64) []store.Range {
	return []store.Range{{}, store.Between(1, 4), store.Between(0, n), store.Between(n, n+9), store.Between(n+3, n+9), store.Between(2, 2),
		store.Between(n/2, n+100), store.From(0), store.From(1), store.From(n), store.From(n + 1), store.Last(0), store.Last(1), store.Last(n), store.Last(n + 50)}
}

func ctx() context.Context { return context.Background() }

// checker is one claim's store.
type checker struct {
	*testing.T
	s store.Store
	o Options
}

func (c *checker) set(key, value string) {
	c.Helper()
	require.NoError(c, c.s.Set(ctx(), key, []byte(value)))
}

func (c *checker) get(key string, r store.Range) string {
	c.Helper()
	value, err := c.s.Get(ctx(), key, r)
	require.NoError(c, err)
	return string(value)
}

func (c *checker) list(prefix string) []string {
	c.Helper()
	keys, err := c.s.List(ctx(), prefix)
	require.NoError(c, err)
	return keys
}

func (c *checker) write(w io.Writer, text string) {
	c.Helper()
	n, err := w.Write([]byte(text))
	require.NoError(c, err)
	require.Equal(c, len(text), n)
}

// move moves a prefix. It skips the test if the store cannot.
func (c *checker) move(from, to string) error {
	err := store.Move(ctx(), c.s, from, to)
	if errors.Is(err, errors.ErrUnsupported) {
		c.Skip("this store cannot move prefixes")
	}
	return err
}

var claims = []struct {
	claim   string
	deletes bool
	check   func(c *checker)
}{
	{"a value is read in parts", false, func(c *checker) {
		c.set("a/b", "0123456789")
		value, err := store.OpenValue(ctx(), c.s, "a/b")
		require.NoError(c, err)
		assert.EqualValues(c, 10, value.Size())
		for _, r := range clamped(10) {
			start, end, err := r.Resolve(10)
			require.NoError(c, err)
			part, err := value.Read(ctx(), r)
			require.NoError(c, err, r)
			assert.Equal(c, "0123456789"[start:end], string(part), r)
		}
		_, err = value.Read(ctx(), store.Between(3, 1))
		require.ErrorIs(c, err, store.ErrInvalidRange)
		_, err = store.OpenValue(ctx(), c.s, "a/c")
		require.ErrorIs(c, err, store.ErrNotFound)
		_, err = store.OpenValue(ctx(), c.s, "a//b")
		require.ErrorIs(c, err, store.ErrInvalidKey)
		c.set("a/b", "another length")
		if part, err := value.Read(ctx(), store.From(0)); err == nil {
			assert.Len(c, part, 10, "a part of another value")
		} else {
			require.ErrorIs(c, err, store.ErrChanged)
		}
	}},
	{"ranges have the version of their value", false, func(c *checker) {
		ranges := []store.Range{store.Between(2, 4), store.Last(3), store.From(8)}
		versions := map[string]string{} // the value of each
		for _, value := range []string{"0123456789", "9876543210", "9876543210 and more"} {
			c.set("a/b", value)
			for range 2 {
				got, version, err := store.GetRangesVersion(ctx(), c.s, "a/b", ranges)
				require.NoError(c, err)
				if c.o.Versions {
					assert.NotEmpty(c, version)
					_, of, err := store.GetRangesVersion(ctx(), c.s, "a/b", ranges[1:2])
					require.NoError(c, err)
					assert.Equal(c, version, of, "requests from the end have the same versions")
				}
				require.Len(c, got, len(ranges))
				assert.Equal(c, []string{value[2:4], value[len(value)-3:], value[8:]}, []string{string(got[0]), string(got[1]), string(got[2])})
				if version == "" {
					continue
				}
				if earlier, ok := versions[version]; ok {
					assert.Equal(c, earlier, value, "another value has the same version")
				}
				versions[version] = value
			}
		}
		_, _, err := store.GetRangesVersion(ctx(), c.s, "a/c", ranges)
		require.ErrorIs(c, err, store.ErrNotFound)
		_, _, err = store.GetRangesVersion(ctx(), c.s, "a//b", ranges)
		require.ErrorIs(c, err, store.ErrInvalidKey)
		_, _, err = store.GetRangesVersion(ctx(), c.s, "a/b", []store.Range{store.Between(3, 1)})
		require.ErrorIs(c, err, store.ErrInvalidRange)
	}},
	{"Get returns the value that was set", false, func(c *checker) {
		for _, key := range []string{"c/0", "foo/c/0.0", "foo/0/0", "a name with spaces/é", "c2", "a%2fb/+?#&=~"} {
			for _, value := range []string{"\x01\x02\x03\x04", ""} {
				c.set(key, value)
				assert.Equal(c, value, c.get(key, store.Range{}))
			}
		}
	}},
	{"a value may have 20 MiB", false, func(c *checker) {
		if testing.Short() {
			c.Skip("takes seconds")
		}
		value := bytes.Repeat([]byte("0123456789abcdef"), 20<<16)
		value[len(value)-1] = '!'
		require.NoError(c, c.s.Set(ctx(), "big/c/0", value))
		got, err := c.s.Get(ctx(), "big/c/0", store.Range{})
		require.NoError(c, err)
		assert.True(c, bytes.Equal(value, got))
		assert.Equal(c, "f0123456789abcde!", c.get("big/c/0", store.Last(17)))
	}},
	{"Set replaces a value", false, func(c *checker) {
		c.set("k", "a longer value")
		c.set("k", "short")
		assert.Equal(c, "short", c.get("k", store.Range{}))
	}},
	{"Set copies the value", false, func(c *checker) {
		value := []byte("before")
		require.NoError(c, c.s.Set(ctx(), "k", value))
		copy(value, "after!")
		assert.Equal(c, "before", c.get("k", store.Range{}))
	}},
	{"ranges are clamped to the value", false, func(c *checker) {
		for _, value := range []string{"0123456789", "\x01\x02\x03\x04", ""} {
			c.set("k", value)
			for _, r := range clamped(int64(len(value))) {
				start, end, err := r.Resolve(int64(len(value)))
				require.NoError(c, err)
				assert.Equal(c, value[start:end], c.get("k", r), r)
			}
		}
		for _, r := range []store.Range{store.Between(-1, 3), store.Between(4, 3), store.From(-1), store.Last(-1)} {
			_, err := c.s.Get(ctx(), "k", r)
			assert.ErrorIs(c, err, store.ErrInvalidRange, r)
		}
	}},
	{"GetRanges returns ranges in their order", false, func(c *checker) {
		c.set("k", "0123456789")
		ranges := []store.Range{store.Between(7, 9), store.Last(3), store.Between(0, 2), {}, store.Between(8, 20), store.From(4), store.Between(0, 2), store.Between(5, 5)}
		got, err := store.GetRanges(ctx(), c.s, "k", ranges)
		require.NoError(c, err)
		var texts []string
		for _, value := range got {
			texts = append(texts, string(value))
		}
		assert.Equal(c, []string{"78", "789", "01", "0123456789", "89", "456789", "01", ""}, texts)
		got, err = store.GetRanges(ctx(), c.s, "k", nil)
		require.NoError(c, err)
		assert.Empty(c, got)
		_, err = store.GetRanges(ctx(), c.s, "absent", ranges)
		assert.ErrorIs(c, err, store.ErrNotFound)
		_, err = store.GetRanges(ctx(), c.s, "k", []store.Range{store.Between(1, 2), store.Between(3, 1)})
		assert.ErrorIs(c, err, store.ErrInvalidRange)
	}},
	{"missing keys are ErrNotFound and named", false, func(c *checker) {
		c.set("foo/zarr.json", "{}")
		for _, key := range []string{"absent", "foo", "foo/bar", "foo/zarr.json/below"} {
			_, err := c.s.Get(ctx(), key, store.Range{})
			assert.ErrorIs(c, err, store.ErrNotFound, key)
			assert.ErrorContains(c, err, key)
			_, err = c.s.Get(ctx(), key, store.Last(3))
			assert.ErrorIs(c, err, store.ErrNotFound, key)
			_, err = store.Size(ctx(), c.s, key)
			assert.ErrorIs(c, err, store.ErrNotFound, key)
			exists, err := store.Exists(ctx(), c.s, key)
			assert.NoError(c, err)
			assert.False(c, exists, key)
		}
		exists, err := store.Exists(ctx(), c.s, "foo/zarr.json")
		assert.NoError(c, err)
		assert.True(c, exists)
	}},
	{"Size is the length, TotalSize that of a prefix", false, func(c *checker) {
		for key, value := range map[string]string{"c/0": "1234", "c/1": "1234", "c/d/2": "1234", "cc/0": "12", "e": ""} {
			c.set(key, value)
			n, err := store.Size(ctx(), c.s, key)
			require.NoError(c, err)
			assert.EqualValues(c, len(value), n)
		}
		for prefix, want := range map[string]int64{"c": 12, "": 14, "absent": 0} {
			n, err := store.TotalSize(ctx(), c.s, prefix)
			require.NoError(c, err)
			assert.Equal(c, want, n, prefix)
		}
	}},
	{"IsEmpty is of whole segments", false, func(c *checker) {
		empty := func(prefix string) bool {
			is, err := store.IsEmpty(ctx(), c.s, prefix)
			require.NoError(c, err)
			return is
		}
		assert.True(c, empty(""))
		c.set("foo/bar", "x")
		assert.False(c, empty(""))
		assert.False(c, empty("foo"))
		assert.True(c, empty("fo"))
		assert.True(c, empty("spam"))
	}},
	{"SetIfNotExists keeps a value, and one of many calls wins", false, func(c *checker) {
		c.set("k", "old")
		err := store.SetIfNotExists(ctx(), c.s, "k", []byte("new"))
		if errors.Is(err, errors.ErrUnsupported) {
			c.Skip("this store cannot set conditionally")
		}
		assert.ErrorIs(c, err, store.ErrExists)
		assert.ErrorContains(c, err, `k"`)
		assert.Equal(c, "old", c.get("k", store.Range{}))
		errs := make([]error, 8)
		var group sync.WaitGroup
		for i := range errs {
			group.Go(func() { errs[i] = store.SetIfNotExists(ctx(), c.s, "lock/k", []byte(fmt.Sprint(i))) })
		}
		group.Wait()
		winner := -1
		for i, err := range errs {
			if err == nil {
				assert.Equal(c, -1, winner, "two calls succeeded")
				winner = i
			} else {
				assert.ErrorIs(c, err, store.ErrExists)
			}
		}
		require.NotEqual(c, -1, winner)
		assert.Equal(c, fmt.Sprint(winner), c.get("lock/k", store.Range{}))
		assert.Equal(c, []string{"k", "lock/k"}, c.list(""), "nothing is left of the others")
	}},
	{"Delete is idempotent and keeps prefixes", true, func(c *checker) {
		c.set("foo/c/0", "x")
		require.NoError(c, c.s.Delete(ctx(), "absent"))
		require.NoError(c, c.s.Delete(ctx(), "foo"))
		require.NoError(c, c.s.Delete(ctx(), "foo/c"))
		assert.Equal(c, []string{"foo/c/0"}, c.list(""))
		require.NoError(c, c.s.Delete(ctx(), "foo/c/0"))
		require.NoError(c, c.s.Delete(ctx(), "foo/c/0"))
		assert.Empty(c, c.list(""))
		_, err := c.s.Get(ctx(), "foo/c/0", store.Range{})
		assert.ErrorIs(c, err, store.ErrNotFound)
	}},
	{"DeleteAll deletes only the prefix", true, func(c *checker) {
		for _, key := range []string{"foo/zarr.json", "foo/c/0", "foo-bar/zarr.json", "foo2"} {
			c.set(key, "x")
		}
		require.NoError(c, store.DeleteAll(ctx(), c.s, "foo"))
		assert.Equal(c, []string{"foo-bar/zarr.json", "foo2"}, c.list(""))
		require.NoError(c, store.DeleteAll(ctx(), c.s, "foo2"), "a key is its own prefix")
		require.NoError(c, store.DeleteAll(ctx(), c.s, "absent"))
		require.NoError(c, store.DeleteAll(ctx(), c.s, ""))
		assert.Empty(c, c.list(""))
		c.set("foo/c/0", "again")
		assert.Equal(c, "again", c.get("foo/c/0", store.Range{}))
	}},
	{"List is sorted and limited to the prefix", false, func(c *checker) {
		assert.Empty(c, c.list(""))
		for _, key := range []string{"b", "a/z/1", "a-b/0", "a/b", "ab"} {
			c.set(key, "x")
		}
		assert.Equal(c, []string{"a-b/0", "a/b", "a/z/1", "ab", "b"}, c.list(""))
		assert.Equal(c, []string{"a/b", "a/z/1"}, c.list("a"))
		assert.Empty(c, c.list("b"), "a value is not under itself")
		assert.Empty(c, c.list("absent"))
	}},
	{"ListDir lists direct names", false, func(c *checker) {
		for _, key := range []string{"zarr.json", "foo/zarr.json", "foo/c/1", "foo/c/0", "bar/deep/er/k"} {
			c.set(key, "x")
		}
		for prefix, want := range map[string][2][]string{
			"":       {{"zarr.json"}, {"bar", "foo"}},
			"foo":    {{"zarr.json"}, {"c"}},
			"foo/c":  {{"0", "1"}, nil},
			"bar":    {nil, {"deep"}},
			"absent": {nil, nil},
		} {
			keys, prefixes, err := store.ListDir(ctx(), c.s, prefix)
			require.NoError(c, err)
			assert.Equal(c, want, [2][]string{keys, prefixes}, prefix)
		}
	}},
	{"an empty prefix is not listed", true, func(c *checker) {
		c.set("foo/k", "x")
		c.set("bar/deep/er/k", "x")
		require.NoError(c, c.s.Delete(ctx(), "bar/deep/er/k"))
		_, prefixes, err := store.ListDir(ctx(), c.s, "")
		require.NoError(c, err)
		assert.Equal(c, []string{"foo"}, prefixes)
	}},
	{"Move moves a whole prefix", false, func(c *checker) {
		for _, key := range []string{"tmp/zarr.json", "tmp/x/c/0", "tmp2"} {
			c.set(key, key)
		}
		require.NoError(c, c.move("tmp", "deep/out.zarr"))
		assert.Equal(c, []string{"deep/out.zarr/x/c/0", "deep/out.zarr/zarr.json", "tmp2"}, c.list(""))
		assert.Equal(c, "tmp/x/c/0", c.get("deep/out.zarr/x/c/0", store.Range{}))
		c.set("tmp/x/c/0", "the old prefix can be reused")
		assert.ErrorIs(c, c.move("tmp", "deep/out.zarr"), store.ErrExists)
		assert.ErrorIs(c, c.move("tmp", "tmp2"), store.ErrExists)
		assert.ErrorIs(c, c.move("absent", "new"), store.ErrNotFound)
		assert.ErrorIs(c, c.move("tmp2", "new"), store.ErrNotFound, "a value is not under itself")
		for _, malformed := range [][2]string{{"tmp", "tmp/x"}, {"tmp/x", "tmp"}, {"tmp", "tmp"}, {"", "new"}, {"tmp", "../x"}, {"a//b", "new"}} {
			assert.ErrorIs(c, c.move(malformed[0], malformed[1]), store.ErrInvalidKey)
		}
		done, cancel := context.WithCancel(ctx())
		cancel()
		assert.ErrorIs(c, store.Move(done, c.s, "tmp", "y"), context.Canceled)
	}},
	{"Move to a deleted prefix works", true, func(c *checker) {
		c.set("to/c/0", "x")
		require.NoError(c, c.s.Delete(ctx(), "to/c/0"))
		c.set("from/c/0", "y")
		require.NoError(c, c.move("from", "to"))
		assert.Equal(c, "y", c.get("to/c/0", store.Range{}))
	}},
	{"Create stores a stream on Commit", false, func(c *checker) {
		w, err := store.Create(ctx(), c.s, "foo/c/0")
		require.NoError(c, err)
		c.write(w, "....")
		c.write(w, "tail")
		_, err = w.WriteAt([]byte("head"), 0)
		require.NoError(c, err)
		_, err = w.WriteAt([]byte("beyond"), 4)
		assert.ErrorIs(c, err, store.ErrInvalidRange, "WriteAt is limited to written bytes")
		_, err = w.WriteAt([]byte("x"), -1)
		assert.ErrorIs(c, err, store.ErrInvalidRange)
		c.write(w, "!")
		require.NoError(c, w.Commit())
		assert.Equal(c, "headtail!", c.get("foo/c/0", store.Range{}))
		assert.Error(c, w.Commit())
		assert.NoError(c, w.Abort(), "Abort after Commit does nothing")
		_, err = w.Write([]byte("more"))
		assert.Error(c, err)
		_, err = w.WriteAt([]byte("more"), 0)
		assert.Error(c, err)
		assert.Equal(c, "headtail!", c.get("foo/c/0", store.Range{}))
	}},
	{"Abort leaves nothing", false, func(c *checker) {
		w, err := store.Create(ctx(), c.s, "foo/c/0")
		require.NoError(c, err)
		c.write(w, "half")
		require.NoError(c, w.Abort())
		require.NoError(c, w.Abort())
		assert.Error(c, w.Commit())
		assert.Empty(c, c.list(""))
	}},
	{"every method rejects malformed keys", false, func(c *checker) {
		for _, key := range []string{"", "/", "/etc/passwd", "a/", "a//b", "..", "../x", "a/../b", ".", "a/./b", "a\x00b"} {
			errs := map[string]error{"Set": c.s.Set(ctx(), key, nil), "Delete": c.s.Delete(ctx(), key)}
			_, errs["Get"] = c.s.Get(ctx(), key, store.Range{})
			_, errs["GetRanges"] = store.GetRanges(ctx(), c.s, key, []store.Range{{}})
			_, errs["Size"] = store.Size(ctx(), c.s, key)
			_, errs["Create"] = store.Create(ctx(), c.s, key)
			if err := store.SetIfNotExists(ctx(), c.s, key, nil); !errors.Is(err, errors.ErrUnsupported) {
				errs["SetIfNotExists"] = err
			}
			if key != "" {
				errs["DeleteAll"] = store.DeleteAll(ctx(), c.s, key)
				_, errs["List"] = c.s.List(ctx(), key)
				_, _, errs["ListDir"] = store.ListDir(ctx(), c.s, key)
			}
			for method, err := range errs {
				assert.ErrorIs(c, err, store.ErrInvalidKey, "%s of %q", method, key)
			}
		}
	}},
	{"every method returns the error of a done context", false, func(c *checker) {
		c.set("k/x", "v")
		done, cancel := context.WithCancel(ctx())
		cancel()
		errs := map[string]error{"Set": c.s.Set(done, "k", nil), "Delete": c.s.Delete(done, "k/x"), "DeleteAll": store.DeleteAll(done, c.s, "k")}
		_, errs["Get"] = c.s.Get(done, "k/x", store.Range{})
		_, errs["GetRanges"] = store.GetRanges(done, c.s, "k/x", []store.Range{{}})
		_, errs["Size"] = store.Size(done, c.s, "k/x")
		_, errs["Create"] = store.Create(done, c.s, "k/y")
		_, errs["List"] = c.s.List(done, "")
		_, _, errs["ListDir"] = store.ListDir(done, c.s, "")
		for method, err := range errs {
			assert.ErrorIs(c, err, context.Canceled, method)
		}
		assert.Equal(c, []string{"k/x"}, c.list(""))
	}},
	{"methods are safe for concurrent use", false, func(c *checker) {
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				for j := range 20 {
					key, value := fmt.Sprintf("a/c/%d/%d", j, i), fmt.Sprint(i, j)
					if assert.NoError(c, c.s.Set(ctx(), key, []byte(value))) {
						got, err := c.s.Get(ctx(), key, store.Range{})
						assert.NoError(c, err)
						assert.Equal(c, value, string(got))
					}
					if j%3 == 0 && !c.o.NoDelete {
						assert.NoError(c, c.s.Delete(ctx(), key))
					}
				}
			})
		}
		group.Wait()
		want := 8 * 13
		if c.o.NoDelete {
			want = 8 * 20
		}
		assert.Len(c, c.list("a"), want)
	}},
	{"concurrent writes of one key do not tear it", false, func(c *checker) {
		if c.o.TearsWrites {
			c.Skip("this store mixes concurrent writes")
		}
		var group sync.WaitGroup
		value := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 100_000) }
		for i := range 4 {
			group.Go(func() {
				for range 10 {
					assert.NoError(c, c.s.Set(ctx(), "k/c/0", value(i)))
					got, err := c.s.Get(ctx(), "k/c/0", store.Range{})
					if c.o.Interrupted && errors.Is(err, store.ErrChanged) {
						continue
					}
					if assert.NoError(c, err) && assert.Len(c, got, 100_000) {
						assert.Equal(c, got[0], got[len(got)-1])
						assert.Equal(c, len(got), bytes.Count(got, got[:1]))
					}
				}
			})
		}
		group.Wait()
	}},
	{"Copy copies a prefix to another store", false, func(c *checker) {
		c.set("a/zarr.json", "{}")
		c.set("a/c/0", "x")
		c.set("ab", "y")
		to := store.NewMemory()
		require.NoError(c, store.Copy(ctx(), to, c.s, "a"))
		keys, err := to.List(ctx(), "")
		require.NoError(c, err)
		assert.Equal(c, []string{"a/c/0", "a/zarr.json"}, keys)
	}},
}
