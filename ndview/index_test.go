package ndview_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// index is a.Index for tests.
func index(t testing.TB, a *ndview.NDBuffer, keys ...ndview.Key) *ndview.NDBuffer {
	t.Helper()
	v, err := a.Index(keys...)
	return own(t, v, err)
}

func TestSpansThatGoTheWrongWayAreEmpty(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(7), 7)
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
		assert.Empty(t, elements(t, v), name)
		assert.Zero(t, v.Offset(), name)
	}
}

func TestNewAxisOfNoAxesIsAnAxis(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(3), 3)
	one := index(t, a, ndview.At(1))
	assert.Equal(t, []int64{}, one.Shape())
	assert.Equal(t, []int64{1}, index(t, one, ndview.Ellipsis, ndview.NewAxis).Shape())
	v := index(t, a, ndview.At(-1), ndview.NewAxis)
	assert.Equal(t, []int64{1}, v.Shape())
	assert.Equal(t, raw[int32](2), elements(t, v))
}

func TestIndexWithoutKeysIsAViewOfAll(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(6), 2, 3)
	for _, v := range []*ndview.NDBuffer{index(t, a), index(t, a, ndview.Ellipsis), index(t, a, ndview.All)} {
		assert.Equal(t, a.Shape(), v.Shape())
		assert.Same(t, a, v.Base())
		assert.True(t, ndview.MayShareMemory(a, v))
	}
}

func TestKeysThatDoNotFitSaySo(t *testing.T) {
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, count(12), 3, 4)
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
	a := fromHost(t, arrowbuf.CPU(), ndview.Int32, []int32{7}, 1, 1)
	wide, err := a.BroadcastTo(1<<40, 1<<20)
	own(t, wide, err)
	v := index(t, wide, ndview.SpanStep(-1, ndview.Open, -3), ndview.At(1<<19))
	assert.Equal(t, []int64{((1 << 40) + 2) / 3}, v.Shape())
	flat := reshape(t, wide, ndview.OrderF, -1, 1<<35)
	assert.Equal(t, []int64{1 << 25, 1 << 35}, flat.Shape())
	assert.Equal(t, raw[int32](7), elements(t, index(t, flat, ndview.At(-1), ndview.At(1<<34))))
	assert.True(t, ndview.MayShareMemory(v, flat))
}

// FuzzSpansTakeWhatPythonTakes goes where tables do not: bounds and steps near
// the ends of an int64.
func FuzzSpansTakeWhatPythonTakes(f *testing.F) {
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -9, -8, -7, -1, 0, 1, 7, 8, 9, math.MaxInt64 - 1, math.MaxInt64}
	for _, start := range edges {
		for _, stop := range edges {
			for _, step := range edges {
				f.Add(uint8(8), start, stop, step)
			}
		}
	}
	a := fromHost(f, arrowbuf.CPU(), ndview.Int32, count(256), 256)
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
			want = append(want, raw(int32(p))...)
		}
		require.Equal(t, want, elements(t, part))
	})
}
