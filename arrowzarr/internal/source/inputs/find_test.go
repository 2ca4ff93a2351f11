package inputs_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

func TestFilesOfFoldersAreReadInOrderWithoutHiddenOnes(t *testing.T) {
	one := func(n int) []byte { return tabletest.Numbers(n, 1).File(t) }
	root := sourcetest.WriteFiles(t, map[string][]byte{
		"b.arrow": tabletest.Numbers(3, 2).Parquet(t), "a/z.arrow": one(1), "a/y/x.arrow": tabletest.Numbers(0, 1).Stream(t), "c.arrow": one(5), "a.arrow": one(2),
		"_SUCCESS": nil, ".c.arrow.crc": {1}, "_temporary/d.arrow": one(9), ".hidden/d.arrow": one(9),
	})
	assert.Equal(t, []string{"0", "1", "2", "3", "4", "5"}, sourcetest.Rows(t, inputsOf(root)))
	assert.Equal(t, []string{"5", "3", "4"}, sourcetest.Rows(t, inputsOf(filepath.Join(root, "c.arrow"), filepath.Join(root, "b.arrow"))))
	for pattern, want := range map[string][]string{
		"*.arrow": {"2", "3", "4", "5"}, "[bc].arrow": {"3", "4", "5"}, "*": {"0", "1", "2", "3", "4", "5"}, "?": {"0", "1"}, "a/*": {"0", "1"},
		"**/*.arrow": {"0", "1", "2", "3", "4", "5"}, "**/x.arrow": {"0"}, "a/**": {"0", "1"}, "*/y": {"0"}, "_t*": {"9"},
	} {
		got := sourcetest.Rows(t, inputsOf(filepath.Join(root, pattern)))
		slices.Sort(got)
		assert.Equal(t, want, got, pattern)
	}
	t.Chdir(root)
	assert.Equal(t, []string{"2", "3", "4", "5"}, sourcetest.Rows(t, inputsOf("*.arrow")))
	assert.Equal(t, []string{"0", "1"}, sourcetest.Rows(t, inputsOf("a")))
}

func TestFoldersAreReadThroughLinks(t *testing.T) {
	root := sourcetest.WriteFiles(t, map[string][]byte{"data/a.arrow": tabletest.Numbers(0, 2).File(t), "input/b.arrow": tabletest.Numbers(2, 2).File(t)})
	require.NoError(t, os.Symlink("../data", filepath.Join(root, "input", "a")))
	assert.Equal(t, []string{"0", "1", "2", "3"}, sourcetest.Rows(t, inputsOf(filepath.Join(root, "input"))))
	require.NoError(t, os.Symlink("..", filepath.Join(root, "input", "loop")))
	_, err := sourcetest.Count(inputsOf(filepath.Join(root, "input")))
	require.ErrorContains(t, err, "folders in each other")
}

func TestPartitionKeysAreColumns(t *testing.T) {
	root := sourcetest.WriteFiles(t, map[string][]byte{
		"year=2020/city=Bad%20Ems/a.parquet":                       tabletest.Numbers(0, 2).Parquet(t),
		"year=2021/city=__HIVE_DEFAULT_PARTITION__/b.parquet":      tabletest.Numbers(2, 1).Parquet(t),
		"year=__HIVE_DEFAULT_PARTITION__/city=Z%C3%BCrich/c.arrow": tabletest.Numbers(3, 1).File(t),
	})
	for _, input := range []string{root, filepath.Join(root, "*"), filepath.Join(root, "year=*", "**", "*.*")} {
		counts, err := sourcetest.Count(inputsOf(input))
		require.NoError(t, err)
		assert.Equal(t, []arrow.Field{
			{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
			{Name: "year", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
			{Name: "city", Type: arrow.BinaryTypes.String, Nullable: true},
		}, withoutMetadata(sourcetest.Info(t, inputsOf(input)).Schema.Fields()))
		assert.Equal(t, source.Counts{Rows: 4, Nulls: []int64{0, 1, 1}}, counts)
		assert.Equal(t, []string{"0 2020 Bad Ems", "1 2020 Bad Ems", "2 2021 (null)", "3 (null) Zürich"}, sourcetest.Rows(t, inputsOf(input)))
	}
	var got []string
	require.NoError(t, sourcetest.Read(inputsOf(root), []int{2, 1}, source.RowRange{From: 1, To: 3}, func(b arrow.RecordBatch) {
		for i := range int(b.NumRows()) {
			got = append(got, b.Column(0).ValueStr(i)+" "+b.Column(1).ValueStr(i))
		}
	}))
	assert.Equal(t, []string{"Bad Ems 2020", "(null) 2021"}, got)
	// The path of one file, and what lies above the input, has no keys.
	assert.Len(t, sourcetest.Info(t, inputsOf(filepath.Join(root, "year=2020/city=Bad%20Ems/a.parquet"))).Schema.Fields(), 1)
	assert.Len(t, sourcetest.Info(t, inputsOf(filepath.Join(root, "year=2020"))).Schema.Fields(), 2)
}

func withoutMetadata(fields []arrow.Field) []arrow.Field {
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].Metadata = arrow.Metadata{}
	}
	return fields
}

func TestPartitionKeysOfOtherValuesAreText(t *testing.T) {
	root := sourcetest.WriteFiles(t, map[string][]byte{
		"k=1/a.arrow": tabletest.Numbers(0, 1).File(t), "k=one/a.arrow": tabletest.Numbers(1, 1).File(t), "k=99999999999999999999/a.arrow": tabletest.Numbers(2, 1).File(t),
	})
	assert.Equal(t, arrow.BinaryTypes.String, sourcetest.Info(t, inputsOf(root)).Schema.Field(1).Type)
	assert.ElementsMatch(t, []string{"0 1", "1 one", "2 99999999999999999999"}, sourcetest.Rows(t, inputsOf(root)))
	// The column of the files wins.
	root = sourcetest.WriteFiles(t, map[string][]byte{"n=7/a.arrow": tabletest.Numbers(0, 1).File(t), "n=8/a.arrow": tabletest.Numbers(1, 1).File(t)})
	assert.Equal(t, []string{"0", "1"}, sourcetest.Rows(t, inputsOf(root)))
	assert.Equal(t, 1, sourcetest.Info(t, inputsOf(root)).Schema.NumFields())
}

func TestInputsWithoutFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	for input, want := range map[string]string{
		dir: "has no files", filepath.Join(dir, "*.parquet"): "no file matches", filepath.Join(dir, "x"): "x does not exist", filepath.Join(dir, "[a.*"): "no file matches",
	} {
		_, err := sourcetest.Count(inputsOf(input))
		require.ErrorContains(t, err, want)
	}
	_, err := sourcetest.Count(inputsOf("-", dir))
	require.ErrorContains(t, err, "only input")
}
