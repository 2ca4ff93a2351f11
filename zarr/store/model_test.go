package store_test

import (
	"path/filepath"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/storetest"
	"github.com/stretchr/testify/require"
)

func TestRandomOperationsOnStoresEqualThoseOnAMap(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory":  func(*testing.T) store.Store { return store.NewMemory() },
		"minimal": func(*testing.T) store.Store { return minimal{store.NewMemory()} },
		"local":   func(t *testing.T) store.Store { return store.NewLocal(t.TempDir()) },
		"local in place": func(t *testing.T) store.Store {
			return store.NewLocal(t.TempDir(), store.InPlace())
		},
		"under local": func(t *testing.T) store.Store { return under(t, store.NewLocal(t.TempDir())) },
		"cache":       func(t *testing.T) store.Store { return cached(t, store.NewMemory()) },
		"small cache": func(t *testing.T) store.Store {
			c, err := store.NewCache(store.NewLocal(t.TempDir()), store.CacheOptions{MaxBytes: 40})
			require.NoError(t, err)
			return c
		},
		"logging": func(*testing.T) store.Store { return store.NewLogging(store.NewMemory(), nil) },
		"device memory": func(t *testing.T) store.Store {
			m, err := store.NewDeviceMemory(arrowbuf.CPU())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, m.Close()) })
			return m
		},
		"zip": func(t *testing.T) store.Store {
			z, err := store.OpenZip(filepath.Join(t.TempDir(), "a.zip"), store.ZipCreate)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, z.Close()) })
			return z
		},
	} {
		t.Run(name, func(t *testing.T) {
			seeds := uint64(10)
			if testing.Short() {
				seeds = 2
			}
			for seed := range seeds {
				storetest.TestModel(t, open(t), seed, 200, storetest.Options{
					NoDelete: name == "zip", TearsWrites: name == "local in place"})
			}
		})
	}
}
