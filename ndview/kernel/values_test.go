package kernel_test

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

// checkSumOf checks res = a + s over arrays with gaps, reversed and broadcast, and the
// sum of each row.
func checkSumOf[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 | complex64 | complex128](dtype ndview.DType, s any) func(*testing.T, arrowbuf.Device) {
	return func(t *testing.T, dev arrowbuf.Device) {
		plus := kernel.ElementwiseSource{Code: "res = a + b + s", Host: func(res, a, b []T, s T) {
			for i := range res {
				res[i] = a[i] + b[i] + s
			}
		}}
		k, err := kernel.NewElementwise(dev, plus, writes("res", dtype), reads("a", dtype), reads("b", dtype), scalar("s", dtype))
		require.NoError(t, err)
		const rows, columns = 7, 301
		values := make([]T, rows*2*columns)
		for i := range values {
			values[i] = float32ToElement[T](i % 100)
		}
		wide := ndtest.FromHost(t, dev, dtype, values, rows, 2*columns)
		a := ndtest.View(t)(wide.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1), ndview.SpanStep(ndview.Open, ndview.Open, 2)))
		b := ndtest.FromHost(t, dev, dtype, values[:rows], rows, 1)
		made, err := ndview.Zeros(dev, dtype, columns, rows)
		res := ndtest.View(t)(ndtest.Own(t, made, err).Transpose())
		require.NoError(t, k.Run(res, a, b, s))
		got, three := ndtest.HostOf[T](t, res), float32ToElement[T](3)
		sums := make([]T, rows)
		for row := range rows {
			for column := range columns {
				element := values[(rows-1-row)*2*columns+2*column]
				require.Equal(t, element+values[row]+three, got[row*columns+column], "row %d, column %d", row, column)
				sums[row] += element
			}
		}
		r, err := kernel.NewReduction(dev, kernel.ReductionSource{Out: dtype, Neutral: "zero()", Reduce: "a + b", Preamble: zeroOf(dtype),
			Host: kernel.NewHostReduction(float32ToElement[T](0), func(a, b T) T { return a + b }, nil)}, reads("x", dtype))
		require.NoError(t, err)
		sum, err := r.Of([]int{1}, true, a)
		ndtest.Own(t, sum, err)
		assert.Equal(t, []int64{rows, 1}, sum.Shape())
		assert.Equal(t, sums, ndtest.HostOf[T](t, sum), "values are integers, which floats add without rounding")
		total, err := r.Of(nil, false, a)
		ndtest.Own(t, total, err)
		for _, v := range sums[1:] {
			sums[0] += v
		}
		assert.Equal(t, sums[:1], ndtest.HostOf[T](t, total))
		none, err := r.Of([]int{0}, false, ndtest.View(t)(a.Index(ndview.Span(0, 0))))
		ndtest.Own(t, none, err)
		assert.Equal(t, make([]T, columns), ndtest.HostOf[T](t, none))
	}
}

// float32ToElement returns a small integer as a number of any type.
func float32ToElement[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 | complex64 | complex128](i int) (v T) {
	switch p := any(&v).(type) {
	case *int8:
		*p = int8(i)
	case *int16:
		*p = int16(i)
	case *int32:
		*p = int32(i)
	case *int64:
		*p = int64(i)
	case *uint8:
		*p = uint8(i)
	case *uint16:
		*p = uint16(i)
	case *uint32:
		*p = uint32(i)
	case *uint64:
		*p = uint64(i)
	case *float32:
		*p = float32(i)
	case *float64:
		*p = float64(i)
	case *complex64:
		*p = complex(float32(i), float32(i%7))
	case *complex128:
		*p = complex(float64(i), float64(i%7))
	}
	return v
}

// zeroOf returns the C++ of zero as a variable of a dtype.
func zeroOf(dtype ndview.DType) string {
	switch dtype {
	case ndview.Complex64:
		return "static __device__ quiver_complex<float> zero() { return {0, 0}; }"
	case ndview.Complex128:
		return "static __device__ quiver_complex<double> zero() { return {0, 0}; }"
	}
	return "static __device__ int zero() { return 0; }"
}

