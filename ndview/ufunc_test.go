package ndview_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// values returns n int32s of both signs.
func values(n int64) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(i)*2654435 - 77777
	}
	return v
}

func TestOperationsBroadcast(t *testing.T) {
	shapes := [][2][]int64{
		{{4, 5}, {5}}, {{4, 1}, {1, 5}}, {{4, 64}, {64}}, {{4, 64}, {4, 1}}, {{3, 200}, {1}}, {{}, {3}}, {{2, 3, 4, 5}, {3, 1, 5}},
		{{300, 3}, {3}}, {{1, 1}, {1, 1, 1}}, {{7, 2000}, {7, 1}}, {{0, 3}, {3}}, {{3, 1, 2, 1, 3, 1}, {2, 1, 2, 1, 2}},
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, s := range shapes {
			x := fromHost(t, dev, ndview.Int32, values(product(s[0])), s[0]...)
			y := fromHost(t, dev, ndview.Int32, values(product(s[1])), s[1]...)
			sum, err := ndview.Add.Of(x, y)
			own(t, sum, err)
			requireModel(t, sum, x, y, s)
		}
	})
}

// requireModel checks a sum, element by element.
func requireModel(t *testing.T, sum, x, y *ndview.NDBuffer, about any) {
	t.Helper()
	xs, ys, got := slice[int32](elements(t, x)), slice[int32](elements(t, y)), slice[int32](elements(t, sum))
	shape := sum.Shape()
	for i := range got {
		index, rest := make([]int64, len(shape)), int64(i)
		for a := len(shape) - 1; a >= 0; a-- {
			index[a], rest = rest%shape[a], rest/shape[a]
		}
		want := xs[position(x.Shape(), index)] + ys[position(y.Shape(), index)]
		require.Equal(t, want, got[i], "%v at %v", about, index)
	}
}

// position is where the element that stands at index is, in C order.
func position(shape, index []int64) (at int64) {
	index = index[len(index)-len(shape):]
	for a, d := range shape {
		at *= d
		if d > 1 {
			at += index[a]
		}
	}
	return at
}

func product(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

func TestOperationsTakeAnyLayout(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		base := fromHost(t, dev, ndview.Int32, values(12*40*6), 12, 40, 6)
		for _, keys := range [][]ndview.Key{
			{ndview.SpanStep(ndview.Open, ndview.Open, -1)},
			{ndview.All, ndview.SpanStep(1, 33, 3)},
			{ndview.All, ndview.All, ndview.SpanStep(ndview.Open, ndview.Open, 2)},
			{ndview.At(3), ndview.SpanStep(ndview.Open, ndview.Open, -2)},
			{ndview.Span(1, 12), ndview.Span(1, 40), ndview.Span(1, 5)},
		} {
			x, err := base.Index(keys...)
			own(t, x, err)
			order := []int{1, 0}
			if x.NDim() == 3 {
				order = []int{2, 0, 1}
			}
			turned, err := x.Transpose(order...)
			own(t, turned, err)
			for _, v := range []*ndview.NDBuffer{x, turned} {
				sum, err := ndview.Add.Of(v, v)
				own(t, sum, err)
				requireModel(t, sum, v, v, fmt.Sprint(v.Shape(), v.Strides()))
				out, err := ndview.Empty(dev, ndview.Int32, base.Shape()...)
				own(t, out, err)
				place, err := out.Index(keys...)
				own(t, place, err)
				if v == x {
					require.NoError(t, ndview.Add.Into(place, x, x))
					requireBytes(t, elements(t, sum), elements(t, place))
				}
			}
		}
	})
}

func TestOperationsReadBeforeTheyWrite(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		const n = 5000
		for _, shift := range []int64{0, 1, 4, 16, 33} {
			for _, back := range []bool{false, true} {
				a := fromHost(t, dev, ndview.Int32, values(n+shift), n+shift)
				x, err := a.Slice(0, 0, n)
				own(t, x, err)
				out, err := a.Slice(0, shift, n+shift)
				own(t, out, err)
				if back {
					x, out = out, x
				}
				want := slice[int32](elements(t, x))
				require.NoError(t, ndview.Add.Into(out, x, x))
				got := slice[int32](elements(t, out))
				for i := range want {
					require.Equal(t, 2*want[i], got[i], "shift %d, element %d", shift, i)
				}
			}
		}
	})
}

