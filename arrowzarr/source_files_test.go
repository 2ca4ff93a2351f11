package arrowzarr_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// folderOf writes files, given by their paths, to a new folder.
func folderOf(t *testing.T, files map[string][]byte) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, content, 0o666))
	}
	return root
}

// rowTexts returns the rows of inputs, each as one text.
func rowTexts(t *testing.T, columns int, inputs ...string) (rows []string) {
	t.Helper()
	fields := make([]int, columns)
	for i := range fields {
		fields[i] = i
	}
	err := arrowzarr.ReadSource(inputs, fields, 0, -1, func(b arrow.RecordBatch) {
		for i := range int(b.NumRows()) {
			var row []string
			for _, c := range b.Columns() {
				row = append(row, c.ValueStr(i))
			}
			rows = append(rows, strings.Join(row, " "))
		}
	})
	require.NoError(t, err)
	return rows
}

func TestFilesOfFoldersAreReadInOrderWithoutHiddenOnes(t *testing.T) {
	one := func(n int) []byte { return tabletest.Numbers(n, 1).File(t) }
	root := folderOf(t, map[string][]byte{
		"b.arrow": tabletest.Numbers(3, 2).Parquet(t), "a/z.arrow": one(1), "a/y/x.arrow": tabletest.Numbers(0, 1).Stream(t), "c.arrow": one(5), "a.arrow": one(2),
		"_SUCCESS": nil, ".c.arrow.crc": {1}, "_temporary/d.arrow": one(9), ".hidden/d.arrow": one(9),
	})
	assert.Equal(t, []string{"0", "1", "2", "3", "4", "5"}, rowTexts(t, 1, root))
	assert.Equal(t, []string{"5", "3", "4"}, rowTexts(t, 1, filepath.Join(root, "c.arrow"), filepath.Join(root, "b.arrow")))
	for pattern, want := range map[string][]string{
		"*.arrow": {"2", "3", "4", "5"}, "[bc].arrow": {"3", "4", "5"}, "*": {"0", "1", "2", "3", "4", "5"}, "?": {"0", "1"}, "a/*": {"0", "1"},
		"**/*.arrow": {"0", "1", "2", "3", "4", "5"}, "**/x.arrow": {"0"}, "a/**": {"0", "1"}, "*/y": {"0"}, "_t*": {"9"},
	} {
		got := rowTexts(t, 1, filepath.Join(root, pattern))
		slices.Sort(got)
		assert.Equal(t, want, got, pattern)
	}
	t.Chdir(root)
	assert.Equal(t, []string{"2", "3", "4", "5"}, rowTexts(t, 1, "*.arrow"))
	assert.Equal(t, []string{"0", "1"}, rowTexts(t, 1, "a"))
}

func TestFoldersAreReadThroughLinks(t *testing.T) {
	root := folderOf(t, map[string][]byte{"data/a.arrow": tabletest.Numbers(0, 2).File(t), "input/b.arrow": tabletest.Numbers(2, 2).File(t)})
	require.NoError(t, os.Symlink("../data", filepath.Join(root, "input", "a")))
	assert.Equal(t, []string{"0", "1", "2", "3"}, rowTexts(t, 1, filepath.Join(root, "input")))
	require.NoError(t, os.Symlink("..", filepath.Join(root, "input", "loop")))
	_, err := arrowzarr.DescribeSource(filepath.Join(root, "input"))
	require.ErrorContains(t, err, "folders in each other")
}

