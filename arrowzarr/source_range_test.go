package arrowzarr_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// parquetNested are types that the metadata of batches lists as several arrays.
var parquetNested = []arrow.DataType{
	arrow.ListOf(arrow.PrimitiveTypes.Int16),
	arrow.StructOf(arrow.Field{Name: "x", Type: arrow.BinaryTypes.String, Nullable: true}, arrow.Field{Name: "y", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true}),
	arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64),
	arrow.LargeListOf(arrow.StructOf(arrow.Field{Name: "z", Type: arrow.PrimitiveTypes.Int8, Nullable: true})),
}

// ipcOnlyTypes are types that Parquet does not have.
var ipcOnlyTypes = []arrow.DataType{
	arrow.DenseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8, Nullable: true}, {Name: "b", Type: arrow.BinaryTypes.String, Nullable: true}}, []arrow.UnionTypeCode{0, 5}),
	arrow.SparseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8, Nullable: true}, {Name: "b", Type: arrow.BinaryTypes.String, Nullable: true}}, []arrow.UnionTypeCode{1, 3}),
	arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String),
	arrow.ListViewOf(arrow.PrimitiveTypes.Int32),
}

// rangeTable returns a table of columns of these types, and a dictionary that changes
// if the format allows it.
func rangeTable(seed uint64, lengths []int, nulls float64, types ...arrow.DataType) tabletest.Table {
	rng := tabletest.NewRand(seed)
	var fields []arrow.Field
	for i, t := range types {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("%d %s", i, t.ID()), Type: t, Nullable: true})
	}
	fields = append(fields, arrow.Field{Name: "dictionary", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, Nullable: true})
	fields = append(fields, arrow.Field{Name: "row", Type: arrow.PrimitiveTypes.Int64})
	var batches [][]arrow.Array
	row := int64(0)
	for b, n := range lengths {
		var columns []arrow.Array
		for _, t := range types {
			columns = append(columns, sampleRuns(t, n, func(k int) arrow.Array { return tabletest.Random(rng, t, k, nulls) }))
		}
		values := make([]int, n)
		rows := array.NewInt64Builder(memory.DefaultAllocator)
		for i := range values {
			values[i] = rng.IntN(4)
			if rng.Float64() < nulls {
				values[i] = -1
			}
			rows.Append(row)
			row++
		}
		columns = append(columns, tabletest.Dictionary(arrow.PrimitiveTypes.Int8, tabletest.Numbered(b*3, 4), values...), rows.NewArray())
		batches = append(batches, columns)
	}
	return tabletest.New(fields, batches...)
}

// sampleRuns returns n rows of make, which returns at least as many for runs.
func sampleRuns(t arrow.DataType, n int, make func(int) arrow.Array) arrow.Array {
	if t.ID() == arrow.RUN_END_ENCODED {
		return array.NewSlice(make(n), 0, int64(n))
	}
	return make(n)
}

// readRows returns the rows of a range as text, and the nulls of each field.
func readRows(t *testing.T, path string, fields []int, from, to int64) (rows [][]string, nulls []int64) {
	t.Helper()
	nulls = make([]int64, len(fields))
	err := arrowzarr.ReadSource([]string{path}, fields, from, to, func(b arrow.RecordBatch) {
		for i := range int(b.NumRows()) {
			var row []string
			for _, column := range b.Columns() {
				text := "null"
				if !column.IsNull(i) {
					text = fmt.Sprintf("%q", column.ValueStr(i))
				}
				row = append(row, text)
			}
			rows = append(rows, row)
		}
		for i, column := range b.Columns() {
			nulls[i] += int64(column.NullN())
		}
	})
	require.NoError(t, err)
	return rows, nulls
}

// rangeInputs returns tables in files of every format.
func rangeInputs(t *testing.T) map[string]string {
	flat := []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float64,
		arrow.BinaryTypes.String, &arrow.FixedSizeBinaryType{ByteWidth: 3}, arrow.FixedWidthTypes.Timestamp_us,
	}
	lengths := []int{13, 0, 1, 40, 7}
	inputs := map[string]string{}
	for _, nulls := range []float64{0, 0.3} {
		for name, types := range map[string][]arrow.DataType{"flat": flat, "nested": parquetNested} {
			in := rangeTable(7, lengths, nulls, types...)
			one := rangeTable(7, []int{61}, nulls, types...)
			label := fmt.Sprintf("%s, nulls %v, ", name, nulls)
			inputs[label+"Parquet"] = inputFile(t, in.Parquet(t, parquet.WithDataPageSize(64), parquet.WithBatchSize(3)))
			inputs[label+"Parquet with pages V2"] = inputFile(t, one.Parquet(t, parquet.WithDataPageSize(64), parquet.WithBatchSize(3), parquet.WithDataPageVersion(parquet.DataPageV2), parquet.WithDictionaryDefault(false), parquet.WithPageIndexEnabled(true)))
			inputs[label+"file"] = inputFile(t, one.File(t, ipc.WithZstd()))
		}
		in := rangeTable(8, lengths, nulls, append(append([]arrow.DataType{arrow.Null}, parquetNested...), ipcOnlyTypes...)...)
		noDictionary := in.Choose(0, 1, 2, 3, 4, 5, 6, 8, len(in.Schema.Fields())-1)
		inputs[fmt.Sprintf("stream, nulls %v", nulls)] = inputFile(t, in.Stream(t))
		inputs[fmt.Sprintf("mapped file, nulls %v", nulls)] = inputFile(t, noDictionary.File(t))
		inputs[fmt.Sprintf("compressed file, nulls %v", nulls)] = inputFile(t, noDictionary.File(t, ipc.WithLZ4()))
	}
	inputs["stream of no rows"] = inputFile(t, rangeTable(8, nil, 0, parquetNested...).Stream(t))
	inputs["file of no rows"] = inputFile(t, rangeTable(8, nil, 0, parquetNested...).File(t))
	inputs["Parquet of no rows"] = inputFile(t, rangeTable(8, nil, 0, parquetNested...).Parquet(t))
	return inputs
}

