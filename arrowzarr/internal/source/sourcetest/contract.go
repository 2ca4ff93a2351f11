package sourcetest

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// Flat are types of one array each.
var Flat = []arrow.DataType{
	arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float64,
	arrow.BinaryTypes.String, &arrow.FixedSizeBinaryType{ByteWidth: 3}, arrow.FixedWidthTypes.Timestamp_us,
}

// Nested are types that the metadata of batches lists as several arrays.
var Nested = []arrow.DataType{
	arrow.ListOf(arrow.PrimitiveTypes.Int16),
	arrow.StructOf(arrow.Field{Name: "x", Type: arrow.BinaryTypes.String, Nullable: true}, arrow.Field{Name: "y", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true}),
	arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64),
	arrow.LargeListOf(arrow.StructOf(arrow.Field{Name: "z", Type: arrow.PrimitiveTypes.Int8, Nullable: true})),
}

// RangeTable returns a table of columns of these types, a dictionary that differs in each
// batch, and the number of the row. Of the other values, a share is null.
func RangeTable(seed uint64, lengths []int, nulls float64, types ...arrow.DataType) tabletest.Table {
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
			values := tabletest.Random(rng, t, n, nulls)
			if t.ID() == arrow.RUN_END_ENCODED { // n runs
				values = array.NewSlice(values, 0, int64(n))
			}
			columns = append(columns, values)
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

// TestRanges checks that any range of a source's rows is a slice of all its rows. Each
// source has at most a hundred.
func TestRanges(t *testing.T, sources map[string]Opener) {
	t.Helper()
	for name, open := range sources {
		t.Run(name, func(t *testing.T) { testRanges(t, open) })
	}
}

func testRanges(t *testing.T, open Opener) {
	t.Helper()
	whole, _ := Values(t, open, nil, source.WholeInput)
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
			got, _ := Values(t, open, nil, source.RowRange{From: from, To: to})
			require.Len(t, got, int(end-start), "[%d, %d)", from, to)
			for i := range got {
				require.Equal(t, whole[start+int64(i)], got[i], "[%d, %d), row %d", from, to, i)
			}
		}
	}
	last := Info(t, open).Schema.NumFields() - 1
	got, _ := Values(t, open, []int{last, 0}, source.RowRange{From: n / 2, To: -1})
	for i, row := range got {
		require.Equal(t, []string{whole[n/2+int64(i)][last], whole[n/2+int64(i)][0]}, row)
	}
}

// TestCounts checks that sources count the rows and nulls that they read. Those of nested
// fields may be unknown, but those of more than `least` fields of all sources are known.
func TestCounts(t *testing.T, sources map[string]Opener, least int) {
	t.Helper()
	known := 0
	for name, open := range sources {
		t.Run(name, func(t *testing.T) { known += testCounts(t, open) })
	}
	assert.Greater(t, known, least)
}

// testCounts returns the number of fields whose nulls are known.
func testCounts(t *testing.T, open Opener) (known int) {
	t.Helper()
	info := Info(t, open)
	counts, err := Count(open)
	require.NoError(t, err)
	rows, nulls := Values(t, open, nil, source.WholeInput)
	assert.EqualValues(t, len(rows), counts.Rows)
	if info.Rows != -1 {
		assert.Equal(t, counts.Rows, info.Rows)
	}
	if nulls == nil { // of no batch
		nulls = make([]int64, info.Schema.NumFields())
	}
	require.Len(t, counts.Nulls, len(nulls))
	for i, got := range counts.Nulls {
		f := info.Schema.Field(i)
		if _, nested := f.Type.(arrow.NestedType); nested && got == -1 {
			continue
		}
		known++
		assert.Equal(t, nulls[i], got, "%v", f)
	}
	return known
}
