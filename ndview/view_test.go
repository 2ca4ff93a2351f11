package ndview_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestViewsOfViewsMatchModel(t *testing.T) {
	widths := []ndview.DType{ndview.Uint8, ndview.Int16, ndview.Bytes(3), ndview.Float32, ndview.Int64, ndview.Complex128}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for seed := range uint64(400) {
			rng := rand.New(rand.NewPCG(1, seed))
			dtype := widths[rng.IntN(len(widths))]
			shape := make([]int64, rng.IntN(5))
			n := int64(1)
			for i := range shape {
				shape[i] = rng.Int64N(5)
				n *= shape[i]
			}
			memory := make([]byte, (n+2)*dtype.Size()+3)
			for i := range memory {
				memory[i] = byte(rng.Uint32())
			}
			buf, err := dev.Alloc(int64(len(memory)))
			require.NoError(t, err)
			_, err = buf.CopyFromHost(memory, 0)
			require.NoError(t, err)
			offset := int64(rng.IntN(4))
			a, err := ndview.FromBuffer(buf, dtype, offset, shape, nil)
			require.NoError(t, err)
			buf.Release()
			m := contiguous(memory[offset:], dtype.Size(), shape)
			checkView(t, a, m, seed)
			for range 6 {
				v, next, err := randomView(rng, a, m)
				require.NoError(t, err, "seed %d: view of shape %v, strides %v", seed, a.Shape(), a.Strides())
				a.Release()
				a, m = v, next
				checkView(t, a, m, seed)
			}
			a.Release()
		}
	})
}

// checkView compares a view with its model.
func checkView(t *testing.T, a *ndview.NDBuffer, m model, seed uint64) {
	t.Helper()
	want := m.bytes()
	require.Equal(t, m.shape, a.Shape(), "seed %d", seed)
	require.Equal(t, want, ndtest.Elements(t, a), "seed %d: shape %v, strides %v", seed, a.Shape(), a.Strides())
	if host, ok := a.HostBytes(); ok {
		require.True(t, a.IsContiguous())
		require.Equal(t, want, append([]byte{}, host...))
	}
}

func TestViewsShareTheBuffer(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(12), 3, 4)
		row, err := a.Slice(0, 1, 2)
		ndtest.Own(t, row, err)
		flat, err := row.Reshape(4)
		ndtest.Own(t, flat, err)
		require.NoError(t, flat.CopyFromHost(ndtest.Raw[int32](-1, -2, -3, -4)))
		assert.Equal(t, ndtest.Raw[int32](0, 1, 2, 3, -1, -2, -3, -4, 8, 9, 10, 11), ndtest.Elements(t, a))
	})
}

func TestViewReinterpretsBytes(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int64, []int64{-1, 1}, 2)
	dates, err := a.View(ndview.Datetime64(ndview.Day, 1))
	ndtest.Own(t, dates, err)
	assert.Equal(t, "datetime64[D]", dates.DType().String())
	assert.Equal(t, ndtest.Raw[int64](-1, 1), ndtest.Elements(t, dates))
	halves, err := a.View(ndview.Int32)
	ndtest.Own(t, halves, err)
	assert.Equal(t, []int64{4}, halves.Shape())
	assert.Equal(t, ndtest.Raw[int64](-1, 1), ndtest.Elements(t, halves))
	_, err = a.View(ndview.DType{})
	assert.ErrorIs(t, err, ndview.ErrDType)
}

