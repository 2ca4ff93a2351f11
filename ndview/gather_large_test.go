package ndview_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Arrays, results and masks of more than 2^32 elements, with something to find at
// the end.
func TestIndicesReachBeyond32Bits(t *testing.T) {
	const n = hugeExtent
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		a, err := ndview.Zeros(dev, ndview.Uint8, n)
		own(t, a, err)
		mark := fromHost(t, dev, ndview.Uint8, []uint8{7, 9}, 2)
		places := fromHost(t, dev, ndview.Int64, []int64{1 << 32, -1}, 2)
		require.NoError(t, ndview.Put(a, places, mark, ndview.ModeRaise))
		end := at(t, a.Buffer(), ndview.Uint8, n-3, 3)
		assert.Equal(t, []byte{0, 0, 9}, elements(t, end))

		got, err := ndview.Take(a, places, 0, ndview.ModeRaise)
		own(t, got, err)
		assert.Equal(t, []byte{7, 9}, elements(t, got))

		mask, err := a.View(ndview.Bool)
		own(t, mask, err)
		where, err := ndview.ArgWhere(mask)
		own(t, where, err)
		assert.Equal(t, raw[int64](1<<32, n-1), elements(t, where))
		some, err := a.Get(ndview.Mask(mask))
		own(t, some, err)
		assert.Equal(t, []byte{7, 9}, elements(t, some))

		last := fromHost(t, dev, ndview.Int64, []int64{n - 1}, 1)
		repeated, err := last.BroadcastTo(n)
		own(t, repeated, err)
		long, err := ndview.Take(a, repeated, 0, ndview.ModeRaise)
		own(t, long, err)
		for _, at32 := range []int64{0, 1<<31 - 2, 1<<32 - 2, n - 4} {
			part, err := long.Slice(0, at32, at32+4)
			own(t, part, err)
			assert.Equal(t, []byte{9, 9, 9, 9}, elements(t, part), "from %d", at32)
		}
	})
}
