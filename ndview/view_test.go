package ndview_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
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

func TestViewsMatchNumPy(t *testing.T) {
	text, err := os.ReadFile("testdata/golden/views.txt")
	require.NoError(t, err)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		pool := ndtest.Upload(t, dev, make([]byte, 8192))
		var a *ndview.NDBuffer
		cases := 0
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if array, ok := strings.CutPrefix(line, "= "); ok {
				name, run, _ := strings.Cut(array, " ")
				a = arrayOverPool(t, pool, dtypeNamed(t, name), run)
				continue
			}
			ask, want, _ := strings.Cut(line, " > ")
			got := operationResult(t, a, ask)
			if !sameResult(want, got) {
				t.Fatalf("line %d: %s of shape %v, strides %v, offset %d, itemsize %d: want %s, got %s",
					i+1, ask, a.Shape(), a.Strides(), a.Offset(), a.DType().Size(), want, got)
			}
			cases++
		}
		assert.Greater(t, cases, 9000)
	})
}

// dtypeNamed returns a dtype of the golden files.
func dtypeNamed(t *testing.T, name string) ndview.DType {
	t.Helper()
	if width, ok := strings.CutPrefix(name, "V"); ok {
		return ndview.Bytes(int32(parse(t, width)[0]))
	}
	dtype, ok := map[string]ndview.DType{
		"u1": ndview.Uint8, "i2": ndview.Int16, "f4": ndview.Float32, "f8": ndview.Float64, "c16": ndview.Complex128,
	}[name]
	require.True(t, ok, name)
	return dtype
}

// parseRun parses "size shape/strides@offset".
func parseRun(t *testing.T, text string) layout.Run {
	t.Helper()
	size, rest, _ := strings.Cut(text, " ")
	shape, rest, _ := strings.Cut(rest, "/")
	strides, offset, _ := strings.Cut(rest, "@")
	return layout.Run{Offset: parse(t, offset)[0], Size: parse(t, size)[0], Shape: parse(t, shape), Strides: parse(t, strides)}
}

func parse(t *testing.T, numbers string) (out []int64) {
	t.Helper()
	for _, n := range strings.FieldsFunc(numbers, func(r rune) bool { return r == ',' }) {
		v, err := strconv.ParseInt(n, 10, 64)
		require.NoError(t, err)
		out = append(out, v)
	}
	return out
}

// arrayOverPool returns an array over a pool of bytes.
func arrayOverPool(t *testing.T, pool arrowbuf.Buffer, dtype ndview.DType, text string) *ndview.NDBuffer {
	t.Helper()
	run := parseRun(t, text)
	a, err := ndview.FromBuffer(pool, dtype, run.Offset, run.Shape, run.Strides)
	return ndtest.Own(t, a, err)
}

// operationResult returns the result of an operation on a in the form of the golden
// file.
func operationResult(t *testing.T, a *ndview.NDBuffer, ask string) string {
	t.Helper()
	name, rest, _ := strings.Cut(ask, " ")
	if name == "flags" {
		f := a.Flags()
		bits := ""
		for _, flag := range []bool{f.CContiguous, f.FContiguous, f.Aligned, f.FNC(), f.FORC(), f.Behaved(), f.CArray()} {
			bits += map[bool]string{false: "0", true: "1"}[flag]
		}
		return bits
	}
	v, err := applyOperation(t, a, name, rest)
	switch {
	case errors.Is(err, arrowbuf.ErrOutOfRange):
		return "!range"
	case errors.Is(err, ndview.ErrShape):
		return "!shape"
	}
	require.NoError(t, err, ask)
	defer v.Release()
	numbers := func(values []int64) string {
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(values), "[]"), " ", ",")
	}
	lies := numbers(v.Shape()) + "/" + numbers(v.Strides())
	if v.Base() == nil {
		return "copy " + lies
	}
	assert.Same(t, a, v.Base())
	assert.Equal(t, name != "broadcast", v.Flags().Writeable)
	return lies + "@" + fmt.Sprint(v.Offset())
}

