package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/storetest"
	"github.com/stretchr/testify/assert"
)

// files is a read-only store of the files of an fs.FS, such as an embed.FS.
type files struct{ fs.FS }

func (f files) Get(ctx context.Context, key string, r store.Range) ([]byte, error) {
	if err := errors.Join(ctx.Err(), store.CheckKey(key)); err != nil {
		return nil, err
	}
	value, err := fs.ReadFile(f, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("key %q: %w", key, store.ErrNotFound)
	} else if err != nil {
		return nil, err
	}
	start, end, err := r.Resolve(int64(len(value)))
	return value[start:end], err
}

func (f files) List(ctx context.Context, prefix string) (keys []string, err error) {
	err = fs.WalkDir(f, ".", func(key string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && (prefix == "" || strings.HasPrefix(key, prefix+"/")) {
			keys = append(keys, key)
		}
		return errors.Join(ctx.Err(), err)
	})
	slices.Sort(keys) // "a-b" is before "a/b"
	return keys, err
}

func (files) Set(context.Context, string, []byte) error { return store.ErrReadOnly }
func (files) Delete(context.Context, string) error      { return store.ErrReadOnly }

var site = fstest.MapFS{"a/zarr.json": {Data: []byte("{}")}, "a/c/0": {Data: []byte("0123")}, "a-b": {}}

// Packages of stores register their URLs when they are imported.
func init() {
	store.Register("site", func(context.Context, *url.URL) (store.Store, error) { return files{site}, nil })
}

// A store of one's own needs four methods. Register gives it a URL.
func ExampleRegister() {
	ctx := context.Background()
	s, err := store.Open(ctx, "site://")
	if err != nil {
		fmt.Println(err)
		return
	}
	keys, _ := s.List(ctx, "")
	tail, _ := s.Get(ctx, "a/c/0", store.Last(2))
	fmt.Printf("%q %s\n", keys, tail)
	// Output:
	// ["a-b" "a/c/0" "a/zarr.json"] 23
}

func TestAStoreOfTheUserPassesTheConformanceSuite(t *testing.T) {
	storetest.TestReadOnly(t, map[string]string{"a/zarr.json": "{}", "a/c/0": "0123", "a-b": ""},
		func(*testing.T) store.Store { return files{site} }, true)
	_, err := files{site}.Get(ctx(), "a/c/0", store.Between(4, 3))
	assert.ErrorIs(t, err, store.ErrInvalidRange)
}
