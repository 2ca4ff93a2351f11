package arrowzarr_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// planted is a copy of a table with a difference, and how Verify must describe that.
type planted struct {
	name  string
	table tabletest.Table
	want  []string
}

// plant returns copies of a table of one column that differ by one value, a null, a row
// more, a row less, and in metadata. The column has more than row rows and no nulls.
func plant(t *testing.T, whole tabletest.Table, row int64) []planted {
	t.Helper()
	values := whole.Batches[0].Column(0)
	kind, n := values.DataType(), int64(values.Len())
	replaced := func(by arrow.Array) tabletest.Table {
		return tabletest.Table{Schema: whole.Schema, Batches: tabletest.Single("c", taken(t, values, 0, row), by, taken(t, values, row+1, n)).Batches}
	}
	where := fmt.Sprintf(`column "c", row %d: `, row)
	var all []planted
	if other := different(taken(t, values, row, row+1)); other != nil {
		all = append(all, planted{"a value", replaced(other), []string{where, ", expected "}})
	}
	if kind.ID() != arrow.NULL {
		if null := nullOf(kind); null != nil {
			all = append(all, planted{"a null", replaced(null), []string{where, "expected null"}})
		}
	}
	more := tabletest.Single("c", values, taken(t, values, 0, 1))
	less := tabletest.Single("c", taken(t, values, 0, n-1))
	metadata := arrow.NewMetadata([]string{"k"}, []string{"v"})
	field := whole.Schema.Field(0)
	field.Metadata = arrow.NewMetadata(append(field.Metadata.Keys(), "k"), append(field.Metadata.Values(), "v"))
	required := whole.Schema.Field(0)
	required.Nullable = false
	return append(all,
		planted{"a row more", more, []string{fmt.Sprintf("%d rows, expected", n)}},
		planted{"a row less", less, []string{fmt.Sprintf("%d rows, expected %d", n, n-1)}},
		planted{"metadata of the schema", withSchema(whole, arrow.NewSchema(whole.Schema.Fields(), &metadata)), []string{"the schema's metadata"}},
		planted{"metadata of the field", withSchema(whole, arrow.NewSchema([]arrow.Field{field}, nil)), []string{`column "c": the field is`}},
		planted{"nullability", withSchema(whole, arrow.NewSchema([]arrow.Field{required}, nil)), []string{`column "c": the field is`}})
}

// withSchema returns a table with another schema of the same types.
func withSchema(t tabletest.Table, schema *arrow.Schema) tabletest.Table {
	changed := tabletest.Table{Schema: schema}
	for _, b := range t.Batches {
		changed.Batches = append(changed.Batches, array.NewRecordBatch(schema, b.Columns(), b.NumRows()))
	}
	return changed
}

// taken returns a copy of elements [from, to). arrow-go cannot write slices of list views.
func taken(t *testing.T, values arrow.Array, from, to int64) arrow.Array {
	t.Helper()
	indices := make([]int64, to-from)
	for i := range indices {
		indices[i] = from + int64(i)
	}
	copied, err := columns.Take(values, columns.Indices(indices...))
	require.NoError(t, err)
	return copied
}

// different returns an array of one value other than the given one; nil if the type has
// one value only.
func different(value arrow.Array) arrow.Array {
	text := func(a arrow.Array) string {
		if ext, ok := a.(array.ExtensionArray); ok {
			a = ext.Storage()
		}
		return a.ValueStr(0)
	}
	for seed := range uint64(100) {
		other := tabletest.Random(tabletest.NewRand(seed), value.DataType(), 1, 0)
		if text(other) != text(value) && !arrowbuf.BitwiseEqual(other, value) {
			return other
		}
	}
	return nil
}

// nullOf returns an array of one null; nil for a union, whose nulls are those of its
// children.
func nullOf(t arrow.DataType) arrow.Array {
	switch t := t.(type) {
	case arrow.UnionType:
		return nil
	case arrow.ExtensionType:
		storage := nullOf(t.StorageType())
		if storage == nil {
			return nil
		}
		return array.NewExtensionArrayWithStorage(t, storage)
	case *arrow.RunEndEncodedType:
		values := nullOf(t.Encoded())
		if values == nil {
			return nil
		}
		ends := array.NewBuilder(memory.DefaultAllocator, t.RunEnds())
		if err := ends.AppendValueFromString("1"); err != nil {
			panic(err)
		}
		return array.NewRunEndEncodedArrayWithType(t, ends.NewArray(), values, 1, 0)
	}
	b := array.NewBuilder(memory.DefaultAllocator, t)
	b.AppendNull()
	return b.NewArray()
}

