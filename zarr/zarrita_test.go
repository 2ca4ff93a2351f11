package zarr_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// zarritaArrays are the arrays of shared/data/zarrita/fixtures/v3 and their elements, as
// scripts/generate-v3.py of zarrita wrote them.
var zarritaArrays = map[string]any{
	"1d.chunked.compressed.sharded.i2":        []int16{1, 2, 3, 4},
	"1d.chunked.filled.compressed.sharded.i2": []int16{1, 2, 0, 0},
	"1d.chunked.i2":                           []int16{1, 2, 3, 4},
	"1d.chunked.ragged.i2":                    []int16{1, 2, 3, 4, 5},
	"1d.chunked.string.vlen":                  []string{"a", "bb", "ccc", "dddd"},
	"1d.contiguous.b1":                        []bool{true, false, true, false},
	"1d.contiguous.blosc.i2":                  []int16{1, 2, 3, 4},
	"1d.contiguous.compressed.sharded.b1":     []bool{true, false, true, false},
	"1d.contiguous.compressed.sharded.f4":     []float32{-1000.5, 0, 1000.5, 0},
	"1d.contiguous.compressed.sharded.f8":     []float64{1.5, 2.5, 3.5, 4.5},
	"1d.contiguous.compressed.sharded.i2":     []int16{1, 2, 3, 4},
	"1d.contiguous.compressed.sharded.i4":     []int32{1, 2, 3, 4},
	"1d.contiguous.compressed.sharded.u1":     []uint8{255, 0, 255, 0},
	"1d.contiguous.delta.i4":                  []int32{1, 2, 3, 4},
	"1d.contiguous.f2.le":                     []float32{-1000.5, 0, 1000.5, 0},
	"1d.contiguous.f4.be":                     []float32{-1000.5, 0, 1000.5, 0},
	"1d.contiguous.f4.le":                     []float32{-1000.5, 0, 1000.5, 0},
	"1d.contiguous.f8":                        []float64{1.5, 2.5, 3.5, 4.5},
	"1d.contiguous.gzip.i2":                   []int16{1, 2, 3, 4},
	"1d.contiguous.i4":                        []int32{1, 2, 3, 4},
	"1d.contiguous.raw.i2":                    []int16{1, 2, 3, 4},
	"1d.contiguous.string.compressed":         []string{"compressed", "string", "test"},
	"1d.contiguous.string.vlen":               []string{"hello", "world", "zarr", "v3"},
	"1d.contiguous.u1":                        []uint8{255, 0, 255, 0},
	"1d.string.empty":                         []string{"", "test", ""},
	"1d.string.unicode":                       []string{"hello", "世界", "🚀🎉", "Ñoño"},
	"2d.chunked.compressed.sharded.filled.i2": count(0, 16),
	"2d.chunked.compressed.sharded.i2":        count(1, 16),
	"2d.chunked.i2":                           count(1, 4),
	"2d.chunked.ragged.compressed.sharded.i2": count(1, 9),
	"2d.chunked.ragged.i2":                    count(1, 9),
	"2d.chunked.string.vlen":                  []string{"hello", "world", "foo", "bar"},
	"2d.contiguous.compressed.sharded.i2":     count(1, 4),
	"2d.contiguous.i2":                        count(1, 4),
	"3d.chunked.compressed.sharded.i2":        count(0, 64),
	"3d.chunked.i2":                           count(0, 27),
	"3d.chunked.mixed.compressed.sharded.i2":  count(0, 27),
	"3d.chunked.mixed.i2.C":                   count(0, 27),
	"3d.chunked.mixed.i2.F":                   count(0, 27),
	"3d.contiguous.compressed.sharded.i2":     count(0, 27),
	"3d.contiguous.delta.i4.mixed":            count32(27),
	"3d.contiguous.i2":                        count(0, 27),
}

