package columns_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

var numberTypes = []arrow.DataType{
	arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
	arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
	arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
}

var timeTypes = []arrow.DataType{
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us,
	arrow.FixedWidthTypes.Timestamp_us, &arrow.TimestampType{Unit: arrow.Second}, arrow.FixedWidthTypes.Duration_ms,
}

// small returns n elements of a type with values from 0 to 4, or from least on.
func (m maker) small(dtype arrow.DataType, n int, least int) arrow.Array {
	m.t.Helper()
	whole := n + m.rng.IntN(30)
	values := m.below(whole, 5)
	for i := range values {
		values[i] += least
	}
	as, width := dtype, dtype.(arrow.FixedWidthDataType).Bytes()
	if arrow.IsFloating(dtype.ID()) {
		as, width = arrow.PrimitiveTypes.Int8, 1
	}
	nulls, valid := 0, (*memory.Buffer)(nil)
	if m.nulls {
		nulls, valid = array.UnknownNullCount, m.bitmap(whole)
	}
	data := array.NewData(as, whole, []*memory.Buffer{valid, integers(width, values)}, nil, nulls, 0)
	defer data.Release()
	arr := array.MakeFromData(data)
	defer arr.Release()
	if as != dtype {
		cast, err := compute.CastArray(context.Background(), arr, compute.UnsafeCastOptions(dtype))
		require.NoError(m.t, err)
		defer cast.Release()
		arr = cast
	}
	part := array.NewSlice(arr, int64(whole-n), int64(whole))
	m.t.Cleanup(part.Release)
	return part
}

// arrowGo calls a function of arrow-go's package compute. Arithmetic without a suffix is
// checked there.
func arrowGo(t testing.TB, name string, arrays ...arrow.Array) arrow.Array {
	t.Helper()
	switch name {
	case "add", "subtract", "multiply", "divide":
		name += "_unchecked"
	}
	in := make([]compute.Datum, len(arrays))
	for i, arr := range arrays {
		in[i] = compute.NewDatumWithoutOwning(arr)
	}
	out, err := compute.CallFunction(context.Background(), name, nil, in...)
	require.NoError(t, err, name)
	defer out.Release()
	arr := out.(*compute.ArrayDatum).MakeArray()
	t.Cleanup(arr.Release)
	return arr
}

// requireColumn requires that an expression has the elements of an array.
func requireColumn(t testing.TB, dev arrowbuf.Device, want arrow.Array, e columns.Expr, what string) {
	t.Helper()
	got, err := e.Eval()
	host := toHost(t, dev, got, err)
	require.True(t, arrow.TypeEqual(want.DataType(), host.DataType()), "%s: got type %s, want %s", what, host.DataType(), want.DataType())
	require.Equal(t, want.Len(), host.Len(), what)
	require.True(t, array.ApproxEqual(want, host, array.WithNaNsEqual(true), array.WithAbsTolerance(0)), "%s: got %v, want %v", what, host, want)
}

// forData calls a function for data of several lengths, with and without nulls.
func forData(t *testing.T, f func(m maker, n int, what string)) {
	for i, n := range []int{0, 1, 7, 8, 65, 300} {
		for _, nulls := range []bool{false, true} {
			f(newMaker(t, 100+i, nulls), n, fmt.Sprintf("%d elements, nulls %v", n, nulls))
		}
	}
}

var binaries = map[string]func(x, y any) columns.Expr{
	"add": columns.Add, "subtract": columns.Subtract, "multiply": columns.Multiply, "divide": columns.Divide,
	"equal": columns.Equal, "not_equal": columns.NotEqual, "less": columns.Less, "less_equal": columns.LessEqual,
	"greater": columns.Greater, "greater_equal": columns.GreaterEqual,
	"and": columns.And, "or": columns.Or, "xor": columns.Xor, "and_kleene": columns.AndKleene, "or_kleene": columns.OrKleene,
}

