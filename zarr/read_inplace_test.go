package zarr_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plainArrays are arrays whose chunks are their elements: whole rows and boxes, in shards,
// some larger than a staging buffer, and bools, which are not read in place.
func plainArrays() map[string]*zarr.ArrayMetadata {
	bools := &zarr.ArrayMetadata{Shape: []int64{1 << 21}, DataType: element.Of(ndview.Bool), ChunkShape: []int64{1 << 18}, Codecs: codec.List{codec.Bytes{}}}
	return map[string]*zarr.ArrayMetadata{
		"rows": ints([]int64{1000, 700}, []int64{300, 700}), "boxes": ints([]int64{1000, 700}, []int64{300, 128}), "small": ints([]int64{1 << 20}, []int64{1001}),
		"shards": sharded([]int64{1000, 700}, []int64{400, 700}, []int64{100, 700}), "large": ints([]int64{4 << 20}, []int64{3 << 19}),
		"large in shards": sharded([]int64{4 << 20}, []int64{3 << 20}, []int64{3 << 19}), "bools": bools,
	}
}

func TestDevicesReadPlainFilesInPlace(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for name, meta := range plainArrays() {
			inMemory := create(t, store.NewMemory(), "a", meta) // which takes round trips
			writeSmooth(t, inMemory)
			inMemory.Stats = new(codec.Stats)
			v, err := inMemory.Read(t.Context(), zarr.PrototypeOn(dev), 0)
			require.NoError(t, err)
			v.Release()
			counts := inMemory.Stats.Counts()
			local := store.NewLocal(t.TempDir())
			a := create(t, local, "a", meta)
			writeSmooth(t, a)
			for _, aged := range []bool{false, true} {
				if aged {
					age(t, local, time.Now().Add(-time.Hour)) // now versions are known
				}
				want := readAll(t, a)
				a.Stats = new(codec.Stats)
				got, err := a.Read(t.Context(), zarr.PrototypeOn(dev), 0)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, bytesOf(t, got)), name)
				got.Release()
				require.Equal(t, counts, a.Stats.Counts(), "%s: each chunk is counted", name)
			}
		}
	})
}

func TestAPlainFileOfTheWrongSizeIsTheSameErrorOnEveryDevice(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, name := range []string{"rows", "large", "shards"} {
			for _, size := range []int64{0, 1, 100_000, 9 << 20} {
				folder := t.TempDir()
				local := store.NewLocal(folder)
				a := create(t, local, "a", plainArrays()[name])
				writeSmooth(t, a)
				file := filepath.Join(folder, "a", "c", "0")
				if _, err := os.Stat(filepath.Join(file, "0")); err == nil {
					file = filepath.Join(file, "0")
				}
				require.NoError(t, os.Truncate(file, size))
				age(t, local, time.Now().Add(-time.Hour))
				_, want := a.Read(t.Context(), zarr.PrototypeOn(arrowbuf.CPU()), 1)
				_, got := a.Read(t.Context(), zarr.PrototypeOn(dev), 1)
				require.Error(t, want, "%s of %d bytes", name, size)
				assert.EqualError(t, got, want.Error(), "%s of %d bytes", name, size)
			}
		}
	})
}
