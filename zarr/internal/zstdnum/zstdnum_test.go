package zstdnum_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/quiver-gpu/quiver/zarr/internal/zstdnum"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// columns make n numbers as columns have them.
var columns = map[string]func(random *rand.Rand, i int) uint64{
	"zeros":        func(*rand.Rand, int) uint64 { return 0 },
	"one value":    func(*rand.Rand, int) uint64 { return 0x0102030405060708 },
	"rising":       func(_ *rand.Rand, i int) uint64 { return uint64(i) },
	"small":        func(r *rand.Rand, _ int) uint64 { return r.Uint64N(200) },
	"middle":       func(r *rand.Rand, _ int) uint64 { return r.Uint64N(20000) },
	"signed":       func(r *rand.Rand, _ int) uint64 { return uint64(r.Int64N(100) - 50) },
	"noise":        func(r *rand.Rand, _ int) uint64 { return r.Uint64() },
	"high noise":   func(r *rand.Rand, _ int) uint64 { return r.Uint64() &^ 0xffffff },
	"floats":       func(r *rand.Rand, _ int) uint64 { return math.Float64bits(r.NormFloat64()) },
	"cents":        func(r *rand.Rand, _ int) uint64 { return math.Float64bits(float64(r.IntN(5000)) / 100) },
	"runs":         func(_ *rand.Rand, i int) uint64 { return uint64(i/1000) * 0x123456789abcdef },
	"a long cycle": func(_ *rand.Rand, i int) uint64 { return uint64(i%1000) * 0x9E3779B97F4A7C15 },
	"rare": func(r *rand.Rand, _ int) uint64 {
		if r.IntN(500) == 0 {
			return r.Uint64()
		}
		return 7
	},
}

func column(make func(*rand.Rand, int) uint64, n, width int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var out []byte
	for i := range n {
		out = append(out, binary.LittleEndian.AppendUint64(nil, make(random, i))[:width]...)
	}
	return out
}

func decoder(t testing.TB) *zstd.Decoder {
	t.Helper()
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

func TestNumbersRoundTrip(t *testing.T) {
	d := decoder(t)
	for name, make := range columns {
		for _, width := range []int{2, 4, 8} {
			for _, n := range []int{0, 1, 2, 3, 7, 31, 100, 300, 1000, 5000, 20000, 70000} {
				src := column(make, n, width)
				enc := zstdnum.Encode([]byte("before"), src, width)
				require.True(t, bytes.HasPrefix(enc, []byte("before")))
				got, err := d.DecodeAll(enc[6:], nil)
				require.NoError(t, err, "%s: %d numbers of %d bytes", name, n, width)
				require.True(t, bytes.Equal(src, got), "%s: %d numbers of %d bytes", name, n, width)
				require.LessOrEqual(t, len(enc), 6+len(src)+3*(len(src)>>17)+16, "raw blocks bound the size")
			}
		}
	}
}

func TestFramesLargerThanTheWindow(t *testing.T) {
	d := decoder(t)
	src := column(columns["a long cycle"], 700_000, 8)
	src = append(src, src[:100_000]...) // repeats what is out of the window
	got, err := d.DecodeAll(zstdnum.Encode(nil, src, 8), nil)
	require.NoError(t, err)
	require.True(t, bytes.Equal(src, got))
}

// What a general encoder finds at its fastest is found here too, or nearly.
func TestSizeIsNearThatOfAGeneralEncoder(t *testing.T) {
	general, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
	require.NoError(t, err)
	for name, make := range columns {
		for _, width := range []int{4, 8} {
			src := column(make, 100_000, width)
			ours, theirs := len(zstdnum.Encode(nil, src, width)), len(general.EncodeAll(src, nil))
			assert.Less(t, float64(ours), 1.4*float64(theirs), "%s, %d bytes", name, width)
		}
	}
}

func FuzzEncode(f *testing.F) {
	for _, make := range columns {
		f.Add(column(make, 100, 8), uint8(8))
		f.Add(column(make, 50, 4), uint8(4))
		f.Add(column(make, 50, 2), uint8(2))
	}
	d := decoder(f)
	f.Fuzz(func(t *testing.T, src []byte, width uint8) {
		if width != 2 && width != 4 && width != 8 {
			return
		}
		src = bytes.Repeat(src, 1+len(src)%50)
		got, err := d.DecodeAll(zstdnum.Encode(nil, src, int(width)), nil)
		require.NoError(t, err)
		require.True(t, bytes.Equal(src, got))
	})
}
