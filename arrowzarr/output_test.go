package arrowzarr_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// objects is an object store for tests: it cannot rename, and counts and delays requests.
type objects struct {
	*store.Memory
	latency time.Duration
	fail    func(key string) error // of Set; nil never fails

	running, most atomic.Int64
	failed        atomic.Bool // for fail
	mu            sync.Mutex
	log           []string // keys in the order in which they were set
}

func (o *objects) Move(context.Context, string, string) error { return errors.ErrUnsupported }

func (o *objects) Create(context.Context, string) (store.Writer, error) {
	return nil, errors.ErrUnsupported
}

func (o *objects) Set(ctx context.Context, key string, value []byte) error {
	n := o.running.Add(1)
	defer o.running.Add(-1)
	for most := o.most.Load(); n > most && !o.most.CompareAndSwap(most, n); most = o.most.Load() {
	}
	time.Sleep(o.latency)
	if o.fail != nil {
		if err := o.fail(key); err != nil {
			return err
		}
	}
	o.mu.Lock()
	o.log = append(o.log, key)
	o.mu.Unlock()
	return o.Memory.Set(ctx, key, value)
}

// writeOnly hides the optional methods of objects that an object store does not have.
type writeOnly struct {
	store.Store
	objects *objects
}

func (w writeOnly) SetIfNotExists(ctx context.Context, key string, value []byte) error {
	return w.objects.SetIfNotExists(ctx, key, value)
}

var (
	bucketsMu sync.Mutex
	buckets   = map[string]*objects{}
)

func init() {
	store.Register("objects", func(_ context.Context, u *url.URL) (store.Store, error) {
		bucketsMu.Lock()
		defer bucketsMu.Unlock()
		o := buckets[u.Host]
		if o == nil {
			return nil, store.ErrNotFound
		}
		return writeOnly{o, o}, nil
	})
}

// newObjects returns an object store and its URL.
func newObjects(tb testing.TB) (*objects, string) {
	tb.Helper()
	o := &objects{Memory: store.NewMemory()}
	bucketsMu.Lock()
	defer bucketsMu.Unlock()
	name := fmt.Sprintf("b%d", len(buckets))
	buckets[name] = o
	return o, "objects://" + name
}

// content returns all values of a store.
func content(tb testing.TB, s store.Store) map[string]string {
	tb.Helper()
	keys, err := s.List(tb.Context(), "")
	require.NoError(tb, err)
	values := map[string]string{}
	for _, key := range keys {
		value, err := s.Get(tb.Context(), key, store.Range{})
		require.NoError(tb, err)
		values[key] = string(value)
	}
	return values
}

// requireSameContent checks that two stores are equal byte for byte.
func requireSameContent(tb testing.TB, want, got map[string]string) {
	tb.Helper()
	require.Equal(tb, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for key, value := range want {
		require.Equal(tb, value, got[key], key)
	}
}

func contentAt(tb testing.TB, location string) map[string]string {
	tb.Helper()
	s, err := store.Open(tb.Context(), location)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, store.Close(s)) }()
	return content(tb, s)
}

// mixedTable has columns of all kinds: with and without nulls, dictionaries that change,
// and nested ones.
func mixedTable(tb testing.TB, seed uint64, lengths ...int) tabletest.Table {
	tb.Helper()
	fields := []arrow.Field{
		{Name: "plain", Type: arrow.PrimitiveTypes.Int32},
		{Name: "nullable", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "nulls", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "vector", Type: arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), Nullable: true},
		{Name: "category", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}, Nullable: true},
		{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true},
		{Name: "labels", Type: arrow.ListOf(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}), Nullable: true},
		{Name: "struct", Type: arrow.StructOf(
			arrow.Field{Name: "a", Type: arrow.BinaryTypes.String, Nullable: true},
			arrow.Field{Name: "b", Type: arrow.ListOf(arrow.PrimitiveTypes.Float64), Nullable: true}), Nullable: true},
		{Name: "map", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int16), Nullable: true},
		{Name: "union", Type: arrow.DenseUnionOf([]arrow.Field{
			{Name: "i", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, {Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}}, []arrow.UnionTypeCode{0, 1})},
		{Name: "null", Type: arrow.Null, Nullable: true},
	}
	shares := map[string]float64{"nulls": 0.3, "text": 0.1, "vector": 0.2, "category": 0.1, "list": 0.1, "labels": 0.1, "struct": 0.2}
	rng := tabletest.NewRand(seed)
	var batches [][]arrow.Array
	for _, n := range lengths {
		var columns []arrow.Array
		for _, f := range fields {
			columns = append(columns, tabletest.Random(rng, f.Type, n, shares[f.Name]))
		}
		batches = append(batches, columns)
	}
	return tabletest.New(fields, batches...)
}

