package ndview_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var reductions = byName(ndview.Sum, ndview.Prod, ndview.Mean, ndview.Min, ndview.Max, ndview.ArgMin, ndview.ArgMax,
	ndview.AnyTrue, ndview.AllTrue, ndview.CountNonzero)

// testdata/golden/reduce.py describes the cases.
func TestReductionsAgreeWithNumPy(t *testing.T) {
	var file struct {
		Data  map[string][2]string
		Cases [][]json.RawMessage
	}
	readGolden(t, "reduce.json", &file)
	require.Greater(t, len(file.Cases), 1000)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		buffers, types := map[string]arrowbuf.Buffer{}, map[string]ndview.DType{}
		for name, data := range file.Data {
			raw, err := hex.DecodeString(data[1])
			require.NoError(t, err)
			buffers[name], types[name] = ndtest.Upload(t, dev, raw), numpyType(t, data[0])
		}
		for _, c := range file.Cases {
			name, dtype := field[string](t, c[0]), types[field[string](t, c[0])]
			strides := field[[]int64](t, c[3])
			for i := range strides {
				strides[i] *= dtype.Size()
			}
			a, err := ndview.FromBuffer(buffers[name], dtype, field[int64](t, c[1])*dtype.Size(), field[[]int64](t, c[2]), strides)
			checkReduction(t, ndtest.Own(t, a, err), c)
		}
	})
}

func checkReduction(t *testing.T, a *ndview.NDBuffer, c []json.RawMessage) {
	message := fmt.Sprintf("%s", c)
	r := reductions[field[string](t, c[4])]
	o := ndview.ReduceOptions{Axes: field[[]int](t, c[5]), KeepDims: field[bool](t, c[6]), DType: numpyType(t, field[string](t, c[7]))}
	got, err := r.Of(a, o)
	if len(c) == 8 {
		if assert.Error(t, err, message) {
			assert.True(t, isShapeOrDType(err), "%v: %s", err, message)
		}
		return
	}
	require.NoError(t, err, message)
	defer got.Release()
	require.Equal(t, numpyType(t, field[string](t, c[8])), got.DType(), message)
	require.Equal(t, field[[]int64](t, c[9]), got.Shape(), message)
	want, err := hex.DecodeString(field[string](t, c[10]))
	require.NoError(t, err)
	requireSame(t, got.DType(), want, ndtest.Elements(t, got), 0)
	require.False(t, t.Failed(), message)
}

func isShapeOrDType(err error) bool {
	return errors.Is(err, ndview.ErrShape) || errors.Is(err, ndview.ErrDType)
}

func TestProdOfIntegersAsFloats(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		large := ndtest.FromHost(t, dev, ndview.Int64, []int64{1 << 40, 3, 1 << 40, 5}, 2, 2)
		got, err := ndview.Prod.Of(large, ndview.ReduceOptions{DType: ndview.Float64, Axes: []int{0}})
		ndtest.Own(t, got, err)
		assert.Equal(t, ndtest.Raw(0x1p80, 15), ndtest.Elements(t, got))
		got, err = ndview.Prod.Of(large, ndview.ReduceOptions{DType: ndview.Complex64})
		ndtest.Own(t, got, err)
		assert.Equal(t, ndtest.Raw[complex64](15*0x1p80), ndtest.Elements(t, got))
		out, err := ndview.Zeros(dev, ndview.Float32)
		ndtest.Own(t, out, err)
		require.NoError(t, ndview.Prod.Into(out, large, ndview.ReduceOptions{}))
		assert.Equal(t, ndtest.Raw[float32](15*0x1p80), ndtest.Elements(t, out))
		_, err = ndview.Mean.Of(large, ndview.ReduceOptions{DType: ndview.Int8})
		assert.ErrorIs(t, err, ndview.ErrDType)
	})
}

