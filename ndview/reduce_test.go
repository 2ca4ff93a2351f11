package ndview_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

var reductions = byName(ndview.Sum, ndview.Prod, ndview.Mean, ndview.Min, ndview.Max, ndview.ArgMin, ndview.ArgMax,
	ndview.AnyTrue, ndview.AllTrue, ndview.CountNonzero)

// TestReductionsAgreeWithNumPy: the generator says what a case is.
func TestReductionsAgreeWithNumPy(t *testing.T) {
	var file struct {
		Data  map[string][2]string
		Cases [][]json.RawMessage
	}
	readGolden(t, "reduce.json", &file)
	require.Greater(t, len(file.Cases), 1000)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		buffers, types := map[string]arrowbuf.Buffer{}, map[string]ndview.DType{}
		for name, data := range file.Data {
			raw, err := hex.DecodeString(data[1])
			require.NoError(t, err)
			buffers[name], types[name] = upload(t, dev, raw), numpyType(t, data[0])
		}
		for _, c := range file.Cases {
			name, dtype := field[string](t, c[0]), types[field[string](t, c[0])]
			strides := field[[]int64](t, c[3])
			for i := range strides {
				strides[i] *= dtype.Size()
			}
			a, err := ndview.FromBuffer(buffers[name], dtype, field[int64](t, c[1])*dtype.Size(), field[[]int64](t, c[2]), strides)
			checkReduction(t, own(t, a, err), c)
		}
	})
}

func checkReduction(t *testing.T, a *ndview.NDBuffer, c []json.RawMessage) {
	about := fmt.Sprintf("%s", c)
	r := reductions[field[string](t, c[4])]
	o := ndview.ReduceOptions{Axes: field[[]int](t, c[5]), KeepDims: field[bool](t, c[6]), DType: numpyType(t, field[string](t, c[7]))}
	got, err := r.Of(a, o)
	if len(c) == 8 {
		if assert.Error(t, err, about) {
			assert.True(t, isShapeOrDType(err), "%v: %s", err, about)
		}
		return
	}
	require.NoError(t, err, about)
	defer got.Release()
	require.Equal(t, numpyType(t, field[string](t, c[8])), got.DType(), about)
	require.Equal(t, field[[]int64](t, c[9]), got.Shape(), about)
	want, err := hex.DecodeString(field[string](t, c[10]))
	require.NoError(t, err)
	requireSame(t, got.DType(), want, elements(t, got), 0)
	require.False(t, t.Failed(), about)
}

func isShapeOrDType(err error) bool {
	return errors.Is(err, ndview.ErrShape) || errors.Is(err, ndview.ErrDType)
}

func TestProductsOfIntegersMayBeFloats(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		large := fromHost(t, dev, ndview.Int64, []int64{1 << 40, 3, 1 << 40, 5}, 2, 2)
		got, err := ndview.Prod.Of(large, ndview.ReduceOptions{DType: ndview.Float64, Axes: []int{0}})
		own(t, got, err)
		assert.Equal(t, raw(0x1p80, 15), elements(t, got))
		got, err = ndview.Prod.Of(large, ndview.ReduceOptions{DType: ndview.Complex64})
		own(t, got, err)
		assert.Equal(t, raw[complex64](15*0x1p80), elements(t, got))
		out, err := ndview.Zeros(dev, ndview.Float32)
		own(t, out, err)
		require.NoError(t, ndview.Prod.Into(out, large, ndview.ReduceOptions{}))
		assert.Equal(t, raw[float32](15*0x1p80), elements(t, out))
		_, err = ndview.Mean.Of(large, ndview.ReduceOptions{DType: ndview.Int8})
		assert.ErrorIs(t, err, ndview.ErrDType)
	})
}

func TestReductionsAndComparisonsTakeManyAxes(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		const axes = 18 // in C order turned around, so that no two can be joined
		twos := slices.Repeat([]int64{2}, axes)
		a := fromHost(t, dev, ndview.Int32, values(1<<axes), twos...)
		turned, err := a.Transpose()
		own(t, turned, err)
		straight, err := turned.Copy(ndview.OrderC)
		own(t, straight, err)
		for _, r := range []ndview.Reduction{ndview.ArgMax, ndview.ArgMin} {
			want, err := r.Of(straight, ndview.ReduceOptions{KeepDims: true})
			own(t, want, err)
			got, err := r.Of(turned, ndview.ReduceOptions{KeepDims: true})
			own(t, got, err)
			assert.Equal(t, want.Shape(), got.Shape())
			assert.Equal(t, elements(t, want), elements(t, got), r)
			out, err := ndview.Zeros(dev, ndview.Int64)
			own(t, out, err)
			require.NoError(t, r.Into(out, turned, ndview.ReduceOptions{}))
			assert.Equal(t, elements(t, want), elements(t, out), r)
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
