package ndview_test

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var picks = map[string]func(*ndview.NDBuffer, ndview.ReduceOptions) (values, positions *ndview.NDBuffer, err error){
	"argmax": ndview.MaxAndArgMax, "argmin": ndview.MinAndArgMin,
}

// elementsAt returns the bytes of the elements of a at the positions that a reduction of
// axes has found, by indexing on the host.
func elementsAt(t *testing.T, a *ndview.NDBuffer, axes []int, positions []int64) []byte {
	t.Helper()
	shape, size, data := a.Shape(), a.DType().Size(), ndtest.Elements(t, a)
	isReduced := make([]bool, len(shape))
	for i := range shape {
		isReduced[i] = axes == nil
	}
	for _, axis := range axes {
		isReduced[(axis+len(shape))%len(shape)] = true
	}
	var out []byte
	for result, position := range positions {
		number, place, step := int64(result), int64(0), int64(1)
		for i := len(shape) - 1; i >= 0; i-- {
			from := &number
			if isReduced[i] {
				from = &position
			}
			place += *from % shape[i] * step
			*from /= shape[i]
			step *= shape[i]
		}
		out = append(out, data[place*size:][:size]...)
	}
	return out
}

// checkPick compares values and positions with those of the reduction, and with elements.
func checkPick(t *testing.T, name string, a *ndview.NDBuffer, o ndview.ReduceOptions, about ...any) (positions []byte) {
	t.Helper()
	values, at, err := picks[name](a, o)
	require.NoError(t, err, about...)
	ndtest.Own(t, values, nil)
	ndtest.Own(t, at, nil)
	want, err := reductions[name].Of(a, o)
	ndtest.Own(t, want, err)
	require.Equal(t, want.Shape(), at.Shape(), about...)
	require.Equal(t, want.Shape(), values.Shape(), about...)
	require.Equal(t, a.DType(), values.DType(), about...)
	ndtest.RequireBytes(t, ndtest.Elements(t, want), ndtest.Elements(t, at), about...)
	ndtest.RequireBytes(t, elementsAt(t, a, o.Axes, ndtest.HostOf[int64](t, at)), ndtest.Elements(t, values), about...)
	return ndtest.Elements(t, at)
}

// The cases of testdata/golden/reduce.py with positions.
func TestMaxAndArgMaxMatchNumPy(t *testing.T) {
	var file struct {
		Data  map[string][2]string
		Cases [][]json.RawMessage
	}
	readGolden(t, "reduce.json", &file)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		checked := 0
		for _, c := range file.Cases {
			name, r := field[string](t, c[0]), field[string](t, c[4])
			if picks[r] == nil || len(c) == 8 {
				continue
			}
			data, err := hex.DecodeString(file.Data[name][1])
			require.NoError(t, err)
			dtype := numpyType(t, file.Data[name][0])
			strides := field[[]int64](t, c[3])
			for i := range strides {
				strides[i] *= dtype.Size()
			}
			a, err := ndview.FromBuffer(ndtest.Upload(t, dev, data), dtype, field[int64](t, c[1])*dtype.Size(), field[[]int64](t, c[2]), strides)
			ndtest.Own(t, a, err)
			got := checkPick(t, r, a, ndview.ReduceOptions{Axes: field[[]int](t, c[5]), KeepDims: field[bool](t, c[6])}, c)
			want, err := hex.DecodeString(field[string](t, c[10]))
			require.NoError(t, err)
			ndtest.RequireBytes(t, want, got, c)
			checked++
		}
		assert.Greater(t, checked, 100)
	})
}

func TestMaxAndArgMaxAcceptAnyLayout(t *testing.T) {
	dtypes := []ndview.DType{ndview.Int8, ndview.Float16, ndview.Float32, ndview.Int64, ndview.Complex128}
	if testing.Short() {
		dtypes = dtypes[1:3]
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		random := rand.New(rand.NewPCG(1, 2))
		for _, dtype := range dtypes {
			data := make([]byte, 64*37*50*dtype.Size()+16)
			for i := range data {
				data[i] = byte(random.Uint32()) & 0x3b // no NaNs
			}
			buf := ndtest.Upload(t, dev, data)
			whole := ndtest.At(t, buf, dtype, 0, 64, 37, 50)
			odd, err := ndview.FromBuffer(buf, dtype, 1, []int64{64, 37, 50}, nil)
			ndtest.Own(t, odd, err)
			back := ndview.SpanStep(ndview.Open, ndview.Open, -1)
			turned, err := whole.Transpose(2, 0, 1)
			ndtest.Own(t, turned, err)
			reversed, err := turned.Index(back, ndview.SpanStep(ndview.Open, ndview.Open, 3), back)
			ndtest.Own(t, reversed, err)
			row, err := whole.Index(ndview.Span(0, 1))
			ndtest.Own(t, row, err)
			repeated, err := row.BroadcastTo(3, 37, 50)
			ndtest.Own(t, repeated, err)
			for layout, a := range map[string]*ndview.NDBuffer{"contiguous": whole, "misaligned": odd, "reversed": reversed, "broadcast": repeated} {
				for mask := range 8 {
					axes := []int{}
					for axis := range 3 {
						if mask>>axis&1 != 0 {
							axes = append(axes, axis-3*(mask&1))
						}
					}
					for name := range picks {
						checkPick(t, name, a, ndview.ReduceOptions{Axes: axes, KeepDims: mask%3 == 0}, dtype, layout, axes, name)
					}
				}
				checkPick(t, "argmax", a, ndview.ReduceOptions{}, dtype, layout)
			}
		}
	})
}

