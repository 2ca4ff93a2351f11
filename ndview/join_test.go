package ndview_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
)

type arrays = []*ndview.NDBuffer

// one returns the result of a join as a list.
func one(a *ndview.NDBuffer, err error) (arrays, error) {
	if err != nil {
		return nil, err
	}
	return arrays{a}, nil
}

// joins are the functions of join.json. A case has a number of parts n, or indices.
var joins = map[string]func(x arrays, n int64, indices []int64, axis int) (arrays, error){
	"Concatenate":     func(x arrays, _ int64, _ []int64, axis int) (arrays, error) { return one(ndview.Concatenate(x, axis)) },
	"ConcatenateFlat": func(x arrays, _ int64, _ []int64, _ int) (arrays, error) { return one(ndview.ConcatenateFlat(x)) },
	"Stack":           func(x arrays, _ int64, _ []int64, axis int) (arrays, error) { return one(ndview.Stack(x, axis)) },
	"VStack":          func(x arrays, _ int64, _ []int64, _ int) (arrays, error) { return one(ndview.VStack(x)) },
	"HStack":          func(x arrays, _ int64, _ []int64, _ int) (arrays, error) { return one(ndview.HStack(x)) },
	"DStack":          func(x arrays, _ int64, _ []int64, _ int) (arrays, error) { return one(ndview.DStack(x)) },
	"ColumnStack":     func(x arrays, _ int64, _ []int64, _ int) (arrays, error) { return one(ndview.ColumnStack(x)) },
	"AtLeast1D":       func(x arrays, _ int64, _ []int64, _ int) (arrays, error) { return one(ndview.AtLeast1D(x[0])) },
	"AtLeast2D":       func(x arrays, _ int64, _ []int64, _ int) (arrays, error) { return one(ndview.AtLeast2D(x[0])) },
	"AtLeast3D":       func(x arrays, _ int64, _ []int64, _ int) (arrays, error) { return one(ndview.AtLeast3D(x[0])) },
	"Split":           func(x arrays, n int64, _ []int64, axis int) (arrays, error) { return ndview.Split(x[0], n, axis) },
	"ArraySplit":      func(x arrays, n int64, _ []int64, axis int) (arrays, error) { return ndview.ArraySplit(x[0], n, axis) },
	"SplitAt":         func(x arrays, _ int64, at []int64, axis int) (arrays, error) { return ndview.SplitAt(x[0], at, axis) },
	"HSplit":          func(x arrays, n int64, _ []int64, _ int) (arrays, error) { return ndview.HSplit(x[0], n) },
	"VSplit":          func(x arrays, n int64, _ []int64, _ int) (arrays, error) { return ndview.VSplit(x[0], n) },
	"HSplitAt":        func(x arrays, _ int64, at []int64, _ int) (arrays, error) { return ndview.HSplitAt(x[0], at) },
	"VSplitAt":        func(x arrays, _ int64, at []int64, _ int) (arrays, error) { return ndview.VSplitAt(x[0], at) },
	"DSplitAt":        func(x arrays, _ int64, at []int64, _ int) (arrays, error) { return ndview.DSplitAt(x[0], at) },
	"DSplit":          func(x arrays, n int64, _ []int64, _ int) (arrays, error) { return ndview.DSplit(x[0], n) },
}