func TestKernelsComputeEveryDType(t *testing.T) {
	for name, test := range map[string]func(*testing.T, arrowbuf.Device){
		"int8":        checkSumOf[int8](ndview.Int8, 3),
		"int16":       checkSumOf[int16](ndview.Int16, 3),
		"int32":       checkSumOf[int32](ndview.Int32, 3),
		"int64":       checkSumOf[int64](ndview.Int64, 3),
		"uint8":       checkSumOf[uint8](ndview.Uint8, 3),
		"uint16":      checkSumOf[uint16](ndview.Uint16, 3),
		"uint32":      checkSumOf[uint32](ndview.Uint32, 3),
		"uint64":      checkSumOf[uint64](ndview.Uint64, 3),
		"float32":     checkSumOf[float32](ndview.Float32, 3),
		"float64":     checkSumOf[float64](ndview.Float64, 3),
		"complex64":   checkSumOf[complex64](ndview.Complex64, complex64(3+3i)),
		"complex128":  checkSumOf[complex128](ndview.Complex128, 3+3i),
		"timedelta64": checkSumOf[int64](ndview.Timedelta64(ndview.Second, 1), int64(3)),
	} {
		t.Run(name, func(t *testing.T) { onDevices(t, test) })
	}
}

func TestHalvesAreFloatInKernels(t *testing.T) {
	source := kernel.ElementwiseSource{Code: "res = a * s", Host: func(res, a []float32, s float32) {
		for i := range res {
			res[i] = a[i] * s
		}
	}}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for dtype, bits := range map[ndview.DType][2][]uint16{
			ndview.Float16:  {{0x3c00, 0x4000, 0x0001, 0x7bff, 0xfc00}, {0x4200, 0x4600, 0x0003, 0x7c00, 0xfc00}},
			ndview.BFloat16: {{0x3f80, 0x4000, 0x0001, 0x7f7f, 0xff80}, {0x4040, 0x40c0, 0x0003, 0x7f80, 0xff80}},
		} {
			k, err := kernel.NewElementwise(dev, source, writes("res", dtype), reads("a", dtype), scalar("s", dtype))
			require.NoError(t, err)
			a := ndtest.FromHost(t, dev, dtype, bits[0], 5)
			res := ndtest.FromHost(t, dev, dtype, make([]uint16, 5), 5)
			back := ndview.SpanStep(ndview.Open, ndview.Open, -1)
			require.NoError(t, k.Run(ndtest.View(t)(res.Index(back)), ndtest.View(t)(a.Index(back)), 3))
			assert.Equal(t, bits[1], bitsOf(t, res), dtype)

			r, err := kernel.NewReduction(dev, kernel.ReductionSource{Out: dtype, Neutral: "1", Reduce: "a > b ? a : b", Map: "-x",
				Host: kernel.NewHostReduction(1, func(a, b float32) float32 { return max(a, b) }, func(out, x []float32) {
					for i, v := range x {
						out[i] = -v
					}
				})}, reads("x", dtype))
			require.NoError(t, err)
			most, err := r.Of(nil, false, ndtest.View(t)(a.Slice(0, 0, 4)))
			ndtest.Own(t, most, err)
			assert.Equal(t, bits[0][:1], bitsOf(t, most), "the neutral element is greater than -a")
		}
	})
}

func TestBoolsAndComparisonsInKernels(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		compare, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{Code: "res = a < limit", Host: func(res []bool, a []int8, limit bool) {
			for i := range res {
				res[i] = a[i] < int8(map[bool]int{true: 1}[limit])
			}
		}}, writes("res", ndview.Bool), reads("a", ndview.Int8), scalar("limit", ndview.Bool))
		require.NoError(t, err)
		out := ndtest.FromHost(t, dev, ndview.Bool, make([]bool, 3), 3)
		require.NoError(t, compare.Run(out, ndtest.FromHost(t, dev, ndview.Int8, []int8{-1, 2, 0}, 3), true))
		assert.Equal(t, []bool{true, false, true}, ndtest.HostOf[bool](t, out))
	})
}

