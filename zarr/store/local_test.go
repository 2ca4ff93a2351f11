package store_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadRangeReadsIntoTheCallersMemory(t *testing.T) {
	ctx := context.Background()
	local := store.NewLocal(t.TempDir())
	require.NoError(t, local.Set(ctx, "p/k", []byte("0123456789")))
	under, err := store.Under(local, "p")
	require.NoError(t, err)
	for key, s := range map[string]store.Store{"p/k": local, "k": store.ReadOnly(under)} {
		reader := store.AsRangeReader(s)
		require.NotNil(t, reader)
		dst := make([]byte, 0, 4)
		part, err := reader.ReadRange(ctx, key, store.Between(2, 6), dst)
		require.NoError(t, err)
		assert.Equal(t, "2345", string(part.Data))
		assert.Equal(t, "2345", string(dst[:4]), "in place")
		assert.EqualValues(t, 10, part.Size)
		part, err = reader.ReadRange(ctx, key, store.Range{}, dst)
		require.NoError(t, err)
		assert.Equal(t, "0123456789", string(part.Data), "larger than dst")
		_, err = reader.ReadRange(ctx, "absent", store.Range{}, nil)
		assert.ErrorIs(t, err, store.ErrNotFound)
		_, err = reader.ReadRange(ctx, "../k", store.Range{}, nil)
		assert.ErrorIs(t, err, store.ErrInvalidKey)
		_, err = reader.ReadRange(ctx, key, store.Between(2, 1), nil)
		assert.ErrorIs(t, err, store.ErrInvalidRange)
	}
	assert.Nil(t, store.AsRangeReader(store.NewMemory()))
	inMemory, err := store.Under(store.NewMemory(), "p")
	require.NoError(t, err)
	assert.Nil(t, store.AsRangeReader(inMemory))
}

func TestVersionsOfFilesChangeWithTheValue(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no numbers")
	}
	ctx := context.Background()
	s := store.NewLocal(t.TempDir())
	path := filepath.Join(s.Root(), "k")
	version := func() string {
		part, err := s.ReadRange(ctx, "k", store.Between(0, 1), nil)
		require.NoError(t, err)
		return part.Version
	}
	hourAgo := time.Now().Add(-time.Hour)
	set := func(value string) {
		require.NoError(t, s.Set(ctx, "k", []byte(value)))
		assert.Empty(t, version(), "a new file, which may change again unnoticed")
		require.NoError(t, os.Chtimes(path, hourAgo, hourAgo))
	}
	set("one")
	first := version()
	assert.NotEmpty(t, first)
	assert.Equal(t, first, version())
	set("two")
	assert.NotEqual(t, first, version(), "another file of the same size and time")
	second := version()
	later := hourAgo.Add(time.Nanosecond)
	require.NoError(t, os.Chtimes(path, later, later))
	assert.NotEqual(t, second, version(), "another time")
}