func TestMaxAndArgMaxAcceptManyAxesAndElements(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		const axes = 18 // transposed, so that no two can be merged
		a := ndtest.FromHost(t, dev, ndview.Int32, values(1<<axes), slices.Repeat([]int64{2}, axes)...)
		turned, err := a.Transpose()
		ndtest.Own(t, turned, err)
		for name := range picks {
			checkPick(t, name, turned, ndview.ReduceOptions{}, name)
			checkPick(t, name, turned, ndview.ReduceOptions{Axes: []int{0, 3, -1}, KeepDims: true}, name)
		}
		const n = 3_000_000 // several blocks for one result
		data := make([]float32, n)
		for i := range data {
			data[i] = float32(i % 1000)
		}
		data[2_345_678], data[2_345_679] = 5000, 5000
		long := ndtest.FromHost(t, dev, ndview.Float32, data, n)
		most, where, err := ndview.MaxAndArgMax(long, ndview.ReduceOptions{})
		ndtest.Own(t, most, err)
		ndtest.Own(t, where, nil)
		assert.Equal(t, ndtest.Raw[float32](5000), ndtest.Elements(t, most))
		assert.Equal(t, ndtest.Raw[int64](2_345_678), ndtest.Elements(t, where))
	})
}

// The value is the element at the position, with its own bits.
func TestMaxAndArgMaxKeepBitsOfNaNsAndZeros(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		nan := math.Float32frombits(0xffc01234)
		negative := float32(math.Copysign(0, -1))
		a := ndtest.FromHost(t, dev, ndview.Float32, []float32{1, nan, float32(math.NaN()), negative, 0, -1}, 2, 3)
		most, where, err := ndview.MaxAndArgMax(a, ndview.ReduceOptions{Axes: []int{1}})
		ndtest.Own(t, most, err)
		ndtest.Own(t, where, nil)
		assert.Equal(t, ndtest.Raw(nan, negative), ndtest.Elements(t, most))
		assert.Equal(t, ndtest.Raw[int64](1, 0), ndtest.Elements(t, where))
	})
}

func TestMaxAndArgMaxOfInvalidArgumentsAreErrors(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, values(6), 2, 3)
		none := ndtest.FromHost(t, dev, ndview.Int32, values(0), 0, 3)
		record, err := ndview.Record(4, ndview.Field{Name: "a", DType: ndview.Int8})
		require.NoError(t, err)
		fields, err := ndview.Zeros(dev, record, 4)
		ndtest.Own(t, fields, err)
		released, err := ndview.Zeros(dev, ndview.Int8, 4)
		require.NoError(t, err)
		released.Release()
		for _, tt := range []struct {
			a    *ndview.NDBuffer
			o    ndview.ReduceOptions
			want error
		}{
			{a, ndview.ReduceOptions{Axes: []int{2}}, ndview.ErrShape},
			{a, ndview.ReduceOptions{Axes: []int{1, 1}}, ndview.ErrShape},
			{a, ndview.ReduceOptions{DType: ndview.Int64}, ndview.ErrDType},
			{none, ndview.ReduceOptions{Axes: []int{0}}, ndview.ErrShape},
			{fields, ndview.ReduceOptions{}, ndview.ErrDType},
			{released, ndview.ReduceOptions{}, arrowbuf.ErrReleased},
			{nil, ndview.ReduceOptions{}, nil},
		} {
			for name, pick := range picks {
				values, positions, err := pick(tt.a, tt.o)
				require.Error(t, err)
				if tt.want != nil {
					assert.ErrorIs(t, err, tt.want)
				}
				assert.Nil(t, values)
				assert.Nil(t, positions)
				assert.True(t, strings.HasPrefix(err.Error(), map[string]string{"argmax": "ndview.MaxAndArgMax: ", "argmin": "ndview.MinAndArgMin: "}[name]), err)
			}
		}
		kept, positions, err := ndview.MaxAndArgMax(none, ndview.ReduceOptions{Axes: []int{1}})
		ndtest.Own(t, kept, err)
		ndtest.Own(t, positions, nil)
		assert.Equal(t, []int64{0}, kept.Shape(), "no results of three elements each")
	})
}
