package blas_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowbuftest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/blas"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
)

// random returns an array of small integers in C order, and their values.
func random(t testing.TB, r *rand.Rand, dev arrowbuf.Device, dtype ndview.DType, shape ...int64) (*ndview.NDBuffer, []int64) {
	t.Helper()
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	values := make([]int64, n)
	for i := range values {
		values[i] = r.Int64N(3) - 1
		if dtype == ndview.Bool {
			values[i] = r.Int64N(30) / 29
		}
	}
	wide := ndtest.FromHost(t, dev, ndview.Int64, values, shape...)
	if dtype == ndview.Int64 {
		return wide, values
	}
	a, err := wide.AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
	return ndtest.Own(t, a, err), values
}

// expected returns the product of matrices in C order in the arithmetic of a dtype.
func expected(dtype ndview.DType, a, b []int64, m, n, k int64) []complex128 {
	want := make([]complex128, m*n)
	for i := range m {
		for j := range n {
			sum := int64(0)
			for l := range k {
				sum += a[i*k+l] * b[l*n+j]
			}
			switch {
			case dtype == ndview.Bool:
				sum = min(sum, 1)
			case dtype.IsInteger() && dtype.Size() < 8:
				bits := 64 - 8*dtype.Size()
				sum = sum << bits >> bits
				if dtype.Kind() == ndview.KindUint {
					sum = int64(uint64(sum) << bits >> bits)
				}
			}
			want[i*n+j] = complex(float64(sum), 0)
			if dtype == ndview.Uint64 {
				want[i*n+j] = complex(float64(uint64(sum)), 0)
			}
		}
	}
	return want
}

// Sizes around the tiles of kernels, thin products, and sums that are split among blocks.
func TestProductsOfManySizes(t *testing.T) {
	sizes := [][3]int64{{1, 1, 5000}, {1, 1, 100_000}, {7, 3, 20_000}, {8, 70, 2000}, {70, 8, 999}, {9, 9, 4000}, {63, 65, 17}, {64, 64, 64}, {129, 66, 31}, {200, 1, 300}, {1, 200, 300}}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range blas.NumbersOf() {
			r := rand.New(rand.NewPCG(1, uint64(len(dtype.String()))))
			for _, s := range sizes {
				m, n, k := s[0], s[1], s[2]
				if dtype == ndview.BFloat16 || dtype == ndview.Float16 {
					k = min(k, 200) // sums stay exact
				}
				a, va := random(t, r, dev, dtype, m, k)
				b, vb := random(t, r, dev, dtype, k, n)
				got, err := blas.Gemm(a, b, blas.Options{})
				ndtest.Own(t, got, err)
				want := expected(dtype, va, vb, m, n, k)
				for i, v := range numbersOf(t, got) {
					require.Equal(t, want[i], v, "%s %v: element %d", dtype, s, i)
				}
			}
		}
	})
}

// A stack of matrices times one matrix is one product, of any layout.
func TestStacksOfMatricesMatchTheirParts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range []ndview.DType{ndview.Float32, ndview.Complex128, ndview.Int16} {
			for range 60 {
				lead := make([]int64, r.IntN(4))
				for i := range lead {
					lead[i] = 1 + r.Int64N(4)
				}
				pick := func(rows, cols int64) *ndview.NDBuffer {
					shape := append([]int64(nil), lead[r.IntN(len(lead)+1):]...)
					for i := range shape {
						if r.IntN(3) == 0 {
							shape[i] = 1
						}
					}
					if r.IntN(2) == 0 {
						a, _ := random(t, r, dev, dtype, append(shape, rows, cols)...)
						return a
					}
					a, _ := random(t, r, dev, dtype, append(shape, cols, rows)...)
					v, err := a.SwapAxes(-1, -2)
					return ndtest.Own(t, v, err)
				}
				m, n, k := 1+r.Int64N(5), 1+r.Int64N(5), 1+r.Int64N(5)
				a, b := pick(m, k), pick(k, n)
				got, err := blas.MatMul(a, b, blas.Options{})
				ndtest.Own(t, got, err)
				// NumPy's definition, by a product and a sum.
				left, err := a.ExpandDims(a.NDim())
				ndtest.Own(t, left, err)
				right, err := b.ExpandDims(b.NDim() - 2)
				ndtest.Own(t, right, err)
				products, err := ndview.Multiply.Of(left, right)
				ndtest.Own(t, products, err)
				sum, err := ndview.Sum.Of(products, ndview.ReduceOptions{Axes: []int{-2}, DType: dtype})
				ndtest.Own(t, sum, err)
				require.Equal(t, sum.Shape(), got.Shape())
				require.Equal(t, numbersOf(t, sum), numbersOf(t, got), "%s %v %v", dtype, a.Shape(), b.Shape())
			}
		}
	})
}

