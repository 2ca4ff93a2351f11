package ndview_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		{{300, 3}, {3}}, {{1, 1}, {1, 1, 1}}, {{7, 2000}, {7, 1}}, {{0, 3}, {3}}, {{0}, {1}}, {{1}, {0}}, {{}, {0}}, {{2, 0}, {1, 1}}, {{3, 1, 2, 1, 3, 1}, {2, 1, 2, 1, 2}},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, s := range shapes {
			x := ndtest.FromHost(t, dev, ndview.Int32, values(product(s[0])), s[0]...)
			y := ndtest.FromHost(t, dev, ndview.Int32, values(product(s[1])), s[1]...)
			sum, err := ndview.Add.Of(x, y)
			ndtest.Own(t, sum, err)
			requireModel(t, sum, x, y, s)
		}
	})
}

// A scalar of any type counts as an array of its type would, also one that Go has no
// type for.
func TestScalarsOfEveryTypeAreOperands(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, of := range []ndview.DType{ndview.Bool, ndview.Int8, ndview.Int16, ndview.Int32, ndview.Int64, ndview.Uint8,
			ndview.Uint16, ndview.Uint32, ndview.Uint64, ndview.Float16, ndview.Float32, ndview.Float64, ndview.BFloat16,
			ndview.Complex64, ndview.Complex128} {
			scalar, err := ndview.NewScalar(of, true)
			require.NoError(t, err)
			one, err := ndview.Full(dev, of, scalar, 3)
			ndtest.Own(t, one, err)
			want, err := ndview.Add.Of(one, one)
			ndtest.Own(t, want, err)
			got, err := ndview.Add.Of(one, scalar)
			ndtest.Own(t, got, err)
			assert.Equal(t, want.DType(), got.DType(), of)
			assert.Equal(t, ndtest.Elements(t, want), ndtest.Elements(t, got), of)
		}
		half, err := ndview.FromSlice(dev, []float16.Num{float16.New(1), float16.New(2048)})
		ndtest.Own(t, half, err)
		sum, err := ndview.Add.Of(half, float16.New(1))
		ndtest.Own(t, sum, err)
		assert.Equal(t, ndview.Float16, sum.DType())
		assert.Equal(t, []uint16{0x4000, 0x6800}, ndtest.HostOf[uint16](t, sum), "2049 is not a float16")
		brain, err := ndview.FromSlice(dev, []dtype.BFloat16Num{dtype.NewBFloat16(256)})
		ndtest.Own(t, brain, err)
		sum, err = ndview.Add.Of(brain, dtype.NewBFloat16(1))
		ndtest.Own(t, sum, err)
		assert.Equal(t, []uint16{0x4380}, ndtest.HostOf[uint16](t, sum), "257 is not a bfloat16")
	})
}

// requireModel checks each element of a sum.
func requireModel(t *testing.T, sum, x, y *ndview.NDBuffer, message any) {
	t.Helper()
	xs, ys, got := slice[int32](ndtest.Elements(t, x)), slice[int32](ndtest.Elements(t, y)), slice[int32](ndtest.Elements(t, sum))
	shape := sum.Shape()
	for i := range got {
		index, rest := make([]int64, len(shape)), int64(i)
		for a := len(shape) - 1; a >= 0; a-- {
			index[a], rest = rest%shape[a], rest/shape[a]
		}
		want := xs[position(x.Shape(), index)] + ys[position(y.Shape(), index)]
		require.Equal(t, want, got[i], "%v at %v", message, index)
	}
}

// position returns the position in C order of an index, in an array that broadcasts.
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