// The expected shapes and strides are NumPy's of a["xy"], a[["id", "t"]] and so on.
func TestFieldsOfRecordsAreViews(t *testing.T) {
	inner := numpyType(t, `[["u","|u1"],["v","<i2"]]`)
	record, err := ndview.Record(20, ndview.Field{Name: "id", DType: ndview.Int16, Offset: 1},
		ndview.Field{Name: "xy", DType: ndview.Float32, Offset: 4, Shape: []int64{2, 1}}, ndview.Field{Name: "t", DType: inner, Offset: 13})
	require.NoError(t, err)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		data := make([]byte, 6*20+3)
		for i := range data {
			data[i] = byte(i)
		}
		a := ndtest.At(t, ndtest.Upload(t, dev, data), record, 3, 2, 3)
		back := index(t, a, ndview.At(1), ndview.SpanStep(ndview.Open, ndview.Open, -1)) // records 5, 4, 3
		xy := ndtest.View(t)(back.Field("xy"))
		assert.Equal(t, []int64{3, 2, 1}, xy.Shape())
		assert.Equal(t, []int64{-20, 4, 4}, xy.Strides())
		assert.Equal(t, ndview.Float32, xy.DType())
		assert.Same(t, a, xy.Base())
		var want []byte
		for _, i := range []int{5, 4, 3} {
			want = append(want, data[3+20*i+4:][:8]...)
		}
		assert.Equal(t, want, ndtest.Elements(t, xy))
		v := ndtest.View(t)(ndtest.View(t)(a.Field("t")).Field("v"))
		assert.Equal(t, data[3+14:][:2], ndtest.Elements(t, index(t, v, ndview.At(0), ndview.At(0))))

		require.NoError(t, ndtest.View(t)(a.Field("id")).Fill(-1), "a write through the view")
		for i := range 6 {
			data[3+20*i+1], data[3+20*i+2] = 0xff, 0xff
		}
		assert.Equal(t, data, ndtest.Download(t, a.Buffer()))

		some := ndtest.View(t)(a.Fields("t", "id"))
		assert.Equal(t, a.Strides(), some.Strides())
		names := []string{}
		for _, f := range some.DType().Fields() {
			names = append(names, f.Name)
		}
		assert.Equal(t, []string{"t", "id"}, names)
		equal, err := ndtest.View(t)(some.Field("id")).Equal(ndtest.View(t)(a.Field("id")))
		require.NoError(t, err)
		assert.True(t, equal)

		none := ndtest.At(t, a.Buffer(), record, a.Buffer().Len(), 0)
		assert.Empty(t, ndtest.Elements(t, ndtest.View(t)(none.Field("t"))), "at the end of the buffer")
		locked := ndtest.View(t)(a.ReadOnly())
		assert.ErrorIs(t, ndtest.View(t)(locked.Field("id")).Fill(0), ndview.ErrReadOnly)
	})
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(2), 2)
	_, err = a.Field("id")
	assert.ErrorIs(t, err, ndview.ErrDType)
	assert.ErrorContains(t, err, `ndview.Field: field "id" of int32`)
	r := ndtest.At(t, ndtest.Upload(t, arrowbuf.CPU(), make([]byte, 20)), record, 0, 1)
	for _, names := range [][]string{{"id", "id"}, {"id", "z"}} {
		_, err = r.Fields(names...)
		assert.ErrorIs(t, err, ndview.ErrDType, names)
	}
}

func TestTransposeReversesAxesByDefault(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(24), 2, 3, 4)
	callers := []int{7, 8, 9}
	v, err := a.Transpose(callers[:0]...)
	ndtest.Own(t, v, err)
	assert.Equal(t, []int64{4, 3, 2}, v.Shape())
	assert.Equal(t, []int64{4, 16, 48}, v.Strides())
	assert.Equal(t, []int{7, 8, 9}, callers, "the caller's slice")
}

func TestInvalidViewsReturnErrShape(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(12), 3, 4)
	view := func(_ *ndview.NDBuffer, err error) error { return err }
	tests := map[string]error{
		"slice of axis -1":          view(a.Slice(-1, 0, 1)),
		"slice of axis 2":           view(a.Slice(2, 0, 1)),
		"slice from -1":             view(a.Slice(0, -1, 1)),
		"slice beyond the end":      view(a.Slice(0, 0, 4)),
		"slice that ends earlier":   view(a.Slice(0, 2, 1)),
		"order of one axis":         view(a.Transpose(0)),
		"order with an axis twice":  view(a.Transpose(1, 1)),
		"order with axis 2":         view(a.Transpose(0, 2)),
		"order with axis -3":        view(a.Transpose(0, -3)),
		"order with axis 1 as -1":   view(a.Transpose(1, -1)),
		"reshape to fewer":          view(a.Reshape(11)),
		"reshape to more":           view(a.Reshape(13)),
		"reshape by two negatives":  view(a.Reshape(-3, -4)),
		"reshape that wraps":        view(a.Reshape(12, 1<<32, 1<<32)),
		"reshape to nothing at all": view(a.Reshape(0)),
		"squeeze of an extent of 3": view(a.Squeeze(0)),
		"squeeze of axis 2":         view(a.Squeeze(2)),
		"swap with axis 2":          view(a.SwapAxes(0, 2)),
		"swap with axis -3":         view(a.SwapAxes(-3, 0)),
		"move from axis 2":          view(a.MoveAxis(2, 0)),
		"move to axis -3":           view(a.MoveAxis(0, -3)),
		"a new axis beyond the end": view(a.ExpandDims(3)),
	}
	for name, err := range tests {
		assert.ErrorIs(t, err, ndview.ErrShape, name)
	}
}

