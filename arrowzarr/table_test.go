package arrowzarr_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
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

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/internal/s3test"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// A group that another program wrote is a table of its arrays, with nulls for NaT.
func TestGroupsOfOthersAreRestored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.zarr")
	s := store.NewLocal(path)
	_, err := zarr.CreateGroup(t.Context(), s, "", &zarr.GroupMetadata{})
	require.NoError(t, err)
	seconds := ndview.Datetime64(ndview.Second, 1)
	for name, dtype := range map[string]ndview.DType{"n": ndview.Int64, "when": seconds} {
		m := &zarr.ArrayMetadata{Shape: []int64{3}, ChunkShape: []int64{2}, DataType: element.Of(dtype), Codecs: zarr.DefaultCodecs(element.Of(dtype))}
		a, err := zarr.Create(t.Context(), s, name, m)
		require.NoError(t, err)
		values, err := ndview.FromHost(arrowbuf.CPU(), dtype, []int64{7, math.MinInt64, 9}, 3)
		require.NoError(t, err)
		require.NoError(t, a.Write(t.Context(), values, 1))
		values.Release()
	}
	restored := filepath.Join(t.TempDir(), "t.arrow")
	report, err := arrowzarr.Restore(t.Context(), path, restored, arrowzarr.RestoreOptions{})
	require.NoError(t, err)
	assert.Equal(t, int64(3), report.Rows)
	got := readTable(t, restored)
	require.Equal(t, 2, got.Schema.NumFields())
	assert.Equal(t, "[7 -9223372036854775808 9]", got.Batches[0].Column(0).String())
	assert.Equal(t, 1, got.Batches[0].Column(1).NullN())
	assert.True(t, got.Batches[0].Column(1).IsNull(1))
}

// Text of a fixed length, as NumPy has it, is text without the zeros that pad it.
func TestTextOfFixedLengthIsRestored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.zarr")
	s := store.NewLocal(path)
	_, err := zarr.CreateGroup(t.Context(), s, "", &zarr.GroupMetadata{})
	require.NoError(t, err)
	create := func(name string, kind element.Type, values []byte, shape ...int64) {
		chunk := slices.Clone(shape)
		chunk[0] = 2
		a, err := zarr.Create(t.Context(), s, name, &zarr.ArrayMetadata{Shape: shape, ChunkShape: chunk, DataType: kind, Codecs: zarr.DefaultCodecs(kind)})
		require.NoError(t, err)
		dtype, ok := kind.DType()
		require.True(t, ok)
		elements, err := ndview.FromBytes(arrowbuf.CPU(), dtype, values, shape...)
		require.NoError(t, err)
		require.NoError(t, a.Write(t.Context(), elements, 1))
		elements.Release()
	}
	create("b", element.NullTerminated(2), []byte("ab\x00\x00\xff\x00"), 3)
	create("u", element.UTF32(2), []byte("\xe5\x65\x00\x00x\x00\x00\x00"+"y\x00\x00\x00\x00\x00\x00\x00"+"\x00\x00\x00\x00\x00\x00\x00\x00"), 3)
	for _, name := range []string{"t.arrow", "t.parquet"} {
		restored := filepath.Join(t.TempDir(), name)
		_, err = arrowzarr.Restore(t.Context(), path, restored, arrowzarr.RestoreOptions{BatchRows: 2})
		require.NoError(t, err)
		got := readTable(t, restored)
		assert.Equal(t, "binary utf8", got.Schema.Field(0).Type.String()+" "+got.Schema.Field(1).Type.String())
		assert.Equal(t, []string{"YWI=", "", "/w=="}, plainText(got.Column(0)...))
		assert.Equal(t, []string{"日x", "y", ""}, plainText(got.Column(1)...))
	}
	create("pairs", element.UTF32(1), make([]byte, 24), 3, 2)
	_, err = arrowzarr.Restore(t.Context(), path, filepath.Join(t.TempDir(), "t.arrow"), arrowzarr.RestoreOptions{})
	assert.ErrorContains(t, err, `column "pairs": text or bytes of 2 axes are no column`)

	// What is no group is named without internals.
	_, err = arrowzarr.OpenTable(t.Context(), filepath.Join(path, "u"), arrowzarr.TableOptions{})
	require.ErrorContains(t, err, "an array, expected a group of arrays of one length")
	_, err = arrowzarr.OpenTable(t.Context(), filepath.Join(path, "zarr.json"), arrowzarr.TableOptions{})
	require.ErrorContains(t, err, "no Zarr group")
	assert.NotContains(t, err.Error(), "store.Get")
}

