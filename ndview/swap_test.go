package ndview_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestByteSwapTurnsTheBytesOfEachNumberAround(t *testing.T) {
	dtypes := []struct {
		dtype ndview.DType
		size  int // of what is turned around
	}{
		{ndview.Bool, 1}, {ndview.Int8, 1}, {ndview.Bytes(3), 1}, {ndview.Uint16, 2}, {ndview.BFloat16, 2}, {ndview.Float32, 4},
		{ndview.Int64, 8}, {ndview.Datetime64(ndview.Second, 1), 8}, {ndview.Complex64, 4}, {ndview.Complex128, 8},
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		rng := rand.New(rand.NewPCG(7, 1))
		for _, tt := range dtypes {
			for _, n := range []int64{0, 1, 3, 100, 5003} {
				for _, align := range []int64{0, 1, tt.dtype.Size(), 16} {
					raw := randomBytes(rng, int(align+n*tt.dtype.Size()+5))
					want := slices.Clone(raw)
					for at := int(align); at < len(raw)-5; at += tt.size {
						slices.Reverse(want[at : at+tt.size])
					}
					buf := upload(t, dev, raw)
					a := at(t, buf, tt.dtype, align, n)
					copied, err := a.ByteSwapped()
					own(t, copied, err)
					requireBytes(t, want[align:len(want)-5], elements(t, copied), tt, n, align)
					requireBytes(t, raw, download(t, buf), tt, n, align)
					require.NoError(t, a.ByteSwap())
					requireBytes(t, want, download(t, buf), tt, n, align)
				}
			}
		}
	})
}

func TestByteSwapTakesAnyStrides(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Uint16, []uint16{1, 2, 3, 4, 5, 6}, 2, 3)
		columns := index(t, a, ndview.All, ndview.SpanStep(ndview.Open, ndview.Open, -2))
		copied, err := columns.ByteSwapped()
		own(t, copied, err)
		assert.Equal(t, raw[uint16](0x300, 0x100, 0x600, 0x400), elements(t, copied))
		require.NoError(t, columns.ByteSwap())
		assert.Equal(t, raw[uint16](0x100, 2, 0x300, 0x400, 5, 0x600), elements(t, a))

		fixed, err := a.ReadOnly()
		own(t, fixed, err)
		assert.ErrorIs(t, fixed.ByteSwap(), ndview.ErrReadOnly)
	})
}