func TestElementwiseWritesSeveralOutputs(t *testing.T) {
	source := kernel.ElementwiseSource{Code: "quotient = a / b; rest = a % b; seen += 1", Host: func(quotient, rest, seen, a, b []int32) {
		for i := range a {
			quotient[i], rest[i] = a[i]/b[i], a[i]%b[i]
			seen[i]++
		}
	}}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		k, err := kernel.NewElementwise(dev, source, writes("quotient", ndview.Int32), writes("rest", ndview.Int32),
			kernel.Arg{Name: "seen", DType: ndview.Int32, Read: true, Write: true}, reads("a", ndview.Int32), reads("b", ndview.Int32))
		require.NoError(t, err)
		const n = 5000
		values := make([]int32, n)
		for i := range values {
			values[i] = int32(i*i - 9000)
		}
		a := ndtest.FromHost(t, dev, ndview.Int32, values, n)
		quotient, rest, seen := ndtest.FromHost(t, dev, ndview.Int32, make([]int32, n), n), ndtest.FromHost(t, dev, ndview.Int32, make([]int32, n), n), ndtest.FromHost(t, dev, ndview.Int32, make([]int32, n), n)
		require.NoError(t, k.Run(quotient, rest, seen, a, ndtest.FromHost(t, dev, ndview.Int32, []int32{7})))
		require.NoError(t, k.Run(quotient, rest, seen, a, ndtest.FromHost(t, dev, ndview.Int32, []int32{7})))
		q, r, times := ndtest.HostOf[int32](t, quotient), ndtest.HostOf[int32](t, rest), ndtest.HostOf[int32](t, seen)
		for i, v := range values {
			require.Equal(t, [3]int32{v / 7, v % 7, 2}, [3]int32{q[i], r[i], times[i]}, "element %d", i)
		}
	})
}

func TestElementwiseAcceptsManyAxes(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		k, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{Code: "a += b", Host: addTo}, kernel.Arg{Name: "a", DType: ndview.Float32, Read: true, Write: true}, reads("b", ndview.Float32))
		require.NoError(t, err)
		const axes = 12
		shape := make([]int64, axes)
		values := make([]float32, 1<<axes)
		for i := range shape {
			shape[i] = 2
		}
		for i := range values {
			values[i] = float32(i)
		}
		a, b := ndtest.FromHost(t, dev, ndview.Float32, values, shape...), ndtest.FromHost(t, dev, ndview.Float32, values, shape...)
		require.NoError(t, k.Run(a, ndtest.View(t)(b.Transpose())))
		for i, v := range ndtest.HostOf[float32](t, a) {
			turned := 0
			for bit := range axes {
				turned |= i >> bit & 1 << (axes - 1 - bit)
			}
			require.Equal(t, float32(i+turned), v)
		}
	})
}

// Reductions whose identity is not zero, whose values are not the elements, and which
// have several arguments that broadcast.
func TestReductionsUseTheirIdentity(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		least, err := kernel.NewReduction(dev, kernel.ReductionSource{Out: ndview.Float64, Neutral: "1e300", Reduce: "a < b ? a : b", Map: "x - y",
			Host: kernel.NewHostReduction(1e300, math.Min, func(out, x, y []float64) {
				for i := range out {
					out[i] = x[i] - y[i]
				}
			})}, reads("x", ndview.Float64), reads("y", ndview.Float64))
		require.NoError(t, err)
		x := ndtest.FromHost(t, dev, ndview.Float64, []float64{5, 3, 9, 2, 8, 7}, 2, 3)
		y := ndtest.FromHost(t, dev, ndview.Float64, []float64{1, 10}, 2, 1)
		got, err := least.Of([]int{-1}, false, x, y)
		assert.Equal(t, []float64{2, -8}, ndtest.HostOf[float64](t, ndtest.Own(t, got, err)))
		got, err = least.Of([]int{0}, true, x, y)
		ndtest.Own(t, got, err)
		assert.Equal(t, []int64{1, 3}, got.Shape())
		assert.Equal(t, []float64{-8, -2, -3}, ndtest.HostOf[float64](t, got))
		got, err = least.Of(nil, false, ndtest.View(t)(x.Index(ndview.Span(0, 0))), ndtest.View(t)(y.Index(ndview.Span(0, 0))))
		assert.Equal(t, []float64{1e300}, ndtest.HostOf[float64](t, ndtest.Own(t, got, err)), "no elements")
		got, err = least.Of([]int{1}, false, ndtest.View(t)(x.Index(ndview.Span(0, 0))), ndtest.View(t)(y.Index(ndview.Span(0, 0))))
		ndtest.Own(t, got, err)
		assert.Equal(t, []int64{0}, got.Shape(), "no results")
		// Into an operand, which is read first.
		require.NoError(t, least.Into(ndtest.View(t)(x.Index(ndview.At(0))), []int{0}, x, y))
		assert.Equal(t, []float64{-8, -2, -3, 2, 8, 7}, ndtest.HostOf[float64](t, x))
	})
}