// Of a group that another program wrote, every array that is no column is named, and the
// others are restored without these.
func TestArraysThatAreNoColumnsAreNamed(t *testing.T) {
	s := store.NewLocal(filepath.Join(t.TempDir(), "other.zarr"))
	_, err := zarr.CreateGroup(t.Context(), s, "", &zarr.GroupMetadata{})
	require.NoError(t, err)
	_, err = zarr.CreateGroup(t.Context(), s, "uns", &zarr.GroupMetadata{})
	require.NoError(t, err)
	for name, a := range map[string]struct {
		dtype ndview.DType
		shape []int64
	}{
		"length": {ndview.Int32, []int64{2}}, "n": {ndview.Int64, []int64{3}}, "scalar": {ndview.Int64, nil},
		"x": {ndview.Float32, []int64{3}}, "z": {ndview.Complex64, []int64{3}},
	} {
		m := &zarr.ArrayMetadata{Shape: a.shape, ChunkShape: a.shape, DataType: element.Of(a.dtype), Codecs: zarr.DefaultCodecs(element.Of(a.dtype))}
		_, err := zarr.Create(t.Context(), s, name, m)
		require.NoError(t, err)
	}
	_, err = arrowzarr.NewTable(t.Context(), s, arrowzarr.TableOptions{})
	var refused *arrowzarr.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, arrowzarr.PartInput, refused.Part)
	for _, text := range []string{`"length": 2 rows, where most columns have 3`, `"scalar"`, `"uns": a group without values and without codes and categories is no column`, `"z"`, "complex64", `--exclude "length,scalar,uns,z"`} {
		assert.ErrorContains(t, err, text)
	}
	assert.NotContains(t, err.Error(), "no Zarr group")

	columnsOf := func(options arrowzarr.TableOptions) (names []string) {
		table, err := arrowzarr.NewTable(t.Context(), s, options)
		require.NoError(t, err)
		defer func() { require.NoError(t, table.Close()) }()
		assert.EqualValues(t, 3, table.NumRows())
		for _, f := range table.Schema().Fields() {
			names = append(names, f.Name)
		}
		return names
	}
	assert.Equal(t, []string{"n", "x"}, columnsOf(arrowzarr.TableOptions{Exclude: []string{"length", "scalar", "uns", "z"}}))
	assert.Equal(t, []string{"x"}, columnsOf(arrowzarr.TableOptions{Columns: []string{"[nx]"}, Exclude: []string{"n"}}))

	for _, wrong := range []arrowzarr.TableOptions{{Columns: []string{"y"}}, {Exclude: []string{"*"}}, {BatchBytes: -1}} {
		_, err = arrowzarr.NewTable(t.Context(), s, wrong)
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, arrowzarr.PartUsage, refused.Part, err)
	}
}

// openTable opens a table that the test closes.
func openTable(tb testing.TB, location string, options arrowzarr.TableOptions) *arrowzarr.Table {
	tb.Helper()
	opened, err := arrowzarr.OpenTable(tb.Context(), location, options)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, opened.Close()) })
	return opened
}

// rowsOf returns rows [from, to) of a table.
func rowsOf(t tabletest.Table, from, to int64) tabletest.Table {
	part := tabletest.Table{Schema: t.Schema}
	for _, b := range t.Batches {
		n := b.NumRows()
		if first, last := max(from, 0), min(to, n); first < last {
			part.Batches = append(part.Batches, b.NewSlice(first, last))
		}
		from, to = from-n, to-n
	}
	return part
}