func TestOperationsAcceptAnyLayout(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		base := ndtest.FromHost(t, dev, ndview.Int32, values(12*40*6), 12, 40, 6)
		for _, keys := range [][]ndview.Key{
			{ndview.SpanStep(ndview.Open, ndview.Open, -1)},
			{ndview.All, ndview.SpanStep(1, 33, 3)},
			{ndview.All, ndview.All, ndview.SpanStep(ndview.Open, ndview.Open, 2)},
			{ndview.At(3), ndview.SpanStep(ndview.Open, ndview.Open, -2)},
			{ndview.Span(1, 12), ndview.Span(1, 40), ndview.Span(1, 5)},
		} {
			x, err := base.Index(keys...)
			ndtest.Own(t, x, err)
			order := []int{1, 0}
			if x.NDim() == 3 {
				order = []int{2, 0, 1}
			}
			turned, err := x.Transpose(order...)
			ndtest.Own(t, turned, err)
			for _, v := range []*ndview.NDBuffer{x, turned} {
				sum, err := ndview.Add.Of(v, v)
				ndtest.Own(t, sum, err)
				requireModel(t, sum, v, v, fmt.Sprint(v.Shape(), v.Strides()))
				out, err := ndview.Empty(dev, ndview.Int32, base.Shape()...)
				ndtest.Own(t, out, err)
				place, err := out.Index(keys...)
				ndtest.Own(t, place, err)
				if v == x {
					require.NoError(t, ndview.Add.Into(place, x, x))
					ndtest.RequireBytes(t, ndtest.Elements(t, sum), ndtest.Elements(t, place))
				}
			}
		}
	})
}

func TestOverlappingOperandsAreReadBeforeTheResultIsWritten(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		const n = 5000
		for _, shift := range []int64{0, 1, 4, 16, 33} {
			for _, back := range []bool{false, true} {
				a := ndtest.FromHost(t, dev, ndview.Int32, values(n+shift), n+shift)
				x, err := a.Slice(0, 0, n)
				ndtest.Own(t, x, err)
				out, err := a.Slice(0, shift, n+shift)
				ndtest.Own(t, out, err)
				if back {
					x, out = out, x
				}
				want := slice[int32](ndtest.Elements(t, x))
				require.NoError(t, ndview.Add.Into(out, x, x))
				got := slice[int32](ndtest.Elements(t, out))
				for i := range want {
					require.Equal(t, 2*want[i], got[i], "shift %d, element %d", shift, i)
				}
			}
		}
	})
}

func TestOperationsAcceptUnalignedElements(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		data := ndtest.Raw(values(101)...)
		for skew := range 4 {
			x := ndtest.At(t, ndtest.Upload(t, dev, append(make([]byte, skew), data...)), ndview.Int32, int64(skew), 101)
			out := ndtest.At(t, ndtest.Upload(t, dev, poisoned(101*4+8)), ndview.Int32, int64(3-skew), 101)
			require.NoError(t, ndview.Multiply.Into(out, x, 3))
			for i, v := range slice[int32](ndtest.Elements(t, out)) {
				require.Equal(t, 3*values(101)[i], v)
			}
			around := ndtest.Download(t, out.Buffer())
			assert.Equal(t, poisoned(3-skew), around[:3-skew])
			assert.Equal(t, poisoned(5+skew), around[101*4+3-skew:])
		}
	})
}

func TestBoolsAreWrittenToAnyLayout(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		x := ndtest.FromHost(t, dev, ndview.Bool, []bool{false, true, false, true}, 4)
		y := ndtest.FromHost(t, dev, ndview.Bool, []bool{false, false, true, true}, 4)
		for _, c := range []struct {
			op   ndview.Binary
			want []bool
		}{{ndview.Add, []bool{false, true, true, true}}, {ndview.Multiply, []bool{false, false, false, true}},
			{ndview.BitwiseXor, []bool{false, true, true, false}}, {ndview.Minimum, []bool{false, false, false, true}}} {
			all, err := ndview.Full(dev, ndview.Uint8, uint8(poison), 8)
			ndtest.Own(t, all, err)
			bools, err := all.View(ndview.Bool)
			ndtest.Own(t, bools, err)
			out, err := bools.Index(ndview.SpanStep(ndview.Open, ndview.Open, -2))
			ndtest.Own(t, out, err)
			require.NoError(t, c.op.Into(out, x, y), c.op)
			assert.Equal(t, ndtest.Raw(c.want...), ndtest.Elements(t, out), c.op)
			assert.Equal(t, byte(poison), ndtest.Elements(t, all)[0])
		}
	})
}