func TestOperationsTakeUnalignedElements(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		data := raw(values(101)...)
		for skew := range 4 {
			x := at(t, upload(t, dev, append(make([]byte, skew), data...)), ndview.Int32, int64(skew), 101)
			out := at(t, upload(t, dev, poisoned(101*4+8)), ndview.Int32, int64(3-skew), 101)
			require.NoError(t, ndview.Multiply.Into(out, x, 3))
			for i, v := range slice[int32](elements(t, out)) {
				require.Equal(t, 3*values(101)[i], v)
			}
			around := download(t, out.Buffer())
			assert.Equal(t, poisoned(3-skew), around[:3-skew])
			assert.Equal(t, poisoned(5+skew), around[101*4+3-skew:])
		}
	})
}

func TestBoolsAreWrittenToAnyLayout(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		x := fromHost(t, dev, ndview.Bool, []bool{false, true, false, true}, 4)
		y := fromHost(t, dev, ndview.Bool, []bool{false, false, true, true}, 4)
		for _, c := range []struct {
			op   ndview.Binary
			want []bool
		}{{ndview.Add, []bool{false, true, true, true}}, {ndview.Multiply, []bool{false, false, false, true}},
			{ndview.BitwiseXor, []bool{false, true, true, false}}, {ndview.Minimum, []bool{false, false, false, true}}} {
			all, err := ndview.Full(dev, ndview.Uint8, uint8(poison), 8)
			own(t, all, err)
			bools, err := all.View(ndview.Bool)
			own(t, bools, err)
			out, err := bools.Index(ndview.SpanStep(ndview.Open, ndview.Open, -2))
			own(t, out, err)
			require.NoError(t, c.op.Into(out, x, y), c.op)
			assert.Equal(t, raw(c.want...), elements(t, out), c.op)
			assert.Equal(t, byte(poison), elements(t, all)[0])
		}
	})
}

func TestComparisonsWithNumbersBeyondTheTypeAreExact(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		x := fromHost(t, dev, ndview.Uint8, []uint8{0, 7, 255}, 3)
		for _, c := range []struct {
			op   ndview.Binary
			x, y any
			want bool
		}{
			{ndview.Less, x, 300, true}, {ndview.Less, x, -1, false}, {ndview.Greater, x, -1, true}, {ndview.Equal, x, 256, false},
			{ndview.NotEqual, x, -5, true}, {ndview.LessEqual, 256, x, false}, {ndview.GreaterEqual, 256, x, true},
		} {
			got, err := c.op.Of(c.x, c.y)
			own(t, got, err)
			assert.Equal(t, raw(c.want, c.want, c.want), elements(t, got), "%v %v %v", c.op, c.x, c.y)
		}
		_, err := ndview.Add.Of(x, 300)
		assert.Error(t, err, "no sum has such an element")
	})
}

func TestNextafterIsTheOtherWhereBothAreEqual(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		x := fromHost(t, dev, ndview.Float64, []float64{math.Copysign(0, -1), 0, 1, 1, math.Inf(1)}, 5)
		y := fromHost(t, dev, ndview.Float64, []float64{0, math.Copysign(0, -1), 2, 1, 0}, 5)
		got, err := ndview.Nextafter.Of(x, y)
		own(t, got, err)
		assert.Equal(t, raw(0, math.Copysign(0, -1), 1+0x1p-52, 1, math.MaxFloat64), elements(t, got))

		for _, dtype := range []ndview.DType{ndview.Float16, ndview.BFloat16} {
			const minus, one = 0x8000, 0x3c00                                              // a zero, and a number above all zeros
			x := fromHost(t, dev, dtype, []uint16{minus, 0, minus | 1, 1, 0, minus, 1}, 7) // 1 is the least above zero
			y := fromHost(t, dev, dtype, []uint16{0, minus, one, minus | one, minus | one, one, 1}, 7)
			got, err := ndview.Nextafter.Of(x, y)
			own(t, got, err)
			assert.Equal(t, raw[uint16](0, minus, minus, 0, minus|1, 1, 1), elements(t, got), dtype)
		}
		bools, err := ndview.Nextafter.Of(fromHost(t, dev, ndview.Bool, []bool{false, true}, 2), fromHost(t, dev, ndview.Bool, []bool{true, true}, 2))
		own(t, bools, err)
		assert.Equal(t, ndview.Float16, bools.DType())
		assert.Equal(t, raw[uint16](1, 0x3c00), elements(t, bools))
	})
}

