package columns_test

import (
	"math"
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

func TestAggregatesSkipNulls(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		forData(t, func(m maker, n int, what string) {
			for _, dtype := range numberTypes {
				host := m.small(dtype, n, -1)
				if arrow.IsUnsignedInteger(dtype.ID()) {
					host = m.small(dtype, n, 1)
				}
				var sum, count float64
				least, greatest := math.Inf(1), math.Inf(-1)
				for i := range n {
					if host.IsValid(i) {
						v := float64Of(t, host, i)
						sum, count, least, greatest = sum+v, count+1, min(least, v), max(greatest, v)
					}
				}
				there := on(t, dev, host)
				for _, c := range []struct {
					name string
					of   func(any, ...columns.AggregateOption) (scalar.Scalar, error)
					want float64
				}{{"Sum", columns.Sum, sum}, {"Mean", columns.Mean, sum / count}, {"Min", columns.Min, least}, {"Max", columns.Max, greatest}} {
					got, err := c.of(there)
					require.NoError(t, err)
					require.Equal(t, count > 0, got.IsValid(), "%s of %s, %s", c.name, dtype, what)
					if count > 0 {
						one, err := got.CastTo(arrow.PrimitiveTypes.Float64)
						require.NoError(t, err)
						require.InDelta(t, c.want, one.(*scalar.Float64).Value, 1e-12, "%s of %s, %s", c.name, dtype, what)
					}
					got, err = c.of(there, columns.MinCount(int64(count)+1))
					require.NoError(t, err)
					require.False(t, got.IsValid())
					got, err = c.of(there, columns.NullsWin())
					require.NoError(t, err)
					require.Equal(t, count > 0 && int(count) == n, got.IsValid())
				}
			}
		})
	})
}

func float64Of(t testing.TB, arr arrow.Array, i int) float64 {
	t.Helper()
	one, err := scalar.GetScalar(arr, i)
	require.NoError(t, err)
	one, err = one.CastTo(arrow.PrimitiveTypes.Float64)
	require.NoError(t, err)
	return one.(*scalar.Float64).Value
}

// The expected texts are those of pyarrow 26; where it has no such function, of float16
// and durations, they follow its rules for the wider types.
func TestAggregatesHaveArrowsTypes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range []struct {
			dtype                            arrow.DataType
			elements, sum, mean, least, most string
		}{
			{arrow.PrimitiveTypes.Int8, `[127, null, 127, -1]`, "int64 253", "float64 84.33333333333333", "int8 -1", "int8 127"},
			{arrow.PrimitiveTypes.Int64, `[9223372036854775807, 1]`, "int64 -9223372036854775808", "float64 4.611686018427388e+18", "int64 1", "int64 9223372036854775807"},
			{arrow.PrimitiveTypes.Uint32, `[4294967295, 1, null]`, "uint64 4294967296", "float64 2.147483648e+09", "uint32 1", "uint32 4294967295"},
			{arrow.FixedWidthTypes.Boolean, `[true, null, false, true]`, "uint64 2", "float64 0.6666666666666666", "bool false", "bool true"},
			{arrow.PrimitiveTypes.Float32, `[1.5, null, 2.5]`, "float64 4", "float64 2", "float32 1.5", "float32 2.5"},
			{arrow.FixedWidthTypes.Float16, `[1.5, null, 2.5]`, "float64 4", "float64 2", "float16 1.5", "float16 2.5"},
			{arrow.FixedWidthTypes.Duration_s, `[5, null, -7]`, "duration[s] -2s", "", "duration[s] -7s", "duration[s] 5s"},
			{arrow.FixedWidthTypes.Date32, `["2026-01-02", null, "2025-01-02"]`, "", "", "date32 2025-01-02", "date32 2026-01-02"},
			{&arrow.Decimal64Type{Precision: 9, Scale: 2}, `["1.20", null, "-3.00"]`, "", "", "", ""},
			{arrow.BinaryTypes.String, `["a"]`, "", "", "", ""},
			{&arrow.Decimal128Type{Precision: 9, Scale: 2}, `["1.20"]`, "", "", "", ""},
		} {
			there := jsonArray(t, dev, c.dtype, c.elements)
			for i, of := range []func(any, ...columns.AggregateOption) (scalar.Scalar, error){columns.Sum, columns.Mean, columns.Min, columns.Max} {
				want := []string{c.sum, c.mean, c.least, c.most}[i]
				got, err := of(there)
				if want == "" {
					require.ErrorIs(t, err, arrow.ErrNotImplemented, c.dtype)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, want, got.DataType().String()+" "+got.String())
			}
		}
	})
}

func TestMinAndMaxSkipNaNs(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		nan := math.NaN()
		for _, c := range []struct {
			values      []float64
			least, most float64
		}{{[]float64{nan, 1, 3, nan}, 1, 3}, {[]float64{nan, nan}, nan, nan}, {[]float64{nan, math.Inf(1)}, math.Inf(1), math.Inf(1)}} {
			b := array.NewFloat64Builder(memory.DefaultAllocator)
			b.AppendNull()
			b.AppendValues(c.values, nil)
			host := b.NewArray()
			b.Release()
			t.Cleanup(host.Release)
			there := on(t, dev, host)
			for i, of := range []func(any, ...columns.AggregateOption) (scalar.Scalar, error){columns.Min, columns.Max} {
				got, err := of(there)
				require.NoError(t, err)
				require.InDelta(t, []float64{c.least, c.most}[i], got.(*scalar.Float64).Value, 0)
			}
		}
		empty := jsonArray(t, dev, arrow.PrimitiveTypes.Int8, `[]`)
		sum, err := columns.Sum(empty, columns.MinCount(0))
		require.NoError(t, err)
		require.Equal(t, "0", sum.String())
		least, err := columns.Min(empty, columns.MinCount(0))
		require.NoError(t, err)
		require.False(t, least.IsValid())
	})
}