func TestReductionsRejectBytesAndRecords(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, size := range []int64{1, 3, 8, 16, 29} {
			record, err := ndview.Record(size, ndview.Field{Name: "a", DType: ndview.Int8})
			require.NoError(t, err)
			for _, dtype := range []ndview.DType{record, ndview.Bytes(int32(size))} {
				a, err := ndview.Zeros(dev, dtype, 4)
				ndtest.Own(t, a, err)
				for _, r := range []ndview.Reduction{ndview.Sum, ndview.Prod, ndview.Mean, ndview.Min, ndview.Max, ndview.ArgMin, ndview.ArgMax,
					ndview.AnyTrue, ndview.AllTrue, ndview.CountNonzero} {
					_, err := r.Of(a, ndview.ReduceOptions{})
					assert.ErrorIs(t, err, ndview.ErrDType, "%s of %s", r, dtype)
				}
			}
		}
	})
}

func TestReductionsAndComparisonsAcceptManyAxes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		const axes = 18 // transposed, so that no two can be merged
		twos := slices.Repeat([]int64{2}, axes)
		a := ndtest.FromHost(t, dev, ndview.Int32, values(1<<axes), twos...)
		turned, err := a.Transpose()
		ndtest.Own(t, turned, err)
		straight, err := turned.Copy(ndview.OrderC)
		ndtest.Own(t, straight, err)
		for _, r := range []ndview.Reduction{ndview.ArgMax, ndview.ArgMin} {
			want, err := r.Of(straight, ndview.ReduceOptions{KeepDims: true})
			ndtest.Own(t, want, err)
			got, err := r.Of(turned, ndview.ReduceOptions{KeepDims: true})
			ndtest.Own(t, got, err)
			assert.Equal(t, want.Shape(), got.Shape())
			assert.Equal(t, ndtest.Elements(t, want), ndtest.Elements(t, got), r)
			out, err := ndview.Zeros(dev, ndview.Int64)
			ndtest.Own(t, out, err)
			require.NoError(t, r.Into(out, turned, ndview.ReduceOptions{}))
			assert.Equal(t, ndtest.Elements(t, want), ndtest.Elements(t, out), r)
		}
		for _, equal := range []func(*ndview.NDBuffer) (bool, error){
			straight.Equal, func(b *ndview.NDBuffer) (bool, error) { return straight.AllEqual(b, true) },
		} {
			for b, want := range map[*ndview.NDBuffer]bool{turned: true, a: false} {
				got, err := equal(b)
				require.NoError(t, err)
				assert.Equal(t, want, got)
			}
		}
	})
}

// Of NaNs with different other parts, and of zeros of both signs, the result is the first
// in memory along forward axes, as in NumPy.
func TestMinOfEqualComplexNumbersIsTheFirst(t *testing.T) {
	const rows, columns = 301, 257
	nan, negative := math.NaN(), math.Copysign(0, -1)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for name, among := range map[string][]complex128{
			// NaNs are rare, so that the first differs between orders.
			"NaN":  append(slices.Repeat([]complex128{3}, 60), complex(nan, 1), complex(2, nan), complex(nan, -4), complex(1, nan)),
			"zero": {0, complex(negative, 0), complex(0, negative), complex(negative, negative)},
		} {
			rng := rand.New(rand.NewPCG(uint64(len(name)), 1))
			values := make([]complex128, rows*columns)
			for i := range values {
				values[i] = among[rng.IntN(len(among))]
			}
			a := ndtest.FromHost(t, dev, ndview.Complex128, values, rows, columns)
			backwards, err := a.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1))
			backwards = ndtest.Own(t, backwards, err)
			turned, err := a.Transpose()
			turned = ndtest.Own(t, turned, err)
			odd, err := ndview.FromBuffer(ndtest.Upload(t, dev, append([]byte{0}, ndtest.Raw(values...)...)), ndview.Complex128, 1, []int64{rows, columns}, nil)
			odd = ndtest.Own(t, odd, err)
			oddTurned, err := odd.Transpose()
			oddTurned = ndtest.Own(t, oddTurned, err)
			// first returns the first NaN, or the first zero.
			first := func(at ...int) complex128 {
				for _, i := range at {
					if cmplx.IsNaN(values[i]) {
						return values[i]
					}
				}
				return values[at[0]]
			}
			row := func(r int) (at []int) { return every(r*columns, 1, columns) }
			column := func(c int) (at []int) { return every(c, columns, rows) }
			last := func(at []int) []int { slices.Reverse(at); return at }
			check := func(message string, r ndview.Reduction, a *ndview.NDBuffer, axes []int, want ...complex128) {
				got, err := r.Of(a, ndview.ReduceOptions{Axes: axes})
				got = ndtest.Own(t, got, err)
				assert.True(t, bytes.Equal(ndtest.Raw(want...), ndtest.Elements(t, got)), "%s of %s, %s", r, name, message)
			}
			for _, r := range []ndview.Reduction{ndview.Min, ndview.Max} {
				var ofRows, ofColumns, fromBelow []complex128
				for i := range rows {
					ofRows = append(ofRows, first(row(i)...))
				}
				for i := range columns {
					ofColumns, fromBelow = append(ofColumns, first(column(i)...)), append(fromBelow, first(last(column(i))...))
				}
				check("all", r, a, nil, first(every(0, 1, rows*columns)...))
				check("turned, all", r, turned, nil, first(every(0, 1, rows*columns)...))
				check("turned at an odd byte, all", r, oddTurned, nil, first(every(0, 1, rows*columns)...))
				check("backwards, all", r, backwards, nil, first(row(rows-1)...))
				check("rows", r, a, []int{1}, ofRows...)
				check("columns", r, a, []int{0}, ofColumns...)
				check("turned, columns", r, turned, []int{1}, ofColumns...)
				check("backwards, columns", r, backwards, []int{0}, fromBelow...)
			}
		}
	})
}