// zarritaV2Arrays are the arrays of shared/data/zarrita/fixtures/v2 and their elements.
var zarritaV2Arrays = map[string]any{
	"1d.chunked.i2":                     []int16{1, 2, 3, 4},
	"1d.chunked.ragged.i2":              []int16{1, 2, 3, 4, 5},
	"1d.contiguous.S7":                  []string{"a", "b", "cc", "d"},
	"1d.contiguous.U13.be":              []string{"a", "b", "cc", "d"},
	"1d.contiguous.U13.le":              []string{"a", "b", "cc", "d"},
	"1d.contiguous.U7":                  []string{"a", "b", "cc", "d"},
	"1d.contiguous.b1":                  []bool{true, false, true, false},
	"1d.contiguous.bitround.f4":         []float32{1.125, 2.25, 3.25, 4.5},
	"1d.contiguous.blosc.i2":            []int16{1, 2, 3, 4},
	"1d.contiguous.delta.i2":            []int16{1, 2, 3, 4},
	"1d.contiguous.delta.shuffle.i2":    []int16{10, 20, 30, 40},
	"1d.contiguous.f4.be":               []float32{-1000.5, 0, 1000.5, 0},
	"1d.contiguous.f4.le":               []float32{-1000.5, 0, 1000.5, 0},
	"1d.contiguous.f8":                  []float64{1.5, 2.5, 3.5, 4.5},
	"1d.contiguous.fixedscaleoffset.f4": []float32{1000, 1000.1, 1000.2, 1000.3},
	"1d.contiguous.i4":                  []int32{1, 2, 3, 4},
	"1d.contiguous.json2.O":             []string{"foo", "bar", "baz", "qux"},
	"1d.contiguous.lz4.i2":              []int16{1, 2, 3, 4},
	"1d.contiguous.raw.i2":              []int16{1, 2, 3, 4},
	"1d.contiguous.shuffle.i2":          []int16{1, 2, 3, 4},
	"1d.contiguous.u1":                  []uint8{255, 0, 255, 0},
	"1d.contiguous.zlib.i2":             []int16{1, 2, 3, 4},
	"1d.contiguous.zstd.i2":             []int16{1, 2, 3, 4},
	"2d.chunked.U7":                     []string{"a", "b", "cc", "d"},
	"2d.chunked.i2":                     count(1, 4),
	"2d.chunked.ragged.i2":              count(1, 9),
	"2d.contiguous.i2":                  count(1, 4),
	"3d.chunked.O":                      []string{"a", "aa", "aaa", "aaaa", "b", "bb", "bbb", "bbbb"},
	"3d.chunked.i2":                     count(0, 27),
	"3d.chunked.mixed.i2.C":             count(0, 27),
	"3d.chunked.mixed.i2.F":             count(0, 27),
	"3d.contiguous.i2":                  count(0, 27),
}

func count(from int16, n int) []int16 {
	out := make([]int16, n)
	for i := range out {
		out[i] = from + int16(i)
	}
	return out
}

func count32(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

func TestZarritaArraysAreRead(t *testing.T) {
	for version, arrays := range map[string]map[string]any{"v3": zarritaArrays, "v2": zarritaV2Arrays} {
		root := sharedData(t, "zarrita", "fixtures", version, "data.zarr")
		s := store.NewLocal(root)
		entries, err := os.ReadDir(root)
		require.NoError(t, err)
		seen := 0
		for _, entry := range entries {
			name := entry.Name()
			if !strings.Contains(name, "d.") { // groups
				continue
			}
			seen++
			t.Run(version+"/"+name, func(t *testing.T) {
				a, err := zarr.Open(ctx, s, name)
				require.NoError(t, err)
				want, ok := arrays[name]
				require.True(t, ok)
				assert.Equal(t, want, readAs(t, a, want))
			})
		}
		assert.Greater(t, seen, 30)
	}
}

func TestZarritaV2GroupsAreRead(t *testing.T) {
	s := store.NewLocal(sharedData(t, "zarrita", "fixtures", "v2", "data.zarr"))
	g, err := zarr.OpenGroup(ctx, s, "my group with spaces")
	require.NoError(t, err)
	assert.Equal(t, 2, g.Metadata().Format)
	assert.Equal(t, "A group with spaces in the name", g.Metadata().Attributes["description"])
}

func TestZarritaConsolidatedGroupsAreRead(t *testing.T) {
	s := store.NewLocal(sharedData(t, "zarrita", "fixtures", "v3", "data.zarr"))
	g, err := zarr.OpenGroup(context.Background(), s, "consolidated")
	require.NoError(t, err)
	require.NotNil(t, g.Metadata().Consolidated)
	children, err := g.Children(context.Background())
	require.NoError(t, err)
	assert.NotEmpty(t, children)
	root, err := zarr.OpenGroup(context.Background(), s, "")
	require.NoError(t, err)
	assert.Nil(t, root.Metadata().Consolidated)
	named, err := root.OpenGroup(context.Background(), "my group with spaces")
	require.NoError(t, err)
	assert.Equal(t, "A group with spaces in the name", named.Metadata().Attributes["description"])
}
