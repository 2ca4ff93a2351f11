package zarr_test

import (
	"encoding/json"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oneTo returns the array 1, 2, ... n on the host.
func oneTo(t *testing.T, n int) *ndview.NDBuffer {
	t.Helper()
	data := make([]int32, n)
	for i := range data {
		data[i] = int32(i + 1)
	}
	return values(t, ndview.Int32, data, int64(n))
}

// readInts returns the elements of a whole int32 array.
func readInts(t *testing.T, a *zarr.Array) []int32 {
	t.Helper()
	v, err := a.Read(ctx, zarr.Prototype{}, 2)
	require.NoError(t, err)
	defer v.Release()
	return host[int32](t, v.(*ndview.NDBuffer))
}

func TestCreateOverANodeIsAnError(t *testing.T) {
	s := store.NewMemory()
	a := create(t, s, "a", ints([]int64{4}, []int64{2}))
	require.NoError(t, a.Write(ctx, oneTo(t, 4), 1))
	before := keysOf(t, s)
	_, err := zarr.Create(ctx, s, "a", ints([]int64{4}, []int64{4}))
	assert.ErrorIs(t, err, store.ErrExists)
	assert.ErrorContains(t, err, `"a" is an array`)
	_, err = zarr.CreateGroup(ctx, s, "a", nil)
	assert.ErrorIs(t, err, store.ErrExists)
	_, err = zarr.CreateGroup(ctx, s, "", nil)
	assert.ErrorIs(t, err, store.ErrExists)
	assert.ErrorContains(t, err, `"" is a group`)
	assert.Equal(t, before, keysOf(t, s))
	assert.Equal(t, []int32{1, 2, 3, 4}, readInts(t, a))

	b, err := zarr.OpenMode(ctx, s, "a", zarr.ModeOverwrite, ints([]int64{4}, []int64{2}))
	require.NoError(t, err)
	assert.Equal(t, []int32{0, 0, 0, 0}, readInts(t, b), "no old chunks")
	assert.Equal(t, []string{"a/zarr.json", "zarr.json"}, keysOf(t, s))
}

func TestOverwriteDeletesEverythingBelow(t *testing.T) {
	s := store.NewMemory()
	create(t, s, "g/inner/a", ints([]int64{4}, []int64{2}))
	create(t, s, "g2", ints([]int64{4}, []int64{2}))
	_, err := zarr.OpenGroupMode(ctx, s, "g", zarr.ModeOverwrite, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"g/zarr.json", "g2/zarr.json", "zarr.json"}, keysOf(t, s))

	bad := ints([]int64{4}, []int64{2})
	bad.Codecs = codec.List{}
	_, err = zarr.OpenMode(ctx, s, "g", zarr.ModeOverwrite, bad)
	assert.Error(t, err)
	assert.Contains(t, keysOf(t, s), "g/zarr.json", "nothing is deleted for an array that cannot be created")
}

func TestNodesBelowAnArrayAreErrors(t *testing.T) {
	s := store.NewMemory()
	create(t, s, "g/a", ints([]int64{4}, []int64{2}))
	for _, path := range []string{"g/a/b", "g/a/b/c"} {
		for _, mode := range []zarr.Mode{zarr.ModeCreate, zarr.ModeAppend, zarr.ModeOverwrite} {
			_, err := zarr.OpenMode(ctx, s, path, mode, ints([]int64{1}, []int64{1}))
			assert.ErrorIs(t, err, zarr.ErrNodeType, path)
			assert.ErrorContains(t, err, `"g/a"`)
			_, err = zarr.OpenGroupMode(ctx, s, path, mode, nil)
			assert.ErrorIs(t, err, zarr.ErrNodeType, path)
		}
	}
	unreadable := parts{shape: "[2]", dtype: `"int8"`, grid: regular("[2]"), keys: `"default"`, fill: "0", codecs: `["bytes","no such codec"]`}
	require.NoError(t, s.Set(ctx, "u/zarr.json", unreadable.document()))
	_, err := zarr.CreateGroup(ctx, s, "u/b", nil)
	assert.ErrorIs(t, err, zarr.ErrNodeType)
}