func TestReductionsHaveAnyNumberOfResults(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		const n = 200_003 // more than a grid had along Y and Z, and not a multiple of a block
		values, want := make([]float32, 2*n), make([]float64, n)
		for i := range want {
			values[2*i], values[2*i+1] = float32(i%1000), 2
			want[i] = float64(i%1000)*float64(i%1000) + 4 + 2*5
		}
		k, err := kernel.NewReduction(dev, squareSum(), reads("x", ndview.Float32), scalar("c", ndview.Int32))
		require.NoError(t, err)
		got, err := k.Of([]int{1}, false, ndtest.FromHost(t, dev, ndview.Float32, values, n, 2), 5)
		ndtest.Own(t, got, err)
		ndtest.RequireBytes(t, ndtest.Raw(want...), ndtest.Elements(t, got))
	})
}

// testdata/golden/kernels.py describes the cases.
func TestKernelsMatchNumPy(t *testing.T) {
	text, err := os.ReadFile("testdata/golden/kernels.json")
	require.NoError(t, err)
	var cases []struct {
		Operation, DType string
		Shapes           [][]int64
		Operands         []string
		Axes             []int
		Shape            []int64
		Result           string
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Greater(t, len(cases), 50)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range cases {
			dtype, _, err := ndview.ParseDType(c.DType)
			require.NoError(t, err)
			var operands []any
			for i, shape := range c.Shapes {
				data, err := hex.DecodeString(c.Operands[i])
				require.NoError(t, err)
				operands = append(operands, ndtest.At(t, ndtest.Upload(t, dev, data), dtype, 0, shape...))
			}
			want, err := hex.DecodeString(c.Result)
			require.NoError(t, err)
			var got *ndview.NDBuffer
			if source, ok := goldenReductions(dtype)[c.Operation]; ok {
				r, err := kernel.NewReduction(dev, source, reads("x", dtype))
				require.NoError(t, err)
				got, err = r.Of(c.Axes, false, operands...)
				ndtest.Own(t, got, err)
			} else {
				source, ok := goldenElementwise(dtype)[c.Operation]
				require.True(t, ok, c.Operation)
				k, err := kernel.NewElementwise(dev, source, writes("res", dtype), reads("a", dtype), reads("b", dtype))
				require.NoError(t, err)
				got, err = ndview.Zeros(dev, dtype, c.Shape...)
				ndtest.Own(t, got, err)
				require.NoError(t, k.Run(append([]any{got}, operands...)...))
			}
			require.Equal(t, c.Shape, got.Shape())
			ndtest.RequireBytes(t, want, ndtest.Elements(t, got), c.Operation, c.DType, c.Shapes, c.Axes)
		}
	})
}

func goldenElementwise(dtype ndview.DType) map[string]kernel.ElementwiseSource {
	switch dtype {
	case ndview.Int32:
		return elementwiseOf[int32]()
	case ndview.Uint8:
		return elementwiseOf[uint8]()
	case ndview.Float32:
		return elementwiseOf[float32]()
	}
	return elementwiseOf[float64]()
}

// elementwiseOf returns kernels whose results no compiler may round differently.
func elementwiseOf[T int32 | uint8 | float32 | float64]() map[string]kernel.ElementwiseSource {
	return map[string]kernel.ElementwiseSource{
		"maximum": {Code: "res = a > b ? a : b", Host: func(res, a, b []T) {
			for i := range res {
				res[i] = max(a[i], b[i])
			}
		}},
		"hinge": {Code: "res_t gap = a - b; res = gap > 0 ? gap : 0", Host: func(res, a, b []T) {
			for i := range res {
				if gap := a[i] - b[i]; gap > 0 {
					res[i] = gap
				}
			}
		}},
		"product": {Code: "res = a * b", Host: func(res, a, b []T) {
			for i := range res {
				res[i] = a[i] * b[i]
			}
		}},
	}
}

func goldenReductions(dtype ndview.DType) map[string]kernel.ReductionSource {
	switch dtype {
	case ndview.Int32:
		return reductionsOf[int32](dtype)
	case ndview.Uint8:
		return reductionsOf[uint8](dtype)
	case ndview.Float32:
		return reductionsOf[float32](dtype)
	}
	return reductionsOf[float64](dtype)
}

func reductionsOf[T int32 | uint8 | float32 | float64](dtype ndview.DType) map[string]kernel.ReductionSource {
	return map[string]kernel.ReductionSource{
		"sum of squares": {Out: dtype, Neutral: "0", Reduce: "a + b", Map: "x * x", Host: kernel.NewHostReduction(0, func(a, b T) T { return a + b }, func(out, x []T) {
			for i, v := range x {
				out[i] = v * v
			}
		})},
		"max": {Out: dtype, Neutral: "0", Reduce: "a > b ? a : b", Host: kernel.NewHostReduction(0, func(a, b T) T { return max(a, b) }, nil)},
	}
}