// every returns n numbers from first, by step.
func every(first, step, n int) []int {
	at := make([]int, n)
	for i := range at {
		at[i] = first + i*step
	}
	return at
}

// exactly returns the exact sums of numbers and of their magnitudes.
func exactly(values []float64) (sum, magnitudes *big.Float) {
	sum, magnitudes = new(big.Float).SetPrec(2200), new(big.Float).SetPrec(2200)
	for _, v := range values {
		sum.Add(sum, big.NewFloat(v))
		magnitudes.Add(magnitudes, big.NewFloat(math.Abs(v)))
	}
	return sum, magnitudes
}

// mixedNumbers returns numbers of very different magnitudes and both signs.
func mixedNumbers(n int) []float64 {
	r := rand.New(rand.NewPCG(6, 7))
	values := make([]float64, n)
	for i := range values {
		values[i] = math.Ldexp(r.Float64()-0.5, r.IntN(40)-20)
	}
	return values
}

func TestSumOfFloat64IsWithinItsBound(t *testing.T) {
	const n = 300_001
	values := mixedNumbers(n)
	sum, magnitudes := exactly(values)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, shape := range [][]int64{{n}, {n, 1}, {1, n}} {
			a := ndtest.FromHost(t, dev, ndview.Float64, values, shape...)
			got, err := ndview.Sum.Of(a, ndview.ReduceOptions{})
			v, err := ndview.ToHost[float64](ndtest.Own(t, got, err))
			require.NoError(t, err)
			off := new(big.Float).Sub(big.NewFloat(v[0]), sum)
			bound := new(big.Float).Mul(magnitudes, big.NewFloat(0x1p-51))
			assert.LessOrEqual(t, off.Abs(off).Cmp(bound), 0, "%v: off by %g, bound %g", shape, off, bound)
		}
	})
}

func TestSumOfFloat32IsRoundedOnce(t *testing.T) {
	const n = 65_537
	values := make([]float32, n)
	wide := make([]float64, n)
	for i, v := range mixedNumbers(n) {
		values[i] = float32(v)
		wide[i] = float64(values[i])
	}
	sum, _ := exactly(wide)
	want, _ := sum.Float32()
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		got, err := ndview.Sum.Of(ndtest.FromHost(t, dev, ndview.Float32, values, n), ndview.ReduceOptions{})
		v, err := ndview.ToHost[float32](ndtest.Own(t, got, err))
		require.NoError(t, err)
		assert.Equal(t, want, v[0])
	})
}

func TestSumIsDeterministic(t *testing.T) {
	values := mixedNumbers(100_003)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Float64, values, int64(len(values)))
		var first []byte
		for range 5 {
			got, err := ndview.Sum.Of(a, ndview.ReduceOptions{})
			sum := ndtest.Elements(t, ndtest.Own(t, got, err))
			if first == nil {
				first = sum
			}
			require.Equal(t, first, sum)
		}
	})
}