func TestComparisonsWithNumbersBeyondTheTypeAreExact(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		x := ndtest.FromHost(t, dev, ndview.Uint8, []uint8{0, 7, 255}, 3)
		for _, c := range []struct {
			op   ndview.Binary
			x, y any
			want bool
		}{
			{ndview.Less, x, 300, true}, {ndview.Less, x, -1, false}, {ndview.Greater, x, -1, true}, {ndview.Equal, x, 256, false},
			{ndview.NotEqual, x, -5, true}, {ndview.LessEqual, 256, x, false}, {ndview.GreaterEqual, 256, x, true},
		} {
			got, err := c.op.Of(c.x, c.y)
			ndtest.Own(t, got, err)
			assert.Equal(t, ndtest.Raw(c.want, c.want, c.want), ndtest.Elements(t, got), "%v %v %v", c.op, c.x, c.y)
		}
		_, err := ndview.Add.Of(x, 300)
		assert.Error(t, err, "no sum has such an element")
	})
}

func TestNextafterOfEqualNumbersIsTheSecond(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		x := ndtest.FromHost(t, dev, ndview.Float64, []float64{math.Copysign(0, -1), 0, 1, 1, math.Inf(1)}, 5)
		y := ndtest.FromHost(t, dev, ndview.Float64, []float64{0, math.Copysign(0, -1), 2, 1, 0}, 5)
		got, err := ndview.Nextafter.Of(x, y)
		ndtest.Own(t, got, err)
		assert.Equal(t, ndtest.Raw(0, math.Copysign(0, -1), 1+0x1p-52, 1, math.MaxFloat64), ndtest.Elements(t, got))

		for _, dtype := range []ndview.DType{ndview.Float16, ndview.BFloat16} {
			const minus, one = 0x8000, 0x3c00                                                     // a zero, and a number above all zeros
			x := ndtest.FromHost(t, dev, dtype, []uint16{minus, 0, minus | 1, 1, 0, minus, 1}, 7) // 1 is the least above zero
			y := ndtest.FromHost(t, dev, dtype, []uint16{0, minus, one, minus | one, minus | one, one, 1}, 7)
			got, err := ndview.Nextafter.Of(x, y)
			ndtest.Own(t, got, err)
			assert.Equal(t, ndtest.Raw[uint16](0, minus, minus, 0, minus|1, 1, 1), ndtest.Elements(t, got), dtype)
		}
		bools, err := ndview.Nextafter.Of(ndtest.FromHost(t, dev, ndview.Bool, []bool{false, true}, 2), ndtest.FromHost(t, dev, ndview.Bool, []bool{true, true}, 2))
		ndtest.Own(t, bools, err)
		assert.Equal(t, ndview.Float16, bools.DType())
		assert.Equal(t, ndtest.Raw[uint16](1, 0x3c00), ndtest.Elements(t, bools))
	})
}

func TestOperationsRejectInvalidOperands(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		x := ndtest.FromHost(t, dev, ndview.Int32, count(6), 2, 3)
		bools := ndtest.FromHost(t, dev, ndview.Bool, make([]bool, 6), 2, 3)
		other := ndtest.FromHost(t, ndtest.OtherThan(t, dev), ndview.Int32, count(6), 2, 3)
		for message, c := range map[string]struct {
			err  error
			want error
		}{
			"a difference of bools":           {refusal(ndview.Subtract.Of(bools, bools)), ndview.ErrDType},
			"bits of floats":                  {refusal(ndview.BitwiseAnd.Of(x, 1.5)), ndview.ErrDType},
			"scalars alone":                   {refusal(ndview.Add.Of(1, 2)), ndview.ErrDType},
			"a string":                        {refusal(ndview.Add.Of(x, "1")), ndview.ErrDType},
			"shapes that do not broadcast":    {refusal(ndview.Add.Of(x, ndtest.FromHost(t, dev, ndview.Int32, count(2), 2))), ndview.ErrShape},
			"a result of another shape":       {ndview.Add.Into(ndtest.FromHost(t, dev, ndview.Int32, count(3), 3), x, x), ndview.ErrShape},
			"a result of a smaller kind":      {ndview.Add.Into(x, x, 1.5), ndview.ErrDType},
			"a read-only result":              {ndview.Add.Into(readOnly(t, x), x, x), ndview.ErrReadOnly},
			"a result with repeated elements": {ndview.Add.Into(repeated(t, x), x, x), ndview.ErrShape},
			"the zero Unary":                  {refusal(ndview.Unary{}.Of(x)), ndview.ErrNil},
			"the zero Binary":                 {ndview.Binary{}.Into(x, x, x), ndview.ErrNil},
			"a nil array":                     {refusal(ndview.Negative.Of(nil)), ndview.ErrNil},
			"two devices":                     {refusal(ndview.Add.Of(x, other)), arrowbuf.ErrDevice},
		} {
			assert.ErrorIs(t, c.err, c.want, message)
		}
	})
}