func TestArithmeticAndComparisonsMatchArrowGo(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		forData(t, func(m maker, n int, what string) {
			for _, dtype := range numberTypes {
				x, y := m.small(dtype, n, 0), m.small(dtype, n, 1)
				for _, name := range []string{"add", "subtract", "multiply", "divide", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"} {
					requireColumn(t, dev, arrowGo(t, name, x, y), binaries[name](on(t, dev, x), on(t, dev, y)), fmt.Sprint(name, " of ", dtype, ", ", what))
				}
			}
			for _, dtype := range timeTypes {
				x, y := m.small(dtype, n, 0), m.small(dtype, n, 1)
				for _, name := range []string{"subtract", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"} {
					requireColumn(t, dev, arrowGo(t, name, x, y), binaries[name](on(t, dev, x), on(t, dev, y)), fmt.Sprint(name, " of ", dtype, ", ", what))
				}
			}
		})
	})
}

// Times of mixed units are left to pyarrow: arrow-go changes the unit of the shared
// arrow.FixedWidthTypes.
func TestArithmeticOfMixedTypesMatchesArrowGo(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		m := newMaker(t, 5, true)
		for _, xt := range numberTypes {
			for _, yt := range numberTypes {
				x, y := m.small(xt, 77, 0), m.small(yt, 77, 1)
				for _, name := range []string{"add", "less"} {
					requireColumn(t, dev, arrowGo(t, name, x, y), binaries[name](on(t, dev, x), on(t, dev, y)), fmt.Sprint(name, xt, yt))
				}
			}
		}
	})
}

func TestKleeneAndPlainLogicMatchArrowGo(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		forData(t, func(m maker, n int, what string) {
			bool := arrow.FixedWidthTypes.Boolean
			x, full := m.array(bool, n, true), newMaker(t, n, false).array(bool, n, false)
			for _, y := range []arrow.Array{m.array(bool, n, true), full} {
				for _, name := range []string{"and", "or", "xor", "and_kleene", "or_kleene"} {
					requireColumn(t, dev, arrowGo(t, name, x, y), binaries[name](on(t, dev, x), on(t, dev, y)), name+", "+what)
				}
			}
			trues, err := columns.IsNull(array.NewNull(n)).Eval()
			require.NoError(t, err)
			defer trues.Release()
			requireColumn(t, dev, arrowGo(t, "xor", x, trues), columns.Not(on(t, dev, x)), "not, "+what)
		})
	})
}

func TestIsNullAndFillNullOfAllTypes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types {
			for seed := range 3 {
				m := newMaker(t, seed, seed > 0)
				arr := m.array(dtype, []int{0, 9, 130}[m.rng.IntN(3)], seed == 2)
				there := on(t, dev, arr)
				if id := storage(dtype).ID(); id == arrow.SPARSE_UNION || id == arrow.DENSE_UNION || id == arrow.RUN_END_ENCODED {
					_, err := columns.IsNull(there).Eval()
					require.ErrorIs(t, err, arrow.ErrNotImplemented)
					continue
				}
				b := array.NewBooleanBuilder(memory.DefaultAllocator)
				for i := range arr.Len() {
					b.Append(isNull(arr, i))
				}
				want := b.NewArray()
				b.Release()
				defer want.Release()
				requireColumn(t, dev, want, columns.IsNull(there), "is_null of "+dtype.String())
				requireColumn(t, dev, want, columns.Not(columns.IsValid(there)), "is_valid of "+dtype.String())
				nulls := int64(0)
				for i := range want.Len() {
					if want.(*array.Boolean).Value(i) {
						nulls++
					}
				}
				for mode, count := range map[columns.CountMode]int64{columns.CountNull: nulls, columns.CountValid: int64(arr.Len()) - nulls, columns.CountAll: int64(arr.Len())} {
					got, err := columns.Count(there, mode)
					require.NoError(t, err)
					require.Equal(t, count, got, "%s, mode %d", dtype, mode)
				}
				if filled, err := columns.FillNull(there, there).Eval(); err == nil {
					filled.Release()
					other := m.array(dtype, arr.Len(), true)
					got, err := columns.FillNull(there, on(t, dev, other)).Eval()
					host := toHost(t, dev, got, err)
					for i := range arr.Len() {
						if isNull(arr, i) {
							require.True(t, same(other, i, host, i), dtype)
						} else {
							require.True(t, same(arr, i, host, i), dtype)
						}
					}
				} else {
					require.ErrorIs(t, err, arrow.ErrNotImplemented)
					require.ErrorContains(t, err, "columns.FillNull: ")
				}
			}
		}
	})
}

func storage(t arrow.DataType) arrow.DataType {
	if ext, ok := t.(arrow.ExtensionType); ok {
		return ext.StorageType()
	}
	return t
}

