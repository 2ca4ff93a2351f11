package docs

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/columns"
)

// evaluate returns the function of an expression that evaluates it and drops the result.
func evaluate(e func(x arrow.Array) columns.Expr) func(x arrow.Array) error {
	return func(x arrow.Array) error {
		result, err := e(x).Eval()
		if err == nil {
			result.Release()
		}
		return err
	}
}

func unary(f func(x any) columns.Expr) func(arrow.Array) error {
	return evaluate(func(x arrow.Array) columns.Expr { return f(x) })
}

func binary(f func(x, y any) columns.Expr) func(arrow.Array) error {
	return evaluate(func(x arrow.Array) columns.Expr { return f(x, x) })
}

func reduction[S any](f func(x any, options ...columns.AggregateOption) (S, error)) func(arrow.Array) error {
	return func(x arrow.Array) error { _, err := f(x); return err }
}

var columnFunctions = map[string]func(x arrow.Array) error{
	"Add": binary(columns.Add), "Subtract": binary(columns.Subtract), "Multiply": binary(columns.Multiply), "Divide": binary(columns.Divide),
	"Negate": unary(columns.Negate), "Abs": unary(columns.Abs),
	"Equal": binary(columns.Equal), "NotEqual": binary(columns.NotEqual), "Less": binary(columns.Less), "LessEqual": binary(columns.LessEqual),
	"Greater": binary(columns.Greater), "GreaterEqual": binary(columns.GreaterEqual),
	"And": binary(columns.And), "Or": binary(columns.Or), "Xor": binary(columns.Xor), "Not": unary(columns.Not),
	"AndKleene": binary(columns.AndKleene), "OrKleene": binary(columns.OrKleene),
	"IsNull": unary(columns.IsNull), "IsValid": unary(columns.IsValid),
	"Count":    func(x arrow.Array) error { _, err := columns.Count(x, columns.CountValid); return err },
	"FillNull": binary(columns.FillNull),
	"Where":    evaluate(func(x arrow.Array) columns.Expr { return columns.Where(columns.IsNull(x), x, x) }),
	"Sum":      reduction(columns.Sum), "Mean": reduction(columns.Mean), "Min": reduction(columns.Min), "Max": reduction(columns.Max),
}

// columnTypes are types by the words of the table.
var columnTypes = map[string][]arrow.DataType{
	"numbers": {arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Int64,
		arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64},
	"bools":     {arrow.FixedWidthTypes.Boolean},
	"durations": {arrow.FixedWidthTypes.Duration_ms},
	"times": {arrow.FixedWidthTypes.Timestamp_us, arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64, arrow.FixedWidthTypes.Time32s,
		arrow.FixedWidthTypes.Time64ns},
	"decimals":      {&arrow.Decimal32Type{Precision: 5}, &arrow.Decimal64Type{Precision: 15}, &arrow.Decimal128Type{Precision: 30}},
	"fixed widths":  {&arrow.FixedSizeBinaryType{ByteWidth: 4}, arrow.FixedWidthTypes.DayTimeInterval},
	"other columns": {&arrow.Decimal256Type{Precision: 60}, &arrow.FixedSizeBinaryType{ByteWidth: 3}, arrow.BinaryTypes.String, arrow.ListOf(arrow.PrimitiveTypes.Int8), arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int8})},
	"unions":        {arrow.SparseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8, Nullable: true}}, []arrow.UnionTypeCode{0})},
	"run ends":      {arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int8)},
}

// columnCells are the types that a cell of the table stands for. "" leaves a row to the
// tests of the package, because the types of two operands depend on each other.
var columnCells = map[string][]string{
	"numbers; timestamps, times of day and durations; differences of dates": {"numbers"},
	"numbers, durations": {"numbers", "durations"},
	"numbers, bools, times; decimals of up to 128 bits of one type": {"numbers", "bools", "times", "durations", "decimals"},
	"bool":                               {"bools"},
	"all but unions and run_end_encoded": {"numbers", "bools", "times", "durations", "decimals", "fixed widths", "other columns"},
	"bool, and fixed widths of 1, 2, 4, 8 and 16 bytes": {"numbers", "bools", "times", "durations", "decimals", "fixed widths"},
	"numbers, bools, durations":                         {"numbers", "bools", "durations"},
	"numbers, bools":                                    {"numbers", "bools"},
	"numbers, bools, times":                             {"numbers", "bools", "times", "durations"},
}

// The table of column functions says which types each takes.
func TestColumnFunctionsTakeTheTypesOfTheTable(t *testing.T) {
	text, err := os.ReadFile("columns.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "| functions | types | nulls |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var listed []string
	for _, row := range strings.Split(table, "\n") {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		require.Len(t, cells, 3, row)
		taken, ok := columnCells[cells[1]]
		require.True(t, ok, "unknown types: %s", cells[1])
		for name := range strings.SplitSeq(cells[0], ", ") {
			listed = append(listed, name)
			call, ok := columnFunctions[name]
			require.True(t, ok, "unknown function: %s", name)
			for word, types := range columnTypes {
				if name == "Add" || name == "Subtract" || name == "Multiply" || name == "Divide" {
					if word == "times" || word == "durations" {
						continue // depends on the other operand
					}
				}
				for _, dtype := range types {
					x := array.MakeArrayOfNull(memory.DefaultAllocator, dtype, 3)
					err := call(x)
					x.Release()
					if slices.Contains(taken, word) {
						assert.NoError(t, err, "%s of %s", name, dtype)
					} else {
						assert.Error(t, err, "%s of %s", name, dtype)
					}
				}
			}
		}
	}
	assert.Len(t, listed, len(columnFunctions))
}