func TestSumOverflowsToInfinity(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Float64, []float64{math.MaxFloat64, math.MaxFloat64, 1, 2}, 4)
		got, err := ndview.Sum.Of(a, ndview.ReduceOptions{})
		v, err := ndview.ToHost[float64](ndtest.Own(t, got, err))
		require.NoError(t, err)
		assert.Equal(t, math.Inf(1), v[0])
	})
}

// Neighbours may cancel each other, or overflow a float32 when added.
func TestSumOfHalvesIsRoundedOnce(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		const most, small, half, infinite = 0x7f7f, 0x1400, 0x7bff, 0x7c00 // the largest bfloat16; 2^-10, the largest and an infinite float16
		for _, n := range []int{4, 8, 64, 1 << 14} {
			large, cancelling := make([]uint16, n), make([]uint16, n)
			for i := range n {
				large[i] = most | uint16(i/2%2)<<15
			}
			cancelling[0], cancelling[1], cancelling[n-1] = half, small, half|1<<15
			sum, err := ndview.Sum.Of(ndtest.FromHost(t, dev, ndview.BFloat16, large, int64(n)), ndview.ReduceOptions{})
			ndtest.Own(t, sum, err)
			assert.Equal(t, ndtest.Raw[uint16](0), ndtest.Elements(t, sum), n)
			mean, err := ndview.Mean.Of(ndtest.FromHost(t, dev, ndview.BFloat16, []uint16{most, most, most, most}, 4), ndview.ReduceOptions{})
			ndtest.Own(t, mean, err)
			assert.Equal(t, ndtest.Raw[uint16](most), ndtest.Elements(t, mean))
			sum, err = ndview.Sum.Of(ndtest.FromHost(t, dev, ndview.Float16, cancelling, int64(n)), ndview.ReduceOptions{})
			ndtest.Own(t, sum, err)
			assert.Equal(t, ndtest.Raw[uint16](small), ndtest.Elements(t, sum), n)
			columns := ndtest.FromHost(t, dev, ndview.Float16, slices.Concat(slices.Repeat(cancelling[:1], 8), slices.Repeat(cancelling[1:2], 8),
				make([]uint16, 8*(n-3)), slices.Repeat(cancelling[n-1:], 7), []uint16{infinite}), int64(n), 8)
			sum, err = ndview.Sum.Of(columns, ndview.ReduceOptions{Axes: []int{0}})
			ndtest.Own(t, sum, err)
			assert.Equal(t, slices.Concat(slices.Repeat(ndtest.Raw[uint16](small), 7), ndtest.Raw[uint16](infinite)), ndtest.Elements(t, sum), "columns of %d", n)
		}
	})
}

// The shapes make kernels divide the work in different ways, at addresses of any
// alignment.
func TestReductionsOfEveryShapeAgreeWithLoops(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	shapes := [][3]int64{{1, 70_000, 1}, {3, 20_011, 1}, {700, 3, 1}, {5000, 30, 1}, {300, 129, 1}, {1, 3, 20_001}, {1, 20_000, 3},
		{1, 30_000, 4}, {4, 500, 30}, {20, 100, 33}, {2, 300, 128}, {1, 4, 40_000}, {40, 1, 40}, {1, 40_000, 1}, {999, 16, 1}, {7, 2, 7},
		{4096, 4, 1}, {4096, 2, 1}, {5, 6, 1024}, {3, 7, 2000}}
	skips := []int64{0, 1, 3}
	if testing.Short() {
		skips = skips[1:2]
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, shape := range shapes {
			for _, skip := range skips {
				n := shape[0] * shape[1] * shape[2]
				values := make([]int16, n+skip)
				bytes := make([]int8, n+skip)
				wide := make([]float32, n+skip)
				for i := range values {
					values[i] = int16(rng.Uint32())
					bytes[i] = int8(values[i])
					wide[i] = float32(values[i])
				}
				message := fmt.Sprintf("%v from %d", shape, skip)
				agree(t, dev, ndview.Int8, bytes, skip, shape, message)
				agree(t, dev, ndview.Int16, values, skip, shape, message)
				agree(t, dev, ndview.Float32, wide, skip, shape, message)
			}
		}
	})
}

