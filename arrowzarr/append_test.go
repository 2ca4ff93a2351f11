package arrowzarr_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// grids are ways to divide a table. The chunks of the automatic one are as long as the
// table.
var grids = map[string]arrowzarr.Options{
	"automatic chunks": {},
	"chunks":           {ChunkRows: 16},
	"chunks of a row":  {ChunkRows: 1},
	"shards":           {ChunkRows: 8, ShardRows: 32},
	"blosc":            {ChunkRows: 16, Codec: arrowzarr.Codec{Name: "blosc", Inner: "lz4", Level: 5}, NoIndex: true},
}

// parts writes the batches of a table as one input each.
func parts(tb testing.TB, t tabletest.Table) []string {
	tb.Helper()
	var inputs []string
	for _, batch := range t.Batches {
		inputs = append(inputs, inputFile(tb, tabletest.Table{Schema: t.Schema, Batches: []arrow.RecordBatch{batch}}.Stream(tb)))
	}
	return inputs
}

// requireTableOf checks that a table is that of all inputs, and that the hierarchy has
// nothing but it.
func requireTableOf(tb testing.TB, inputs []string, output string) {
	tb.Helper()
	report, err := arrowzarr.Verify(tb.Context(), inputs[0], output, arrowzarr.Options{Input: arrowzarr.InputOptions{More: inputs[1:]}})
	require.NoError(tb, err)
	require.Empty(tb, report.Difference)
	requireConsistent(tb, output)
}

// requireConsistent checks that the documents of all nodes are those that the root has, and
// that each key is a document or a chunk of one of the arrays.
func requireConsistent(tb testing.TB, output string) {
	tb.Helper()
	s, err := store.Open(tb.Context(), output)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, store.Close(s)) }()
	root, err := zarr.OpenGroup(tb.Context(), s, "")
	require.NoError(tb, err)
	nodes := root.Metadata().Consolidated
	require.NotNil(tb, nodes)
	keys, err := s.List(tb.Context(), "")
	require.NoError(tb, err)
	for _, key := range keys {
		if path, ok := strings.CutSuffix(key, "/zarr.json"); ok {
			require.Contains(tb, nodes, path)
			continue
		}
		if key == "zarr.json" {
			continue
		}
		require.True(tb, isChunk(nodes, key), "%s is a chunk of no array", key)
	}
	require.NoError(tb, root.Unconsolidate(tb.Context()))
	defer func() { require.NoError(tb, root.Consolidate(tb.Context())) }()
	for path, node := range nodes {
		if m, ok := node.(*zarr.ArrayMetadata); ok {
			a, err := zarr.Open(tb.Context(), s, path)
			require.NoError(tb, err)
			require.Equal(tb, m.Shape, a.Shape(), path)
			require.Equal(tb, m.ChunkKeyEncoding, a.Metadata().ChunkKeyEncoding, path)
		}
	}
}

func isChunk(nodes map[string]zarr.Node, key string) bool {
	for path, node := range nodes {
		m, ok := node.(*zarr.ArrayMetadata)
		rest, below := strings.CutPrefix(key, path+"/")
		if !ok || !below {
			continue
		}
		index, ok := m.ChunkKeyEncoding.Index(rest, len(m.Shape))
		for i, at := range index {
			ok = ok && at*m.ChunkShape[i] < max(m.Shape[i], 1)
		}
		if ok {
			return true
		}
	}
	return false
}

func TestAppendedTablesEqualTheirInputs(t *testing.T) {
	lengths := []int{37, 1, 0, 20, 64, 3}
	if testing.Short() {
		lengths = []int{37, 20}
	}
	for kind, whole := range map[string]tabletest.Table{
		"flat":               tabletest.RandomTable(1, lengths, 0.2),
		"flat, nulls late":   tabletest.RandomTable(2, lengths, 0, 0, 0, 0.3, 0, 0.1),
		"mixed":              mixedTable(t, 3, lengths...),
		"mixed, empty":       mixedTable(t, 4, append([]int{0, 0}, lengths...)...),
		"nested":             nestedTable(5, lengths, 0.2),
		"nested, nulls late": nestedTable(9, lengths, 0, 0, 0, 0.3),
	} {
		inputs := parts(t, whole)
		for name, options := range grids {
			if strings.HasPrefix(kind, "nested") && options.ChunkRows == 1 {
				continue // a hundred arrays of hundreds of chunks
			}
			// Quick tests have each table and each grid, but not all pairs.
			if testing.Short() && (kind == "nested, nulls late" || kind != "mixed" && options.ShardRows == 0) {
				continue
			}
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				for place, output := range places(t) {
					_, err := arrowzarr.Convert(t.Context(), inputs[0], output, options)
					require.NoError(t, err)
					for i := 1; i < len(inputs); i++ {
						report, err := arrowzarr.Append(t.Context(), inputs[i], output, arrowzarr.Options{})
						require.NoError(t, err, "%s, input %d", place, i)
						require.Equal(t, whole.Batches[i].NumRows(), report.Appended)
						requireTableOf(t, inputs[:i+1], output)
					}
				}
			})
		}
	}
}

