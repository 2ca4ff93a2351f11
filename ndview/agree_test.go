package ndview_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// twoPlaces holds arrays of the same values on the CPU and on another device.
type twoPlaces struct {
	t      *testing.T
	r      *rand.Rand
	devs   [2]arrowbuf.Device
	arrays [][2]*ndview.NDBuffer
	done   []string // what was done, for a failure
}

// TestRandomExpressionsAgreeOnAllDevices makes random programs of views, casts,
// assignments, arithmetic and reductions, and runs each on the CPU and on a
// device. Values are small integers, so that all dtypes hold them exactly.
func TestRandomExpressionsAgreeOnAllDevices(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		for seed := range uint64(300) {
			p := &twoPlaces{t: t, r: rand.New(rand.NewPCG(seed, 1)), devs: [2]arrowbuf.Device{arrowbuf.CPU(), dev}}
			p.begin()
			for range 40 {
				p.step()
			}
			for _, pair := range p.arrays {
				pair[0].Release()
				pair[1].Release()
			}
			if t.Failed() {
				return
			}
		}
	})
}

func (p *twoPlaces) begin() {
	shape := make([]int64, p.r.IntN(4))
	for i := range shape {
		shape[i] = p.r.Int64N(7)
	}
	values := make([]int8, 1)
	for _, d := range shape {
		values = make([]int8, int64(len(values))*d)
	}
	for i := range values {
		values[i] = int8(p.r.IntN(7) - 3)
	}
	p.do(fmt.Sprintf("FromHost(%v, %v)", values, shape), func(i int) (*ndview.NDBuffer, error) {
		return ndview.FromHost(p.devs[i], ndview.Int8, values, shape...)
	})
}

// do does the same in both places; errors must agree too.
func (p *twoPlaces) do(what string, work func(place int) (*ndview.NDBuffer, error)) {
	p.done = append(p.done, what)
	var pair [2]*ndview.NDBuffer
	var errs [2]error
	for i := range pair {
		pair[i], errs[i] = work(i)
	}
	require.Equal(p.t, errs[0] == nil, errs[1] == nil, "%v:\n%v\n%v", p.done, errs[0], errs[1])
	if errs[0] != nil || pair[0] == nil {
		return
	}
	p.same(pair)
	p.arrays = append(p.arrays, pair)
	if len(p.arrays) > 6 {
		p.arrays[0][0].Release()
		p.arrays[0][1].Release()
		p.arrays = p.arrays[1:]
	}
}

func (p *twoPlaces) same(pair [2]*ndview.NDBuffer) {
	require.Equal(p.t, pair[0].DType(), pair[1].DType(), "%v", p.done)
	require.Equal(p.t, pair[0].Shape(), pair[1].Shape(), "%v", p.done)
	requireBytes(p.t, elements(p.t, pair[0]), elements(p.t, pair[1]), p.done)
}

func (p *twoPlaces) pick() [2]*ndview.NDBuffer { return p.arrays[p.r.IntN(len(p.arrays))] }

// keys are a random index of an array.
func (p *twoPlaces) keys(shape []int64) []ndview.Key {
	var keys []ndview.Key
	for _, d := range shape {
		bound := func() int64 {
			if p.r.IntN(3) == 0 {
				return ndview.Open
			}
			return p.r.Int64N(2*d+3) - d - 1
		}
		switch p.r.IntN(5) {
		case 0:
			keys = append(keys, ndview.At(p.r.Int64N(max(d, 1))))
		case 1:
			keys = append(keys, ndview.NewAxis, ndview.All)
		default:
			keys = append(keys, ndview.SpanStep(bound(), bound(), []int64{1, 1, 2, 3, -1, -2}[p.r.IntN(6)]))
		}
	}
	return keys
}

// exact are operations without NaNs, whose bits differ; those but the first four
// need an operand that is not 0.
var exact = []ndview.Binary{ndview.Maximum, ndview.Add, ndview.LogicalXor, ndview.LessEqual, ndview.FloorDivide, ndview.Remainder, ndview.Fmod}

// scalar is a number of any kind, and not 0.
func (p *twoPlaces) scalar() any {
	return []any{2, -3, 300, 1.5, -0.25, true, int8(-2), uint8(7), int16(-5), uint64(9), float32(2.5)}[p.r.IntN(11)]
}