// A sum in float16 would stop at 2048, one in bfloat16 at 256.
func TestHalvesAccumulateInFloat32(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range []ndview.DType{ndview.Float16, ndview.BFloat16} {
			ones, err := ndview.Full(dev, dtype, 1, 8, 8192)
			ndtest.Own(t, ones, err)
			x, err := ndview.Full(dev, dtype, 1, 8192)
			ndtest.Own(t, x, err)
			for name, product := range map[string]func() (*ndview.NDBuffer, error){
				"gemm": func() (*ndview.NDBuffer, error) { return blas.Gemm(ones, ones, blas.Options{TransB: blas.Transpose}) },
				"gemv": func() (*ndview.NDBuffer, error) { return blas.Gemv(ones, x, blas.Options{}) },
				"dot":  func() (*ndview.NDBuffer, error) { return blas.Dot(x, x, blas.Options{}) },
			} {
				got, err := product()
				ndtest.Own(t, got, err)
				for _, v := range numbersOf(t, got) {
					require.Equal(t, complex128(8192), v, "%s of %s", name, dtype)
				}
			}
		}
	})
}

// The error of a sum of k products is at most k rounding errors of the sum of magnitudes.
func TestErrorsOfFloatsAreWithinBounds(t *testing.T) {
	epsilon := map[ndview.DType]float64{ndview.Float32: 0x1p-24, ndview.Float64: 0x1p-53, ndview.Float16: 0x1p-11, ndview.BFloat16: 0x1p-8}
	const m, n, k = 37, 41, 300
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for dtype, unit := range epsilon {
			r := rand.New(rand.NewPCG(5, 6))
			operand := func(rows, cols int64) *ndview.NDBuffer {
				values := make([]float64, rows*cols)
				for i := range values {
					values[i] = r.NormFloat64()
				}
				wide := ndtest.FromHost(t, dev, ndview.Float64, values, rows, cols)
				a, err := wide.AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
				return ndtest.Own(t, a, err)
			}
			a, b := operand(m, k), operand(k, n)
			got, err := blas.Gemm(a, b, blas.Options{})
			ndtest.Own(t, got, err)
			va, vb, vc := numbersOf(t, a), numbersOf(t, b), numbersOf(t, got)
			for i := range m {
				for j := range n {
					sum, magnitude := 0.0, 0.0
					for l := range k {
						p := real(va[i*k+l]) * real(vb[l*n+j])
						sum, magnitude = sum+p, magnitude+math.Abs(p)
					}
					bound := k * unit * magnitude
					if dtype.Size() == 2 { // one rounding of the sum in float32
						bound = unit*math.Abs(sum) + k*0x1p-24*magnitude
					}
					require.InDelta(t, sum, real(vc[i*n+j]), bound, "%s", dtype)
				}
			}
		}
	})
}