func TestEmptyViewsStayWithinTheBuffer(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(12), 3, 4)
		none, err := a.Slice(0, 3, 3)
		ndtest.Own(t, none, err)
		assert.True(t, none.IsContiguous())
		part, err := none.Slice(1, 2, 4)
		ndtest.Own(t, part, err)
		assert.Equal(t, []int64{0, 2}, part.Shape())
		assert.True(t, part.IsContiguous())
		other, err := part.Reshape(5, 0)
		ndtest.Own(t, other, err)
		assert.Empty(t, ndtest.Elements(t, other))
		assert.NoError(t, other.CopyFromHost(nil))
		assert.NoError(t, other.Zero())
		assert.NoError(t, other.CopyFrom(other))
		assert.Equal(t, ndtest.Raw(count(12)...), ndtest.Elements(t, a))
	})
}

func TestSpansInWrongDirectionAreEmpty(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(7), 7)
	for name, key := range map[string]ndview.Key{
		"backwards from before":     ndview.SpanStep(1, 5, -1),
		"backwards by more":         ndview.SpanStep(0, 5, -3),
		"backwards from the end":    ndview.SpanStep(-1, 100, -1),
		"forwards from behind":      ndview.SpanStep(5, 1, 1),
		"forwards from beyond":      ndview.Span(7, 9),
		"backwards from before all": ndview.SpanStep(-9, ndview.Open, -1),
	} {
		v := index(t, a, key)
		assert.Equal(t, []int64{0}, v.Shape(), name)
		assert.Empty(t, ndtest.Elements(t, v), name)
		assert.Zero(t, v.Offset(), name)
	}
}

func TestNewAxisOfScalarAddsAxis(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(3), 3)
	one := index(t, a, ndview.At(1))
	assert.Equal(t, []int64{}, one.Shape())
	assert.Equal(t, []int64{1}, index(t, one, ndview.Ellipsis, ndview.NewAxis).Shape())
	v := index(t, a, ndview.At(-1), ndview.NewAxis)
	assert.Equal(t, []int64{1}, v.Shape())
	assert.Equal(t, ndtest.Raw[int32](2), ndtest.Elements(t, v))
}

func TestIndexWithoutKeysViewsAll(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(6), 2, 3)
	for _, v := range []*ndview.NDBuffer{index(t, a), index(t, a, ndview.Ellipsis), index(t, a, ndview.All)} {
		assert.Equal(t, a.Shape(), v.Shape())
		assert.Same(t, a, v.Base())
		assert.True(t, ndview.MayShareMemory(a, v))
	}
}

func TestInvalidKeysReturnErrors(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(12), 3, 4)
	tests := map[string]struct {
		keys []ndview.Key
		want error
	}{
		"an index beyond the end":     {[]ndview.Key{ndview.At(3)}, arrowbuf.ErrOutOfRange},
		"an index before the start":   {[]ndview.Key{ndview.All, ndview.At(-5)}, arrowbuf.ErrOutOfRange},
		"the smallest index":          {[]ndview.Key{ndview.At(math.MinInt64)}, arrowbuf.ErrOutOfRange},
		"an index behind an ellipsis": {[]ndview.Key{ndview.Ellipsis, ndview.At(4)}, arrowbuf.ErrOutOfRange},
		"more keys than axes":         {[]ndview.Key{ndview.All, ndview.All, ndview.At(0)}, ndview.ErrShape},
		"two ellipses":                {[]ndview.Key{ndview.Ellipsis, ndview.Ellipsis}, ndview.ErrShape},
		"a step of 0":                 {[]ndview.Key{ndview.SpanStep(0, 2, 0)}, ndview.ErrShape},
		"an empty key":                {[]ndview.Key{{}}, ndview.ErrShape},
	}
	for name, tt := range tests {
		_, err := a.Index(tt.keys...)
		assert.ErrorIs(t, err, tt.want, name)
	}
}

func TestViewsCountBeyond32Bits(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, []int32{7}, 1, 1)
	wide, err := a.BroadcastTo(1<<40, 1<<20)
	ndtest.Own(t, wide, err)
	v := index(t, wide, ndview.SpanStep(-1, ndview.Open, -3), ndview.At(1<<19))
	assert.Equal(t, []int64{((1 << 40) + 2) / 3}, v.Shape())
	flat := reshape(t, wide, ndview.OrderF, -1, 1<<35)
	assert.Equal(t, []int64{1 << 25, 1 << 35}, flat.Shape())
	assert.Equal(t, ndtest.Raw[int32](7), ndtest.Elements(t, index(t, flat, ndview.At(-1), ndview.At(1<<34))))
	assert.True(t, ndview.MayShareMemory(v, flat))
}