// places returns a folder and an object store, by name.
func places(tb testing.TB) map[string]string {
	tb.Helper()
	_, url := newObjects(tb)
	return map[string]string{"folder": filepath.Join(tb.TempDir(), "output.zarr"), "objects": url}
}

// An append that is killed at any moment leaves the table as it was, or as it is with the
// rows. After Abort, the same append has the right result.
func TestKilledAppendsAreRepeated(t *testing.T) {
	whole := mixedTable(t, 6, 37, 20, 15)
	inputs := parts(t, whole)
	for name, options := range grids {
		if testing.Short() && options.ChunkRows > 0 && options.ShardRows == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, url := newObjects(t)
			_, err := arrowzarr.Convert(t.Context(), inputs[0], url, options)
			require.NoError(t, err)
			var moments []map[string]string
			o.fail = func(string) error {
				o.mu.Lock()
				defer o.mu.Unlock()
				moments = append(moments, content(t, o))
				return nil
			}
			_, err = arrowzarr.Append(t.Context(), inputs[1], url, arrowzarr.Options{})
			require.NoError(t, err)
			o.fail = nil
			// The first and the last moment, and some between them.
			between := 6
			if testing.Short() {
				between = 2
			}
			for i := range between + 1 {
				left, url := newObjects(t)
				for key, value := range moments[i*(len(moments)-1)/between] {
					require.NoError(t, left.Memory.Set(t.Context(), key, []byte(value)))
				}
				requireVerified(t, inputs[0], url)
				status, err := arrowzarr.Status(t.Context(), url)
				require.NoError(t, err)
				require.Equal(t, arrowzarr.StateAppending, status.State)
				_, err = arrowzarr.Append(t.Context(), inputs[2], url, arrowzarr.Options{})
				require.ErrorContains(t, err, "another process appends")
				deleted, err := arrowzarr.Abort(t.Context(), url)
				require.NoError(t, err)
				require.True(t, deleted)
				requireTableOf(t, inputs[:1], url)
				_, err = arrowzarr.Append(t.Context(), inputs[2], url, arrowzarr.Options{})
				require.NoError(t, err)
				requireTableOf(t, []string{inputs[0], inputs[2]}, url)
			}
		})
	}
}

// An append that fails or is interrupted leaves the table as it was.
func TestFailedAppendsChangeNothing(t *testing.T) {
	whole := mixedTable(t, 7, 37, 40)
	inputs := parts(t, whole)
	full := errors.New("no space left")
	for name, options := range grids {
		for _, key := range []string{"plain", "list", "category", "zarr.json", "nulls"} {
			t.Run(name+"/"+key, func(t *testing.T) {
				if testing.Short() && name != "chunks" && key != "list" {
					t.Skip("takes seconds")
				}
				o, url := newObjects(t)
				_, err := arrowzarr.Convert(t.Context(), inputs[0], url, options)
				require.NoError(t, err)
				before := content(t, o)
				ctx, cancel := context.WithCancel(t.Context())
				o.fail = func(at string) error {
					if strings.HasPrefix(at, key) && o.failed.CompareAndSwap(false, true) {
						if name == "chunks" {
							cancel()
							return nil
						}
						return full
					}
					return nil
				}
				_, err = arrowzarr.Append(ctx, inputs[1], url, arrowzarr.Options{})
				cancel()
				if name == "chunks" && key == "zarr.json" { // it was written before the context ended
					return
				}
				require.Error(t, err)
				// The chunks that were not full may have rows that no reader reads.
				require.Equal(t, before["zarr.json"], content(t, o)["zarr.json"])
				requireTableOf(t, inputs[:1], url)
			})
		}
	}
	t.Run("folder", func(t *testing.T) {
		output, _ := convertFile(t, inputs[0], arrowzarr.Options{ChunkRows: 16})
		before := contentAt(t, output)
		reader, err := array.NewRecordReader(whole.Schema, whole.Batches[1:])
		require.NoError(t, err)
		_, err = arrowzarr.AppendReader(t.Context(), failingReader{reader, full}, output, arrowzarr.Options{})
		require.ErrorIs(t, err, full)
		requirePart(t, arrowzarr.PartInput, err)
		requireOnly(t, filepath.Dir(output), filepath.Base(output))
		require.Equal(t, before["zarr.json"], contentAt(t, output)["zarr.json"])
		requireTableOf(t, inputs[:1], output)
	})
}

