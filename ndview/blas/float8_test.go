package blas_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/blas"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
)

var float8Formats = []blas.Float8{blas.E4M3, blas.E5M2}

func TestValuesOfFloat8MatchMLDTypes(t *testing.T) {
	raw, err := os.ReadFile("testdata/golden/float8.json")
	require.NoError(t, err)
	want := map[string]string{}
	require.NoError(t, json.Unmarshal(raw, &want))
	for _, f := range float8Formats {
		values, err := hex.DecodeString(want[f.String()])
		require.NoError(t, err)
		require.Len(t, values, 4*256)
		for i := range 256 {
			expected, got := math.Float32frombits(binary.LittleEndian.Uint32(values[4*i:])), f.Float32(byte(i))
			if expected != expected {
				assert.True(t, math.IsNaN(float64(got)), "%v %#x", f, i)
				continue
			}
			assert.Equal(t, math.Float32bits(expected), math.Float32bits(got), "%v %#x", f, i)
		}
	}
}

// needFloat8 skips a test on a GPU without 8-bit floats.
func needFloat8(t *testing.T, dev arrowbuf.Device) {
	t.Helper()
	if cuda, ok := dev.(*cudabuf.Device); ok && !cuda.RunsHostKernels() {
		if major, minor := cuda.ComputeCapability(); major*10+minor < 89 {
			t.Skipf("compute capability %d.%d has no 8-bit floats", major, minor)
		}
	}
}

func TestProductsOfFloat8AreThoseOfTheirValues(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		needFloat8(t, dev)
		r := rand.New(rand.NewPCG(1, 2))
		for _, size := range [][3]int64{{16, 16, 16}, {64, 32, 128}, {1, 1, 1}, {17, 30, 5}, {100, 3, 257}, {3, 4, 0}, {0, 4, 3}} {
			for _, c := range []struct {
				a, b   blas.Float8
				result ndview.DType
				scale  float32
			}{
				{blas.E4M3, blas.E4M3, ndview.Float32, 0},
				{blas.E4M3, blas.E4M3, ndview.BFloat16, 0.5},
				{blas.E5M2, blas.E4M3, ndview.Float16, 0},
				{blas.E4M3, blas.E5M2, ndview.Float32, -2},
			} {
				t.Run(fmt.Sprintf("%v_%v_%v_%v", size, c.a, c.b, c.result), func(t *testing.T) {
					m, n, k := size[0], size[1], size[2]
					bitsOf := map[blas.Float8][]byte{} // of -1, 0 and 1, so that sums are exact
					for _, f := range float8Formats {
						for _, v := range []float32{-1, 0, 1} {
							for i := range 256 {
								if f.Float32(byte(i)) == v {
									bitsOf[f] = append(bitsOf[f], byte(i))
									break
								}
							}
						}
					}
					operand := func(f blas.Float8, rows, columns int64) ([]byte, []float64) {
						bits, values := make([]byte, rows*columns), make([]float64, rows*columns)
						for i := range bits {
							j := r.IntN(3)
							bits[i], values[i] = bitsOf[f][j], float64(j-1)
						}
						return bits, values
					}
					bitsA, va := operand(c.a, m, k)
					bitsB, vb := operand(c.b, n, k) // transposed
					a, b := ndtest.FromHost(t, dev, ndview.Uint8, bitsA, m, k), ndtest.FromHost(t, dev, ndview.Uint8, bitsB, n, k)
					right, err := b.SwapAxes(0, 1)
					ndtest.Own(t, right, err)
					o := blas.Float8Options{A: c.a, B: c.b, Scale: c.scale, DType: c.result}
					got, err := blas.MatMulFloat8(a, right, o)
					ndtest.Own(t, got, err)
					dense, err := right.Copy(ndview.OrderC)
					ndtest.Own(t, dense, err)
					again, err := blas.MatMulFloat8(a, dense, o)
					ndtest.Own(t, again, err)
					require.Equal(t, c.result, got.DType())
					require.Equal(t, []int64{m, n}, got.Shape())
					scale := float64(c.scale)
					if scale == 0 {
						scale = 1
					}
					first, second := numbersOf(t, got), numbersOf(t, again)
					for i := range m {
						for j := range n {
							sum := 0.0
							for l := range k {
								sum += va[i*k+l] * vb[j*k+l]
							}
							require.Equal(t, complex(sum*scale, 0), first[i*n+j], "%d %d", i, j)
							require.Equal(t, complex(sum*scale, 0), second[i*n+j], "%d %d of C order", i, j)
						}
					}
				})
			}
		}
	})
}

func TestInvalidProductsOfFloat8AreErrors(t *testing.T) {
	dev := arrowbuf.CPU()
	zeros := func(dtype ndview.DType, shape ...int64) *ndview.NDBuffer {
		a, err := ndview.Zeros(dev, dtype, shape...)
		return ndtest.Own(t, a, err)
	}
	a := zeros(ndview.Uint8, 2, 3)
	for _, c := range []struct {
		a, b *ndview.NDBuffer
		o    blas.Float8Options
		is   error
		want string
	}{
		{a, a, blas.Float8Options{}, ndview.ErrShape, "matrices of 2 x 3 and 2 x 3: the inner sizes differ: "},
		{a, zeros(ndview.Uint8, 3), blas.Float8Options{}, ndview.ErrShape, "got arrays of 2 and 1 axes, want 2: "},
		{a, zeros(ndview.Int8, 3, 2), blas.Float8Options{}, ndview.ErrDType, "got arrays of uint8 and int8, want the bits as uint8: "},
		{a, zeros(ndview.Uint8, 3, 2), blas.Float8Options{A: blas.E5M2, B: blas.E5M2}, blas.ErrOption, "formats E5M2 and E5M2: want E4M3, or E5M2 for one of them: "},
		{a, zeros(ndview.Uint8, 3, 2), blas.Float8Options{A: 2}, blas.ErrOption, "formats Float8(2) and E4M3: "},
		{a, zeros(ndview.Uint8, 3, 2), blas.Float8Options{DType: ndview.Float64}, ndview.ErrDType, "result of float64: want float32, float16 or bfloat16: "},
		{nil, a, blas.Float8Options{}, ndview.ErrNil, "array 1: "},
	} {
		_, err := blas.MatMulFloat8(c.a, c.b, c.o)
		assert.ErrorIs(t, err, c.is)
		assert.ErrorContains(t, err, "blas.MatMulFloat8: "+c.want)
	}
}

// The calls of cublasLt have the arguments that its header declares.
func TestCallsOfCublasLtMultiplyFloat8(t *testing.T) {
	path := buildFake(t)
	r := rand.New(rand.NewPCG(3, 4))
	for _, formats := range [][2]blas.Float8{{blas.E4M3, blas.E4M3}, {blas.E5M2, blas.E4M3}, {blas.E4M3, blas.E5M2}} {
		const m, n, k = 32, 16, 48
		a, b := make([]byte, m*k), make([]byte, n*k)
		for i := range a {
			a[i] = byte(r.IntN(0x60)) // no NaN
		}
		for i := range b {
			b[i] = byte(r.IntN(0x60))
		}
		got := blas.MultiplyFloat8OnHost(t, path, m, n, k, formats[0], formats[1], 0.25, a, b)
		for i := range m {
			for j := range n {
				sum := float32(0)
				for l := range k {
					sum += formats[0].Float32(a[i*k+l]) * formats[1].Float32(b[j*k+l])
				}
				require.InEpsilon(t, sum/4, got[i*n+j], 1e-5)
			}
		}
	}
}