// TF32 has 10 bits of mantissa: each operand has an error of at most 2^-11 of it.
func TestErrorsOfTF32AreWithinBounds(t *testing.T) {
	const n = 64
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(14, 15))
		values := make([]float32, n*n)
		for i := range values {
			values[i] = float32(r.NormFloat64())
		}
		a := ndtest.FromHost(t, dev, ndview.Float32, values, n, n)
		got, err := blas.Gemm(a, a, blas.Options{TF32: true})
		ndtest.Own(t, got, err)
		results := numbersOf(t, got)
		for i := range n {
			for j := range n {
				sum, magnitude := 0.0, 0.0
				for l := range n {
					p := float64(values[i*n+l]) * float64(values[l*n+j])
					sum, magnitude = sum+p, magnitude+math.Abs(p)
				}
				require.InDelta(t, sum, real(results[i*n+j]), (2.01*0x1p-11+n*0x1p-24)*magnitude)
			}
		}
	})
}

func TestResultsMayOverlapOperands(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Float64, []float64{1, 2, 3, 4}, 2, 2)
		require.NoError(t, blas.GemmInto(a, a, a, blas.Options{Beta: 1}))
		got, err := ndview.ToHost[float64](a)
		require.NoError(t, err)
		assert.Equal(t, []float64{8, 12, 18, 26}, got)
		flipped, err := a.SwapAxes(0, 1)
		ndtest.Own(t, flipped, err)
		require.NoError(t, blas.MatMulInto(a, flipped, a, blas.Options{}))
		got, err = ndview.ToHost[float64](a)
		require.NoError(t, err)
		assert.Equal(t, []float64{8*8 + 18*18, 8*12 + 18*26, 12*8 + 26*18, 12*12 + 26*26}, got)
	})
}

func TestOperandsOfDifferentTypesArePromoted(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range []struct{ a, b, want ndview.DType }{
			{ndview.Int8, ndview.Uint8, ndview.Int16},
			{ndview.Int64, ndview.Float32, ndview.Float64},
			{ndview.Bool, ndview.Bool, ndview.Bool},
			{ndview.Bool, ndview.Int8, ndview.Int8},
			{ndview.Float16, ndview.Complex64, ndview.Complex64},
			{ndview.BFloat16, ndview.Float32, ndview.Float32},
		} {
			a := ndtest.FromHost(t, dev, ndview.Int64, []int64{1, 0, 1, 1}, 2, 2)
			x, err := a.AsType(c.a, ndview.OrderC, ndview.CastUnsafe)
			ndtest.Own(t, x, err)
			y, err := a.AsType(c.b, ndview.OrderC, ndview.CastUnsafe)
			ndtest.Own(t, y, err)
			got, err := blas.MatMul(x, y, blas.Options{})
			ndtest.Own(t, got, err)
			assert.Equal(t, c.want, got.DType(), "%s %s", c.a, c.b)
			two := complex128(2)
			if c.want == ndview.Bool {
				two = 1
			}
			assert.Equal(t, []complex128{1, 0, two, 1}, numbersOf(t, got))
		}
	})
}

func TestResultsBelongToTheScopeOfTheirOperands(t *testing.T) {
	s := ndview.NewScope()
	defer s.Release()
	a, err := s.Add(ndview.Zeros(arrowbuf.CPU(), ndview.Float32, 2, 2))
	require.NoError(t, err)
	c, err := blas.Gemm(a, a, blas.Options{})
	require.NoError(t, err)
	assert.Equal(t, s, c.Scope())
	v, err := blas.MatMul(a, a, blas.Options{})
	require.NoError(t, err)
	assert.Equal(t, s, v.Scope())
}