// An output in an object store has the same values under the same keys as a folder.
func TestObjectStoresGetTheSameOutputAsFolders(t *testing.T) {
	input := inputFile(t, mixedTable(t, 1, 100, 3, 250).Stream(t))
	for name, options := range map[string]arrowzarr.Options{
		"automatic chunks": {},
		"chunks":           {ChunkRows: 16},
		"shards":           {ChunkRows: 16, ShardRows: 64, Jobs: 1}, // more jobs store the chunks of a shard in any order
	} {
		t.Run(name, func(t *testing.T) {
			folder, want := convertFile(t, input, options)
			o, url := newObjects(t)
			got, err := arrowzarr.Convert(t.Context(), input, url, options)
			require.NoError(t, err)
			requireSameContent(t, contentAt(t, folder), content(t, o))
			assert.Equal(t, want.Rows, got.Rows)
			requireVerified(t, input, url)
			assert.Equal(t, "zarr.json", o.log[len(o.log)-1], "the root's metadata come last")
		})
	}
}

// Whether the values of a stream are missing is known at the end only, so each column is a
// group with a mask.
func TestColumnsOfPipesHaveMasksInObjectStores(t *testing.T) {
	whole := tabletest.Single("c", tabletest.Random(tabletest.NewRand(1), arrow.PrimitiveTypes.Int32, 10, 0))
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	before := os.Stdin
	os.Stdin = reader
	t.Cleanup(func() { os.Stdin = before })
	go func() {
		_, _ = writer.Write(whole.Stream(t))
		_ = writer.Close()
	}()
	o, url := newObjects(t)
	_, err = arrowzarr.Convert(t.Context(), "-", url, arrowzarr.Options{})
	require.NoError(t, err)
	keys := slices.Sorted(maps.Keys(content(t, o)))
	assert.Subset(t, keys, []string{"c/values/c/0", "c/mask/zarr.json", "c/zarr.json"})
	requireVerified(t, inputFile(t, whole.Stream(t)), url)
}

// A failure leaves no key in an object store, and an interruption neither.
func TestFailuresLeaveNothingInObjectStores(t *testing.T) {
	input := inputFile(t, mixedTable(t, 1, 100, 100).Stream(t))
	full := errors.New("no space left")
	for name, failing := range map[string]string{
		"first chunk": "plain/c/0", "last chunk": "plain/c/12", "nested chunk": "list/item-data/c/3",
		"metadata": "list/zarr.json", "root": "zarr.json", "index": "_index/c/0",
	} {
		t.Run(name, func(t *testing.T) {
			o, url := newObjects(t)
			o.latency = time.Millisecond
			o.fail = func(key string) error {
				if key == failing {
					return full
				}
				return nil
			}
			_, err := arrowzarr.Convert(t.Context(), input, url, arrowzarr.Options{ChunkRows: 16})
			require.ErrorIs(t, err, full)
			requirePart(t, arrowzarr.PartOutput, err)
			assert.Empty(t, content(t, o))
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		o, url := newObjects(t)
		ctx, cancel := context.WithCancel(t.Context())
		o.fail = func(key string) error {
			if key == "plain/c/5" {
				cancel()
			}
			return nil
		}
		_, err := arrowzarr.Convert(ctx, input, url, arrowzarr.Options{ChunkRows: 16})
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, content(t, o))
	})
}

func TestObjectStoresAreKeptUnlessOverwritten(t *testing.T) {
	old, fresh := inputFile(t, tabletest.Single("old", tabletest.Texts("x")).File(t)), inputFile(t, tabletest.Single("new", tabletest.Texts("y", "z")).File(t))
	o, url := newObjects(t)
	_, err := arrowzarr.Convert(t.Context(), old, url, arrowzarr.Options{})
	require.NoError(t, err)
	before := content(t, o)

	_, err = arrowzarr.Convert(t.Context(), fresh, url, arrowzarr.Options{})
	requirePart(t, arrowzarr.PartOutput, err)
	assert.Contains(t, err.Error(), "exists already (--overwrite replaces it)")
	requireSameContent(t, before, content(t, o))

	require.NoError(t, o.Memory.Set(t.Context(), "letter.txt", []byte("dear")))
	_, err = arrowzarr.Convert(t.Context(), fresh, url, arrowzarr.Options{Overwrite: true})
	requirePart(t, arrowzarr.PartOutput, err)
	assert.Contains(t, err.Error(), "letter.txt")
	require.NoError(t, o.Delete(t.Context(), "letter.txt"))
	requireSameContent(t, before, content(t, o))

	_, err = arrowzarr.Convert(t.Context(), fresh, url, arrowzarr.Options{Overwrite: true})
	require.NoError(t, err)
	requireVerified(t, fresh, url)
	for key := range content(t, o) {
		assert.False(t, strings.HasPrefix(key, "old"), key)
	}
}

