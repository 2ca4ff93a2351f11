package ndview_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// TestReductionsOfEveryShapeAgreeWithLoops takes shapes for which kernels divide
// the work in different ways, at addresses of any alignment.
func TestReductionsOfEveryShapeAgreeWithLoops(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	shapes := [][3]int64{{1, 70_000, 1}, {3, 20_011, 1}, {700, 3, 1}, {5000, 30, 1}, {300, 129, 1}, {1, 3, 20_001}, {1, 20_000, 3},
		{1, 30_000, 4}, {4, 500, 30}, {20, 100, 33}, {2, 300, 128}, {1, 4, 40_000}, {40, 1, 40}, {1, 40_000, 1}, {999, 16, 1}, {7, 2, 7},
		{4096, 4, 1}, {4096, 2, 1}, {5, 6, 1024}, {3, 7, 2000}}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, shape := range shapes {
			for _, skip := range []int64{0, 1, 3} {
				n := shape[0] * shape[1] * shape[2]
				values := make([]int16, n+skip)
				bytes := make([]int8, n+skip)
				wide := make([]float32, n+skip)
				for i := range values {
					values[i] = int16(rng.Uint32())
					bytes[i] = int8(values[i])
					wide[i] = float32(values[i])
				}
				about := fmt.Sprintf("%v from %d", shape, skip)
				agree(t, dev, ndview.Int8, bytes, skip, shape, about)
				agree(t, dev, ndview.Int16, values, skip, shape, about)
				agree(t, dev, ndview.Float32, wide, skip, shape, about)
			}
		}
	})
}

// agree compares sum, min, max, argmin, argmax and count over the middle axis with
// loops.
func agree[T int8 | int16 | float32](t *testing.T, dev arrowbuf.Device, dtype ndview.DType, values []T, skip int64, shape [3]int64, about string) {
	t.Helper()
	a := at(t, upload(t, dev, raw(values...)), dtype, skip*dtype.Size(), shape[:]...)
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
		require.NoError(t, err, about)
		requireBytes(t, want, elements(t, own(t, got, err)), r, dtype, about)
	}
	check(ndview.Sum, raw(sums...), ndview.Float64)
	check(ndview.Min, raw(least...), ndview.DType{})
	check(ndview.Max, raw(greatest...), ndview.DType{})
	check(ndview.ArgMin, raw(argmin...), ndview.DType{})
	check(ndview.ArgMax, raw(argmax...), ndview.DType{})
	check(ndview.CountNonzero, raw(count...), ndview.DType{})
}

// TestReductionsOfAxesApartAgreeWithNeighbours reduces axes that cannot be joined, and
// the same elements in another order, where they can.
func TestReductionsOfAxesApartAgreeWithNeighbours(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 11))
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, shape := range [][]int64{{300, 2, 5, 64}, {700, 3, 2, 16}, {90, 1, 101, 33}, {2, 8, 1000, 64}} {
			values := make([]int8, shape[0]*shape[1]*shape[2]*shape[3])
			for i := range values {
				values[i] = int8(rng.Uint32() % 200)
			}
			for _, dtype := range []ndview.DType{ndview.Int8, ndview.Uint8, ndview.Int16, ndview.Float16, ndview.Float32, ndview.Float64} {
				cast, err := fromHost(t, dev, ndview.Int8, values, shape...).AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
				a := own(t, cast, err)
				turned, err := a.Transpose(1, 3, 0, 2)
				copied, err2 := own(t, turned, err).Copy(ndview.OrderC)
				require.NoError(t, err2)
				joined := own(t, copied, nil)
				for _, r := range []ndview.Reduction{ndview.Sum, ndview.Min, ndview.Max, ndview.ArgMin, ndview.ArgMax, ndview.CountNonzero} {
					got, err := r.Of(a, ndview.ReduceOptions{Axes: []int{0, 2}})
					want, err2 := r.Of(joined, ndview.ReduceOptions{Axes: []int{2, 3}})
					require.NoError(t, err2)
					requireBytes(t, elements(t, own(t, want, nil)), elements(t, own(t, got, err)), r, dtype, shape)
				}
			}
		}
	})
}

func TestReductionsWriteIntoArrays(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, count(24), 2, 3, 4)
		o := ndview.ReduceOptions{Axes: []int{1}}
		matrix := fromHost(t, dev, ndview.Int64, make([]int64, 24), 8, 3)
		every := index(t, matrix, ndview.SpanStep(ndview.Open, ndview.Open, 2), ndview.Span(0, 2))
		turned, err := every.Transpose()
		require.NoError(t, ndview.Sum.Into(own(t, turned, err), a, o))
		assert.Equal(t, raw[int64](12, 48, 15, 51, 18, 54, 21, 57), elements(t, every))

		small := fromHost(t, dev, ndview.Int16, make([]int16, 8), 2, 4)
		require.NoError(t, ndview.Sum.Into(small, a, o), "the type of out is that of the sum")
		assert.Equal(t, raw[int16](12, 15, 18, 21, 48, 51, 54, 57), elements(t, small))

		row := index(t, a, ndview.At(0), ndview.At(0))
		require.NoError(t, ndview.Max.Into(row, a, ndview.ReduceOptions{Axes: []int{0, 1}}), "they share memory")
		assert.Equal(t, raw[int32](20, 21, 22, 23), elements(t, row))

		for name, err := range map[string]error{
			"another shape":  ndview.Sum.Into(matrix, a, o),
			"another type":   ndview.Max.Into(small, a, o),
			"no such axis":   ndview.Sum.Into(small, a, ndview.ReduceOptions{Axes: []int{3}}),
			"an axis twice":  ndview.Sum.Into(small, a, ndview.ReduceOptions{Axes: []int{1, -2}}),
			"keeping all":    ndview.Sum.Into(small, a, ndview.ReduceOptions{Axes: []int{1}, KeepDims: true}),
			"another device": ndview.Sum.Into(fromHost(t, otherThan(t, dev), ndview.Int64, make([]int64, 8), 2, 4), a, o),
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

func TestReductionsTakeBFloat16(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.BFloat16, []uint16{0x3f80, 0xc000, 0x4040, 0x0000}, 4) // 1, -2, 3, 0
		for r, want := range map[ndview.Reduction][]byte{
			ndview.Sum: raw[uint16](0x4000), ndview.Min: raw[uint16](0xc000), ndview.Max: raw[uint16](0x4040),
			ndview.Mean: raw[uint16](0x3f00), ndview.Prod: raw[uint16](0x8000), ndview.ArgMax: raw[int64](2),
			ndview.ArgMin: raw[int64](1), ndview.CountNonzero: raw[int64](3), ndview.AnyTrue: raw(true), ndview.AllTrue: raw(false),
		} {
			got, err := r.Of(a, ndview.ReduceOptions{})
			assert.Equal(t, want, elements(t, own(t, got, err)), r)
		}
	})
}