// FuzzSpansTakeWhatPythonTakes includes bounds and steps near the limits of an int64.
func FuzzSpansTakeWhatPythonTakes(f *testing.F) {
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -9, -8, -7, -1, 0, 1, 7, 8, 9, math.MaxInt64 - 1, math.MaxInt64}
	for _, start := range edges {
		for _, stop := range edges {
			for _, step := range edges {
				f.Add(uint8(8), start, stop, step)
			}
		}
	}
	a := ndtest.FromHost(f, arrowbuf.CPU(), ndview.Int32, count(256), 256)
	f.Fuzz(func(t *testing.T, extent uint8, start, stop, step int64) {
		v, err := a.Index(ndview.Span(0, int64(extent)))
		require.NoError(t, err)
		defer v.Release()
		part, err := v.Index(ndview.SpanStep(start, stop, step))
		if step == 0 {
			require.ErrorIs(t, err, ndview.ErrShape)
			return
		}
		require.NoError(t, err)
		defer part.Release()
		given := func(bound *int64) *int64 {
			if *bound == ndview.Open {
				return nil
			}
			return bound
		}
		if step == ndview.Open {
			step = 1
		}
		want := []byte{}
		for _, p := range span(given(&start), given(&stop), step, int64(extent)) {
			want = append(want, ndtest.Raw(int32(p))...)
		}
		require.Equal(t, want, ndtest.Elements(t, part))
	})
}

// reshape is a.ReshapeOrder for tests.
func reshape(t *testing.T, a *ndview.NDBuffer, order ndview.Order, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	v, err := a.ReshapeOrder(order, shape...)
	return ndtest.Own(t, v, err)
}

func TestReshapeOrderAPrefersC(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(6), 1, 6)
	f := a.Flags()
	assert.True(t, f.CContiguous && f.FContiguous)
	assert.Equal(t, ndtest.Raw[int32](0, 1, 2, 3, 4, 5), ndtest.Elements(t, reshape(t, a, ndview.OrderA, 2, 3)))
	assert.Equal(t, ndtest.Raw[int32](0, 2, 4, 1, 3, 5), ndtest.Elements(t, reshape(t, a, ndview.OrderF, 2, 3)))
}

func TestReshapeIgnoresAxesOfExtent1(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(2), 2)
	column := reshape(t, a, ndview.OrderF, 1, 1, 2)
	flat := reshape(t, column, ndview.OrderC, 1, 2)
	assert.Same(t, a, flat.Base(), "a view")
	transposed, err := index(t, reshape(t, ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(12), 3, 1, 4), ndview.OrderC, 3, 1, 4),
		ndview.SpanStep(ndview.Open, ndview.Open, -1)).Reshape(1, 3, 1, 1, 4)
	ndtest.Own(t, transposed, err)
	assert.NotNil(t, transposed.Base(), "a view")
	assert.Equal(t, ndtest.Raw[int32](8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3), ndtest.Elements(t, transposed))
}

func TestReshapeOfEmptyArrays(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(0), 2, 0)
	for _, order := range []ndview.Order{ndview.OrderC, ndview.OrderF, ndview.OrderA} {
		v := reshape(t, a, order, 0, 3)
		f := v.Flags()
		assert.True(t, f.CContiguous && f.FContiguous, order)
		assert.Equal(t, []int64{3, 0}, reshape(t, a, order, 3, -1).Shape(), order)
	}
}

func TestReshapeCopiesOnDeviceIfNoStridesFit(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(6), 2, 3)
		transposed, err := a.Transpose()
		ndtest.Own(t, transposed, err)
		flat := reshape(t, transposed, ndview.OrderC, -1)
		assert.Nil(t, flat.Base())
		assert.Equal(t, dev, flat.Device())
		assert.False(t, ndview.MayShareMemory(a, flat))
		assert.Equal(t, ndtest.Raw[int32](0, 3, 1, 4, 2, 5), ndtest.Elements(t, flat))
		columns := reshape(t, a, ndview.OrderF, 3, 2)
		assert.Equal(t, []int64{4, 12}, columns.Strides())
		assert.Equal(t, ndtest.Raw[int32](0, 4, 3, 2, 1, 5), ndtest.Elements(t, columns))
	})
}