func TestPartitionKeysAreColumns(t *testing.T) {
	root := folderOf(t, map[string][]byte{
		"year=2020/city=Bad%20Ems/a.parquet":                       tabletest.Numbers(0, 2).Parquet(t),
		"year=2021/city=__HIVE_DEFAULT_PARTITION__/b.parquet":      tabletest.Numbers(2, 1).Parquet(t),
		"year=__HIVE_DEFAULT_PARTITION__/city=Z%C3%BCrich/c.arrow": tabletest.Numbers(3, 1).File(t),
	})
	for _, input := range []string{root, filepath.Join(root, "*"), filepath.Join(root, "year=*", "**", "*.*")} {
		facts, err := arrowzarr.DescribeSource(input)
		require.NoError(t, err)
		assert.Equal(t, []arrow.Field{
			{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
			{Name: "year", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
			{Name: "city", Type: arrow.BinaryTypes.String, Nullable: true},
		}, withoutMetadata(facts.Schema.Fields()))
		assert.EqualValues(t, 4, facts.Count)
		assert.Equal(t, []int64{0, 1, 1}, facts.Nulls)
		assert.Equal(t, []string{"0 2020 Bad Ems", "1 2020 Bad Ems", "2 2021 (null)", "3 (null) Zürich"}, rowTexts(t, 3, input))
	}
	var got []string
	require.NoError(t, arrowzarr.ReadSource([]string{root}, []int{2, 1}, 1, 3, func(b arrow.RecordBatch) {
		for i := range int(b.NumRows()) {
			got = append(got, b.Column(0).ValueStr(i)+" "+b.Column(1).ValueStr(i))
		}
	}))
	assert.Equal(t, []string{"Bad Ems 2020", "(null) 2021"}, got)
	// The path of one file, and what lies above the input, has no keys.
	assert.Len(t, describe1(t, filepath.Join(root, "year=2020/city=Bad%20Ems/a.parquet")).Schema.Fields(), 1)
	assert.Len(t, describe1(t, filepath.Join(root, "year=2020")).Schema.Fields(), 2)
}

func describe1(t *testing.T, inputs ...string) arrowzarr.SourceFacts {
	t.Helper()
	facts, err := arrowzarr.DescribeSource(inputs...)
	require.NoError(t, err)
	return facts
}

func withoutMetadata(fields []arrow.Field) []arrow.Field {
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].Metadata = arrow.Metadata{}
	}
	return fields
}

func TestPartitionKeysOfOtherValuesAreText(t *testing.T) {
	root := folderOf(t, map[string][]byte{
		"k=1/a.arrow": tabletest.Numbers(0, 1).File(t), "k=one/a.arrow": tabletest.Numbers(1, 1).File(t), "k=99999999999999999999/a.arrow": tabletest.Numbers(2, 1).File(t),
	})
	assert.Equal(t, arrow.BinaryTypes.String, describe1(t, root).Schema.Field(1).Type)
	assert.ElementsMatch(t, []string{"0 1", "1 one", "2 99999999999999999999"}, rowTexts(t, 2, root))
	// The column of the files wins.
	root = folderOf(t, map[string][]byte{"n=7/a.arrow": tabletest.Numbers(0, 1).File(t), "n=8/a.arrow": tabletest.Numbers(1, 1).File(t)})
	assert.Equal(t, []string{"0", "1"}, rowTexts(t, 1, root))
	assert.Equal(t, 1, describe1(t, root).Schema.NumFields())
}

func TestFilesOfOtherSchemasAreNamed(t *testing.T) {
	ab := func(first, second string, t1, t2 arrow.DataType) []byte {
		in := tabletest.New([]arrow.Field{{Name: first, Type: t1}, {Name: second, Type: t2, Nullable: true}},
			[]arrow.Array{tabletest.FromJSON(t, t1, `["1"]`), tabletest.FromJSON(t, t2, `["2"]`)})
		return in.File(t)
	}
	i64, i32 := arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32
	root := folderOf(t, map[string][]byte{"1": ab("a", "b", i64, i64), "2": ab("b", "a", i64, i64)})
	assert.Equal(t, []string{"1 2", "2 1"}, rowTexts(t, 2, root))
	fields := describe1(t, root).Schema.Fields()
	assert.True(t, fields[0].Nullable, "a is nullable in the second file")
	for _, test := range []struct {
		want          string
		first, second []byte
	}{
		{`/2: column "b" is int32, and in `, ab("a", "b", i64, i64), ab("a", "b", i64, i32)},
		{`/2 has no column "b", which `, ab("a", "b", i64, i64), ab("a", "c", i64, i64)},
		{`/2 has no column "b", which `, ab("a", "b", i64, i64), ab("a", "a", i64, i64)},
		{`/2 has a column "n", which `, tabletest.New(nil, nil).File(t), tabletest.Numbers(0, 1).File(t)},
	} {
		root := folderOf(t, map[string][]byte{"1": test.first, "2": test.second})
		_, err := arrowzarr.DescribeSource(root)
		require.ErrorContains(t, err, test.want)
		assert.Contains(t, err.Error(), filepath.Join(root, "1"))
	}
	root = folderOf(t, map[string][]byte{"k=1/a": tabletest.Numbers(0, 1).File(t), "b": tabletest.Numbers(0, 1).File(t)})
	_, err := arrowzarr.DescribeSource(root)
	require.ErrorContains(t, err, "folders of different keys")
}

func TestInputsWithoutFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	for input, want := range map[string]string{
		dir: "has no files", filepath.Join(dir, "*.parquet"): "no file matches", filepath.Join(dir, "x"): "x does not exist", filepath.Join(dir, "[a.*"): "no file matches",
	} {
		_, err := arrowzarr.DescribeSource(input)
		require.ErrorContains(t, err, want)
	}
	_, err := arrowzarr.DescribeSource("-", dir)
	require.ErrorContains(t, err, "only input")
}

// An output that lies in the folder of the input is not read as files.
func TestFoldersWithZarrHierarchiesAreRefused(t *testing.T) {
	dir := folderOf(t, map[string][]byte{"a.arrow": tabletest.Numbers(0, 5).File(t)})
	inside := filepath.Join(dir, "out.zarr")
	_, err := arrowzarr.Convert(t.Context(), dir, inside, arrowzarr.Options{})
	require.NoError(t, err)
	_, err = arrowzarr.Convert(t.Context(), dir, filepath.Join(t.TempDir(), "out.zarr"), arrowzarr.Options{})
	requirePart(t, arrowzarr.PartInput, err)
	require.ErrorContains(t, err, inside+" is a Zarr hierarchy")
	_, err = arrowzarr.Convert(t.Context(), "", filepath.Join(t.TempDir(), "out.zarr"), arrowzarr.Options{})
	requirePart(t, arrowzarr.PartInput, err)
	require.ErrorContains(t, err, "the name of the input is empty")
}

func TestRangesOfManyFilesAreSlicesOfTheWhole(t *testing.T) {
	files := map[string][]byte{}
	next := 0
	for i, n := range []int{5, 0, 1, 30, 0, 8} {
		in := tabletest.Numbers(next, n)
		next += n
		files[fmt.Sprintf("k=%d/a", i)] = [][]byte{in.File(t), in.Stream(t), in.Parquet(t)}[i%3]
	}
	root := folderOf(t, files)
	require.EqualValues(t, next, describe1(t, root).Count)
	for from := range next + 2 {
		for _, to := range []int{-1, from, from + 1, from + 9, next} {
			end := next
			if to >= 0 {
				end = min(to, next)
			}
			var want, got []string
			for n := from; n < end; n++ {
				want = append(want, fmt.Sprint(n))
			}
			require.NoError(t, arrowzarr.ReadSource([]string{root}, []int{1, 0}, int64(from), int64(to), func(b arrow.RecordBatch) {
				for i := range int(b.NumRows()) {
					got = append(got, b.Column(1).ValueStr(i))
				}
			}))
			require.Equal(t, want, got, "[%d, %d)", from, to)
		}
	}
}

func TestFilesThatChangeMeanwhileAreErrors(t *testing.T) {
	root := folderOf(t, map[string][]byte{"a": tabletest.Numbers(0, 3).Stream(t), "b": tabletest.Numbers(0, 3).Stream(t)})
	changed := false
	err := arrowzarr.ReadSource([]string{root}, []int{0}, 0, -1, func(arrow.RecordBatch) {
		if !changed {
			require.NoError(t, os.WriteFile(filepath.Join(root, "b"), tabletest.Numbers(0, 4).Stream(t), 0o666))
			changed = true
		}
	})
	require.ErrorContains(t, err, filepath.Join(root, "b")+": the file has changed")
}

// Each file is open twice, once for its metadata, and two at a time are open for reading.
func TestManySmallFilesConvert(t *testing.T) {
	n := 3000 // more than a process may open by default
	if testing.Short() {
		n = 500
	}
	root := t.TempDir()
	content := tabletest.Numbers(0, 1).Parquet(t)
	for i := range n {
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("%05d.parquet", i)), content, 0o666))
	}
	output, report := convertFile(t, root, arrowzarr.Options{})
	assert.EqualValues(t, n, report.Rows)
	verified, err := arrowzarr.Verify(t.Context(), root, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
}