// onHost copies a batch to the host and releases it.
func onHost(tb testing.TB, batch arrow.RecordBatch) arrow.RecordBatch {
	tb.Helper()
	copied, err := arrowbuf.ToHost(batch)
	require.NoError(tb, err)
	batch.Release()
	return copied
}

// withoutListsOfLists leaves out fixed_size_lists of lists: a missing list inside of a list
// is stored as one of missing elements.
func withoutListsOfLists(t tabletest.Table) tabletest.Table {
	var others []int
	for i, f := range t.Schema.Fields() {
		if list, ok := f.Type.(*arrow.FixedSizeListType); !ok || list.Elem().ID() != arrow.FIXED_SIZE_LIST {
			others = append(others, i)
		}
	}
	return t.Choose(others...)
}

// Any rows of a table of all types are those of the input, on every device, by Read and by
// a Reader of small batches.
func TestTablesReadAnyRowsOnEveryDevice(t *testing.T) {
	spans := func(rows int64) [][2]int64 {
		if testing.Short() {
			return [][2]int64{{0, rows}, {7, 33}}
		}
		return [][2]int64{{0, rows}, {0, 0}, {3, 4}, {7, 33}, {rows - 1, rows}}
	}
	flat := withoutListsOfLists(tabletest.RandomTable(8, []int{40, 25}, 0.2))
	for name, whole := range map[string]tabletest.Table{"flat": flat, "without nulls": tabletest.RandomTable(9, []int{50}, 0), "nested": nestedTable(8, []int{30, 20}, 0.2)} {
		t.Run(name, func(t *testing.T) {
			output, _ := convertCodes(t, whole.Stream(t), arrowzarr.Options{ChunkRows: 8, ShardRows: 16})
			check := func(t *testing.T, dev arrowbuf.Device, remote bool) {
				options := arrowzarr.TableOptions{Device: dev, BatchRows: 7}
				opened := openTable(t, output, options)
				if remote {
					var err error
					opened, err = arrowzarr.NewTable(t.Context(), struct{ store.Store }{store.NewLocal(output)}, options)
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, opened.Close()) })
				}
				require.True(t, whole.Schema.Equal(opened.Schema()))
				require.Equal(t, whole.Rows(), opened.NumRows())
				for _, span := range spans(whole.Rows()) {
					want := rowsOf(whole, span[0], span[1])
					batch, err := opened.Read(t.Context(), span[0], span[1])
					require.NoError(t, err)
					for i, column := range batch.Columns() {
						require.Equal(t, dev, arrowbuf.DeviceOf(column), batch.ColumnName(i))
					}
					requireEqualTables(t, want, tabletest.Table{Schema: whole.Schema, Batches: []arrow.RecordBatch{onHost(t, batch)}})
					reader, err := opened.Reader(t.Context(), span[0], span[1])
					require.NoError(t, err)
					got := tabletest.Table{Schema: reader.Schema()}
					for reader.Next() {
						b := reader.RecordBatch()
						require.LessOrEqual(t, b.NumRows(), int64(7))
						b.Retain()
						got.Batches = append(got.Batches, onHost(t, b))
					}
					require.NoError(t, reader.Err())
					reader.Release()
					requireEqualTables(t, want, got)
				}
			}
			t.Run("cpu", func(t *testing.T) { check(t, arrowbuf.CPU(), false) })
			t.Run("remote", func(t *testing.T) { check(t, arrowbuf.CPU(), true) })
			cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) { check(t, dev, false); check(t, dev, true) })
		})
	}
}

// meeting is a store whose reads take a round trip: if it is said, each waits until a number of
// them have begun.
type meeting struct {
	store.Store
	together atomic.Pointer[sync.WaitGroup]
}

