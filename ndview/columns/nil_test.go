package columns_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/internal/apitest"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

func TestNilArgumentsReturnErrors(t *testing.T) {
	calls := map[string]func() error{}
	array := func(name string, f func() (arrow.Array, error)) {
		calls[name] = func() error { _, err := f(); return err }
	}
	batch := func(name string, f func() (arrow.RecordBatch, error)) {
		calls[name] = func() error { _, err := f(); return err }
	}
	array("CastIndices", func() (arrow.Array, error) { return columns.CastIndices(nil, nil) })
	array("CastOffsets", func() (arrow.Array, error) { return columns.CastOffsets(nil, nil) })
	array("Concatenate", func() (arrow.Array, error) { return columns.Concatenate(nil) })
	array("Decode", func() (arrow.Array, error) { return columns.Decode(nil) })
	array("Filter", func() (arrow.Array, error) { return columns.Filter(nil, nil) })
	array("Flatten", func() (arrow.Array, error) { return columns.Flatten(nil) })
	array("Take", func() (arrow.Array, error) { return columns.Take(nil, nil) })
	calls["Indices"] = func() error { return apitest.Harmless(func() { columns.Indices[int]() }) }
	batch("ConcatenateBatches", func() (arrow.RecordBatch, error) { return columns.ConcatenateBatches(nil) })
	batch("FilterBatch", func() (arrow.RecordBatch, error) { return columns.FilterBatch(nil, nil) })
	batch("FilterBy", func() (arrow.RecordBatch, error) { return columns.FilterBy(nil, columns.Expr{}) })
	batch("TakeBatch", func() (arrow.RecordBatch, error) { return columns.TakeBatch(nil, nil) })
	batch("With", func() (arrow.RecordBatch, error) { return columns.With(nil, "", columns.Expr{}) })

	for name, f := range map[string]func(x, y any) columns.Expr{
		"Add": columns.Add, "Subtract": columns.Subtract, "Multiply": columns.Multiply, "Divide": columns.Divide,
		"Equal": columns.Equal, "NotEqual": columns.NotEqual, "Less": columns.Less, "LessEqual": columns.LessEqual,
		"Greater": columns.Greater, "GreaterEqual": columns.GreaterEqual, "And": columns.And, "Or": columns.Or, "Xor": columns.Xor,
		"AndKleene": columns.AndKleene, "OrKleene": columns.OrKleene, "FillNull": columns.FillNull,
	} {
		array(name, func() (arrow.Array, error) { return f(nil, nil).Eval() })
	}
	for name, f := range map[string]func(x any) columns.Expr{
		"Negate": columns.Negate, "Abs": columns.Abs, "Not": columns.Not, "IsNull": columns.IsNull, "IsValid": columns.IsValid,
	} {
		array(name, func() (arrow.Array, error) { return f((*nilArray)(nil)).Eval() })
	}
	array("Where", func() (arrow.Array, error) { return columns.Where(nil, nil, nil).Eval() })
	array("Field", func() (arrow.Array, error) { return columns.Field("").Eval() })
	array("Expr.Eval", func() (arrow.Array, error) { return columns.Expr{}.Eval() })
	array("Expr.In", func() (arrow.Array, error) { return columns.Field("x").In(nil).Eval() })
	calls["Sum"] = func() error { _, err := columns.Sum(nil); return err }
	calls["Mean"] = func() error { _, err := columns.Mean(columns.Expr{}); return err }
	calls["Min"] = func() error { _, err := columns.Min(1); return err }
	calls["Max"] = func() error { _, err := columns.Max(nil, nil); return err }
	calls["Count"] = func() error { _, err := columns.Count(nil, columns.CountAll); return err }
	calls["MinCount"] = func() error { return apitest.Harmless(func() { columns.MinCount(0) }) }
	calls["NullsWin"] = func() error { return apitest.Harmless(func() { _ = columns.NullsWin() }) }
	apitest.NilSafe(t, ".", calls)
}

// Each argument is nil alone, beside live values of the others.
func TestEachNilArgumentReturnsAnError(t *testing.T) {
	numbers := array.NewInt64Builder(memory.DefaultAllocator)
	defer numbers.Release()
	numbers.AppendValues([]int64{0, 1}, nil)
	values := numbers.NewArray()
	defer values.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{values}, 2)
	defer batch.Release()
	functions := map[string]any{
		"CastIndices": columns.CastIndices, "CastOffsets": columns.CastOffsets, "Concatenate": columns.Concatenate, "ConcatenateBatches": columns.ConcatenateBatches,
		"Count": columns.Count, "Decode": columns.Decode, "Filter": columns.Filter, "FilterBatch": columns.FilterBatch, "FilterBy": columns.FilterBy,
		"Flatten": columns.Flatten, "Max": columns.Max, "Mean": columns.Mean, "Min": columns.Min, "Sum": columns.Sum, "Take": columns.Take,
		"TakeBatch": columns.TakeBatch, "With": columns.With,
	}
	names, err := apitest.Functions(".")
	require.NoError(t, err)
	for _, name := range names {
		if _, ok := functions[name]; !ok {
			functions[name] = nil // returns an Expr, which TestNilArgumentsReturnErrors evaluates
		}
	}
	apitest.Zeros{
		Functions: functions, Values: map[string]any{"Expr": columns.Field("x")}, Args: []any{values, batch, arrow.PrimitiveTypes.Int64, "x"},
	}.Run(t, ".")
}

// nilArray is an array type whose nil pointer must not be used.
type nilArray struct{ arrow.Array }
