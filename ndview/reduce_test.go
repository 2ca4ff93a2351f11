package ndview_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
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

func TestBytesAndRecordsAreNotReduced(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, size := range []int64{1, 3, 8, 16, 29} {
			record, err := ndview.Record(size, ndview.Field{Name: "a", DType: ndview.Int8})
			require.NoError(t, err)
			for _, dtype := range []ndview.DType{record, ndview.Bytes(int32(size))} {
				a, err := ndview.Zeros(dev, dtype, 4)
				own(t, a, err)
				for _, r := range []ndview.Reduction{ndview.Sum, ndview.Prod, ndview.Mean, ndview.Min, ndview.Max, ndview.ArgMin, ndview.ArgMax,
					ndview.AnyTrue, ndview.AllTrue, ndview.CountNonzero} {
					_, err := r.Of(a, ndview.ReduceOptions{})
					assert.ErrorIs(t, err, ndview.ErrDType, "%s of %s", r, dtype)
				}
			}
		}
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

// TestTheLeastOfComplexNumbersIsTheFirst in memory, axes forwards, as it is in
// NumPy: of NaNs with different other halves, and of zeros of both signs.
func TestTheLeastOfComplexNumbersIsTheFirst(t *testing.T) {
	const rows, columns = 301, 257
	nan, negative := math.NaN(), math.Copysign(0, -1)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for name, among := range map[string][]complex128{
			// NaNs are rare, so that the first is not that of any other order.
			"NaN":  append(slices.Repeat([]complex128{3}, 60), complex(nan, 1), complex(2, nan), complex(nan, -4), complex(1, nan)),
			"zero": {0, complex(negative, 0), complex(0, negative), complex(negative, negative)},
		} {
			rng := rand.New(rand.NewPCG(uint64(len(name)), 1))
			values := make([]complex128, rows*columns)
			for i := range values {
				values[i] = among[rng.IntN(len(among))]
			}
			a := fromHost(t, dev, ndview.Complex128, values, rows, columns)
			backwards, err := a.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1))
			backwards = own(t, backwards, err)
			turned, err := a.Transpose()
			turned = own(t, turned, err)
			odd, err := ndview.FromBuffer(upload(t, dev, append([]byte{0}, raw(values...)...)), ndview.Complex128, 1, []int64{rows, columns}, nil)
			odd = own(t, odd, err)
			oddTurned, err := odd.Transpose()
			oddTurned = own(t, oddTurned, err)
			// The first that is NaN, or of zeros the first.
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
			check := func(about string, r ndview.Reduction, a *ndview.NDBuffer, axes []int, want ...complex128) {
				got, err := r.Of(a, ndview.ReduceOptions{Axes: axes})
				got = own(t, got, err)
				assert.True(t, bytes.Equal(raw(want...), elements(t, got)), "%s of %s, %s", r, name, about)
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

// every is n numbers from first on, by step.
func every(first, step, n int) []int {
	at := make([]int, n)
	for i := range at {
		at[i] = first + i*step
	}
	return at
}