func TestInvalidProductsAreErrors(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		zeros := func(dtype ndview.DType, shape ...int64) *ndview.NDBuffer {
			a, err := ndview.Zeros(dev, dtype, shape...)
			return ndtest.Own(t, a, err)
		}
		a, x, scalar := zeros(ndview.Float32, 2, 3), zeros(ndview.Float32, 3), zeros(ndview.Float32)
		readOnly, err := zeros(ndview.Float32, 2, 2).ReadOnly()
		ndtest.Own(t, readOnly, err)
		other, err := ndview.Zeros(ndtest.OtherThan(t, dev), ndview.Float32, 3)
		ndtest.Own(t, other, err)
		released, err := ndview.Zeros(dev, ndview.Float32, 2, 2)
		require.NoError(t, err)
		released.Release()
		ints := zeros(ndview.Int32, 3, 3)
		none := blas.Options{}
		two := func(_ *ndview.NDBuffer, err error) error { return err }
		for _, c := range []struct {
			err  error
			is   error
			want string
		}{
			{two(blas.Gemm(a, a, none)), ndview.ErrShape, "blas.Gemm: matrices of 2 x 3 and 2 x 3: the inner sizes differ: "},
			{two(blas.Gemm(a, x, none)), ndview.ErrShape, "blas.Gemm: got arrays of 2 and 1 axes, want at least 2: "},
			{two(blas.Gemm(zeros(ndview.Float32, 2, 3, 3), zeros(ndview.Float32, 4, 3, 3), none)), ndview.ErrShape, "blas.Gemm: leading axes [2] and [4] do not broadcast: "},
			{two(blas.Gemm(a, ints, none)), ndview.ErrDType, "blas.Gemm: operands of different dtypes: got float32 and int32: "},
			{two(blas.Gemv(x, x, none)), ndview.ErrShape, "blas.Gemv: got arrays of 1 and 1 axes, want a matrix of 2 and a vector of 1: "},
			{two(blas.Gemv(a, x, blas.Options{TransB: blas.Transpose})), blas.ErrOption, "blas.Gemv: TransB: got Transpose, want NoTrans: "},
			{two(blas.Dot(a, x, none)), ndview.ErrShape, "blas.Dot: got arrays of 2 and 1 axes, want vectors of 1: "},
			{two(blas.Dot(x, other, none)), arrowbuf.ErrDevice, "blas.Dot: operands on different devices: "},
			{two(blas.Ger(x, x, blas.Options{TransA: blas.Transpose})), blas.ErrOption, "blas.Ger: TransA: got Transpose, want NoTrans: "},
			{two(blas.Ger(x, x, blas.Options{Beta: 1})), blas.ErrOption, "blas.Ger: Beta 1 without C: "},
			{two(blas.Gemm(a, a, blas.Options{TransA: 3})), blas.ErrOption, "blas.Gemm: got TransA Trans(3) and TransB NoTrans, want NoTrans, Transpose or ConjTranspose: "},
			{two(blas.Gemm(a, a, blas.Options{TransB: blas.Transpose, C: x})), ndview.ErrShape, "blas.Gemm: C has shape [3], want [2 2]: "},
			{two(blas.Gemm(a, a, blas.Options{TransB: blas.Transpose, C: zeros(ndview.Float64, 2, 2)})), ndview.ErrDType, "blas.Gemm: C has dtype float64, want float32: "},
			{two(blas.Gemm(ints, ints, blas.Options{Alpha: 0.5})), ndview.ErrDType, "blas.Gemm: Alpha: got a float64 for arrays of int32: "},
			{two(blas.Gemm(ints, ints, blas.Options{Alpha: 1 << 40})), ndview.ErrRange, "blas.Gemm: Alpha: "},
			{two(blas.Gemm(ints, ints, blas.Options{Alpha: 1i})), ndview.ErrDType, "blas.Gemm: Alpha: got a complex128 for arrays of int32: "},
			{two(blas.Gemm(ints, ints, blas.Options{Alpha: "1"})), ndview.ErrDType, "blas.Gemm: Alpha: "},
			{two(blas.Gemm(zeros(ndview.Bytes(3), 2, 2), zeros(ndview.Bytes(3), 2, 2), none)), ndview.ErrDType, "blas.Gemm: dtype V3: want a number or bool: "},
			{two(blas.MatMul(scalar, a, none)), ndview.ErrShape, "blas.MatMul: got arrays of 0 and 2 axes, want at least 1: "},
			{two(blas.MatMul(a, x, blas.Options{Beta: 1})), blas.ErrOption, "blas.MatMul: Alpha, Beta, C, TransA or TransB is set: want only TF32 and Stream: "},
			{two(blas.MatMul(released, a, none)), arrowbuf.ErrReleased, "blas.MatMul: "},
			{two(blas.MatMul(a, nil, none)), ndview.ErrNil, "blas.MatMul: array 2: "},
			{blas.GemmInto(readOnly, zeros(ndview.Float32, 2, 2), zeros(ndview.Float32, 2, 2), none), ndview.ErrReadOnly, "blas.GemmInto: the result: "},
			{blas.GemmInto(a, zeros(ndview.Float32, 2, 2), zeros(ndview.Float32, 2, 2), none), ndview.ErrShape, "blas.GemmInto: the result has shape [2 3], want [2 2]: "},
			{blas.GemmInto(a, a, a, blas.Options{C: a}), blas.ErrOption, "blas.GemmInto: C is set: want nil, since the written array is added: "},
			{blas.MatMulInto(x, a, x, none), ndview.ErrShape, "blas.MatMulInto: the result has shape [3], want [2]: "},
			{blas.DotInto(ints, x, x, none), ndview.ErrDType, "blas.DotInto: the result has dtype int32, want float32: "},
		} {
			if assert.Error(t, c.err, c.want) {
				assert.ErrorIs(t, c.err, c.is, c.want)
				assert.Contains(t, c.err.Error(), c.want)
			}
		}
	})
}

