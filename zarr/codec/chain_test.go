package codec_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/require"
)

// A decoder may return a part of its input. Buffers of a Scratch must not share memory
// afterwards, or a later decoder overwrites what it reads.
func TestDecodersThatReturnTheirInputKeepBuffersApart(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	long := make([]string, 64)
	for i := range long {
		for range 500 {
			long[i] += strconv.Itoa(random.IntN(1 << 20))
		}
	}
	v, err := element.PackVLen(long, 64)
	require.NoError(t, err)
	first := compile(t, element.String, []int64{64}, codec.VLenUTF8{}, leading{}, codec.Gzip{Level: 1})
	second := compile(t, element.String, []int64{64}, codec.VLenUTF8{}, codec.Gzip{Level: 9}, codec.Gzip{})
	a, b := encode(t, first, v), encode(t, second, v)
	var s codec.Scratch
	for _, c := range []struct {
		chain *codec.Chain
		enc   []byte
	}{{first, a}, {second, b}, {first, a}, {second, b}} {
		got, err := c.chain.DecodeVLen(&s, c.enc)
		require.NoError(t, err)
		require.Equal(t, v.Elements(), got.Elements())
	}
}