func TestMissingParentsBecomeGroups(t *testing.T) {
	s := store.NewMemory()
	create(t, s, "x/y/a", ints([]int64{4}, []int64{2}))
	assert.Equal(t, []string{"x/y/a/zarr.json", "x/y/zarr.json", "x/zarr.json", "zarr.json"}, keysOf(t, s))
	for _, path := range []string{"", "x", "x/y"} {
		_, err := zarr.OpenGroup(ctx, s, path)
		assert.NoError(t, err, path)
	}
}

func TestOpenModesFollowZarrPython(t *testing.T) {
	meta := ints([]int64{2}, []int64{2})
	for _, c := range []struct {
		mode          zarr.Mode
		there, absent error // nil means success
		creates       bool
		keeps         bool
	}{
		{mode: zarr.ModeRead, absent: store.ErrNotFound, keeps: true},
		{mode: zarr.ModeUpdate, absent: store.ErrNotFound, keeps: true},
		{mode: zarr.ModeAppend, creates: true, keeps: true},
		{mode: zarr.ModeOverwrite, creates: true},
		{mode: zarr.ModeCreate, there: store.ErrExists, creates: true, keeps: true},
	} {
		s := store.NewMemory()
		_, err := zarr.OpenMode(ctx, s, "a", c.mode, meta)
		assert.ErrorIs(t, err, c.absent, c.mode)
		assert.Equal(t, c.creates, len(keysOf(t, s)) > 0, c.mode)

		s = store.NewMemory()
		old := create(t, s, "a", meta)
		require.NoError(t, old.Write(ctx, oneTo(t, 2), 1))
		a, err := zarr.OpenMode(ctx, s, "a", c.mode, meta)
		assert.ErrorIs(t, err, c.there, c.mode)
		assert.Equal(t, map[bool][]int32{true: {1, 2}, false: {0, 0}}[c.keeps], readInts(t, old), c.mode)
		if err != nil {
			continue
		}
		err = a.WriteChunk(ctx, []int64{0}, oneTo(t, 2))
		if c.mode == zarr.ModeRead {
			assert.ErrorIs(t, err, store.ErrReadOnly)
		} else {
			assert.NoError(t, err, c.mode)
		}

		s = store.NewMemory()
		_, err = zarr.CreateGroup(ctx, s, "a", nil)
		require.NoError(t, err)
		_, err = zarr.OpenMode(ctx, s, "a", c.mode, meta)
		switch c.mode {
		case zarr.ModeOverwrite:
			assert.NoError(t, err)
		case zarr.ModeCreate:
			assert.ErrorIs(t, err, store.ErrExists)
		default:
			assert.ErrorIs(t, err, zarr.ErrNodeType, c.mode)
		}
	}
	_, err := zarr.OpenMode(ctx, store.NewMemory(), "a", "x", meta)
	assert.ErrorContains(t, err, `"x"`)
	_, err = zarr.OpenGroupMode(ctx, store.NewMemory(), "a", "", nil)
	assert.Error(t, err)
	_, err = zarr.Create(ctx, store.NewMemory(), "a", nil)
	assert.ErrorContains(t, err, "nil metadata")
}

func TestReadOnlyArraysRefuseEveryWrite(t *testing.T) {
	s := store.NewMemory()
	create(t, s, "a", sharded([]int64{4}, []int64{4}, []int64{2}))
	a, err := zarr.OpenMode(ctx, s, "a", zarr.ModeRead, nil)
	require.NoError(t, err)
	v := oneTo(t, 4)
	_, shard := a.NewShardWriter(ctx, []int64{0})
	_, grown := a.Append(ctx, v, 0, 1)
	for _, err := range []error{
		a.Write(ctx, v, 1), a.WriteChunk(ctx, []int64{0}, v), a.Set(ctx, zarr.Select(zarr.At(0)), 1, 1), shard, grown,
		a.Resize(ctx, 2), a.SetAttributes(ctx, nil), a.UpdateAttributes(ctx, nil), a.WriteMetadata(ctx),
	} {
		assert.ErrorIs(t, err, store.ErrReadOnly)
	}
	assert.Equal(t, []string{"a/zarr.json", "zarr.json"}, keysOf(t, s))
}

func TestOfConcurrentCreatesOneSucceeds(t *testing.T) {
	for _, s := range []store.Store{store.NewMemory(), store.NewLocal(t.TempDir())} {
		var created atomic.Int32
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if _, err := zarr.Create(ctx, s, "a", ints([]int64{2}, []int64{2})); err == nil {
					created.Add(1)
				} else {
					assert.ErrorIs(t, err, store.ErrExists)
				}
			})
		}
		group.Wait()
		assert.EqualValues(t, 1, created.Load())
	}
}