func TestWhereChoosesElements(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		forData(t, func(m maker, n int, what string) {
			for _, dtype := range []arrow.DataType{arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.FixedWidthTypes.Float16,
				arrow.PrimitiveTypes.Int32, arrow.FixedWidthTypes.Timestamp_us, &arrow.Decimal128Type{Precision: 38, Scale: 5}} {
				c, x, y := m.array(arrow.FixedWidthTypes.Boolean, n, true), m.array(dtype, n, true), m.array(dtype, n, false)
				got, err := columns.Where(on(t, dev, c), on(t, dev, x), on(t, dev, y)).Eval()
				host := toHost(t, dev, got, err)
				for i := range n {
					want := y
					if c.(*array.Boolean).Value(i) {
						want = x
					}
					if c.IsNull(i) || want.IsNull(i) {
						require.True(t, host.IsNull(i), "%s, %s, element %d", dtype, what, i)
						continue
					}
					require.True(t, same(want, i, host, i), "%s, %s, element %d", dtype, what, i)
				}
			}
		})
	})
}

func jsonArray(t testing.TB, dev arrowbuf.Device, dtype arrow.DataType, text string) arrow.Array {
	t.Helper()
	arr := hostArray(t, dtype, text)
	return on(t, dev, arr)
}

// requireJSON requires the result of an expression.
func requireJSON(t testing.TB, dev arrowbuf.Device, dtype arrow.DataType, want string, e columns.Expr) {
	t.Helper()
	requireColumn(t, dev, hostArray(t, dtype, want), e, want)
}

func TestLiteralsTakeTheTypeOfTheColumn(t *testing.T) {
	int8s, float32s, float64s, bools := arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Boolean
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		x, f := jsonArray(t, dev, int8s, `[1, null, -3]`), jsonArray(t, dev, float32s, `[1.5, null, -3]`)
		requireJSON(t, dev, int8s, `[3, null, -1]`, columns.Add(x, 2))
		requireJSON(t, dev, float64s, `[1.5, null, -2.5]`, columns.Add(x, 0.5))
		requireJSON(t, dev, float32s, `[2, null, -2.5]`, columns.Add(0.5, f))
		requireJSON(t, dev, float32s, `[2.5, null, -2]`, columns.Add(f, 1))
		requireJSON(t, dev, arrow.PrimitiveTypes.Int32, `[3, null, -1]`, columns.Add(x, int32(2)))
		halves := jsonArray(t, dev, arrow.FixedWidthTypes.Float16, `[1.5, null, -3]`)
		requireJSON(t, dev, arrow.FixedWidthTypes.Float16, `[2, null, -2.5]`, columns.Add(halves, 0.5))
		requireJSON(t, dev, bools, `[true, null, false]`, columns.Greater(halves, x))
		requireJSON(t, dev, arrow.PrimitiveTypes.Int16, `[3, null, -1]`, columns.Add(x, scalar.NewInt16Scalar(2)))
		requireJSON(t, dev, int8s, `[null, null, null]`, columns.Add(x, scalar.MakeNullScalar(int8s)))
		requireJSON(t, dev, bools, `[true, null, true]`, columns.Less(x, 1000))
		requireJSON(t, dev, int8s, `[1, 9, -3]`, columns.FillNull(x, 9))
		requireJSON(t, dev, bools, `[false, null, true]`, columns.AndKleene(columns.Less(x, 0), true))
		requireJSON(t, dev, bools, `[false, false, false]`, columns.AndKleene(columns.Less(x, 0), false))
		requireJSON(t, dev, bools, `[null, null, null]`, columns.Or(columns.Less(x, 0), scalar.MakeNullScalar(bools)))
		requireJSON(t, dev, arrow.PrimitiveTypes.Int64, `[0, null, 1]`, columns.Where(columns.Less(x, 0), 1, 0))
		_, err := columns.Add(x, 1000).Eval()
		require.ErrorIs(t, err, ndview.ErrRange)
		_, err = columns.Add(x, true).Eval()
		require.ErrorContains(t, err, "columns.Add: operands are int8 and the Go value true")

		times := jsonArray(t, dev, arrow.FixedWidthTypes.Timestamp_ms, `["2026-01-01T00:00:00.001Z", null, "2027-01-01T00:00:00Z"]`)
		requireJSON(t, dev, bools, `[true, null, false]`, columns.Less(times, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)))
		requireJSON(t, dev, arrow.FixedWidthTypes.Timestamp_ms, `["2026-01-01T01:00:00.001Z", null, "2027-01-01T01:00:00Z"]`, columns.Add(times, time.Hour))
		_, err = columns.Add(times, time.Microsecond).Eval()
		require.ErrorIs(t, err, ndview.ErrRange)
		_, err = columns.Less(times, jsonArray(t, dev, &arrow.TimestampType{Unit: arrow.Second}, `[null, null, null]`)).Eval()
		require.ErrorContains(t, err, "with and without a time zone")
	})
}