// agree compares reductions of the middle axis with loops.
func agree[T int8 | int16 | float32](t *testing.T, dev arrowbuf.Device, dtype ndview.DType, values []T, skip int64, shape [3]int64, message string) {
	t.Helper()
	a := ndtest.At(t, ndtest.Upload(t, dev, ndtest.Raw(values...)), dtype, skip*dtype.Size(), shape[:]...)
	n := shape[0] * shape[2]
	sums, least, greatest := make([]float64, n), make([]T, n), make([]T, n)
	argmin, argmax, count := make([]int64, n), make([]int64, n), make([]int64, n)
	for i := range shape[0] {
		for j := range shape[1] {
			for k := range shape[2] {
				v, o := values[skip+(i*shape[1]+j)*shape[2]+k], i*shape[2]+k
				sums[o] += float64(v)
				if v != 0 {
					count[o]++
				}
				if j == 0 || v < least[o] {
					least[o], argmin[o] = v, j
				}
				if j == 0 || v > greatest[o] {
					greatest[o], argmax[o] = v, j
				}
			}
		}
	}
	check := func(r ndview.Reduction, want []byte, as ndview.DType) {
		t.Helper()
		o := ndview.ReduceOptions{Axes: []int{1}, DType: as}
		got, err := r.Of(a, o)
		require.NoError(t, err, message)
		ndtest.RequireBytes(t, want, ndtest.Elements(t, ndtest.Own(t, got, err)), r, dtype, message)
	}
	check(ndview.Sum, ndtest.Raw(sums...), ndview.Float64)
	check(ndview.Min, ndtest.Raw(least...), ndview.DType{})
	check(ndview.Max, ndtest.Raw(greatest...), ndview.DType{})
	check(ndview.ArgMin, ndtest.Raw(argmin...), ndview.DType{})
	check(ndview.ArgMax, ndtest.Raw(argmax...), ndview.DType{})
	check(ndview.CountNonzero, ndtest.Raw(count...), ndview.DType{})
}

// Axes that cannot be merged are reduced, and the same elements in an order in which the
// axes can be merged.
func TestReductionOfSeparateAxesMatchesAdjacentAxes(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 11))
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, shape := range [][]int64{{300, 2, 5, 64}, {700, 3, 2, 16}, {90, 1, 101, 33}, {2, 8, 1000, 64}} {
			values := make([]int8, shape[0]*shape[1]*shape[2]*shape[3])
			for i := range values {
				values[i] = int8(rng.Uint32() % 200)
			}
			for _, dtype := range []ndview.DType{ndview.Int8, ndview.Uint8, ndview.Int16, ndview.Float16, ndview.Float32, ndview.Float64} {
				cast, err := ndtest.FromHost(t, dev, ndview.Int8, values, shape...).AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
				a := ndtest.Own(t, cast, err)
				turned, err := a.Transpose(1, 3, 0, 2)
				copied, err2 := ndtest.Own(t, turned, err).Copy(ndview.OrderC)
				require.NoError(t, err2)
				joined := ndtest.Own(t, copied, nil)
				for _, r := range []ndview.Reduction{ndview.Sum, ndview.Min, ndview.Max, ndview.ArgMin, ndview.ArgMax, ndview.CountNonzero} {
					got, err := r.Of(a, ndview.ReduceOptions{Axes: []int{0, 2}})
					want, err2 := r.Of(joined, ndview.ReduceOptions{Axes: []int{2, 3}})
					require.NoError(t, err2)
					ndtest.RequireBytes(t, ndtest.Elements(t, ndtest.Own(t, want, nil)), ndtest.Elements(t, ndtest.Own(t, got, err)), r, dtype, shape)
				}
			}
		}
	})
}