func TestAttributesAreReplacedOrMerged(t *testing.T) {
	s := store.NewMemory()
	a := create(t, s, "a", ints([]int64{2}, []int64{2}))
	require.NoError(t, a.SetAttributes(ctx, map[string]any{"a": "1", "b": "2"}))
	require.NoError(t, a.UpdateAttributes(ctx, map[string]any{"b": "3", "c": "4"}))
	b, err := zarr.Open(ctx, s, "a")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"a": "1", "b": "3", "c": "4"}, b.Metadata().Attributes)
	assert.Error(t, a.SetAttributes(ctx, map[string]any{"f": func() {}}))
	assert.Equal(t, map[string]any{"a": "1", "b": "3", "c": "4"}, a.Metadata().Attributes, "not stored, not kept")
}

func TestCreateCompletesMetadata(t *testing.T) {
	s := store.NewMemory()
	a := create(t, s, "a", &zarr.ArrayMetadata{Shape: []int64{10000, 10000}, DataType: element.Of(ndview.Float32)})
	assert.Equal(t, []int64{625, 625}, a.Metadata().ChunkShape)
	assert.Equal(t, zarr.DefaultCodecs(element.Of(ndview.Float32), codec.Zstd{}), a.Metadata().Codecs)
	b := create(t, s, "b", &zarr.ArrayMetadata{DataType: element.String, Shape: []int64{3}})
	assert.Equal(t, []int64{3}, b.Metadata().ChunkShape)
}

// zarr-python chooses these shards with array.target_shard_size_bytes.
func TestShardsOfASizeAreThoseOfZarrPython(t *testing.T) {
	of := element.Of(ndview.Float32)
	for _, c := range []struct {
		shape         []int64
		most          int64
		shards, chunk []int64
	}{
		{[]int64{10000, 10000}, 1 << 24, []int64{1252, 2500}, []int64{313, 625}},
		{[]int64{10000, 10000}, 1000, []int64{313, 625}, []int64{313, 625}},
		{[]int64{1000, 3}, 1 << 24, []int64{1000, 3}, []int64{1000, 3}},
		{[]int64{100, 100, 100, 100}, 1 << 26, []int64{39, 75, 75, 75}, []int64{13, 25, 25, 25}},
		{[]int64{0, 3}, 1 << 24, []int64{1, 3}, []int64{1, 3}},
		{nil, 1 << 24, []int64{}, []int64{}},
		{[]int64{1 << 62}, math.MaxInt64, []int64{1 << 61}, []int64{1 << 17}}, // at once
	} {
		shards, chunk := zarr.AutoShardsOf(c.shape, of, c.most)
		assert.Equal(t, c.shards, shards, "%v", c.shape)
		assert.Equal(t, c.chunk, chunk, "%v", c.shape)
	}
}

func TestAutomaticChunksAreThoseOfZarrPython(t *testing.T) {
	raw, err := os.ReadFile("testdata/autochunks.json")
	require.NoError(t, err)
	var cases []struct {
		DataType            json.RawMessage
		Shape, Chunks       []int64
		Shards, ShardChunks []int64
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.Greater(t, len(cases), 50)
	for _, c := range cases {
		var of element.Type
		require.NoError(t, json.Unmarshal(c.DataType, &of))
		assert.Equal(t, c.Chunks, zarr.AutoChunks(c.Shape, of), "%s %v", of, c.Shape)
		shards, chunks := zarr.AutoShards(c.Shape, of)
		assert.Equal(t, c.Shards, shards, "%s %v", of, c.Shape)
		assert.Equal(t, c.ShardChunks, chunks, "%s %v", of, c.Shape)
	}
}

func TestAMissingNodeIsAnErrorThatNamesItsDocuments(t *testing.T) {
	_, err := zarr.Open(ctx, store.NewMemory(), "a/b")
	require.ErrorIs(t, err, store.ErrNotFound)
	for _, want := range []string{`"a/b"`, "zarr.json", ".zarray", ".zgroup"} {
		assert.ErrorContains(t, err, want)
	}
}