func TestIntegerDivision(t *testing.T) {
	int8s := arrow.PrimitiveTypes.Int8
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		x, y := jsonArray(t, dev, int8s, `[-7, 7, -128, null, 5]`), jsonArray(t, dev, int8s, `[2, -2, -1, 0, null]`)
		requireJSON(t, dev, int8s, `[-3, -3, 0, null, null]`, columns.Divide(x, y))
		requireJSON(t, dev, int8s, `[7, -7, 0, null, -5]`, columns.Divide(x, -1))
		_, err := columns.Divide(x, 0).Eval()
		require.ErrorIs(t, err, columns.ErrDivideByZero)
		_, err = columns.Divide(x, jsonArray(t, dev, int8s, `[1, 0, 1, 1, 1]`)).Eval()
		require.ErrorIs(t, err, columns.ErrDivideByZero)
		none := jsonArray(t, dev, int8s, `[null, null]`)
		requireJSON(t, dev, int8s, `[null, null]`, columns.Divide(none, 0))
		requireJSON(t, dev, int8s, `[127, -127, 1]`, columns.Negate(jsonArray(t, dev, int8s, `[-127, 127, -1]`)))
		requireJSON(t, dev, int8s, `[7, 7, -128, null, 5]`, columns.Abs(x))
		durations := jsonArray(t, dev, arrow.FixedWidthTypes.Duration_s, `[7, -7, null]`)
		requireJSON(t, dev, arrow.FixedWidthTypes.Duration_s, `[3, -3, null]`, columns.Divide(durations, 2))
		requireJSON(t, dev, arrow.FixedWidthTypes.Duration_s, `[14, -14, null]`, columns.Multiply(2, durations))
	})
}

func TestDecimalsCompare(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range []arrow.DataType{&arrow.Decimal32Type{Precision: 9, Scale: 2}, &arrow.Decimal64Type{Precision: 18, Scale: 2}, &arrow.Decimal128Type{Precision: 38, Scale: 2}} {
			x := jsonArray(t, dev, dtype, `["1.25", "-1.25", null, "0.00", "1.24"]`)
			y := jsonArray(t, dev, dtype, `["1.25", "1.25", "1.25", "-0.01", "1.25"]`)
			requireJSON(t, dev, arrow.FixedWidthTypes.Boolean, `[true, false, null, false, false]`, columns.Equal(x, y))
			requireJSON(t, dev, arrow.FixedWidthTypes.Boolean, `[false, true, null, false, true]`, columns.Less(x, y))
			requireJSON(t, dev, arrow.FixedWidthTypes.Boolean, `[true, false, null, true, false]`, columns.GreaterEqual(x, y))
			_, err := columns.Add(x, y).Eval()
			require.ErrorIs(t, err, arrow.ErrNotImplemented)
		}
	})
}