func (p *twoPlaces) step() {
	a, b := p.pick(), p.pick()
	shape := a[0].Shape()
	switch p.r.IntN(14) {
	case 0:
		keys := p.keys(shape)
		p.do(fmt.Sprintf("Index%v", keys), func(i int) (*ndview.NDBuffer, error) { return a[i].Index(keys...) })
	case 1:
		order := p.r.Perm(len(shape))
		p.do(fmt.Sprintf("Transpose%v", order), func(i int) (*ndview.NDBuffer, error) { return a[i].Transpose(order...) })
	case 2:
		p.do("Reshape(-1)", func(i int) (*ndview.NDBuffer, error) { return a[i].Reshape(-1) })
	case 3:
		// Unsigned and complex types would make what follows differ by order only.
		dtype := []ndview.DType{ndview.Int8, ndview.Int16, ndview.Int32, ndview.Int64, ndview.Float32, ndview.Float64, ndview.Float16}[p.r.IntN(7)]
		order := []ndview.Order{ndview.OrderC, ndview.OrderF, ndview.OrderK}[p.r.IntN(3)]
		p.do(fmt.Sprintf("AsType(%v, %c)", dtype, order), func(i int) (*ndview.NDBuffer, error) {
			return a[i].AsType(dtype, order, ndview.CastUnsafe)
		})
	case 4:
		f := []ndview.Binary{ndview.Add, ndview.Subtract, ndview.Maximum, ndview.Minimum, ndview.Less, ndview.Equal}[p.r.IntN(6)]
		p.do(fmt.Sprint(f, a[0].Shape(), b[0].Shape()), func(i int) (*ndview.NDBuffer, error) { return f.Of(a[i], b[i]) })
	case 5:
		p.do("Assign", func(i int) (*ndview.NDBuffer, error) { return nil, a[i].Assign(b[i]) })
		p.same(a)
	case 6:
		keys, value := p.keys(shape), p.r.IntN(5)-2
		p.do(fmt.Sprintf("Set(%d, %v)", value, keys), func(i int) (*ndview.NDBuffer, error) { return nil, a[i].Set(value, keys...) })
		p.same(a)
	case 7:
		o := ndview.ReduceOptions{KeepDims: p.r.IntN(2) == 0}
		for axis := range shape {
			if p.r.IntN(2) == 0 {
				o.Axes = append(o.Axes, axis)
			}
		}
		f := []ndview.Reduction{ndview.Max, ndview.Min, ndview.AnyTrue, ndview.AllTrue, ndview.CountNonzero, ndview.Sum}[p.r.IntN(6)]
		if a[0].DType().Kind() == ndview.KindFloat {
			f = ndview.Max // sums of floats are rounded in another order on each device
		}
		p.do(fmt.Sprintf("%v%+v", f, o), func(i int) (*ndview.NDBuffer, error) { return f.Of(a[i], o) })
	case 8:
		order := []ndview.Order{ndview.OrderC, ndview.OrderF, ndview.OrderA, ndview.OrderK}[p.r.IntN(4)]
		p.do(fmt.Sprintf("Copy(%c)", order), func(i int) (*ndview.NDBuffer, error) { return a[i].Copy(order) })
	case 10:
		f, scalar := exact[p.r.IntN(len(exact))], p.scalar()
		p.do(fmt.Sprintf("%v(%T %v)", f, scalar, scalar), func(i int) (*ndview.NDBuffer, error) { return f.Of(a[i], scalar) })
	case 11:
		f, x := exact[p.r.IntN(4)], p.pick()
		p.do(fmt.Sprint(f, "Into"), func(i int) (*ndview.NDBuffer, error) { return nil, f.Into(a[i], b[i], x[i]) })
		p.same(a)
	case 12:
		scalar := p.scalar()
		p.do(fmt.Sprintf("Where(%T %v)", scalar, scalar), func(i int) (*ndview.NDBuffer, error) { return ndview.Where(a[i], b[i], scalar) })
	case 13:
		low, high := p.scalar(), p.scalar()
		p.do(fmt.Sprintf("Clip(%v, %v)", low, high), func(i int) (*ndview.NDBuffer, error) { return ndview.Clip(a[i], low, high) })
	case 9:
		if len(shape) == 0 || slices.Contains(shape, 0) {
			return
		}
		axis := p.r.IntN(len(shape))
		list := []int64{p.r.Int64N(shape[axis]), -1, 0}
		p.do(fmt.Sprintf("Take(%v, %d)", list, axis), func(i int) (*ndview.NDBuffer, error) {
			indices, err := ndview.FromHost(p.devs[i], ndview.Int64, list, 3)
			if err != nil {
				return nil, err
			}
			defer indices.Release()
			return ndview.Take(a[i], indices, axis, ndview.ModeRaise)
		})
	}
}
