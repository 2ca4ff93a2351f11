package blobstore_test

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/blobstore"
	"github.com/quiver-gpu/quiver/zarr/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/memblob"
)

func TestBucketInMemory(t *testing.T) {
	open := func(t *testing.T) store.Store {
		s, err := blobstore.New(memblob.OpenBucket(nil), "mem://", blobstore.Native{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	storetest.Test(t, open, storetest.Options{})
	for seed := range uint64(5) {
		storetest.TestModel(t, open(t), seed, 200, storetest.Options{})
	}
}

func TestKeysThatWouldBeStoredUnderOtherNamesAreRefused(t *testing.T) {
	s, err := blobstore.New(memblob.OpenBucket(nil), "mem://", blobstore.Native{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for _, key := range []string{"a\nb", "a../b", "a__0x2f__b"} {
		assert.ErrorIs(t, s.Set(context.Background(), key, nil), store.ErrInvalidKey, key)
	}
}

func TestURLs(t *testing.T) {
	ctx := context.Background()
	u, err := url.Parse("mem://bucket/a/b/")
	require.NoError(t, err)
	s, err := blobstore.Open(ctx, u, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close(s)) }()
	require.NoError(t, s.Set(ctx, "k", []byte("x")))
	keys, err := s.List(ctx, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"k"}, keys)
	_, err = s.Get(ctx, "absent", store.Range{})
	assert.ErrorIs(t, err, store.ErrNotFound)
	assert.ErrorContains(t, err, "mem://bucket")
	assert.ErrorContains(t, err, "a/b/absent")
	assert.ErrorIs(t, store.Move(ctx, s, "a", "b"), errors.ErrUnsupported)
	u.Path = "/a//b"
	_, err = blobstore.Open(ctx, u, nil)
	assert.ErrorIs(t, err, store.ErrInvalidKey)
	_, err = blobstore.New(nil, "", blobstore.Native{})
	assert.ErrorContains(t, err, "nil bucket")
}
