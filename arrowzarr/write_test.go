package arrowzarr_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/zarr"
)

// Columns of type null, and columns of only fill values, store no chunks.
func TestChunksOfFillValuesAreNotStored(t *testing.T) {
	columns := tabletest.New([]arrow.Field{
		{Name: "null", Type: arrow.Null, Nullable: true},
		{Name: "zeros", Type: arrow.PrimitiveTypes.Int64},
	}, []arrow.Array{array.NewNull(20), tabletest.FromJSON(t, arrow.PrimitiveTypes.Int64, `[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]`)})
	for _, shard := range []int64{0, 15} {
		output, report := convertCodes(t, columns.File(t), arrowzarr.Options{ChunkRows: 5, ShardRows: shard})
		requireTable(t, columns, output)
		assert.Zero(t, report.StoredBytes)
		requireOnly(t, output+"/null/values", "zarr.json")
		requireOnly(t, output+"/null/mask", "zarr.json")
		requireOnly(t, output+"/zeros", "zarr.json")
	}
}

// A nullable column without nulls is one array.
func TestColumnIsAGroupOnlyIfItHasNulls(t *testing.T) {
	whole := tabletest.FromJSON(t, arrow.PrimitiveTypes.Int32, `[1, 2, 3]`)
	gap := tabletest.FromJSON(t, arrow.PrimitiveTypes.Int32, `[4, null, 6]`)
	for name, test := range map[string]struct {
		batches []arrow.Array
		group   bool
	}{
		"nullable without nulls":     {[]arrow.Array{whole, whole}, false},
		"a null in the last batch":   {[]arrow.Array{whole, whole, gap}, true},
		"a null in the first batch":  {[]arrow.Array{gap, whole}, true},
		"nulls that are sliced away": {[]arrow.Array{array.NewSlice(gap, 2, 3), array.NewSlice(gap, 0, 1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, rows := range []int64{0, 1, 4} {
				output, _ := convertCodes(t, tabletest.Single("c", test.batches...).File(t), arrowzarr.Options{ChunkRows: rows})
				_, isGroup := openRoot(t, output).Metadata().Consolidated["c"].(*zarr.GroupMetadata)
				assert.Equal(t, test.group, isGroup)
				requireTable(t, tabletest.Single("c", test.batches...), output)
			}
		})
	}
}

func TestChunksAndShardsFollowTheOptions(t *testing.T) {
	input := inputFile(t, tabletest.Single("c", tabletest.Random(tabletest.NewRand(1), arrow.PrimitiveTypes.Int16, 100, 0)).File(t))
	for _, test := range []struct {
		options       arrowzarr.Options
		chunks        []int64 // of the outer grid
		codecs        []string
		reportedChunk int64
	}{
		{arrowzarr.Options{}, []int64{100}, []string{"bytes", "zstd"}, 100},
		{arrowzarr.Options{Codec: none}, []int64{100}, []string{"bytes"}, 100},
		{arrowzarr.Options{Codec: gzip, ChunkRows: 30}, []int64{30}, []string{"bytes", "gzip"}, 30},
		{arrowzarr.Options{ChunkRows: 10, ShardRows: 40}, []int64{40}, []string{"sharding_indexed"}, 10},
	} {
		output, report := convertFile(t, input, test.options)
		a, err := openRoot(t, output).OpenArray(t.Context(), "c")
		require.NoError(t, err)
		assert.Equal(t, test.chunks, a.Metadata().ChunkShape)
		names := []string{}
		for _, c := range a.Metadata().Codecs {
			names = append(names, c.Name())
		}
		assert.Equal(t, test.codecs, names)
		assert.Equal(t, test.reportedChunk, report.ChunkRows)
		assert.Equal(t, test.options.ShardRows, report.ShardRows)
	}
}

func TestExistingOutputsAreKept(t *testing.T) {
	input := inputFile(t, tabletest.Single("a", tabletest.Texts("x")).File(t))
	tests := map[string]struct {
		make      func(path string) error
		overwrite bool
		want      string
	}{
		"directory":                {makeDir, false, "exists already (--overwrite replaces it)"},
		"file":                     {makeFile, false, "exists already"},
		"dangling link":            {makeLink, false, "exists already"},
		"file to overwrite":        {makeFile, true, "is not a directory, so it is not overwritten"},
		"link to overwrite":        {makeLink, true, "is not a directory, so it is not overwritten"},
		"something else than Zarr": {makeDir, true, "holds no zarr.json, so it is not overwritten"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "there")
			require.NoError(t, test.make(path))
			_, err := arrowzarr.Convert(t.Context(), input, path, arrowzarr.Options{Overwrite: test.overwrite})
			requirePart(t, arrowzarr.PartOutput, err)
			assert.Contains(t, err.Error(), test.want)
			assert.Contains(t, err.Error(), path)
			requireOnly(t, dir, "there")
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				requireOnly(t, path, "letters")
			}
		})
	}
}