func TestOperationsRefuse(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		x := fromHost(t, dev, ndview.Int32, count(6), 2, 3)
		bools := fromHost(t, dev, ndview.Bool, make([]bool, 6), 2, 3)
		other := fromHost(t, otherThan(t, dev), ndview.Int32, count(6), 2, 3)
		for about, c := range map[string]struct {
			err  error
			want error
		}{
			"a difference of bools":      {refusal(ndview.Subtract.Of(bools, bools)), ndview.ErrDType},
			"bits of floats":             {refusal(ndview.BitwiseAnd.Of(x, 1.5)), ndview.ErrDType},
			"scalars alone":              {refusal(ndview.Add.Of(1, 2)), ndview.ErrDType},
			"a string":                   {refusal(ndview.Add.Of(x, "1")), ndview.ErrDType},
			"shapes that do not fit":     {refusal(ndview.Add.Of(x, fromHost(t, dev, ndview.Int32, count(2), 2))), ndview.ErrShape},
			"a result of another shape":  {ndview.Add.Into(fromHost(t, dev, ndview.Int32, count(3), 3), x, x), ndview.ErrShape},
			"a result of a smaller kind": {ndview.Add.Into(x, x, 1.5), ndview.ErrDType},
			"a result that is only read": {ndview.Add.Into(readOnly(t, x), x, x), ndview.ErrReadOnly},
			"a result that repeats":      {ndview.Add.Into(repeated(t, x), x, x), ndview.ErrShape},
			"no operation":               {refusal(ndview.Unary{}.Of(x)), ndview.ErrDType},
			"no operation into":          {ndview.Binary{}.Into(x, x, x), ndview.ErrDType},
			"nothing to do it with":      {refusal(ndview.Negative.Of(nil)), ndview.ErrDType},
			"two devices":                {refusal(ndview.Add.Of(x, other)), arrowbuf.ErrDevice},
		} {
			assert.ErrorIs(t, c.err, c.want, about)
		}
	})
}

func readOnly(t *testing.T, a *ndview.NDBuffer) *ndview.NDBuffer {
	v, err := a.BroadcastTo(a.Shape()...)
	return own(t, v, err)
}

// repeated is an array of the shape of a whose rows are one.
func repeated(t *testing.T, a *ndview.NDBuffer) *ndview.NDBuffer {
	v, err := ndview.FromBuffer(a.Buffer(), a.DType(), 0, a.Shape(), []int64{0, a.DType().Size()})
	return own(t, v, err)
}

func refusal(a *ndview.NDBuffer, err error) error {
	if err == nil {
		a.Release()
	}
	return err
}

func TestOperationsAreCutIntoLaunches(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		defer ndview.LimitLaunches(50, 500)()
		for _, shape := range [][]int64{{30, 70}, {3, 4, 5, 6}, {1000, 2}, {2, 1000}} {
			a := fromHost(t, dev, ndview.Int32, values(2*product(shape)), append(slices.Clone(shape), 2)...)
			x, err := a.Index(ndview.Ellipsis, ndview.At(1))
			own(t, x, err)
			y := fromHost(t, dev, ndview.Int32, values(shape[len(shape)-1]), shape[len(shape)-1])
			sum, err := ndview.Add.Of(x, y)
			own(t, sum, err)
			requireModel(t, sum, x, y, shape)
		}
	})
}