func TestRangesOfRowsAreSlicesOfTheWhole(t *testing.T) {
	for name, path := range rangeInputs(t) {
		t.Run(name, func(t *testing.T) {
			facts, err := arrowzarr.DescribeSource(path)
			require.NoError(t, err)
			all := make([]int, facts.Schema.NumFields())
			for i := range all {
				all[i] = i
			}
			whole, _ := readRows(t, path, all, 0, -1)
			n, step := int64(len(whole)), int64(1)
			if testing.Short() {
				step = 12
			}
			for from := int64(0); from <= n+1; from += step + from/4 {
				for _, to := range []int64{-1, from - 1, from, from + 1, from + 13, from + 30, n - 1, n, n + 5} {
					if to < -1 {
						continue
					}
					end := n
					if to >= 0 {
						end = min(to, n)
					}
					start := min(from, end)
					got, _ := readRows(t, path, all, from, to)
					require.Len(t, got, int(end-start), "[%d, %d)", from, to)
					for i := range got {
						require.Equal(t, whole[start+int64(i)], got[i], "[%d, %d), row %d", from, to, i)
					}
				}
			}
			last := len(all) - 1
			got, _ := readRows(t, path, []int{last, 0}, n/2, -1)
			for i, row := range got {
				require.Equal(t, []string{whole[n/2+int64(i)][last], whole[n/2+int64(i)][0]}, row)
			}
		})
	}
}

func TestSourcesCountRowsAndNullsWithoutReadingValues(t *testing.T) {
	known := 0
	for name, path := range rangeInputs(t) {
		t.Run(name, func(t *testing.T) {
			facts, err := arrowzarr.DescribeSource(path)
			require.NoError(t, err)
			all := make([]int, facts.Schema.NumFields())
			for i := range all {
				all[i] = i
			}
			rows, nulls := readRows(t, path, all, 0, -1)
			assert.EqualValues(t, len(rows), facts.Count)
			if facts.Rows != -1 {
				assert.Equal(t, facts.Count, facts.Rows)
			}
			require.Len(t, facts.Nulls, len(nulls))
			for i, got := range facts.Nulls {
				f := facts.Schema.Field(i)
				_, nested := f.Type.(arrow.NestedType)
				if nested && (got == -1) {
					continue
				}
				known++
				assert.Equal(t, nulls[i], got, "%v", f)
			}
		})
	}
	assert.Greater(t, known, 100)
}

// The rows of runs are the values', so a column with a null among them may have any number.
func TestNullsOfRunsAreUnknownUnlessNoValueIsNull(t *testing.T) {
	kind := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64)
	for nulls, want := range map[string]int64{`[1, 2]`: 0, `[1, null]`: -1} {
		values := tabletest.FromJSON(t, arrow.PrimitiveTypes.Int64, nulls)
		runs := array.NewRunEndEncodedArray(tabletest.FromJSON(t, arrow.PrimitiveTypes.Int32, `[3, 5]`), values, 5, 0)
		in := tabletest.New([]arrow.Field{{Name: "before", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "runs", Type: kind, Nullable: true}},
			[]arrow.Array{tabletest.FromJSON(t, arrow.PrimitiveTypes.Int64, `[1, null, null, 4, 5]`), runs})
		for _, content := range [][]byte{in.File(t), in.Stream(t)} {
			facts, err := arrowzarr.DescribeSource(inputFile(t, content))
			require.NoError(t, err)
			assert.Equal(t, []int64{2, want}, facts.Nulls)
		}
	}
}

func TestPipesCannotBeCounted(t *testing.T) {
	content := rangeTable(3, []int{9, 9, 9}, 0.2, arrow.PrimitiveTypes.Int16).Stream(t)
	pipe := func() string {
		path := filepath.Join(t.TempDir(), "pipe")
		require.NoError(t, unix.Mkfifo(path, 0o600))
		go func() {
			if w, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
				_, _ = w.Write(content)
				_ = w.Close()
			}
		}()
		return path
	}
	_, err := arrowzarr.DescribeSource(pipe())
	require.ErrorIs(t, err, errors.ErrUnsupported)
	assert.Contains(t, err.Error(), "can be read only once")
	got, _ := readRows(t, pipe(), []int{2}, 11, 20)
	assert.Len(t, got, 9)
	assert.Equal(t, []string{`"11"`}, got[0])
}

func TestStreamsCutInASkippedBatchAreErrors(t *testing.T) {
	content := rangeTable(3, []int{90, 90}, 0, arrow.PrimitiveTypes.Int64).Stream(t)
	path := inputFile(t, content[:len(content)*2/3])
	err := arrowzarr.ReadSource([]string{path}, []int{0}, 180, -1, func(arrow.RecordBatch) {})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = arrowzarr.DescribeSource(path)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestFingerprintsChangeWithTheFile(t *testing.T) {
	columns := rangeTable(3, []int{9}, 0, arrow.PrimitiveTypes.Int16)
	for _, content := range [][]byte{columns.File(t), columns.Stream(t), columns.Parquet(t)} {
		path := inputFile(t, content)
		fingerprint := func() string {
			facts, err := arrowzarr.DescribeSource(path)
			require.NoError(t, err)
			return facts.Fingerprint
		}
		first := fingerprint()
		assert.Contains(t, first, path)
		assert.Equal(t, first, fingerprint())
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(1e9, 5)))
		assert.NotEqual(t, first, fingerprint())
	}
}
