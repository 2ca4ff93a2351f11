package store_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadOnlyStores(t *testing.T) {
	values := map[string]string{"zarr.json": "{}", "a/c/0": "0123456789", "a/c/1": ""}
	storetest.TestReadOnly(t, values, func(t *testing.T) store.Store {
		s := store.NewMemory()
		for key, value := range values {
			set(t, s, key, value)
		}
		return store.ReadOnly(s)
	}, true)
	s := store.NewMemory()
	set(t, s, "a/b", "x")
	assert.ErrorIs(t, store.Move(ctx(), store.ReadOnly(s), "a", "c"), store.ErrReadOnly)
	assert.ErrorIs(t, store.DeleteAll(ctx(), store.ReadOnly(s), ""), store.ErrReadOnly)
	assert.Equal(t, []string{"a/b"}, list(t, s))
}

func TestUnderKeepsToItsPrefix(t *testing.T) {
	s := store.NewMemory()
	set(t, s, "a/x", "in")
	set(t, s, "ab", "out")
	below, err := store.Under(s, "a")
	require.NoError(t, err)
	assert.Equal(t, []string{"x"}, list(t, below))
	_, err = below.Get(ctx(), "../ab", store.Range{})
	assert.ErrorIs(t, err, store.ErrInvalidKey)
	require.NoError(t, store.DeleteAll(ctx(), below, ""))
	assert.Equal(t, []string{"ab"}, list(t, s))
	_, err = store.Under(s, "a//b")
	assert.ErrorIs(t, err, store.ErrInvalidKey)
}

func TestLoggingCountsAndLogs(t *testing.T) {
	var log bytes.Buffer
	s := store.NewLogging(store.NewMemory(), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	set(t, s, "k", "value")
	get(t, s, "k", store.Range{})
	_, err := s.Get(ctx(), "absent", store.Range{})
	require.Error(t, err)
	assert.Equal(t, map[string]int64{"Set": 1, "Get": 2}, s.Calls())
	assert.Contains(t, log.String(), "operation=Set key=k bytes=5")
	assert.Contains(t, log.String(), "key=absent")
	assert.Contains(t, log.String(), "not found")
}

func TestGetRangesJoinsNearbyRanges(t *testing.T) {
	const mib = 1 << 20
	value := make([]byte, 40*mib)
	for i := range value {
		value[i] = byte(i % 251)
	}
	for name, c := range map[string]struct {
		ranges   []store.Range
		requests int64
	}{
		"neighbours":            {[]store.Range{store.Between(10, 20), store.Between(0, 10), store.Between(20, 30)}, 1},
		"a gap of 1 MiB":        {[]store.Range{store.Between(0, 10), store.Between(10+mib, 20+mib)}, 1},
		"a wider gap":           {[]store.Range{store.Between(0, 10), store.Between(11+mib, 20+mib)}, 2},
		"at most 16 MiB":        {[]store.Range{store.Between(0, 10*mib), store.Between(10*mib, 20*mib)}, 2},
		"one of more":           {[]store.Range{store.Between(0, 30*mib)}, 1},
		"overlapping":           {[]store.Range{store.Between(0, 100), store.Between(50, 60), store.Between(90, 120)}, 1},
		"others stay alone":     {[]store.Range{store.Last(5), store.Between(0, 10), store.From(39 * mib), {}}, 4},
		"beyond the end":        {[]store.Range{store.Between(40*mib-5, 40*mib+5), store.Between(40*mib+2, 40*mib+9)}, 1},
		"an empty one, between": {[]store.Range{store.Between(5, 5), store.Between(0, 10)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inner := store.NewMemory()
			require.NoError(t, inner.Set(ctx(), "k", value))
			counted := store.NewLogging(inner, nil)
			got, err := store.GetRanges(ctx(), minimal{counted}, "k", c.ranges)
			require.NoError(t, err)
			for i, r := range c.ranges {
				start, end, err := r.Resolve(int64(len(value)))
				require.NoError(t, err)
				assert.True(t, bytes.Equal(value[start:end], got[i]), "%s", r)
			}
			assert.Equal(t, c.requests, counted.Calls()["Get"])
		})
	}
}

func TestOptionalOperationsOfAMinimalStore(t *testing.T) {
	s := minimal{store.NewMemory()}
	assert.ErrorIs(t, store.Move(ctx(), s, "a", "b"), errors.ErrUnsupported)
	assert.ErrorIs(t, store.SetIfNotExists(ctx(), s, "a", nil), errors.ErrUnsupported)
	assert.NoError(t, store.Close(s))
}

func TestOpenURLs(t *testing.T) {
	dir := t.TempDir()
	for location, want := range map[string]string{
		dir:                        "file://" + dir,
		"file://" + dir + "/a b":   "file://" + dir + "/a b",
		"file://" + dir + "/a%20b": "file://" + dir + "/a b",
		"memory://":                "memory",
	} {
		s, err := store.Open(ctx(), location)
		require.NoError(t, err)
		assert.Equal(t, want, s.(interface{ String() string }).String())
	}
	for location, want := range map[string]string{
		"": "empty path", "file://relative": "absolute path", "s3://bucket/a": "zarr/store/blobstore/s3", "https://host/a": `scheme "https"`,
		"gopher://a": `scheme "gopher"`, dir + "/absent.zip": "absent.zip",
	} {
		_, err := store.Open(ctx(), location)
		assert.ErrorContains(t, err, want)
	}
	_, err := store.Open(ctx(), "gopher://a")
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	done, cancel := context.WithCancel(ctx())
	cancel()
	_, err = store.Open(done, dir)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestMemoriesOfOneNameAreOneStore(t *testing.T) {
	a, err := store.Open(ctx(), "memory://"+t.Name())
	require.NoError(t, err)
	set(t, a, "k", "shared")
	b, err := store.Open(ctx(), "memory://"+t.Name())
	require.NoError(t, err)
	assert.Equal(t, "shared", get(t, b, "k", store.Range{}))
	c, err := store.Open(ctx(), "memory://")
	require.NoError(t, err)
	assert.Empty(t, list(t, c))
}

func TestWrappersTakeRoundTripsAsTheirStore(t *testing.T) {
	onDevice, err := store.NewDeviceMemory(arrowbuf.CPU())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, onDevice.Close()) })
	zip, err := store.OpenZip(filepath.Join(t.TempDir(), "a.zip"), store.ZipCreate)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, zip.Close()) })
	for name, tt := range map[string]struct {
		s    store.Store
		want bool
	}{
		"memory": {store.NewMemory(), false}, "zip": {zip, false}, "device": {onDevice, false}, "local": {store.NewLocal(t.TempDir()), false},
		"another": {minimal{store.NewMemory()}, true}, "nil": {nil, false},
	} {
		assert.Equal(t, tt.want, store.TakesRoundTrips(tt.s), name)
		if tt.s == nil {
			continue
		}
		for _, wrapper := range []store.Store{under(t, tt.s), cached(t, tt.s), store.ReadOnly(tt.s), store.NewLogging(tt.s, nil), cached(t, under(t, tt.s))} {
			assert.Equal(t, tt.want, store.TakesRoundTrips(wrapper), "%v", wrapper)
		}
	}
}