// failingReader fails after the batches of a reader.
type failingReader struct {
	array.RecordReader
	err error
}

func (r failingReader) Err() error { return r.err }

// The schema of the input must be that of the table; the error names each column.
func TestAppendRefusesOtherSchemas(t *testing.T) {
	output, _ := convertFile(t, inputFile(t, tabletest.New([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Int32}, {Name: "b", Type: arrow.BinaryTypes.String, Nullable: true},
	}, []arrow.Array{tabletest.FromJSON(t, arrow.PrimitiveTypes.Int32, "[1, 2]"), tabletest.Texts("x", "-")}).Stream(t)), arrowzarr.Options{})
	before := contentAt(t, output)
	other := inputFile(t, tabletest.New([]arrow.Field{
		{Name: "c", Type: arrow.PrimitiveTypes.Float64}, {Name: "a", Type: arrow.PrimitiveTypes.Int64},
	}, []arrow.Array{tabletest.Floats(1), tabletest.FromJSON(t, arrow.PrimitiveTypes.Int64, "[3]")}).Stream(t))
	_, err := arrowzarr.Append(t.Context(), other, output, arrowzarr.Options{})
	requirePart(t, arrowzarr.PartInput, err)
	for _, text := range []string{
		`column "a" of ` + other + ` is int64, expected int32 as in ` + output,
		`has no column "b" of type utf8, which ` + output + ` has`,
		`has a column "c" of type float64, which ` + output + ` does not have`,
	} {
		assert.ErrorContains(t, err, text)
	}
	requireSameContent(t, before, contentAt(t, output))

	_, err = arrowzarr.Append(t.Context(), other, output, arrowzarr.Options{Columns: []string{"nothing"}})
	requirePart(t, arrowzarr.PartUsage, err)
	missing := filepath.Join(t.TempDir(), "none.zarr")
	_, err = arrowzarr.Append(t.Context(), other, missing, arrowzarr.Options{})
	require.ErrorContains(t, err, "has no table (arrow2zarr convert creates one)")
	zip := filepath.Join(t.TempDir(), "table.zip")
	_, err = arrowzarr.Convert(t.Context(), other, zip, arrowzarr.Options{})
	require.NoError(t, err)
	_, err = arrowzarr.Append(t.Context(), other, zip, arrowzarr.Options{})
	require.ErrorContains(t, err, "is a ZIP file, to which rows cannot be appended")
}

// Columns are found by name, others may be left out, and the schema stays the table's.
func TestAppendedColumnsAreFoundByName(t *testing.T) {
	fields := []arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int32}, {Name: "b", Type: arrow.BinaryTypes.String, Nullable: true}}
	numbers := tabletest.FromJSON(t, arrow.PrimitiveTypes.Int32, "[1, 2]")
	first := inputFile(t, tabletest.New(fields, []arrow.Array{numbers, tabletest.Texts("x", "-")}).Stream(t))
	output, _ := convertFile(t, first, arrowzarr.Options{})
	more := tabletest.New([]arrow.Field{{Name: "extra", Type: arrow.Null, Nullable: true}, fields[1], fields[0]},
		[]arrow.Array{array.NewNull(2), tabletest.Texts("y", "z"), numbers})
	report, err := arrowzarr.Append(t.Context(), inputFile(t, more.Stream(t)), output, arrowzarr.Options{Exclude: []string{"ex*"}})
	require.NoError(t, err)
	assert.Equal(t, int64(4), report.Rows)
	requireTableOf(t, []string{first, inputFile(t, more.Choose(2, 1).Stream(t))}, output)
}