func readOnly(t *testing.T, a *ndview.NDBuffer) *ndview.NDBuffer {
	v, err := a.BroadcastTo(a.Shape()...)
	return ndtest.Own(t, v, err)
}

// repeated returns an array of the shape of a whose rows share their memory.
func repeated(t *testing.T, a *ndview.NDBuffer) *ndview.NDBuffer {
	v, err := ndview.FromBuffer(a.Buffer(), a.DType(), 0, a.Shape(), []int64{0, a.DType().Size()})
	return ndtest.Own(t, v, err)
}

func refusal(a *ndview.NDBuffer, err error) error {
	if err == nil {
		a.Release()
	}
	return err
}

func TestLargeOperationsAreSplitIntoLaunches(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		defer ndview.LimitLaunches(50, 500)()
		for _, shape := range [][]int64{{30, 70}, {3, 4, 5, 6}, {1000, 2}, {2, 1000}} {
			a := ndtest.FromHost(t, dev, ndview.Int32, values(2*product(shape)), append(slices.Clone(shape), 2)...)
			x, err := a.Index(ndview.Ellipsis, ndview.At(1))
			ndtest.Own(t, x, err)
			y := ndtest.FromHost(t, dev, ndview.Int32, values(shape[len(shape)-1]), shape[len(shape)-1])
			sum, err := ndview.Add.Of(x, y)
			ndtest.Own(t, sum, err)
			requireModel(t, sum, x, y, shape)
		}
	})
}

func TestOperationsAcceptManyAxes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		const axes = 11
		extents, order := make([]int64, axes), make([]int, axes)
		for i := range order {
			extents[i], order[i] = 2, (i*7+3)%axes
		}
		extents[4] = 3
		a := ndtest.FromHost(t, dev, ndview.Int32, values(product(extents)), extents...)
		x, err := a.Transpose(order...)
		ndtest.Own(t, x, err)
		y := ndtest.FromHost(t, dev, ndview.Int32, values(product(extents)), x.Shape()...)
		sum, err := ndview.Add.Of(x, y)
		ndtest.Own(t, sum, err)
		requireModel(t, sum, x, y, extents)
	})
}

// The arrays have enough elements for several goroutines and blocks, and rows that end
// within blocks.
func TestOperationsOnLargeArrays(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		x := ndtest.FromHost(t, dev, ndview.Int32, values(301*1037), 301, 1037)
		for _, other := range [][]int64{{301, 1037}, {1037}, {301, 1}, {1, 1}} {
			y := ndtest.FromHost(t, dev, ndview.Int32, values(product(other)), other...)
			sum, err := ndview.Add.Of(x, y)
			ndtest.Own(t, sum, err)
			requireModel(t, sum, x, y, other)
		}
	})
}

// Runs that are long enough for a processor's vectors are compared with single elements.
func TestVectorsAgreeWithSingleElements(t *testing.T) {
	const n = 150
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(3, 4))
		for name, dtype := range dtypesByName {
			data := make([]byte, 2*n*dtype.Size())
			for i := range data {
				data[i] = byte(r.Uint32())
				if dtype == ndview.Bool {
					data[i] &= 1
				}
			}
			x, y := ndtest.At(t, ndtest.Upload(t, dev, data), dtype, 0, n), ndtest.At(t, ndtest.Upload(t, dev, data), dtype, n*dtype.Size(), n)
			for _, op := range binaryOperations {
				all, err := op.Of(x, y)
				if err != nil {
					continue // the golden tests check errors
				}
				ndtest.Own(t, all, err)
				for _, i := range []int64{0, 31, 32, 64, 100, n - 1} {
					one, err := op.Of(elementAt(t, x, i), elementAt(t, y, i))
					ndtest.Own(t, one, err)
					requireSame(t, one.DType(), ndtest.Elements(t, one), ndtest.Elements(t, elementAt(t, all, i)), 0)
					if t.Failed() {
						t.Fatalf("%s of %s, element %d", op, name, i)
					}
				}
			}
			condition := ndtest.FromHost(t, dev, ndview.Bool, func() []bool {
				c := make([]bool, n)
				for i := range c {
					c[i] = i%3 == 1
				}
				return c
			}(), n)
			chosen, err := ndview.Where(condition, x, y)
			ndtest.Own(t, chosen, err)
			for i := range int64(n) {
				from := y
				if i%3 == 1 {
					from = x
				}
				size := dtype.Size()
				require.Equal(t, ndtest.Elements(t, from)[i*size:][:size], ndtest.Elements(t, chosen)[i*size:][:size])
			}
		}
	})
}