func TestOperationsTakeManyAxes(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		const axes = 11
		extents, order := make([]int64, axes), make([]int, axes)
		for i := range order {
			extents[i], order[i] = 2, (i*7+3)%axes
		}
		extents[4] = 3
		a := fromHost(t, dev, ndview.Int32, values(product(extents)), extents...)
		x, err := a.Transpose(order...)
		own(t, x, err)
		y := fromHost(t, dev, ndview.Int32, values(product(extents)), x.Shape()...)
		sum, err := ndview.Add.Of(x, y)
		own(t, sum, err)
		requireModel(t, sum, x, y, extents)
	})
}

// TestOperationsOnLargeArraysCountRight has enough elements for several
// goroutines, blocks and rows that end within them.
func TestOperationsOnLargeArraysCountRight(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		x := fromHost(t, dev, ndview.Int32, values(301*1037), 301, 1037)
		for _, other := range [][]int64{{301, 1037}, {1037}, {301, 1}, {1, 1}} {
			y := fromHost(t, dev, ndview.Int32, values(product(other)), other...)
			sum, err := ndview.Add.Of(x, y)
			own(t, sum, err)
			requireModel(t, sum, x, y, other)
		}
	})
}

// TestEveryTypeIsComputedInVectors compares runs that are long enough for the
// vectors of a processor with single elements.
func TestEveryTypeIsComputedInVectors(t *testing.T) {
	const n = 150
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(3, 4))
		for name, dtype := range dtypesByName {
			data := make([]byte, 2*n*dtype.Size())
			for i := range data {
				data[i] = byte(r.Uint32())
				if dtype == ndview.Bool {
					data[i] &= 1
				}
			}
			x, y := at(t, upload(t, dev, data), dtype, 0, n), at(t, upload(t, dev, data), dtype, n*dtype.Size(), n)
			for _, op := range binaryOperations {
				all, err := op.Of(x, y)
				if err != nil {
					continue // the golden files say whether it may be
				}
				own(t, all, err)
				for _, i := range []int64{0, 31, 32, 64, 100, n - 1} {
					one, err := op.Of(elementAt(t, x, i), elementAt(t, y, i))
					own(t, one, err)
					requireSame(t, one.DType(), elements(t, one), elements(t, elementAt(t, all, i)), 0)
					if t.Failed() {
						t.Fatalf("%s of %s, element %d", op, name, i)
					}
				}
			}
			condition := fromHost(t, dev, ndview.Bool, func() []bool {
				c := make([]bool, n)
				for i := range c {
					c[i] = i%3 == 1
				}
				return c
			}(), n)
			chosen, err := ndview.Where(condition, x, y)
			own(t, chosen, err)
			for i := range int64(n) {
				from := y
				if i%3 == 1 {
					from = x
				}
				size := dtype.Size()
				require.Equal(t, elements(t, from)[i*size:][:size], elements(t, chosen)[i*size:][:size])
			}
		}
	})
}

func elementAt(t *testing.T, a *ndview.NDBuffer, i int64) *ndview.NDBuffer {
	e, err := a.Index(ndview.At(i))
	return own(t, e, err)
}

func TestResultsAreCastWithinTheirKind(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		x := fromHost(t, dev, ndview.Float64, []float64{1.5, 1e40, -2, 1.0 / 3}, 4)
		for _, c := range []struct {
			into ndview.DType
			want []byte
		}{
			{ndview.Float32, raw(float32(1.5), float32(math.Inf(1)), -2, float32(1.0/3))},
			{ndview.Complex128, raw[complex128](1.5, 1e40, -2, 1.0/3)},
		} {
			out, err := ndview.Empty(dev, c.into, 4)
			own(t, out, err)
			require.NoError(t, ndview.Positive.Into(out, x))
			assert.Equal(t, c.want, elements(t, out), c.into)
		}
		ints := fromHost(t, dev, ndview.Int64, []int64{300, -1}, 2)
		out, err := ndview.Empty(dev, ndview.Int8, 2)
		own(t, out, err)
		require.NoError(t, ndview.Add.Into(out, ints, 1))
		assert.Equal(t, raw[int8](45, 0), elements(t, out))
		assert.ErrorIs(t, ndview.Positive.Into(out, x), ndview.ErrDType)
	})
}