// What others have added to the table is kept.
func TestAppendKeepsForeignAttributesAndNodes(t *testing.T) {
	input := inputFile(t, tabletest.Single("c", tabletest.Floats(1, 2, 3)).Stream(t))
	output, _ := convertFile(t, input, arrowzarr.Options{})
	s := store.NewLocal(output)
	root, err := zarr.OpenGroup(t.Context(), s, "")
	require.NoError(t, err)
	require.NoError(t, root.UpdateAttributes(t.Context(), map[string]any{"title": "flights"}))
	_, err = root.CreateGroup(t.Context(), "notes", &zarr.GroupMetadata{Attributes: map[string]any{"text": "mine"}})
	require.NoError(t, err)
	c, err := root.OpenArray(t.Context(), "c")
	require.NoError(t, err)
	require.NoError(t, c.UpdateAttributes(t.Context(), map[string]any{"unit": "m"}))
	require.NoError(t, root.Consolidate(t.Context()))
	require.NoError(t, os.WriteFile(filepath.Join(output, "letter.txt"), []byte("dear"), 0o666))

	_, err = arrowzarr.Append(t.Context(), inputFile(t, tabletest.Single("c", tabletest.FromJSON(t, arrow.PrimitiveTypes.Float64, "[null, 5]")).Stream(t)), output, arrowzarr.Options{})
	require.NoError(t, err)
	root, err = zarr.OpenGroup(t.Context(), s, "")
	require.NoError(t, err)
	assert.Equal(t, "flights", root.Metadata().Attributes["title"])
	assert.Contains(t, root.Metadata().Consolidated, "notes")
	values, err := root.OpenGroup(t.Context(), "c")
	require.NoError(t, err, "a value is missing now, so the column is a group")
	assert.Equal(t, "m", values.Metadata().Attributes["unit"])
	assert.FileExists(t, filepath.Join(output, "letter.txt"))
	requireOnly(t, output, "zarr.json", "c", "_index", "notes", "letter.txt")
}

// If pandas can hold no column any more, the table is no data frame, and has no index.
func TestAppendedTablesMayLoseTheIndex(t *testing.T) {
	inputs := parts(t, tabletest.Single("c", tabletest.Floats(1, 2), tabletest.FromJSON(t, arrow.PrimitiveTypes.Float64, "[null]")))
	for place, output := range places(t) {
		_, err := arrowzarr.Convert(t.Context(), inputs[0], output, arrowzarr.Options{})
		require.NoError(t, err)
		require.Contains(t, contentAt(t, output), "_index/zarr.json", place)
		_, err = arrowzarr.Append(t.Context(), inputs[1], output, arrowzarr.Options{})
		require.NoError(t, err)
		require.NotContains(t, contentAt(t, output), "_index/zarr.json", place)
		requireTableOf(t, inputs, output)
	}
}

// A table of one chunk gets longer ones; that of several keeps them.
func TestOnlyTablesOfOneChunkGetOtherChunks(t *testing.T) {
	inputs := parts(t, mixedTable(t, 8, 32, 30))
	for _, test := range []struct{ chunk, given, want int64 }{{0, 0, 62}, {32, 32, 32}, {32, 8, 8}, {16, 0, 16}, {64, 0, 64}} {
		output, _ := convertFile(t, inputs[0], arrowzarr.Options{ChunkRows: test.chunk})
		report, err := arrowzarr.Append(t.Context(), inputs[1], output, arrowzarr.Options{ChunkRows: test.given})
		require.NoError(t, err)
		assert.Equal(t, test.want, report.ChunkRows)
		requireTableOf(t, inputs, output)
	}
	output, _ := convertFile(t, inputs[0], arrowzarr.Options{ChunkRows: 16})
	_, err := arrowzarr.Append(t.Context(), inputs[1], output, arrowzarr.Options{ChunkRows: 8})
	requirePart(t, arrowzarr.PartUsage, err)
	assert.ErrorContains(t, err, "several chunks of 16")
}

// Two appends to one table at once: one is refused.
func TestOneProcessAppendsAtATime(t *testing.T) {
	inputs := parts(t, tabletest.Single("c", tabletest.Floats(1, 2), tabletest.Floats(3)))
	for place, output := range places(t) {
		t.Run(place, func(t *testing.T) {
			_, err := arrowzarr.Convert(t.Context(), inputs[0], output, arrowzarr.Options{})
			require.NoError(t, err)
			reader, err := array.NewRecordReader(arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.PrimitiveTypes.Float64}}, nil), nil)
			require.NoError(t, err)
			tried := false
			_, err = arrowzarr.AppendReader(t.Context(), hookReader{reader, func() {
				tried = true
				_, err := arrowzarr.Append(t.Context(), inputs[1], output, arrowzarr.Options{})
				requirePart(t, arrowzarr.PartOutput, err)
				require.ErrorContains(t, err, "another process appends")
			}}, output, arrowzarr.Options{})
			require.NoError(t, err)
			require.True(t, tried)
			_, err = arrowzarr.Append(t.Context(), inputs[1], output, arrowzarr.Options{})
			require.NoError(t, err)
			requireTableOf(t, inputs, output)
		})
	}
}

// hookReader calls a function before it says that there is nothing to read.
type hookReader struct {
	array.RecordReader
	hook func()
}

func (r hookReader) Next() bool { r.hook(); return false }
