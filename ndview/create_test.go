package ndview_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEmptyIsContiguousOnItsDevice(t *testing.T) {
	tests := []struct {
		name         string
		dtype        ndview.DType
		shape        []int64
		strides      []int64
		size, nbytes int64
	}{
		{"no axes", ndview.Float64, []int64{}, []int64{}, 1, 8},
		{"one axis", ndview.Int16, []int64{5}, []int64{2}, 5, 10},
		{"three axes", ndview.Int32, []int64{2, 3, 4}, []int64{48, 16, 4}, 24, 96},
		{"an axis of 1", ndview.Bytes(3), []int64{4, 1}, []int64{3, 3}, 4, 12},
		{"an axis of 0", ndview.Int32, []int64{2, 0, 4}, []int64{16, 16, 4}, 0, 0},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				a, err := ndview.Empty(dev, tt.dtype, tt.shape...)
				ndtest.Own(t, a, err)
				assert.Equal(t, dev, a.Device())
				assert.Equal(t, tt.dtype, a.DType())
				assert.Equal(t, len(tt.shape), a.NDim())
				assert.Equal(t, tt.shape, a.Shape())
				assert.Equal(t, tt.strides, a.Strides())
				assert.Equal(t, tt.size, a.Size())
				assert.Equal(t, tt.nbytes, a.NBytes())
				assert.Equal(t, tt.nbytes, a.Buffer().Len())
				assert.Zero(t, a.Offset())
				assert.True(t, a.IsContiguous())
			})
		}
	})
}

func TestEmptyRefusesInvalidShapes(t *testing.T) {
	tests := []struct {
		name  string
		dtype ndview.DType
		shape []int64
		want  error
	}{
		{"negative", ndview.Int8, []int64{2, -1}, ndview.ErrShape},
		{"negative beside 0", ndview.Int8, []int64{0, -1}, ndview.ErrShape},
		{"2^63 bytes", ndview.Int64, []int64{1 << 30, 1 << 30}, ndview.ErrShape},
		{"2^64 bytes", ndview.Int8, []int64{1 << 32, 1 << 32}, ndview.ErrShape},
		{"2^80 bytes before 0", ndview.Int8, []int64{1 << 40, 1 << 40, 0}, ndview.ErrShape},
		{"2^80 bytes after 0", ndview.Int8, []int64{0, 1 << 40, 1 << 40}, ndview.ErrShape},
		{"more than there is", ndview.Int8, []int64{1 << 60}, arrowbuf.ErrOutOfMemory},
		{"no dtype", ndview.DType{}, []int64{2}, ndview.ErrDType},
		{"Bytes(0)", ndview.Bytes(0), []int64{2}, ndview.ErrDType},
		{"Bytes(-1)", ndview.Bytes(-1), []int64{2}, ndview.ErrDType},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				_, err := ndview.Empty(dev, tt.dtype, tt.shape...)
				assert.ErrorIs(t, err, tt.want)
			})
		}
	})
}

func TestNewUsesRequestedOrder(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for order, strides := range map[ndview.Order][]int64{
			0: {48, 16, 4}, ndview.OrderC: {48, 16, 4}, ndview.OrderA: {48, 16, 4}, ndview.OrderK: {48, 16, 4}, ndview.OrderF: {4, 8, 24},
		} {
			a, err := ndview.New(dev, ndview.Float32, []int64{2, 3, 4}, ndview.Options{Order: order})
			ndtest.Own(t, a, err)
			assert.Equal(t, strides, a.Strides(), "%q", order)
			assert.Equal(t, dev, a.Device())
			assert.Equal(t, order == ndview.OrderF, a.Flags().FNC())
			assert.True(t, a.Flags().OwnData)
		}
		none, err := ndview.New(dev, ndview.Float32, []int64{0, 3}, ndview.Options{Order: ndview.OrderF})
		ndtest.Own(t, none, err)
		assert.True(t, none.Flags().CContiguous && none.Flags().FContiguous)
		_, err = ndview.New(dev, ndview.Float32, []int64{1}, ndview.Options{Order: 'Z'})
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = ndview.New(dev, ndview.Float32, []int64{-1}, ndview.Options{})
		assert.ErrorIs(t, err, ndview.ErrShape)
	})
}

func TestNilArgumentsReturnErrors(t *testing.T) {
	_, err := ndview.Empty(nil, ndview.Int8, 3)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = ndview.FromHost(nil, ndview.Int8, []int8{1}, 1)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = ndview.FromBuffer(nil, ndview.Int8, 0, []int64{1}, nil)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = ndview.FromArrow(nil)
	assert.ErrorIs(t, err, ndview.ErrNil)
}

