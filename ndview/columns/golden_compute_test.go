package columns_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// goldenColumn is a column in columns.json.
type goldenColumn struct {
	dtype    string
	elements []*string
}

func (c *goldenColumn) UnmarshalJSON(raw []byte) error {
	return json.Unmarshal(raw, &[]any{&c.dtype, &c.elements})
}

// goldenTypes are the types of columns.json by pyarrow's names.
var goldenTypes = map[string]arrow.DataType{
	"int8": arrow.PrimitiveTypes.Int8, "int16": arrow.PrimitiveTypes.Int16, "int32": arrow.PrimitiveTypes.Int32, "int64": arrow.PrimitiveTypes.Int64,
	"uint8": arrow.PrimitiveTypes.Uint8, "uint16": arrow.PrimitiveTypes.Uint16, "uint32": arrow.PrimitiveTypes.Uint32, "uint64": arrow.PrimitiveTypes.Uint64,
	"float": arrow.PrimitiveTypes.Float32, "double": arrow.PrimitiveTypes.Float64, "bool": arrow.FixedWidthTypes.Boolean,
	"date32[day]": arrow.FixedWidthTypes.Date32, "date64[ms]": arrow.FixedWidthTypes.Date64,
	"time32[s]": arrow.FixedWidthTypes.Time32s, "time32[ms]": arrow.FixedWidthTypes.Time32ms,
	"time64[us]": arrow.FixedWidthTypes.Time64us, "time64[ns]": arrow.FixedWidthTypes.Time64ns,
	"timestamp[s]": &arrow.TimestampType{Unit: arrow.Second}, "timestamp[ms]": &arrow.TimestampType{Unit: arrow.Millisecond},
	"timestamp[us]": &arrow.TimestampType{Unit: arrow.Microsecond}, "timestamp[ns]": &arrow.TimestampType{Unit: arrow.Nanosecond},
	"duration[s]": arrow.FixedWidthTypes.Duration_s, "duration[ms]": arrow.FixedWidthTypes.Duration_ms,
	"duration[us]": arrow.FixedWidthTypes.Duration_us, "duration[ns]": arrow.FixedWidthTypes.Duration_ns,
}

// array returns the column after skip other elements, of which its buffers have bytes.
func (c goldenColumn) array(t *testing.T, skip int) arrow.Array {
	t.Helper()
	dtype := goldenTypes[c.dtype]
	require.NotNil(t, dtype, c.dtype)
	as := dtype
	switch dtype.ID() {
	case arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		if as = arrow.PrimitiveTypes.Int64; dtype.(arrow.FixedWidthDataType).Bytes() == 4 {
			as = arrow.PrimitiveTypes.Int32
		}
	}
	b := array.NewBuilder(memory.DefaultAllocator, as)
	defer b.Release()
	b.AppendNulls(skip)
	for _, text := range c.elements {
		if text == nil {
			b.AppendNull()
			continue
		}
		appendGolden(t, b, *text)
	}
	arr := b.NewArray()
	defer arr.Release()
	data := array.NewData(dtype, arr.Len()-skip, arr.Data().Buffers(), nil, array.UnknownNullCount, skip)
	defer data.Release()
	part := array.MakeFromData(data)
	t.Cleanup(part.Release)
	return part
}

func appendGolden(t *testing.T, b array.Builder, text string) {
	t.Helper()
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(text == "True")
	case *array.Float32Builder:
		v, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		b.Append(float32(v))
	case *array.Uint64Builder:
		v, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		b.Append(v)
	default:
		require.NoError(t, b.AppendValueFromString(text))
	}
}

func readGolden(t *testing.T) (golden struct {
	Cases, Aggregates []json.RawMessage
}) {
	t.Helper()
	raw, err := os.ReadFile("../testdata/golden/columns.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &golden))
	require.Greater(t, len(golden.Cases), 150)
	require.Greater(t, len(golden.Aggregates), 300)
	return golden
}

// goldenFunctions are functions by pyarrow's names, of all arrays of a case.
var goldenFunctions = map[string]func(in []any) columns.Expr{
	"negate": func(in []any) columns.Expr { return columns.Negate(in[0]) }, "abs": func(in []any) columns.Expr { return columns.Abs(in[0]) },
	"invert":  func(in []any) columns.Expr { return columns.Not(in[0]) },
	"if_else": func(in []any) columns.Expr { return columns.Where(in[0], in[1], in[2]) },
}

func TestFunctionsMatchPyArrow(t *testing.T) {
	golden := readGolden(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, raw := range golden.Cases {
			var name string
			var in []goldenColumn
			var want goldenColumn
			require.NoError(t, json.Unmarshal(raw, &[]any{&name, &in, &want}))
			operands := make([]any, len(in))
			what := name
			for j, c := range in {
				operands[j] = on(t, dev, c.array(t, (i+3*j)%11))
				what += " " + c.dtype
			}
			f := goldenFunctions[name]
			if f == nil {
				if name == "and_" || name == "or_" {
					name = name[:len(name)-1]
				}
				require.NotNil(t, binaries[name], name)
				f = func(in []any) columns.Expr { return binaries[name](in[0], in[1]) }
			}
			requireColumn(t, dev, want.array(t, 0), f(operands), fmt.Sprint("case ", i, ": ", what))
		}
	})
}

func TestAggregatesMatchPyArrow(t *testing.T) {
	golden := readGolden(t)
	functions := map[string]func(any, ...columns.AggregateOption) (scalar.Scalar, error){
		"sum": columns.Sum, "mean": columns.Mean, "min": columns.Min, "max": columns.Max,
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, raw := range golden.Aggregates {
			var name string
			var in, want goldenColumn
			var skip bool
			var least int64
			require.NoError(t, json.Unmarshal(raw, &[]any{&name, &in, &[]any{&skip, &least}, &want}))
			options := []columns.AggregateOption{columns.MinCount(least)}
			if !skip {
				options = append(options, columns.NullsWin())
			}
			what := fmt.Sprint("case ", i, ": ", name, " of ", in.dtype)
			got, err := functions[name](on(t, dev, in.array(t, i%11)), options...)
			require.NoError(t, err, what)
			expected, err := scalar.GetScalar(want.array(t, 0), 0)
			require.NoError(t, err)
			if name == "mean" && (in.dtype == "int64" || in.dtype == "uint64") {
				continue // Arrow's sum wraps around first; TestAggregatesHaveArrowsTypes has the exact ones
			}
			requireScalar(t, expected, got, what)
		}
	})
}

func requireScalar(t *testing.T, want, got scalar.Scalar, what string) {
	t.Helper()
	require.True(t, arrow.TypeEqual(want.DataType(), got.DataType()), "%s: got %s, want %s", what, got.DataType(), want.DataType())
	w, isFloat := want.(*scalar.Float64)
	if !isFloat || !want.IsValid() || !got.IsValid() || math.IsInf(w.Value, 0) || math.IsNaN(w.Value) {
		require.True(t, scalar.ApproxEquals(want, got, scalar.WithNaNsEqual(true)), "%s: got %s, want %s", what, got, want)
		return
	}
	require.InDelta(t, w.Value, got.(*scalar.Float64).Value, 1e-13*math.Abs(w.Value), what)
}