// Of two conversions to one output at once, one is refused.
func TestUnfinishedOutputsAreLocked(t *testing.T) {
	input := inputFile(t, mixedTable(t, 1, 100).Stream(t))
	started, goOn := make(chan struct{}), make(chan struct{})
	o, url := newObjects(t)
	var once sync.Once
	o.fail = func(string) error {
		once.Do(func() { close(started); <-goOn })
		return nil
	}
	result := make(chan error)
	go func() {
		_, err := arrowzarr.Convert(context.Background(), input, url, arrowzarr.Options{})
		result <- err
	}()
	<-started
	for _, overwrite := range []bool{false, true} {
		_, err := arrowzarr.Convert(t.Context(), input, url, arrowzarr.Options{Overwrite: overwrite})
		requirePart(t, arrowzarr.PartOutput, err)
		assert.Contains(t, err.Error(), "unfinished")
	}
	close(goOn)
	require.NoError(t, <-result)
	requireVerified(t, input, url)
}

// Many requests run at once, however few jobs encode.
func TestStoreConcurrencyIsReached(t *testing.T) {
	input := inputFile(t, tabletest.Single("c", tabletest.Random(tabletest.NewRand(1), arrow.PrimitiveTypes.Int32, 500, 0)).File(t))
	o, url := newObjects(t)
	o.latency = 20 * time.Millisecond
	_, err := arrowzarr.Convert(t.Context(), input, url, arrowzarr.Options{ChunkRows: 5, Jobs: 1, StoreConcurrency: 10})
	require.NoError(t, err)
	assert.Equal(t, int64(10), o.most.Load())
	requireVerified(t, input, url)
}

// A ZIP file has what a folder has.
func TestZIPFilesGetTheSameOutputAsFolders(t *testing.T) {
	input := inputFile(t, mixedTable(t, 2, 100, 20).Stream(t))
	folder, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: 16})
	output := filepath.Join(t.TempDir(), "output.zip")
	_, err := arrowzarr.Convert(t.Context(), input, output, arrowzarr.Options{ChunkRows: 16})
	require.NoError(t, err)
	requireOnly(t, filepath.Dir(output), "output.zip")
	requireSameContent(t, contentAt(t, folder), contentAt(t, output))
	requireVerified(t, input, output)

	_, err = arrowzarr.Convert(t.Context(), input, output, arrowzarr.Options{})
	requirePart(t, arrowzarr.PartOutput, err)
	assert.Contains(t, err.Error(), "exists already")
	fresh := inputFile(t, tabletest.Single("new", tabletest.Texts("y")).File(t))
	_, err = arrowzarr.Convert(t.Context(), fresh, output, arrowzarr.Options{Overwrite: true})
	require.NoError(t, err)
	requireOnly(t, filepath.Dir(output), "output.zip")
	requireVerified(t, fresh, output)
}

func TestOverwriteKeepsFilesThatAreNoZarrInZIP(t *testing.T) {
	input := inputFile(t, tabletest.Single("a", tabletest.Texts("x")).File(t))
	dir := t.TempDir()
	text, photos := filepath.Join(dir, "text.zip"), filepath.Join(dir, "photos.zip")
	require.NoError(t, makeFile(text))
	z, err := store.OpenZip(photos, store.ZipCreate)
	require.NoError(t, err)
	require.NoError(t, z.Set(t.Context(), "beach.jpg", []byte("sand")))
	require.NoError(t, z.Close())
	for _, path := range []string{text, photos} {
		_, err := arrowzarr.Convert(t.Context(), input, path, arrowzarr.Options{Overwrite: true})
		requirePart(t, arrowzarr.PartOutput, err)
		assert.Contains(t, err.Error(), "so it is not overwritten")
	}
	requireOnly(t, dir, "text.zip", "photos.zip")
}