func TestReductionsWriteIntoArrays(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(24), 2, 3, 4)
		o := ndview.ReduceOptions{Axes: []int{1}}
		matrix := ndtest.FromHost(t, dev, ndview.Int64, make([]int64, 24), 8, 3)
		every := index(t, matrix, ndview.SpanStep(ndview.Open, ndview.Open, 2), ndview.Span(0, 2))
		turned, err := every.Transpose()
		require.NoError(t, ndview.Sum.Into(ndtest.Own(t, turned, err), a, o))
		assert.Equal(t, ndtest.Raw[int64](12, 48, 15, 51, 18, 54, 21, 57), ndtest.Elements(t, every))

		small := ndtest.FromHost(t, dev, ndview.Int16, make([]int16, 8), 2, 4)
		require.NoError(t, ndview.Sum.Into(small, a, o), "the type of out is that of the sum")
		assert.Equal(t, ndtest.Raw[int16](12, 15, 18, 21, 48, 51, 54, 57), ndtest.Elements(t, small))

		row := index(t, a, ndview.At(0), ndview.At(0))
		require.NoError(t, ndview.Max.Into(row, a, ndview.ReduceOptions{Axes: []int{0, 1}}), "the result shares memory with the array")
		assert.Equal(t, ndtest.Raw[int32](20, 21, 22, 23), ndtest.Elements(t, row))

		for name, err := range map[string]error{
			"another shape":  ndview.Sum.Into(matrix, a, o),
			"another type":   ndview.Max.Into(small, a, o),
			"no such axis":   ndview.Sum.Into(small, a, ndview.ReduceOptions{Axes: []int{3}}),
			"an axis twice":  ndview.Sum.Into(small, a, ndview.ReduceOptions{Axes: []int{1, -2}}),
			"keeping all":    ndview.Sum.Into(small, a, ndview.ReduceOptions{Axes: []int{1}, KeepDims: true}),
			"another device": ndview.Sum.Into(ndtest.FromHost(t, ndtest.OtherThan(t, dev), ndview.Int64, make([]int64, 8), 2, 4), a, o),
		} {
			want := ndview.ErrShape
			switch name {
			case "another type":
				want = ndview.ErrDType
			case "another device":
				want = arrowbuf.ErrDevice
			}
			assert.ErrorIs(t, err, want, name)
		}
	})
}

func TestReductionsOfBFloat16(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.BFloat16, []uint16{0x3f80, 0xc000, 0x4040, 0x0000}, 4) // 1, -2, 3, 0
		for r, want := range map[ndview.Reduction][]byte{
			ndview.Sum: ndtest.Raw[uint16](0x4000), ndview.Min: ndtest.Raw[uint16](0xc000), ndview.Max: ndtest.Raw[uint16](0x4040),
			ndview.Mean: ndtest.Raw[uint16](0x3f00), ndview.Prod: ndtest.Raw[uint16](0x8000), ndview.ArgMax: ndtest.Raw[int64](2),
			ndview.ArgMin: ndtest.Raw[int64](1), ndview.CountNonzero: ndtest.Raw[int64](3), ndview.AnyTrue: ndtest.Raw(true), ndview.AllTrue: ndtest.Raw(false),
		} {
			got, err := r.Of(a, ndview.ReduceOptions{})
			assert.Equal(t, want, ndtest.Elements(t, ndtest.Own(t, got, err)), r)
		}
	})
}

func TestSumOfSmallIntegersHas64Bits(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range []struct {
			a    *ndview.NDBuffer
			want ndview.DType
			sum  any
		}{
			{ndtest.FromHost(t, dev, ndview.Int8, []int8{127, 127, 127}, 3), ndview.Int64, int64(381)},
			{ndtest.FromHost(t, dev, ndview.Uint8, []uint8{255, 255}, 2), ndview.Uint64, uint64(510)},
			{ndtest.FromHost(t, dev, ndview.Bool, []bool{true, true, false}, 3), ndview.Int64, int64(2)},
			{ndtest.FromHost(t, dev, ndview.Int16, []int16{-5}), ndview.Int64, int64(-5)}, // without axes
		} {
			sum, err := ndview.Sum.Of(tt.a, ndview.ReduceOptions{})
			ndtest.Own(t, sum, err)
			item, err := sum.Item()
			require.NoError(t, err)
			assert.Equal(t, tt.want, sum.DType())
			assert.Equal(t, tt.sum, item.Value())
		}
	})
}
