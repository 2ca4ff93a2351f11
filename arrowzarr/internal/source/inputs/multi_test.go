package inputs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

func TestFilesOfOtherSchemasAreNamed(t *testing.T) {
	ab := func(first, second string, t1, t2 arrow.DataType) []byte {
		in := tabletest.New([]arrow.Field{{Name: first, Type: t1}, {Name: second, Type: t2, Nullable: true}},
			[]arrow.Array{tabletest.FromJSON(t, t1, `["1"]`), tabletest.FromJSON(t, t2, `["2"]`)})
		return in.File(t)
	}
	i64, i32 := arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32
	root := sourcetest.WriteFiles(t, map[string][]byte{"1": ab("a", "b", i64, i64), "2": ab("b", "a", i64, i64)})
	assert.Equal(t, []string{"1 2", "2 1"}, sourcetest.Rows(t, inputsOf(root)))
	fields := sourcetest.Info(t, inputsOf(root)).Schema.Fields()
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
		root := sourcetest.WriteFiles(t, map[string][]byte{"1": test.first, "2": test.second})
		_, err := sourcetest.Count(inputsOf(root))
		require.ErrorContains(t, err, test.want)
		assert.Contains(t, err.Error(), filepath.Join(root, "1"))
	}
	root = sourcetest.WriteFiles(t, map[string][]byte{"k=1/a": tabletest.Numbers(0, 1).File(t), "b": tabletest.Numbers(0, 1).File(t)})
	_, err := sourcetest.Count(inputsOf(root))
	require.ErrorContains(t, err, "folders of different keys")
}

func TestRangesOfManyFilesAreSlicesOfTheWhole(t *testing.T) {
	files := map[string][]byte{}
	next := 0
	for i, n := range []int{5, 0, 1, 30, 0, 8} {
		in := tabletest.Numbers(next, n)
		next += n
		files[fmt.Sprintf("k=%d/a", i)] = [][]byte{in.File(t), in.Stream(t), in.Parquet(t)}[i%3]
	}
	root := sourcetest.WriteFiles(t, files)
	counts, err := sourcetest.Count(inputsOf(root))
	require.NoError(t, err)
	require.EqualValues(t, next, counts.Rows)
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
			require.NoError(t, sourcetest.Read(inputsOf(root), []int{1, 0}, source.RowRange{From: int64(from), To: int64(to)}, func(b arrow.RecordBatch) {
				for i := range int(b.NumRows()) {
					got = append(got, b.Column(1).ValueStr(i))
				}
			}))
			require.Equal(t, want, got, "[%d, %d)", from, to)
		}
	}
}

func TestFilesThatChangeMeanwhileAreErrors(t *testing.T) {
	root := sourcetest.WriteFiles(t, map[string][]byte{"a": tabletest.Numbers(0, 3).Stream(t), "b": tabletest.Numbers(0, 3).Stream(t)})
	changed := false
	err := sourcetest.Read(inputsOf(root), []int{0}, source.WholeInput, func(arrow.RecordBatch) {
		if !changed {
			require.NoError(t, os.WriteFile(filepath.Join(root, "b"), tabletest.Numbers(0, 4).Stream(t), 0o666))
			changed = true
		}
	})
	require.ErrorContains(t, err, filepath.Join(root, "b")+": the file has changed")
}