// applyOperation applies an operation of the golden file to a.
func applyOperation(t *testing.T, a *ndview.NDBuffer, name, rest string) (*ndview.NDBuffer, error) {
	t.Helper()
	first, second, _ := strings.Cut(rest, " ")
	axes := func() (out []int) {
		for _, n := range parse(t, rest) {
			out = append(out, int(n))
		}
		return out
	}
	switch name {
	case "index":
		return a.Index(keys(t, rest)...)
	case "reshape":
		return a.ReshapeOrder(ndview.Order(first[0]), parse(t, second)...)
	case "ravel":
		return a.Ravel(ndview.Order(first[0]))
	case "squeeze":
		if len(axes()) == 0 { // NumPy's default
			return a.SqueezeAll()
		}
		return a.Squeeze(axes()...)
	case "expand":
		return a.ExpandDims(axes()...)
	case "transpose":
		return a.Transpose(axes()...)
	case "swap":
		return a.SwapAxes(axes()[0], axes()[1])
	case "move":
		return a.MoveAxis(axes()[0], axes()[1])
	case "broadcast":
		return a.BroadcastTo(parse(t, rest)...)
	case "view":
		return a.View(dtypeNamed(t, first))
	}
	t.Fatalf("operation %s", name)
	return nil, nil
}

// keys parses Python's keys such as 1, ::2 and None.
func keys(t *testing.T, text string) (keys []ndview.Key) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		parts := strings.Split(word, ":")
		bound := func(i int) int64 {
			if i >= len(parts) || parts[i] == "" {
				return ndview.Open
			}
			return parse(t, parts[i])[0]
		}
		switch {
		case word == "()":
		case word == "new":
			keys = append(keys, ndview.NewAxis)
		case word == "...":
			keys = append(keys, ndview.Ellipsis)
		case len(parts) == 1:
			keys = append(keys, ndview.At(bound(0)))
		default:
			keys = append(keys, ndview.SpanStep(bound(0), bound(1), bound(2)))
		}
	}
	return keys
}

// sameResult compares results, except for the offset of empty arrays, which may be
// any.
func sameResult(want, got string) bool {
	shape, _, _ := strings.Cut(want, "/")
	if slices.Contains(strings.Split(shape, ","), "0") {
		want, _, _ = strings.Cut(want, "@")
		got, _, _ = strings.Cut(got, "@")
	}
	return want == got
}

// model is the reference of a view, without strides: a function from coordinates to
// the bytes of an element, composed of one function per step.
type model struct {
	shape   []int64
	element func(at []int64) []byte
}

// contiguous returns the model of elements in C order at the start of memory.
func contiguous(memory []byte, size int64, shape []int64) model {
	return model{shape, func(at []int64) []byte {
		n := cOrderIndex(shape, at)
		return memory[n*size : (n+1)*size]
	}}
}

// cOrderIndex returns the index of an element of a shape in C order.
func cOrderIndex(shape, at []int64) int64 {
	n := int64(0)
	for i, c := range at {
		n = n*shape[i] + c
	}
	return n
}

// walk visits all coordinates of a shape in C order.
func walk(shape []int64, visit func(at []int64)) {
	at := make([]int64, len(shape))
	var from func(axis int)
	from = func(axis int) {
		if axis == len(shape) {
			visit(at)
			return
		}
		for at[axis] = 0; at[axis] < shape[axis]; at[axis]++ {
			from(axis + 1)
		}
	}
	from(0)
}

// bytes returns all elements in C order.
func (m model) bytes() []byte {
	all := []byte{}
	walk(m.shape, func(at []int64) { all = append(all, m.element(at)...) })
	return all
}

// pick selects indices along one axis.
func (m model) pick(axis int, places []int64) model {
	shape := slices.Clone(m.shape)
	shape[axis] = int64(len(places))
	return model{shape, func(at []int64) []byte {
		at = slices.Clone(at)
		at[axis] = places[at[axis]]
		return m.element(at)
	}}
}