// Verify finds each planted difference in a column of each type.
func TestVerifyFindsDifferencesInEveryType(t *testing.T) {
	const rows, row = 9, 5
	for i, kind := range append(append([]arrow.DataType{}, tabletest.Types...), nestedTypes()...) {
		t.Run(fmt.Sprintf("%d %s", i, kind.ID()), func(t *testing.T) {
			if testing.Short() && i%4 != 0 {
				t.Skip("83 types")
			}
			t.Parallel()
			whole := tabletest.Single("c", tabletest.Random(tabletest.NewRand(uint64(i)), kind, rows, 0))
			input := inputFile(t, whole.Stream(t))
			output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: 4})
			report, err := arrowzarr.Verify(t.Context(), input, output, arrowzarr.Options{})
			require.NoError(t, err)
			require.Empty(t, report.Difference)
			all := plant(t, whole, row)
			if kind.ID() != arrow.NULL && kind.String() != "struct<>" {
				require.Equal(t, "a value", all[0].name)
			}
			for _, p := range all {
				report, err := arrowzarr.Verify(t.Context(), inputFile(t, p.table.Stream(t)), output, arrowzarr.Options{})
				require.NoError(t, err, p.name)
				for _, want := range p.want {
					assert.Contains(t, report.Difference, want, p.name)
				}
			}
		})
	}
}

// Differences inside of values are found at any depth.
func TestVerifyFindsDifferencesInsideOfValues(t *testing.T) {
	for name, test := range map[string]struct {
		kind          arrow.DataType
		values, other string
	}{
		"element":           {arrow.ListOf(arrow.PrimitiveTypes.Int8), `[[1, 2], [3]]`, `[[1, 4], [3]]`},
		"null element":      {arrow.ListOf(arrow.PrimitiveTypes.Int8), `[[1, 2], [3]]`, `[[1, null], [3]]`},
		"list boundary":     {arrow.ListOf(arrow.PrimitiveTypes.Int8), `[[1, 2], [3]]`, `[[1], [2, 3]]`},
		"empty and null":    {arrow.ListOf(arrow.PrimitiveTypes.Int8), `[[], [3]]`, `[null, [3]]`},
		"field":             {arrow.StructOf(arrow.Field{Name: "x", Type: arrow.BinaryTypes.String, Nullable: true}), `[{"x": "a"}]`, `[{"x": "b"}]`},
		"null field":        {arrow.StructOf(arrow.Field{Name: "x", Type: arrow.BinaryTypes.String, Nullable: true}), `[{"x": ""}]`, `[{"x": null}]`},
		"text and boundary": {arrow.BinaryTypes.String, `["ab", "c"]`, `["a", "bc"]`},
		"empty text":        {arrow.BinaryTypes.String, `["", "c"]`, `[null, "c"]`},
		"negative zero":     {arrow.PrimitiveTypes.Float64, `[0]`, `[-0]`},
		"array element":     {arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int8), `[[1, 2]]`, `[[1, null]]`},
	} {
		t.Run(name, func(t *testing.T) {
			values, other := tabletest.FromJSON(t, test.kind, test.values), tabletest.FromJSON(t, test.kind, test.other)
			if name == "negative zero" {
				values, other = tabletest.Floats(0), tabletest.Floats(negativeZero())
			}
			output, _ := convertCodes(t, tabletest.Single("c", values).Stream(t), arrowzarr.Options{})
			report, err := arrowzarr.Verify(t.Context(), inputFile(t, tabletest.Single("c", other).Stream(t)), output, arrowzarr.Options{})
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(report.Difference, `column "c", row 0: `), report.Difference)
		})
	}
}

func negativeZero() float64 { return math.Copysign(0, -1) }