func TestJoinsAndSplitsMatchNumPy(t *testing.T) {
	cases := golden(t, "join")
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, c := range cases {
			dtype := elementTypes[i%len(elementTypes)]
			var in arrays
			for _, a := range field[[][3]json.RawMessage](t, c[1]) {
				in = append(in, goldenView(t, dev, dtype, 0, field[int64](t, a[0]), field[[]int64](t, a[1]), field[[]int64](t, a[2])))
			}
			var n int64
			var indices []int64
			if json.Unmarshal(c[2], &n) != nil {
				indices = field[[]int64](t, c[2])
			}
			got, err := joins[field[string](t, c[0])](in, n, indices, field[int](t, c[3]))
			if len(c) == 4 {
				require.ErrorIs(t, err, ndview.ErrShape, "case %d: %s", i, c)
				continue
			}
			require.NoError(t, err, "case %d: %s", i, c)
			want := field[[][2][]int64](t, c[4])
			require.Len(t, got, len(want), "case %d: %s", i, c)
			for k, w := range want {
				ndtest.Own(t, got[k], nil)
				require.Equal(t, w[0], append([]int64{}, got[k].Shape()...), "case %d, result %d: %s", i, k, c)
				ndtest.RequireBytes(t, patterns(dtype, w[1]), ndtest.Elements(t, got[k]), "case", i, "result", k, c)
			}
		}
	})
}

func TestJoinsOfInvalidArgumentsAreErrors(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		_, err := ndview.Concatenate(nil, 0)
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = ndview.VStack(nil)
		assert.ErrorIs(t, err, ndview.ErrShape)
		a := ndtest.FromHost(t, dev, ndview.Int32, count(3), 3)
		b := ndtest.FromHost(t, ndtest.OtherThan(t, dev), ndview.Int32, count(3), 3)
		_, err = ndview.Concatenate(arrays{a, b}, 0)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		released, err := ndview.Empty(dev, ndview.Int32, 3)
		require.NoError(t, err)
		released.Release()
		_, err = ndview.Concatenate(arrays{a, released}, 0)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		_, err = ndview.HSplit(a, 0)
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = ndview.VSplitAt(a, nil)
		assert.ErrorContains(t, err, "ndview.VSplitAt: array of shape [3], want at least 2 axes")
		_, err = ndview.HSplitAt(nil, nil)
		assert.ErrorContains(t, err, "ndview.HSplitAt: nil argument")
		_, err = ndview.ArraySplit(a, 1<<50, 0)
		assert.ErrorIs(t, err, ndview.ErrShape)
		before, err := ndview.SplitAt(a, []int64{math.MinInt64}, 0)
		require.NoError(t, err)
		assert.Equal(t, []int64{0}, before[0].Shape())
		for _, piece := range before {
			piece.Release()
		}
	})
}

func TestJoinsPromoteTypes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, []int32{1, 2, 3, 1<<24 + 1}, 2, 2)
		b := ndtest.FromHost(t, dev, ndview.Float32, []float32{0.5, -1}, 2, 1)
		c := ndtest.FromHost(t, dev, ndview.Bool, []bool{true, false}, 2, 1)
		got, err := ndview.Concatenate(arrays{a, b, c}, 1)
		ndtest.Own(t, got, err)
		assert.Equal(t, ndview.Float64, got.DType())
		assert.Equal(t, ndtest.Raw(1, 2, 0.5, 1, 3, 1<<24+1, -1, 0), ndtest.Elements(t, got))
		when := ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Second, 1), []int64{0, 1}, 2, 1)
		_, err = ndview.Concatenate(arrays{a, when}, 1)
		assert.ErrorIs(t, err, ndview.ErrDType)
		span := ndtest.FromHost(t, dev, ndview.Timedelta64(ndview.Second, 1), []int64{0, 1}, 2, 1)
		_, err = ndview.Concatenate(arrays{when, span}, 1)
		assert.ErrorIs(t, err, ndview.ErrDType, "a timedelta is not a datetime")
		var three arrays
		for _, dtype := range []ndview.DType{ndview.Int16, ndview.Uint16, ndview.Float32} {
			one, err := ndview.Zeros(dev, dtype, 1)
			three = append(three, ndtest.Own(t, one, err))
		}
		got, err = ndview.Stack(three, 0)
		ndtest.Own(t, got, err)
		assert.Equal(t, ndview.Float32, got.DType(), "promoting the first two and then the third would give float64")
		got, err = ndview.Clip(three[0], three[1], three[2])
		ndtest.Own(t, got, err)
		assert.Equal(t, ndview.Float32, got.DType())
	})
}