func elementAt(t *testing.T, a *ndview.NDBuffer, i int64) *ndview.NDBuffer {
	e, err := a.Index(ndview.At(i))
	return ndtest.Own(t, e, err)
}

func TestResultsAreCastWithinTheirKind(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		x := ndtest.FromHost(t, dev, ndview.Float64, []float64{1.5, 1e40, -2, 1.0 / 3}, 4)
		for _, c := range []struct {
			into ndview.DType
			want []byte
		}{
			{ndview.Float32, ndtest.Raw(float32(1.5), float32(math.Inf(1)), -2, float32(1.0/3))},
			{ndview.Complex128, ndtest.Raw[complex128](1.5, 1e40, -2, 1.0/3)},
		} {
			out, err := ndview.Empty(dev, c.into, 4)
			ndtest.Own(t, out, err)
			require.NoError(t, ndview.Positive.Into(out, x))
			assert.Equal(t, c.want, ndtest.Elements(t, out), c.into)
		}
		ints := ndtest.FromHost(t, dev, ndview.Int64, []int64{300, -1}, 2)
		out, err := ndview.Empty(dev, ndview.Int8, 2)
		ndtest.Own(t, out, err)
		require.NoError(t, ndview.Add.Into(out, ints, 1))
		assert.Equal(t, ndtest.Raw[int8](45, 0), ndtest.Elements(t, out))
		assert.ErrorIs(t, ndview.Positive.Into(out, x), ndview.ErrDType)
	})
}

// goldenScalar is a case of testdata/golden/scalars.json, which scalars.py describes.
type goldenScalar struct {
	name, dtype, result string
	scalar              any
	side                int
	elements            string
}

func (c *goldenScalar) UnmarshalJSON(data []byte) error {
	var number json.RawMessage
	fields := []any{&c.name, &c.dtype, &number, &c.side, &c.result, &c.elements}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	text := string(number)
	var err error
	switch {
	case text == "true":
		c.scalar = true
	case text[0] == '[':
		var typed [2]string
		err = json.Unmarshal(number, &typed)
		c.scalar = typed
	case strings.ContainsAny(text, ".e"):
		c.scalar, err = strconv.ParseFloat(text, 64)
	default:
		c.scalar, err = strconv.Atoi(text)
	}
	return err
}

func TestOperationsWithScalarsMatchNumPy(t *testing.T) {
	var golden struct {
		Values map[string]string
		Cases  []goldenScalar
	}
	readGolden(t, "scalars.json", &golden)
	operations := maps.Clone(binaryOperations)
	maps.Copy(operations, binaryFunctions)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		arrays := map[string]*ndview.NDBuffer{}
		for name, text := range golden.Values {
			data, dtype := decode64(t, text), dtypesByName[name]
			arrays[name] = ndtest.At(t, ndtest.Upload(t, dev, data), dtype, 0, int64(len(data))/dtype.Size())
		}
		for _, c := range golden.Cases {
			scalar := c.scalar
			if typed, ok := scalar.([2]string); ok {
				s, err := ndview.NewScalar(dtypesByName[typed[0]], decode64(t, typed[1]))
				require.NoError(t, err)
				scalar = s
			}
			operands := [2]any{arrays[c.dtype], scalar}
			if c.side == 0 {
				operands[0], operands[1] = operands[1], operands[0]
			}
			message := fmt.Sprintf("%s of %s and %v (%T), from the side %d", c.name, c.dtype, scalar, c.scalar, c.side)
			got, err := operations[c.name].Of(operands[0], operands[1])
			switch c.result {
			case "TypeError":
				assert.ErrorIs(t, err, ndview.ErrDType, message)
				continue
			case "ValueError", "OverflowError":
				assert.ErrorIs(t, err, ndview.ErrRange, message)
				continue
			}
			if !assert.NoError(t, err, message) {
				continue
			}
			bound := ulps(c.name, got.DType())
			if of, ok := errorBounds[c.name]; ok {
				bound = of
			}
			t.Run(message, func(t *testing.T) {
				require.Equal(t, c.result, got.DType().String())
				requireSame(t, got.DType(), decode64(t, c.elements), ndtest.Elements(t, got), bound)
			})
			got.Release()
		}
	})
}