func (m *meeting) Get(ctx context.Context, key string, r store.Range) ([]byte, error) {
	if all := m.together.Load(); all != nil {
		met := make(chan struct{})
		go func() { all.Wait(); close(met) }()
		all.Done()
		select {
		case <-met:
		case <-time.After(20 * time.Second):
			return nil, errors.New("fewer reads at once")
		}
	}
	return m.Store.Get(ctx, key, r)
}

// Where reads take a round trip, a Reader reads several batches at once.
func TestReadersReadAheadWhereReadsTakeRoundTrips(t *testing.T) {
	const rows, chunk = 1700, 100
	n := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range rows {
		n.Append(int64(i))
	}
	values := n.NewInt64Array()
	whole := tabletest.New([]arrow.Field{{Name: "n", Type: values.DataType()}, {Name: "same", Type: values.DataType()}}, []arrow.Array{values, values})
	output, _ := convertCodes(t, whole.Stream(t), arrowzarr.Options{ChunkRows: chunk, NoIndex: true})
	s := &meeting{Store: store.NewLocal(output)}
	opened, err := arrowzarr.NewTable(t.Context(), s, arrowzarr.TableOptions{BatchRows: chunk})
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	reader, err := opened.Reader(t.Context(), 0, rows)
	require.NoError(t, err)
	defer reader.Release()
	var all sync.WaitGroup
	all.Add(2 * 17) // the chunks of both columns
	s.together.Store(&all)
	require.True(t, reader.Next())
	got := tabletest.Table{Schema: reader.Schema()}
	for {
		b := reader.RecordBatch()
		assert.EqualValues(t, chunk, b.NumRows())
		b.Retain()
		got.Batches = append(got.Batches, b)
		if !reader.Next() {
			break
		}
	}
	require.NoError(t, reader.Err())
	requireEqualTables(t, whole, got)
}

// Text may become longer than that of the first batches, so few batches are read at once.
func TestReadersReadFewBatchesOfTextAtOnce(t *testing.T) {
	words := append(slices.Repeat([]string{"a"}, 800), slices.Repeat([]string{strings.Repeat("long", 100)}, 800)...)
	whole := tabletest.New([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String}}, []arrow.Array{tabletest.Texts(words...)})
	output, _ := convertCodes(t, whole.Stream(t), arrowzarr.Options{ChunkRows: 100, NoIndex: true})
	opened, err := arrowzarr.NewTable(t.Context(), struct{ store.Store }{store.NewLocal(output)}, arrowzarr.TableOptions{BatchRows: 100})
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	var blocks []int64
	got := tabletest.Table{Schema: opened.Schema()}
	require.NoError(t, opened.ForEachBlock(t.Context(), 100, func(block arrow.RecordBatch) error {
		blocks = append(blocks, block.NumRows())
		block.Retain()
		got.Batches = append(got.Batches, block)
		return nil
	}))
	assert.Equal(t, []int64{100, 400, 400, 400, 300}, blocks)
	requireEqualTables(t, whole, got)

	reader, err := opened.Reader(t.Context(), 0, 1600)
	require.NoError(t, err)
	require.True(t, reader.Next())
	reader.Release() // with the rest of a block
}