func TestFullFillsArrays(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a, err := ndview.Full(dev, ndview.Float16, 1.5, 2, 3)
		ndtest.Own(t, a, err)
		assert.Equal(t, ndtest.Raw[uint16](0x3e00, 0x3e00, 0x3e00, 0x3e00, 0x3e00, 0x3e00), ndtest.Elements(t, a))
		a, err = ndview.New(dev, ndview.Int64, []int64{2, 2}, ndview.Options{Order: ndview.OrderF, Fill: 7})
		ndtest.Own(t, a, err)
		assert.Equal(t, ndtest.Raw[int64](7, 7, 7, 7), ndtest.Elements(t, a))
		assert.Equal(t, []int64{8, 16}, a.Strides())
		a, err = ndview.Zeros(dev, ndview.Bytes(5), 3)
		ndtest.Own(t, a, err)
		assert.Equal(t, make([]byte, 15), ndtest.Elements(t, a))
		_, err = ndview.Full(dev, ndview.Uint8, 256, 2)
		assert.ErrorIs(t, err, ndview.ErrRange)
		_, err = ndview.Full(dev, ndview.Uint8, nil, 2)
		assert.ErrorIs(t, err, ndview.ErrDType)
	})
}

func TestZerosAreZero(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for range 3 { // memory that was used before
			a, err := ndview.Zeros(dev, ndview.Int16, 3, 5)
			ndtest.Own(t, a, err)
			assert.Equal(t, make([]byte, 30), ndtest.Elements(t, a))
			used, err := ndview.Empty(dev, ndview.Uint8, 30)
			assert.NoError(t, err)
			assert.NoError(t, used.CopyFromHost(poisoned(30)))
			used.Release()
		}
	})
}

func TestZeroWritesOnlyTheArray(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		want := poisoned(64)
		buf := ndtest.Upload(t, dev, want)
		require.NoError(t, ndtest.At(t, buf, ndview.Bytes(3), 5, 7).Zero())
		clear(want[5 : 5+21])
		assert.Equal(t, want, ndtest.Download(t, buf))
		gaps, err := ndview.FromBuffer(buf, ndview.Uint8, 0, []int64{8}, []int64{2})
		ndtest.Own(t, gaps, err)
		require.NoError(t, gaps.Zero())
		for i := 0; i < 16; i += 2 {
			want[i] = 0
		}
		assert.Equal(t, want, ndtest.Download(t, buf))
	})
}

func TestReleasedResultsAreReusedBeforeTheirWorkEnds(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		const n = 4 << 20 // too large to share an allocation
		x, err := ndview.Full(dev, ndview.Uint8, 40, n)
		ndtest.Own(t, x, err)
		stream, err := dev.DefaultStream()
		require.NoError(t, err)
		first, err := ndview.Add.Of(x, uint8(0)) // loads the kernel, which waits for the GPU
		require.NoError(t, err)
		first.Release()
		require.NoError(t, dev.Synchronize())
		held := func() int64 { s := dev.MemoryStats(); return s.InUse + s.Idle }
		before := held()
		gate := make(chan struct{})
		require.NoError(t, stream.LaunchHostFunc(func() { <-gate }))
		var last *ndview.NDBuffer
		for i := range 8 {
			if last != nil {
				last.Release()
			}
			last, err = ndview.Add.Of(x, uint8(i))
			require.NoError(t, err)
		}
		during := held()
		close(gate)
		ndtest.Own(t, last, nil)
		assert.LessOrEqual(t, during-before, int64(n))
		assert.Equal(t, bytes.Repeat([]byte{47}, n), ndtest.Elements(t, last))
	})
}

func TestFillWritesOnlyTheArray(t *testing.T) {
	payload := math.Float64frombits(0x7ff0_dead_beef_0001) // a signalling NaN
	element := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range []struct {
			dtype ndview.DType
			value any
			want  []byte
		}{
			{ndview.Bool, true, ndtest.Raw(true)},
			{ndview.Int16, -2, ndtest.Raw[int16](-2)},
			{ndview.Float32, math.Copysign(0, -1), ndtest.Raw(float32(math.Copysign(0, -1)))},
			{ndview.Float64, payload, ndtest.Raw(payload)},
			{ndview.Complex128, complex(1.5, payload), ndtest.Raw(complex(1.5, payload))},
			{ndview.Bytes(3), element[:3], element[:3]},
			{ndview.Bytes(24), element, element},
		} {
			value := tt.value
			if bytes, ok := value.([]byte); ok {
				s, err := ndview.NewScalar(tt.dtype, bytes)
				require.NoError(t, err)
				value = s
			}
			for _, n := range []int64{0, 1, 5, 100, 4099} {
				for _, align := range []int64{0, 1, 8, 15} {
					want := poisoned(int(n*tt.dtype.Size()) + 40)
					buf := ndtest.Upload(t, dev, want)
					require.NoError(t, ndtest.At(t, buf, tt.dtype, 16+align, n).Fill(value))
					copy(want[16+align:], repeat(tt.want, tt.dtype.Size(), n))
					ndtest.RequireBytes(t, want, ndtest.Download(t, buf), tt.dtype, n, align)
				}
			}
		}
	})
}