// Each product waits for the one that writes its operand, on whichever stream that runs.
func TestProductsOnStreamsAreOrderedByTheirArrays(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, dtype := range []ndview.DType{ndview.Float32, ndview.Int64} {
			var streams []*cudabuf.Stream
			for range 3 {
				s, err := dev.NewStream(cudabuf.StreamOptions{})
				require.NoError(t, err)
				defer func() { assert.NoError(t, s.Close()) }()
				streams = append(streams, s)
			}
			// The powers of a shift of 97 rows, computed by turns of the streams.
			const n = 97
			values := make([]int64, n*n)
			for i := range n {
				values[i*n+(i+1)%n] = 1
			}
			wide := ndtest.FromHost(t, dev, ndview.Int64, values, n, n)
			shift, err := wide.AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
			ndtest.Own(t, shift, err)
			power, err := shift.Copy(ndview.OrderC)
			ndtest.Own(t, power, err)
			for i := range n {
				next, err := blas.Gemm(power, shift, blas.Options{Stream: streams[i%3]})
				ndtest.Own(t, next, err)
				power = next
			}
			equal, err := power.Equal(shift)
			require.NoError(t, err)
			assert.True(t, equal, "%s", dtype)
		}
	})
}

func TestProductsRunInManyGoroutines(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		var wait sync.WaitGroup
		for g := range 8 {
			wait.Go(func() {
				r := rand.New(rand.NewPCG(7, uint64(g)))
				for range 20 {
					m, n, k := 1+r.Int64N(40), 1+r.Int64N(40), 1+r.Int64N(40)
					a, va := random(t, r, dev, ndview.Float32, m, k)
					b, vb := random(t, r, dev, ndview.Float32, k, n)
					got, err := blas.Gemm(a, b, blas.Options{})
					if !assert.NoError(t, err) {
						return
					}
					values, err := ndview.ToHost[float32](got)
					assert.NoError(t, err)
					got.Release()
					for i, v := range expected(ndview.Float32, va, vb, m, n, k) {
						if !assert.EqualValues(t, real(v), values[i]) {
							return
						}
					}
				}
			})
		}
		wait.Wait()
	})
}