// forms are the same elements contiguous, and reversed with gaps.
type forms [2]*ndview.NDBuffer

// small returns a few numbers that every type represents.
func small(t *testing.T, dev arrowbuf.Device, dtype ndview.DType) forms {
	numbers := ndtest.FromHost(t, dev, ndview.Float32, []float32{0, 1, 3, 2, 5, 1, 0}, 7)
	dense, err := numbers.AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
	ndtest.Own(t, dense, err)
	spread := backwards(t, dev, dtype)
	require.NoError(t, spread.CopyFrom(dense))
	return forms{dense, spread}
}

// backwards returns seven zeros with a stride of -2 elements.
func backwards(t *testing.T, dev arrowbuf.Device, dtype ndview.DType) *ndview.NDBuffer {
	all, err := ndview.Zeros(dev, dtype, 14)
	ndtest.Own(t, all, err)
	spread, err := all.Index(ndview.SpanStep(ndview.Open, ndview.Open, -2))
	return ndtest.Own(t, spread, err)
}

// Each operation of each type is computed into contiguous and strided arrays of each type
// to which the result casts. All must contain the contiguous result, cast.
func TestResultLayoutAndTypeDoNotAffectValues(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	binary := maps.Clone(binaryOperations)
	maps.Copy(binary, binaryFunctions)
	unary := maps.Clone(unaryOperations)
	maps.Copy(unary, functions)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		operands, results := map[string]forms{}, map[string]forms{}
		for name, dtype := range dtypesByName {
			operands[name] = small(t, dev, dtype)
			if dtype == ndview.Int16 || dtype == ndview.Int32 || dtype.Kind() == ndview.KindUint && dtype != ndview.Uint8 || dtype == ndview.Complex128 {
				continue // other types test the same
			}
			results[name] = forms{small(t, dev, dtype)[0], backwards(t, dev, dtype)}
		}
		check := func(message string, of func(form int) (*ndview.NDBuffer, error), into func(out *ndview.NDBuffer, form int) error) {
			want, err := of(0)
			spread, spreadErr := of(1)
			require.Equal(t, err == nil, spreadErr == nil, "%s: %v, %v", message, err, spreadErr)
			if err != nil {
				return
			}
			defer want.Release()
			defer spread.Release()
			requireSame(t, want.DType(), ndtest.Elements(t, want), ndtest.Elements(t, spread), 0)
			for name, out := range results {
				err := into(out[0], 0)
				spreadErr := into(out[1], 1)
				require.Equal(t, ndview.CanCast(want.DType(), out[0].DType(), ndview.CastSameKind), err == nil, "%s into %s: %v", message, name, err)
				require.Equal(t, err == nil, spreadErr == nil, "%s into %s: %v", message, name, spreadErr)
				if err != nil {
					continue
				}
				cast, err := want.AsType(out[0].DType(), ndview.OrderC, ndview.CastUnsafe)
				require.NoError(t, err)
				for _, o := range out {
					requireSame(t, o.DType(), ndtest.Elements(t, cast), ndtest.Elements(t, o), 0)
				}
				cast.Release()
				require.False(t, t.Failed(), "%s into %s", message, name)
			}
		}
		for name, x := range operands {
			for _, op := range unary {
				check(fmt.Sprint(op, " of ", name), func(f int) (*ndview.NDBuffer, error) { return op.Of(x[f]) },
					func(out *ndview.NDBuffer, f int) error { return op.Into(out, x[f]) })
			}
			for _, op := range binary {
				check(fmt.Sprint(op, " of two ", name), func(f int) (*ndview.NDBuffer, error) { return op.Of(x[f], x[1-f]) },
					func(out *ndview.NDBuffer, f int) error { return op.Into(out, x[f], x[1-f]) })
				check(fmt.Sprint(op, " of 2 and ", name), func(f int) (*ndview.NDBuffer, error) { return op.Of(int16(2), x[f]) },
					func(out *ndview.NDBuffer, f int) error { return op.Into(out, int16(2), x[f]) })
			}
			truth := operands["bool"]
			check("where of "+name, func(f int) (*ndview.NDBuffer, error) { return ndview.Where(truth[f], x[f], 1) },
				func(out *ndview.NDBuffer, f int) error { return ndview.WhereInto(out, truth[f], x[f], 1) })
			check("clip of "+name, func(f int) (*ndview.NDBuffer, error) { return ndview.Clip(x[f], 1, x[1-f]) },
				func(out *ndview.NDBuffer, f int) error { return ndview.ClipInto(out, x[f], 1, x[1-f]) })
		}
	})
}