func TestFillAcceptsStrides(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(12), 3, 4)
		require.NoError(t, index(t, a, ndview.SpanStep(ndview.Open, ndview.Open, -2), ndview.Span(1, 3)).Fill(-1))
		assert.Equal(t, ndtest.Raw[int32](0, -1, -1, 3, 4, 5, 6, 7, 8, -1, -1, 11), ndtest.Elements(t, a))
		fixed, err := a.ReadOnly()
		ndtest.Own(t, fixed, err)
		assert.ErrorIs(t, fixed.Fill(1), ndview.ErrReadOnly)
	})
}

func TestFillKeepsTheSignOfZero(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for dtype, want := range map[ndview.DType][]byte{
			ndview.Float16: ndtest.Raw[uint16](0x8000, 0x8000), ndview.BFloat16: ndtest.Raw[uint16](0x8000, 0x8000),
			ndview.Float32: ndtest.Raw[uint32](1<<31, 1<<31), ndview.Float64: ndtest.Raw[uint64](1<<63, 1<<63),
		} {
			a, err := ndview.Zeros(dev, dtype, 2)
			ndtest.Own(t, a, err)
			require.NoError(t, a.Fill(math.Copysign(0, -1)))
			assert.Equal(t, want, ndtest.Elements(t, a), dtype)
		}
		a, err := ndview.Zeros(dev, ndview.Int8, 2)
		ndtest.Own(t, a, err)
		assert.ErrorIs(t, a.Fill(128), ndview.ErrRange)
		assert.Equal(t, []byte{0, 0}, ndtest.Elements(t, a))
	})
}

// triangleOf is the reference of NumPy's tril and triu on matrices.
func triangleOf(raw []byte, size, rows, columns, k int64, upper bool) []byte {
	out := slices.Clone(raw)
	for i := range int64(len(raw)) / size {
		row, column := i/columns%rows, i%columns
		if keep := column <= row+k; upper && column < row+k || !upper && !keep {
			clear(out[i*size : (i+1)*size])
		}
	}
	return out
}

func TestTrianglesMatchNumPy(t *testing.T) {
	dtypes := []ndview.DType{ndview.Int8, ndview.Float16, ndview.Float32, ndview.Int64, ndview.Complex128}
	shapes := [][]int64{{1, 1}, {4, 4}, {3, 16}, {16, 3}, {2, 3, 32}, {2, 0, 3}, {70, 48}}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		rng := rand.New(rand.NewPCG(8, 1))
		for _, dtype := range dtypes {
			for _, shape := range shapes {
				rows, columns := shape[len(shape)-2], shape[len(shape)-1]
				for _, k := range []int64{0, 1, -2, 5, -100, math.MaxInt64, math.MinInt64} {
					reach := max(-rows-1, min(k, columns+1))
					n := dtype.Size()
					for _, d := range shape {
						n *= d
					}
					data := randomBytes(rng, int(n)+16)
					shift := int64(0)
					if k == 1 {
						shift = dtype.Size() % 16
					}
					for _, upper := range []bool{false, true} {
						buf := ndtest.Upload(t, dev, data)
						a := ndtest.At(t, buf, dtype, shift, shape...)
						make, cut := a.Tril, a.TrilInPlace
						if upper {
							make, cut = a.Triu, a.TriuInPlace
						}
						want := triangleOf(data[shift:shift+n], dtype.Size(), rows, columns, reach, upper)
						got, err := make(k)
						ndtest.Own(t, got, err)
						ndtest.RequireBytes(t, want, ndtest.Elements(t, got), dtype, shape, k, upper)
						require.NoError(t, cut(k))
						whole := slices.Concat(data[:shift], want, data[shift+n:])
						ndtest.RequireBytes(t, whole, ndtest.Download(t, buf), dtype, shape, k, upper)
					}
				}
			}
		}
	})
}

func TestTrianglesAcceptStridesAndOneAxis(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(6), 2, 3)
		transposed, err := a.Transpose()
		ndtest.Own(t, transposed, err)
		got, err := transposed.Tril(0)
		ndtest.Own(t, got, err)
		assert.Equal(t, ndtest.Raw[int32](0, 0, 1, 4, 2, 5), ndtest.Elements(t, got))
		require.NoError(t, transposed.TriuInPlace(1))
		assert.Equal(t, ndtest.Raw[int32](0, 0, 0, 3, 0, 0), ndtest.Elements(t, a))

		row := ndtest.FromHost(t, dev, ndview.Int32, []int32{1, 2, 3}, 3)
		got, err = row.Triu(0)
		ndtest.Own(t, got, err)
		assert.Equal(t, ndtest.Raw[int32](1, 2, 3, 0, 2, 3, 0, 0, 3), ndtest.Elements(t, got), "as numpy.triu")

		assert.ErrorIs(t, row.TriuInPlace(0), ndview.ErrShape)
		_, err = ndtest.At(t, a.Buffer(), ndview.Bytes(3), 0, 2, 2).Tril(0)
		assert.ErrorIs(t, err, ndview.ErrDType)
		_, err = ndtest.At(t, a.Buffer(), ndview.Int8, 0).Tril(0)
		assert.ErrorIs(t, err, ndview.ErrShape)
	})
}