func TestGraphsRepeatProducts(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, dtype := range []ndview.DType{ndview.Float32, ndview.BFloat16, ndview.Complex64, ndview.Int32} {
			r := rand.New(rand.NewPCG(8, 9))
			a, va := random(t, r, dev, dtype, 33, 20)
			b, vb := random(t, r, dev, dtype, 20, 17)
			c, err := ndview.Zeros(dev, dtype, 33, 17)
			ndtest.Own(t, c, err)
			x, _ := random(t, r, dev, dtype, 20)
			y, err := ndview.Zeros(dev, dtype, 33)
			ndtest.Own(t, y, err)
			z, err := ndview.Zeros(dev, dtype)
			ndtest.Own(t, z, err)
			g, err := dev.Capture(func(s *cudabuf.Stream) error {
				return errors.Join(
					blas.GemmInto(c, a, b, blas.Options{Beta: 1, Stream: s}),
					blas.GemvInto(y, a, x, blas.Options{Stream: s}),
					blas.DotInto(z, x, x, blas.Options{Stream: s}))
			})
			require.NoError(t, err)
			s, err := dev.NewStream(cudabuf.StreamOptions{})
			require.NoError(t, err)
			for range 3 {
				require.NoError(t, g.Launch(s))
			}
			want := expected(dtype, va, vb, 33, 17, 20)
			for i, v := range numbersOf(t, c) {
				require.Equal(t, 3*want[i], v, "%s", dtype)
			}
			eager, err := blas.Gemv(a, x, blas.Options{})
			ndtest.Own(t, eager, err)
			assert.Equal(t, numbersOf(t, eager), numbersOf(t, y))
			require.NoError(t, g.Close())
			require.NoError(t, s.Close())
		}
	})
}

func TestCapturedProductsThatNeedCopiesAreErrors(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a, err := ndview.Zeros(dev, ndview.Float32, 4, 4)
		ndtest.Own(t, a, err)
		wide, err := ndview.Zeros(dev, ndview.Float32, 8, 8)
		ndtest.Own(t, wide, err)
		gaps, err := wide.Index(ndview.SpanStep(0, 8, 2), ndview.SpanStep(0, 8, 2))
		ndtest.Own(t, gaps, err)
		ints, err := ndview.Zeros(dev, ndview.Int32, 4, 4)
		ndtest.Own(t, ints, err)
		out, err := ndview.Zeros(dev, ndview.Float32, 4, 4)
		ndtest.Own(t, out, err)
		for name, product := range map[string]func(s *cudabuf.Stream) error{
			"an operand must be copied: ": func(s *cudabuf.Stream) error { return blas.GemmInto(out, gaps, a, blas.Options{Stream: s}) },
			"the result must be copied: ": func(s *cudabuf.Stream) error { return blas.GemmInto(gaps, a, a, blas.Options{Stream: s}) },
			"C must be copied: ": func(s *cudabuf.Stream) error {
				_, err := blas.Gemm(a, a, blas.Options{C: a, Beta: 1, Stream: s})
				return err
			},
			"a captured graph does not repeat copies:": func(s *cudabuf.Stream) error { _, err := blas.MatMul(a, ints, blas.Options{Stream: s}); return err },
		} {
			_, err := dev.Capture(product)
			assert.ErrorIs(t, err, errors.ErrUnsupported)
			assert.ErrorContains(t, err, name)
		}
	})
}

func TestStreamOfAnotherDeviceIsRefused(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, err := dev.DefaultStream()
		require.NoError(t, err)
		a, err := ndview.Zeros(arrowbuf.CPU(), ndview.Float32, 2, 2)
		ndtest.Own(t, a, err)
		_, err = blas.Gemm(a, a, blas.Options{Stream: s})
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		assert.ErrorContains(t, err, fmt.Sprintf("a stream of %v for arrays on cpu", dev))
	})
}