// drop removes an axis of extent 1, and insert adds one.
func (m model) drop(axis int) model {
	shape := slices.Delete(slices.Clone(m.shape), axis, axis+1)
	return model{shape, func(at []int64) []byte { return m.element(slices.Insert(slices.Clone(at), axis, 0)) }}
}

func (m model) insert(axis int) model {
	shape := slices.Insert(slices.Clone(m.shape), axis, 1)
	return model{shape, func(at []int64) []byte { return m.element(slices.Delete(slices.Clone(at), axis, axis+1)) }}
}

func (m model) transpose(order []int) model {
	shape := make([]int64, len(order))
	for i, from := range order {
		shape[i] = m.shape[from]
	}
	return model{shape, func(at []int64) []byte {
		before := make([]int64, len(at))
		for i, from := range order {
			before[from] = at[i]
		}
		return m.element(before)
	}}
}

// repeat repeats an axis of extent 1 n times.
func (m model) repeat(axis int, n int64) model {
	shape := slices.Clone(m.shape)
	shape[axis] = n
	return model{shape, func(at []int64) []byte {
		at = slices.Clone(at)
		at[axis] = 0
		return m.element(at)
	}}
}

// reshape counts elements in C order or in Fortran order.
func (m model) reshape(shape []int64, fortran bool) model {
	if fortran {
		reversed := slices.Clone(shape)
		slices.Reverse(reversed)
		return m.transpose(reversal(len(m.shape))).reshape(reversed, false).transpose(reversal(len(shape)))
	}
	var all [][]byte
	walk(m.shape, func(at []int64) { all = append(all, m.element(at)) })
	return model{shape, func(at []int64) []byte { return all[cOrderIndex(shape, at)] }}
}

func reversal(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = n - 1 - i
	}
	return order
}

// retype divides the bytes of the last axis into elements of another size.
func (m model) retype(from, to int64) model {
	last := len(m.shape) - 1
	shape := slices.Clone(m.shape)
	shape[last] = shape[last] * from / to
	return model{shape, func(at []int64) []byte {
		at = slices.Clone(at)
		first := at[last] * to
		out := []byte{}
		for b := first; b < first+to; b++ {
			at[last] = b / from
			out = append(out, m.element(at)[b%from])
		}
		return out
	}}
}

// span returns the indices that Python's slice(start, stop, step) selects, found by
// testing each; nil is None.
func span(start, stop *int64, step, n int64) []int64 {
	count := func(i *int64) int64 {
		if *i < 0 {
			return *i + n
		}
		return *i
	}
	reached := func(i int64, bound *int64) bool { // when walking from 0, or from the end
		return step > 0 && i >= count(bound) || step < 0 && i <= count(bound)
	}
	places := []int64{}
	next, chosen := int64(0), false
	for k := range n {
		i := k
		if step < 0 {
			i = n - 1 - k
		}
		switch {
		case start != nil && !reached(i, start) || stop != nil && reached(i, stop):
		case !chosen:
			places, next, chosen = append(places, i), i+step, true
		case i == next:
			places, next = append(places, i), i+step
		}
	}
	return places
}

// randomIndex returns random keys for all axes, and the model of the elements that
// they select.
func randomIndex(rng *rand.Rand, m model) ([]ndview.Key, model) {
	var keys []ndview.Key
	axis := 0
	for _, extent := range slices.Clone(m.shape) {
		if rng.IntN(6) == 0 {
			keys = append(keys, ndview.NewAxis)
			m = m.insert(axis)
			axis++
		}
		if extent > 0 && rng.IntN(4) == 0 {
			at := rng.Int64N(2*extent) - extent
			keys = append(keys, ndview.At(at))
			m = m.pick(axis, []int64{(at + extent) % extent}).drop(axis)
			continue
		}
		bounds := []int64{ndview.Open, ndview.Open}
		var given [2]*int64
		for i := range bounds {
			if rng.IntN(3) > 0 {
				bounds[i] = rng.Int64N(2*extent+5) - extent - 2
				given[i] = &bounds[i]
			}
		}
		step := []int64{1, 1, 2, 3, -1, -2, 9, -9}[rng.IntN(8)]
		keys = append(keys, ndview.SpanStep(bounds[0], bounds[1], step))
		m = m.pick(axis, span(given[0], given[1], step, extent))
		axis++
	}
	if rng.IntN(3) == 0 {
		keys = append(keys, ndview.Ellipsis)
	}
	return keys, m
}