func makeDir(path string) error {
	if err := os.Mkdir(path, 0o777); err != nil {
		return err
	}
	return makeFile(filepath.Join(path, "letters"))
}

func makeFile(path string) error { return os.WriteFile(path, []byte("dear"), 0o666) }

func makeLink(path string) error { return os.Symlink("nowhere", path) }

func TestOverwriteReplacesHierarchies(t *testing.T) {
	want := tabletest.Single("new", tabletest.Texts("x", "-"))
	input := inputFile(t, want.File(t))
	for name, before := range map[string][]string{
		"an empty directory":  nil,
		"a Zarr v3 hierarchy": {"zarr.json", "old/zarr.json", "old/c/0/1"},
		"a Zarr v2 group":     {".zgroup", "old/.zarray", "old/0"},
		"a Zarr v2 array":     {".zarray", "0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "there")
			require.NoError(t, os.Mkdir(path, 0o777))
			for _, file := range before {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(path, file)), 0o777))
				require.NoError(t, makeFile(filepath.Join(path, file)))
			}
			_, err := arrowzarr.Convert(t.Context(), input, path, arrowzarr.Options{Overwrite: true})
			require.NoError(t, err)
			requireOnly(t, filepath.Dir(path), "there")
			requireOnly(t, path, "zarr.json", "new", "_index")
			requireTable(t, want, path)
		})
	}
}

// Overwriting deletes nothing that is not part of a Zarr hierarchy.
func TestOverwriteKeepsForeignFiles(t *testing.T) {
	input := inputFile(t, tabletest.Single("a", tabletest.Texts("x")).File(t))
	for _, foreign := range []string{"notes.txt", "a/thesis.pdf", "a/c/notes", "a/c/0.bak", "b/0", "a/zarr.json.old"} {
		t.Run(foreign, func(t *testing.T) {
			path, _ := convertCodes(t, tabletest.Single("a", tabletest.Texts("x")).File(t), arrowzarr.Options{})
			file := filepath.Join(path, foreign)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
			require.NoError(t, makeFile(file))
			_, err := arrowzarr.Convert(t.Context(), input, path, arrowzarr.Options{Overwrite: true})
			requirePart(t, arrowzarr.PartOutput, err)
			assert.Contains(t, err.Error(), foreign)
			assert.FileExists(t, file)
			requireOnly(t, filepath.Dir(path), filepath.Base(path))
		})
	}
}

// The old output stays until the new one is complete.
func TestFailedOverwriteKeepsTheOldOutput(t *testing.T) {
	old := tabletest.Single("old", tabletest.Texts("kept"))
	path, _ := convertCodes(t, old.File(t), arrowzarr.Options{})
	broken := tabletest.RandomTable(1, []int{20, 20}, 0).Stream(t)
	_, err := arrowzarr.Convert(t.Context(), inputFile(t, broken[:len(broken)*2/3]), path, arrowzarr.Options{Overwrite: true, ChunkRows: 5})
	requirePart(t, arrowzarr.PartInput, err)
	requireOnly(t, filepath.Dir(path), filepath.Base(path))
	requireTable(t, old, path)
}

func TestOutputsThatCannotBeCreatedAreErrors(t *testing.T) {
	input := inputFile(t, tabletest.Single("a", tabletest.Texts("x")).File(t))
	dir := t.TempDir()
	require.NoError(t, makeFile(filepath.Join(dir, "file")))
	for name, path := range map[string]string{
		"no parent":          filepath.Join(dir, "missing", "output.zarr"),
		"a file as parent":   filepath.Join(dir, "file", "output.zarr"),
		"an impossible name": filepath.Join(dir, "no\x00name"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := arrowzarr.Convert(t.Context(), input, path, arrowzarr.Options{})
			requirePart(t, arrowzarr.PartOutput, err)
			requireOnly(t, dir, "file")
		})
	}
}

// The output has the permissions of a directory that mkdir creates.
func TestOutputsHaveOrdinaryPermissions(t *testing.T) {
	output, _ := convertCodes(t, tabletest.Single("a", tabletest.Texts("x", "-")).File(t), arrowzarr.Options{})
	byHand := filepath.Join(t.TempDir(), "made")
	require.NoError(t, os.Mkdir(byHand, 0o777))
	want, err := os.Stat(byHand)
	require.NoError(t, err)
	got, err := os.Stat(output)
	require.NoError(t, err)
	assert.Equal(t, want.Mode(), got.Mode())
}

// Paths may be relative, and end in slashes.
func TestOutputPathsAreCleaned(t *testing.T) {
	input := inputFile(t, tabletest.Single("a", tabletest.Texts("x")).File(t))
	t.Chdir(t.TempDir())
	for _, path := range []string{"plain", "./dotted", "slashed/", "deep/../shallow"} {
		_, err := arrowzarr.Convert(t.Context(), input, path, arrowzarr.Options{})
		require.NoError(t, err, path)
	}
	requireOnly(t, ".", "plain", "dotted", "slashed", "shallow")
}
