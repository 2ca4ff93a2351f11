package ndview_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestViewsOfViewsShowTheElementsThatTheModelSays(t *testing.T) {
	widths := []ndview.DType{ndview.Uint8, ndview.Int16, ndview.Bytes(3), ndview.Float32, ndview.Int64, ndview.Complex128}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
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

func checkView(t *testing.T, a *ndview.NDBuffer, m model, seed uint64) {
	t.Helper()
	want := m.bytes()
	require.Equal(t, m.shape, a.Shape(), "seed %d", seed)
	require.Equal(t, want, elements(t, a), "seed %d: shape %v, strides %v", seed, a.Shape(), a.Strides())
	if host, ok := a.HostBytes(); ok {
		require.True(t, a.IsContiguous())
		require.Equal(t, want, append([]byte{}, host...))
	}
}

func TestViewsShareTheBuffer(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, count(12), 3, 4)
		row, err := a.Slice(0, 1, 2)
		own(t, row, err)
		flat, err := row.Reshape(4)
		own(t, flat, err)
		require.NoError(t, flat.CopyFromHost(raw[int32](-1, -2, -3, -4)))
		assert.Equal(t, raw[int32](0, 1, 2, 3, -1, -2, -3, -4, 8, 9, 10, 11), elements(t, a))
	})
}

func TestViewKeepsBytesAndChangesTheirMeaning(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int64, []int64{-1, 1}, 2)
	dates, err := a.View(ndview.Datetime64(ndview.Day, 1))
	own(t, dates, err)
	assert.Equal(t, "datetime64[D]", dates.DType().String())
	assert.Equal(t, raw[int64](-1, 1), elements(t, dates))
	halves, err := a.View(ndview.Int32)
	own(t, halves, err)
	assert.Equal(t, []int64{4}, halves.Shape())
	assert.Equal(t, raw[int64](-1, 1), elements(t, halves))
	_, err = a.View(ndview.DType{})
	assert.ErrorIs(t, err, ndview.ErrDType)
}

func TestTransposeWithoutOrderReversesTheAxes(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(24), 2, 3, 4)
	callers := []int{7, 8, 9}
	v, err := a.Transpose(callers[:0]...)
	own(t, v, err)
	assert.Equal(t, []int64{4, 3, 2}, v.Shape())
	assert.Equal(t, []int64{4, 16, 48}, v.Strides())
	assert.Equal(t, []int{7, 8, 9}, callers, "the caller's slice")
}

func TestViewsThatDoNotFitAreErrShape(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(12), 3, 4)
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
	}
	for name, err := range tests {
		assert.ErrorIs(t, err, ndview.ErrShape, name)
	}
}

func TestViewsOfNoElementsStayWithinTheBuffer(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, count(12), 3, 4)
		none, err := a.Slice(0, 3, 3)
		own(t, none, err)
		assert.True(t, none.IsContiguous())
		part, err := none.Slice(1, 2, 4)
		own(t, part, err)
		assert.Equal(t, []int64{0, 2}, part.Shape())
		assert.True(t, part.IsContiguous())
		other, err := part.Reshape(5, 0)
		own(t, other, err)
		assert.Empty(t, elements(t, other))
		assert.NoError(t, other.CopyFromHost(nil))
		assert.NoError(t, other.Zero())
		assert.NoError(t, other.CopyFrom(other))
		assert.Equal(t, raw(count(12)...), elements(t, a))
	})
}