// What is said of a table in an object store is the same as of one in a folder.
func TestRemoteTablesAreDescribedAsLocalOnes(t *testing.T) {
	s3test.SetCredentials(t)
	column := array.NewInt8Builder(memory.DefaultAllocator)
	column.AppendValues(make([]int8, 3_000_000), nil)
	values := column.NewArray()
	long := tabletest.New([]arrow.Field{{Name: "n", Type: values.DataType()}}, []arrow.Array{values}) // of several batches
	for _, tt := range []struct {
		whole   tabletest.Table
		chunk   int64
		parquet []string // columns that Parquet can have
	}{
		{withoutListsOfLists(tabletest.RandomTable(8, []int{40, 25}, 0.2)), 8, []string{"* INT64", "* STRING", "* FLOAT64"}},
		{long, 100_000, nil},
	} {
		whole := tt.whole
		input := inputFile(t, whole.Stream(t))
		local, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: tt.chunk})
		remote := s3test.Serve(t, nil)("table.zarr")
		_, err := arrowzarr.Convert(t.Context(), input, remote, arrowzarr.Options{ChunkRows: tt.chunk})
		require.NoError(t, err)
		var stats [2]*arrowzarr.Contents
		restored := map[string][2][]byte{}
		for i, location := range []string{local, remote} {
			stats[i], err = arrowzarr.Inspect(t.Context(), location, arrowzarr.InspectOptions{Stats: true})
			require.NoError(t, err)
			report, err := arrowzarr.Verify(t.Context(), input, location, arrowzarr.Options{})
			require.NoError(t, err)
			assert.Empty(t, report.Difference)
			for name, columns := range map[string][]string{"t.arrow": nil, "t.parquet": tt.parquet} {
				path := filepath.Join(t.TempDir(), name)
				_, err := arrowzarr.Restore(t.Context(), location, path, arrowzarr.RestoreOptions{Columns: columns})
				require.NoError(t, err)
				content, err := os.ReadFile(path)
				require.NoError(t, err)
				both := restored[name]
				both[i] = content
				restored[name] = both
			}
		}
		for name, both := range restored {
			assert.True(t, bytes.Equal(both[0], both[1]), name)
		}
		assert.Equal(t, stats[0].Table, stats[1].Table)
	}
}