func TestRecordBatchKeepsOrderAndMetadata(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		meta := arrow.NewMetadata([]string{"of"}, []string{"sales"})
		schema := arrow.NewSchema([]arrow.Field{
			{Name: "price", Type: arrow.PrimitiveTypes.Float64, Nullable: true, Metadata: meta},
			{Name: "quantity", Type: arrow.PrimitiveTypes.Int32}, {Name: "name", Type: arrow.BinaryTypes.String},
		}, &meta)
		host := array.NewRecordBatch(schema, []arrow.Array{
			hostArray(t, arrow.PrimitiveTypes.Float64, `[1.5, null, 3]`), hostArray(t, arrow.PrimitiveTypes.Int32, `[2, 3, 4]`),
			hostArray(t, arrow.BinaryTypes.String, `["a", "b", "c"]`),
		}, 3)
		defer host.Release()
		batch, err := arrowbuf.CopyTo(host, dev)
		require.NoError(t, err)
		defer batch.Release()

		total := columns.Multiply(columns.Field("price"), columns.Field("quantity"))
		added, err := columns.With(batch, "total", total)
		require.NoError(t, err)
		defer added.Release()
		require.Equal(t, "price quantity name total", fieldNames(added))
		require.True(t, added.Schema().Metadata().Equal(meta))
		requireJSON(t, dev, arrow.PrimitiveTypes.Float64, `[3, null, 12]`, columns.Field("total").In(added))

		replaced, err := columns.With(added, "price", columns.Add(columns.Field("quantity"), 1))
		require.NoError(t, err)
		defer replaced.Release()
		require.Equal(t, "price quantity name total", fieldNames(replaced))
		require.True(t, replaced.Schema().Field(0).Metadata.Equal(meta))
		requireJSON(t, dev, arrow.PrimitiveTypes.Int32, `[3, 4, 5]`, columns.Field("price").In(replaced))

		kept, err := columns.FilterBy(added, columns.Greater(columns.Field("total"), 2))
		require.NoError(t, err)
		defer kept.Release()
		requireJSON(t, dev, arrow.BinaryTypes.String, `["a", "c"]`, columns.Field("name").In(kept))

		_, err = columns.With(batch, "total", columns.Multiply(columns.Field("name"), 2))
		require.ErrorContains(t, err, `columns.Multiply: operands are column "name" of type utf8 and the Go value 2`)
		_, err = columns.With(batch, "total", columns.Field("prize"))
		require.ErrorContains(t, err, `0 columns "prize", want 1`)
		_, err = columns.Field("price").Eval()
		require.ErrorContains(t, err, `field "price" of no record batch`)
		_, err = columns.Add(batch.Column(0), jsonArray(t, dev, arrow.PrimitiveTypes.Float64, `[1]`)).Eval()
		require.ErrorContains(t, err, "arrays of 3 and 1 elements")
	})
}

func fieldNames(batch arrow.RecordBatch) string {
	names := ""
	for i, f := range batch.Schema().Fields() {
		if i > 0 {
			names += " "
		}
		names += f.Name
	}
	return names
}

func hostArray(t testing.TB, dtype arrow.DataType, text string) arrow.Array {
	t.Helper()
	arr := fromJSON(t, dtype, text)
	t.Cleanup(arr.Release)
	return arr
}

func fromJSON(t testing.TB, dtype arrow.DataType, text string) arrow.Array {
	t.Helper()
	arr, _, err := array.FromJSON(memory.DefaultAllocator, dtype, strings.NewReader(text))
	require.NoError(t, err)
	return arr
}

func TestHostArraysAreCopiedToTheDeviceOfTheOthers(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		there, host := jsonArray(t, dev, arrow.PrimitiveTypes.Int8, `[1, null, 3]`), hostArray(t, arrow.PrimitiveTypes.Int8, `[null, 1, 1]`)
		got, err := columns.Add(host, there).Eval()
		require.NoError(t, err)
		defer got.Release()
		require.Equal(t, dev, arrowbuf.DeviceOf(got))
		requireJSON(t, dev, arrow.PrimitiveTypes.Int8, `[null, null, 4]`, columns.Add(host, there))
		requireJSON(t, dev, arrow.PrimitiveTypes.Int8, `[1, 1, 3]`, columns.FillNull(there, host))
	})
}

func TestResultsOutliveTheirOperands(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
		host, _, err := array.FromJSON(mem, arrow.PrimitiveTypes.Int64, strings.NewReader(`[1, null, 3]`))
		require.NoError(t, err)
		there, err := arrowbuf.CopyArrayTo(host, dev)
		require.NoError(t, err)
		host.Release()
		sum, err := columns.Add(there, there).Eval()
		require.NoError(t, err)
		valid, err := columns.IsValid(there).Eval()
		require.NoError(t, err)
		there.Release()
		requireJSON(t, dev, arrow.PrimitiveTypes.Int64, `[2, null, 6]`, columns.Add(sum, 0))
		requireJSON(t, dev, arrow.FixedWidthTypes.Boolean, `[true, false, true]`, columns.Not(columns.Not(valid)))
		sum.Release()
		valid.Release()
		mem.AssertSize(t, 0)
	})
}