// Values of very different magnitude are computed among each other, and each among copies
// of itself, in rows of odd lengths. The vector or block in which an element is computed
// must not affect its result.
func TestNeighboursDoNotAffectValues(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const times = 251
	values := []float64{0, negativeZero, 1, -1, 0.5, 3, 5, 7.25, 64, -100.75, 65535.5, 105615, -1e9, 1e30, -1e30, 1e-40, math.Inf(1), math.Inf(-1), nan}
	others := append(slices.Clone(values[7:]), values[:7]...)
	n := int64(len(values))
	binary := maps.Clone(binaryOperations)
	maps.Copy(binary, binaryFunctions)
	unary := maps.Clone(unaryOperations)
	maps.Copy(unary, functions)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		// of returns n rows of a value each, and the rows of all values.
		of := func(dtype ndview.DType, values []float64) (alone []*ndview.NDBuffer, beside *ndview.NDBuffer) {
			numbers, err := ndtest.FromHost(t, dev, ndview.Float64, values, n).AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
			ndtest.Own(t, numbers, err)
			beside, err = ndtest.View(t)(numbers.BroadcastTo(times, n)).Copy(ndview.OrderC)
			ndtest.Own(t, beside, err)
			rows, err := ndtest.View(t)(beside.Transpose()).Copy(ndview.OrderC)
			ndtest.Own(t, rows, err)
			for i := range n {
				alone = append(alone, index(t, rows, ndview.At(i)))
			}
			return alone, beside
		}
		checks := 0
		for name, dtype := range dtypesByName {
			x, manyX := of(dtype, values)
			y, manyY := of(dtype, others)
			check := func(message string, of func(x, y *ndview.NDBuffer) (*ndview.NDBuffer, error)) {
				mixed, err := of(manyX, manyY)
				if err != nil {
					require.ErrorIs(t, err, ndview.ErrDType, message)
					return // the golden tests check errors
				}
				defer mixed.Release()
				var want []byte
				for i := range x {
					alone, err := of(x[i], y[i])
					require.NoError(t, err)
					want = append(want, ndtest.Elements(t, alone)...)
					alone.Release()
				}
				requireSame(t, mixed.DType(), want, ndtest.Elements(t, ndtest.View(t)(mixed.Transpose())), 0)
				require.False(t, t.Failed(), message)
				checks++
			}
			for _, op := range unary {
				check(fmt.Sprint(op, " of ", name), func(x, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) { return op.Of(x) })
			}
			for _, op := range binary {
				check(fmt.Sprint(op, " of ", name), func(x, y *ndview.NDBuffer) (*ndview.NDBuffer, error) { return op.Of(x, y) })
			}
			for to, dtype := range dtypesByName {
				check(name+" to "+to, func(x, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
					return x.AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
				})
			}
		}
		require.Greater(t, checks, 900)
	})
}

func TestNumberOfCoresDoesNotAffectValues(t *testing.T) {
	const n = 1<<20 + 5
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%1000) * float32(i%7) * 33 // few are beyond 2^16
	}
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Float32, x, n)
	for _, op := range []ndview.Unary{ndview.Sin, ndview.Cos, ndview.Exp} {
		var want []byte
		for _, cores := range []int{1, 2, 3, 7} {
			old := runtime.GOMAXPROCS(cores)
			result, err := op.Of(a)
			runtime.GOMAXPROCS(old)
			ndtest.Own(t, result, err)
			if want == nil {
				want = ndtest.Elements(t, result)
			}
			ndtest.RequireBytes(t, want, ndtest.Elements(t, result), op, cores)
		}
	}
}