// Only the chunks that have the rows and columns are read.
func TestReadingRowsReadsOnlyTheirChunks(t *testing.T) {
	whole := tabletest.New([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}, {Name: "b", Type: arrow.BinaryTypes.String}},
		[]arrow.Array{tabletest.FromJSON(t, arrow.PrimitiveTypes.Int64, "[1, 2, 3, 4, 5, 6, 7, 8]"), tabletest.Texts("a", "b", "c", "d", "e", "f", "g", "h")})
	output, _ := convertCodes(t, whole.Stream(t), arrowzarr.Options{ChunkRows: 2, NoIndex: true})
	var keys []string
	logger := slog.New(slog.NewTextHandler(writerFunc(func(line []byte) (int, error) {
		if _, key, found := strings.Cut(string(line), " key="); found {
			keys = append(keys, strings.Fields(key)[0])
		}
		return len(line), nil
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := store.NewLogging(store.NewLocal(output), logger)
	opened, err := arrowzarr.NewTable(t.Context(), s, arrowzarr.TableOptions{Jobs: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	keys = nil
	batch, err := opened.Read(t.Context(), 3, 5, "a")
	require.NoError(t, err)
	defer batch.Release()
	assert.Equal(t, "[4 5]", batch.Column(0).String())
	chunks := slices.DeleteFunc(keys, func(key string) bool { return !strings.Contains(key, "/c/") })
	slices.Sort(chunks)
	assert.Equal(t, []string{"a/c/1", "a/c/2"}, slices.Compact(chunks))
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A device decodes chunks of fixed width itself, by kernels.
func TestDevicesDecodeTheColumnsOfTables(t *testing.T) {
	var launches atomic.Int64
	dev := simulatedDevice(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		if strings.Contains(call, "LaunchKernel") {
			launches.Add(1)
		}
		return 0
	}})
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range 200_000 {
		b.Append(int64(i / 3))
	}
	values := b.NewArray()
	output, _ := convertCodes(t, tabletest.Single("n", values).Stream(t), arrowzarr.Options{})
	opened := openTable(t, output, arrowzarr.TableOptions{Device: dev})
	launches.Store(0)
	batch, err := opened.Read(t.Context(), 0, int64(values.Len()))
	require.NoError(t, err)
	assert.Positive(t, launches.Load())
	copied := onHost(t, batch)
	defer copied.Release()
	assert.True(t, array.Equal(values, copied.Column(0)))
}

func TestTablesReadSomeColumns(t *testing.T) {
	whole := named(t, "a", "ab", "b", "a*")
	output, _ := convertCodes(t, whole.File(t), arrowzarr.Options{})
	opened := openTable(t, output, arrowzarr.TableOptions{})
	for _, test := range []struct {
		patterns []string
		want     []int
	}{{nil, []int{0, 1, 2, 3}}, {[]string{"b", "a"}, []int{0, 2}}, {[]string{"a*"}, []int{3}}, {[]string{"a?"}, []int{1, 3}}} {
		batch, err := opened.Read(t.Context(), 0, 1, test.patterns...)
		require.NoError(t, err)
		requireEqualTables(t, whole.Choose(test.want...), tabletest.Table{Schema: batch.Schema(), Batches: []arrow.RecordBatch{batch}})
		batch.Release()
	}
	for want, call := range map[string]func() error{
		`no column is named "z"`:      func() error { _, err := opened.Read(t.Context(), 0, 1, "z"); return err },
		"rows [0, 2) of a table of 1": func() error { _, err := opened.Read(t.Context(), 0, 2); return err },
		"rows [1, 0)":                 func() error { _, err := opened.Reader(t.Context(), 1, 0); return err },
		"rows [-1, 1)":                func() error { _, err := opened.Reader(t.Context(), -1, 1); return err },
		"jobs -1": func() error {
			_, err := arrowzarr.OpenTable(t.Context(), output, arrowzarr.TableOptions{Jobs: -1})
			return err
		},
	} {
		err := call()
		requirePart(t, arrowzarr.PartUsage, err)
		assert.ErrorContains(t, err, want)
	}
	_, err := arrowzarr.OpenTable(t.Context(), filepath.Join(t.TempDir(), "none"), arrowzarr.TableOptions{})
	requirePart(t, arrowzarr.PartInput, err)
	assert.ErrorContains(t, err, "none does not exist")
	_, err = arrowzarr.NewTable(t.Context(), store.NewMemory(), arrowzarr.TableOptions{})
	requirePart(t, arrowzarr.PartInput, err)
	assert.ErrorContains(t, err, "no Zarr group")
}

// A table of others, whose times may be NaT, is read on devices, too.
func TestGroupsOfOthersAreReadOnEveryDevice(t *testing.T) {
	s := store.NewMemory()
	_, err := zarr.CreateGroup(t.Context(), s, "", &zarr.GroupMetadata{})
	require.NoError(t, err)
	for name, dtype := range map[string]ndview.DType{"n": ndview.Int64, "when": ndview.Datetime64(ndview.Second, 1)} {
		m := &zarr.ArrayMetadata{Shape: []int64{3}, ChunkShape: []int64{2}, DataType: element.Of(dtype), Codecs: zarr.DefaultCodecs(element.Of(dtype))}
		a, err := zarr.Create(t.Context(), s, name, m)
		require.NoError(t, err)
		values, err := ndview.FromHost(arrowbuf.CPU(), dtype, []int64{7, math.MinInt64, 9}, 3)
		require.NoError(t, err)
		require.NoError(t, a.Write(t.Context(), values, 1))
		values.Release()
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		opened, err := arrowzarr.NewTable(t.Context(), s, arrowzarr.TableOptions{Device: dev})
		require.NoError(t, err)
		batch, err := opened.Read(t.Context(), 1, 3)
		require.NoError(t, err)
		require.Equal(t, 1, batch.Column(1).NullN())
		copied := onHost(t, batch)
		assert.Equal(t, "[-9223372036854775808 9]", copied.Column(0).String())
		assert.True(t, copied.Column(1).IsNull(0))
		copied.Release()
		require.NoError(t, opened.Close())
	})
}

// Failures of a device are its errors, and those of a chunk the input's.
func TestTablesNameThePartThatFails(t *testing.T) {
	output, _ := convertCodes(t, tabletest.Single("n", tabletest.Numbered(1, 50_000)).Stream(t), arrowzarr.Options{ChunkRows: 10_000})
	fail := &failing{}
	fail.arm("", 0, 0)
	dev := simulatedDevice(t, cudatest.Config{Fail: fail.ask})
	opened := openTable(t, output, arrowzarr.TableOptions{Device: dev})
	fail.arm("cuMemAlloc", 1, outOfMemory)
	_, err := opened.Read(t.Context(), 0, 50_000)
	fail.arm("", 0, 0)
	requirePart(t, arrowzarr.PartDevice, err)
	require.NoError(t, store.NewLocal(output).Set(t.Context(), "n/c/3", []byte("no zstd")))
	reader, err := openTable(t, output, arrowzarr.TableOptions{BatchRows: 20_000}).Reader(t.Context(), 0, 50_000)
	require.NoError(t, err)
	defer reader.Release()
	batches := 0
	for reader.Next() {
		batches++
	}
	assert.Equal(t, 1, batches)
	requirePart(t, arrowzarr.PartInput, reader.Err())
	assert.ErrorContains(t, reader.Err(), `column "n"`)
	assert.False(t, errors.Is(reader.Err(), io.EOF))
}

// A batch ends where a chunk does, or chunks are divided evenly if they are far larger
// than a batch: a chunk in two batches is decoded twice.
func TestBatchesEndWhereChunksDo(t *testing.T) {
	narrow := tabletest.Floats(1, 2, 3, 4)
	wide := tabletest.Random(tabletest.NewRand(1), arrow.FixedSizeListOf(1000, arrow.PrimitiveTypes.Float64), 4, 0)
	for _, c := range []struct {
		columns     []arrow.Array
		chunk, want int64
	}{
		{[]arrow.Array{narrow}, 1000, 1_048_000}, {[]arrow.Array{narrow}, 300_000, 900_000}, {[]arrow.Array{narrow}, 5_000_000, 5_000_000},
		{[]arrow.Array{wide}, 3000, 6000}, {[]arrow.Array{wide}, 20_000, 20_000}, {[]arrow.Array{wide, wide}, 20_000, 4000},
	} {
		if testing.Short() && (c.chunk == 20_000 || c.chunk == 5_000_000) {
			continue // chunks of many MB
		}
		var fields []arrow.Field
		for i, column := range c.columns {
			fields = append(fields, arrow.Field{Name: fmt.Sprint(i), Type: column.DataType()})
		}
		input := inputFile(t, tabletest.New(fields, c.columns).Stream(t))
		output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: c.chunk})
		table, err := arrowzarr.OpenTable(t.Context(), output, arrowzarr.TableOptions{})
		require.NoError(t, err)
		rows, err := table.TargetRows(t.Context())
		require.NoError(t, err)
		assert.Equal(t, c.want, rows, "chunks of %d rows", c.chunk)
		require.NoError(t, table.Close())
	}
}

// Text of unknown size is read a chunk at a time, also beside larger chunks of others.
func TestBatchesHaveNoMoreThanAChunkOfText(t *testing.T) {
	s := store.NewMemory()
	root, err := zarr.CreateGroup(t.Context(), s, "", &zarr.GroupMetadata{})
	require.NoError(t, err)
	const rows = 20_000_000
	for name, of := range map[string]element.Type{"n": element.Of(ndview.Int8), "text": element.String} {
		m := &zarr.ArrayMetadata{Shape: []int64{rows}, ChunkShape: []int64{rows}, DataType: of, Codecs: zarr.DefaultCodecs(of)}
		if of.IsVLen() {
			m.ChunkShape[0] = 1 << 16
		}
		_, err := zarr.Create(t.Context(), s, name, m)
		require.NoError(t, err)
	}
	check := func() {
		table, err := arrowzarr.NewTable(t.Context(), s, arrowzarr.TableOptions{})
		require.NoError(t, err)
		got, err := table.TargetRows(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1<<16, got)
		require.NoError(t, table.Close())
	}
	check() // without consolidated metadata
	require.NoError(t, root.Consolidate(t.Context()))
	check()
}