// randomShape returns a shape of n elements.
func randomShape(rng *rand.Rand, n int64) []int64 {
	if n == 0 {
		return []int64{rng.Int64N(4), 0, 2}
	}
	shape := []int64{}
	for n > 1 && len(shape) < 3 {
		d := 1 + rng.Int64N(n)
		for n%d != 0 {
			d--
		}
		shape = append(shape, d)
		n /= d
	}
	return append(shape, n)
}

// randomView returns a random view or copy of a, and its model.
func randomView(rng *rand.Rand, a *ndview.NDBuffer, m model) (*ndview.NDBuffer, model, error) {
	axes, size := len(m.shape), a.DType().Size()
	switch choice := rng.IntN(9); {
	case choice == 0:
		keys, m := randomIndex(rng, m)
		v, err := a.Index(keys...)
		return v, m, err
	case choice == 1:
		shape, order := randomShape(rng, a.Size()), []ndview.Order{'C', 'F', 'A'}[rng.IntN(3)]
		v, err := a.ReshapeOrder(order, shape...)
		return v, m.reshape(shape, order == 'F' || order == 'A' && a.Flags().FNC()), err
	case choice == 2 && axes < 4:
		axis := rng.IntN(axes + 1)
		v, err := a.ExpandDims(axis - axes - 1)
		return v, m.insert(axis), err
	case choice == 3 && slices.Contains(m.shape, 1):
		axis := slices.Index(m.shape, 1)
		if rng.IntN(2) == 0 {
			v, err := a.Squeeze(axis - axes)
			return v, m.drop(axis), err
		}
		n := rng.Int64N(4)
		m := m.repeat(axis, n)
		v, err := a.BroadcastTo(m.shape...)
		return v, m, err
	case choice == 4 && axes > 0 && a.IsContiguous():
		for _, to := range []int64{8, 6, 4, 3, 2, 1} {
			if to != size && (size%to == 0 || to%size == 0 && m.shape[axes-1]*size%to == 0) {
				v, err := a.View(ndview.Bytes(int32(to)))
				return v, m.retype(size, to), err
			}
		}
		v, err := a.View(a.DType())
		return v, m, err
	case choice == 5:
		return ravel(rng, a, m)
	case choice == 6 && axes > 0:
		i, j := rng.IntN(axes), rng.IntN(axes)
		order := slices.Delete(reversal(axes), axes-1-i, axes-i)
		slices.Reverse(order)
		v, err := a.MoveAxis(i, j-axes)
		return v, m.transpose(slices.Insert(order, j, i)), err
	case choice == 7 && axes > 0:
		i, j := rng.IntN(axes), rng.IntN(axes)
		order := reversal(axes)
		slices.Reverse(order)
		order[i], order[j] = order[j], order[i]
		v, err := a.SwapAxes(i-axes, j)
		return v, m.transpose(order), err
	default:
		order := rng.Perm(axes)
		v, err := a.Transpose(order...)
		return v, m.transpose(order), err
	}
}

func ravel(rng *rand.Rand, a *ndview.NDBuffer, m model) (*ndview.NDBuffer, model, error) {
	order := []ndview.Order{'C', 'F', 'A', 'K'}[rng.IntN(4)]
	if order == 'K' && !a.IsContiguous() {
		m = m.transpose(layout.IterationOrder(a.Shape(), a.Strides())) // compared with NumPy in programs.txt
	}
	v, err := a.Ravel(order)
	return v, m.reshape([]int64{a.Size()}, order == 'F' || order == 'A' && a.Flags().FNC()), err
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