func TestUnknownSchemesAreOutputErrors(t *testing.T) {
	input := inputFile(t, tabletest.Single("a", tabletest.Texts("x")).File(t))
	_, err := arrowzarr.Convert(t.Context(), input, "ftp://example.org/x", arrowzarr.Options{})
	requirePart(t, arrowzarr.PartOutput, err)
	assert.Contains(t, err.Error(), "ftp")
}

// Shards are put together in memory if the store cannot change objects, so they must fit.
func TestShardsForObjectStoresMustFitIntoMemory(t *testing.T) {
	input := inputFile(t, tabletest.Single("c", tabletest.Random(tabletest.NewRand(1), arrow.PrimitiveTypes.Int64, 1000, 0)).File(t))
	_, url := newObjects(t)
	options := arrowzarr.Options{ChunkRows: 1 << 20, ShardRows: 1 << 23, MaxMemory: 256 << 20}
	_, err := arrowzarr.Convert(t.Context(), input, url, options)
	requirePart(t, arrowzarr.PartUsage, err)
	assert.Contains(t, err.Error(), "lower --shard-rows, or raise --max-memory")
	options.MaxMemory = 1 << 30
	_, err = arrowzarr.Convert(t.Context(), input, url, options)
	require.NoError(t, err)
	convertFile(t, input, arrowzarr.Options{ChunkRows: 1 << 20, ShardRows: 1 << 23, MaxMemory: 256 << 20})
}

// In an object store, arrays get shards of at most 64 MiB, so that objects are large while
// chunks stay small. Options that name chunks say so themselves.
func TestObjectStoresGetShardsByDefault(t *testing.T) {
	rows := 3 << 20
	if !testing.Short() {
		rows = 20 << 20
	}
	input := inputFile(t, tabletest.Single("c", ramp(rows)).Stream(t))
	none := arrowzarr.Codec{Name: "none"}
	folder, want := convertFile(t, input, arrowzarr.Options{Codec: none})
	assert.Zero(t, want.ShardRows)
	requireTableOf(t, []string{input}, folder)

	o, location := newObjects(t)
	report, err := arrowzarr.Convert(t.Context(), input, location, arrowzarr.Options{Codec: none})
	require.NoError(t, err)
	assert.Equal(t, want.ChunkRows, report.ChunkRows)
	assert.Zero(t, report.ShardRows%report.ChunkRows)
	assert.Greater(t, report.ShardRows, report.ChunkRows)
	objects := 0
	for key, value := range content(t, o) {
		if strings.HasPrefix(key, "c/c/") {
			objects++
			assert.LessOrEqual(t, len(value), 64<<20)
		}
	}
	assert.Equal(t, (rows+int(report.ShardRows)-1)/int(report.ShardRows), objects)
	requireTableOf(t, []string{input}, location)

	_, location = newObjects(t)
	report, err = arrowzarr.Convert(t.Context(), input, location, arrowzarr.Options{Codec: none, ChunkRows: 1 << 20})
	require.NoError(t, err)
	assert.Zero(t, report.ShardRows)

	_, location = newObjects(t)
	plan, err := arrowzarr.Plan(t.Context(), input, location, 2, arrowzarr.Options{Codec: none})
	require.NoError(t, err)
	for i := range 2 {
		_, err := arrowzarr.RunPartition(t.Context(), location, i, arrowzarr.Options{})
		require.NoError(t, err)
	}
	finished, err := arrowzarr.Finalize(t.Context(), location, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Equal(t, plan.ShardRows, finished.ShardRows)
	assert.LessOrEqual(t, plan.ShardRows, int64(rows/2))
	requireTableOf(t, []string{input}, location)
}

// A short table in an object store has one chunk. Rows that are appended to it make shards.
func TestAppendedTablesInObjectStoresGetShards(t *testing.T) {
	inputs := parts(t, tabletest.Single("c", ramp(100), ramp(3<<20)))
	_, location := newObjects(t)
	report, err := arrowzarr.Convert(t.Context(), inputs[0], location, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Zero(t, report.ShardRows)
	for range 2 {
		appended, err := arrowzarr.Append(t.Context(), inputs[1], location, arrowzarr.Options{})
		require.NoError(t, err)
		assert.Greater(t, appended.ShardRows, appended.ChunkRows)
	}
	requireTableOf(t, append(inputs, inputs[1]), location)
}

// ramp returns the numbers from 0 on.
func ramp(n int) arrow.Array {
	b := array.NewInt16Builder(memory.DefaultAllocator)
	b.Reserve(n)
	for i := range n {
		b.UnsafeAppend(int16(i))
	}
	return b.NewArray()
}
