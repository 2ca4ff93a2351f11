package ndview_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
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
			"two devices":                {refusal(ndview.Add.Of(x, other)), arrowbuf.ErrDevice},
		} {
			assert.ErrorIs(t, c.err, c.want, about)
		}
	})
}

func refusal(a *ndview.NDBuffer, err error) error {
	if err == nil {
		a.Release()
	}
	return err
}