func TestInvalidReshapesReturnErrShape(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(12), 3, 4)
	none := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(0), 0)
	view := func(_ *ndview.NDBuffer, err error) error { return err }
	for name, err := range map[string]error{
		"two open extents":                view(a.Reshape(-1, -1)),
		"an open extent that is no whole": view(a.Reshape(5, -1)),
		"an open extent beside 0":         view(a.Reshape(0, -1)),
		"any extent would do":             view(none.Reshape(0, -1)),
		"an extent of -2":                 view(a.Reshape(-2, 6)),
		"order K":                         view(a.ReshapeOrder(ndview.OrderK, 12)),
		"order Z":                         view(a.ReshapeOrder('Z', 12)),
		"ravel in order Z":                view(a.Ravel('Z')),
		"larger than memory, times 0":     view(none.Reshape(0, 1<<40, 1<<40)),
	} {
		assert.ErrorIs(t, err, ndview.ErrShape, name)
	}
}

// TestReshapesMatchPygpuTable checks the reshapes of docs/pygpu.md, computed with
// NumPy: which are views, and their strides.
func TestReshapesMatchPygpuTable(t *testing.T) {
	for _, tt := range []struct {
		row            string
		shape, strides []int64
		to             []int64
		order          ndview.Order
		view           bool
		want           []int64 // strides
	}{
		{"RS1", []int64{2, 3}, []int64{12, 4}, []int64{3, 2}, ndview.OrderC, true, []int64{8, 4}},
		{"RS2", []int64{2, 3}, []int64{12, 4}, []int64{3, 2}, ndview.OrderF, false, []int64{4, 12}},
		{"RS3", []int64{2, 3}, []int64{4, 8}, []int64{6}, ndview.OrderC, false, []int64{4}},
		{"RS4", []int64{2, 3}, []int64{4, 8}, []int64{6}, ndview.OrderA, true, []int64{4}},
		{"RS4", []int64{2, 3}, []int64{4, 8}, []int64{3, 2}, ndview.OrderF, true, []int64{4, 12}},
		{"RS5", []int64{2, 3, 4}, []int64{96, 16, 4}, []int64{2, 12}, ndview.OrderC, true, []int64{96, 4}},
		{"RS5", []int64{2, 3, 4}, []int64{96, 16, 4}, []int64{6, 4}, ndview.OrderC, false, []int64{16, 4}},
		{"RS6", []int64{2, 3, 4}, []int64{96, 32, 4}, []int64{6, 4}, ndview.OrderC, true, []int64{32, 4}},
		{"RS7", []int64{2, 3, 4}, []int64{-48, 16, 4}, []int64{2, 12}, ndview.OrderC, true, []int64{-48, 4}},
		{"RS7", []int64{2, 3, 4}, []int64{-48, 16, 4}, []int64{24}, ndview.OrderC, false, []int64{4}},
		{"RS8", []int64{2, 3, 4}, []int64{96, 32, 8}, []int64{6, 4}, ndview.OrderC, true, []int64{32, 8}},
		{"RS9", []int64{}, []int64{}, []int64{1, 1}, ndview.OrderC, true, []int64{4, 4}},
		{"RS9", []int64{1}, []int64{4}, []int64{}, ndview.OrderC, true, []int64{}},
		{"RS10", []int64{1, 6}, []int64{24, 4}, []int64{2, 3}, ndview.OrderA, true, []int64{12, 4}},
		{"RS11", []int64{1, 1, 2}, []int64{4, 4, 4}, []int64{1, 2}, ndview.OrderC, true, []int64{8, 4}},
	} {
		cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
			buf := ndtest.FromHost(t, dev, ndview.Int32, count(256), 256).Buffer()
			a, err := ndview.FromBuffer(buf, ndview.Int32, 400, tt.shape, tt.strides)
			ndtest.Own(t, a, err)
			got, err := a.ReshapeOrder(tt.order, tt.to...)
			ndtest.Own(t, got, err)
			about := []any{"%s: %v/%v to %v", tt.row, tt.shape, tt.strides, tt.to}
			assert.Equal(t, tt.to, append([]int64{}, got.Shape()...), about...)
			assert.Equal(t, tt.want, append([]int64{}, got.Strides()...), about...)
			assert.Equal(t, tt.view, ndview.MayShareMemory(a, got), about...)
			if tt.order == ndview.OrderC || tt.row == "RS10" {
				assert.Equal(t, ndtest.Elements(t, a), ndtest.Elements(t, got), about...)
			}
		})
	}
	// RS12: no elements.
	buf := ndtest.Upload(t, arrowbuf.CPU(), nil)
	for _, order := range []ndview.Order{ndview.OrderC, ndview.OrderF, ndview.OrderA} {
		got, err := ndtest.At(t, buf, ndview.Int32, 0, 2, 0).ReshapeOrder(order, 0, 3)
		ndtest.Own(t, got, err)
		assert.Equal(t, []int64{0, 3}, got.Shape())
	}
}