// The same product has the same bits, also when other streams are busy.
func TestProductsAreRepeatable(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(10, 11))
		values := make([]float32, 150*700)
		for i := range values {
			values[i] = float32(r.NormFloat64())
		}
		a := ndtest.FromHost(t, dev, ndview.Float32, values, 150, 700)
		b := ndtest.FromHost(t, dev, ndview.Float32, values, 700, 150)
		first, err := blas.Gemm(a, b, blas.Options{})
		ndtest.Own(t, first, err)
		var wait sync.WaitGroup
		for range 6 {
			wait.Go(func() {
				for range 5 {
					again, err := blas.Gemm(a, b, blas.Options{})
					if !assert.NoError(t, err) {
						return
					}
					equal, err := first.Equal(again)
					assert.NoError(t, err)
					assert.True(t, equal)
					again.Release()
				}
			})
		}
		wait.Wait()
	})
}

func TestProductsInManagedMemory(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		dev, err := d.ManagedDevice(0)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(12, 13))
		for _, dtype := range []ndview.DType{ndview.Float64, ndview.Int16} {
			a, va := random(t, r, dev, dtype, 20, 30)
			b, vb := random(t, r, dev, dtype, 30, 10)
			got, err := blas.Gemm(a, b, blas.Options{})
			ndtest.Own(t, got, err)
			assert.Equal(t, expected(dtype, va, vb, 20, 10, 30), numbersOf(t, got))
		}
	})
}

// Temporaries of every kind are released: the checked device reports leaks.
func TestProductsOnCheckedDevicesLeakNothing(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		checked := arrowbuftest.Checked(t, dev)
		x, err := ndview.Full(checked, ndview.Complex64, 2, 6, 8)
		require.NoError(t, err)
		defer x.Release()
		gaps, err := x.Index(ndview.SpanStep(0, 6, 2), ndview.SpanStep(0, 8, 3))
		require.NoError(t, err)
		defer gaps.Release()
		for _, trans := range []blas.Trans{blas.Transpose, blas.ConjTranspose} {
			got, err := blas.Gemm(gaps, gaps, blas.Options{TransA: trans, Beta: 1i, C: gaps})
			require.NoError(t, err)
			assert.Equal(t, checked, got.Device())
			assert.Equal(t, complex(12, 2), numbersOf(t, got)[0])
			got.Release()
			require.NoError(t, blas.GemmInto(gaps, gaps, gaps, blas.Options{TransB: trans, Alpha: 0.25, Beta: 0}))
			assert.Equal(t, complex128(3), numbersOf(t, gaps)[0])
			require.NoError(t, gaps.Fill(2))
		}
	})
}

// Sizes and offsets have 64 bits.
func TestProductsReachBeyond32Bits(t *testing.T) {
	if !cudatest.OnGPU() {
		t.Skip("needs a GPU")
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		if dev.RunsHostKernels() {
			t.Skip("needs a GPU")
		}
		const rows, columns = 1<<16 + 1, 1<<15 + 5
		for _, dtype := range []ndview.DType{ndview.Uint8, ndview.BFloat16} {
			a, err := ndview.Zeros(dev, dtype, rows, columns)
			ndtest.Own(t, a, err)
			last, err := a.Index(ndview.Span(rows-1, rows), ndview.Span(columns-2, columns))
			ndtest.Own(t, last, err)
			require.NoError(t, last.Fill(3))
			x, err := ndview.Full(dev, dtype, 2, columns)
			ndtest.Own(t, x, err)
			y, err := blas.Gemv(a, x, blas.Options{})
			ndtest.Own(t, y, err)
			values := numbersOf(t, y)
			assert.Equal(t, complex128(12), values[rows-1], "%s", dtype)
			assert.Equal(t, complex128(0), values[rows-2], "%s", dtype)
			flat, err := a.Reshape(-1)
			ndtest.Own(t, flat, err)
			z, err := blas.Dot(flat, flat, blas.Options{})
			ndtest.Own(t, z, err)
			assert.Equal(t, complex128(18), numbersOf(t, z)[0], "%s", dtype)
		}
	})
}
