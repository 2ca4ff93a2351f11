package codec_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/ndview"
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

func TestRangesOfChunksDecodeAlone(t *testing.T) {
	const n = 50_000
	raw := make([]byte, 4*n)
	for i := range n {
		binary.NativeEndian.PutUint32(raw[4*i:], uint32(i*i))
	}
	v, err := ndview.FromHost(arrowbuf.CPU(), ndview.Int32, unsafe.Slice((*int32)(unsafe.Pointer(&raw[0])), n), n)
	require.NoError(t, err)
	defer v.Release()
	var s codec.Scratch
	s.Stats = new(codec.Stats)
	for name, c := range map[string]struct {
		codecs codec.List
		ranges bool
	}{
		"zstd":                {codec.List{little, codec.Zstd{}}, true},
		"zstd, then crc32c":   {codec.List{little, codec.Zstd{}, codec.CRC32C{}}, true},
		"big-endian in blosc": {codec.List{codec.Bytes{Endian: codec.Big}, codec.Blosc{Compressor: blosc.LZ4, Level: 5}}, true},
		"plain":               {codec.List{little}, false},
		"gzip":                {codec.List{little, codec.Gzip{}}, false},
		"crc32c, then zstd":   {codec.List{little, codec.CRC32C{}, codec.Zstd{}}, false},
		"transformed":         {codec.List{codec.Delta{DType: "<i4"}, little, codec.Zstd{}}, false},
		"embedding":           {codec.List{little, maskedZstd{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			chain := compile(t, int32s, []int64{n}, c.codecs...)
			enc := encode(t, chain, v)
			require.Equal(t, c.ranges, chain.DecodesRanges())
			dst := make([]byte, 400)
			if !c.ranges {
				require.ErrorIs(t, chain.DecodeRange(&s, dst, enc, 0), errors.ErrUnsupported)
				return
			}
			for _, from := range []int64{0, 4, 100_000, 4*n - 400} {
				require.NoError(t, chain.DecodeRange(&s, dst, enc, from))
				require.Equal(t, raw[from:from+400], dst)
			}
			for _, from := range []int64{-4, 2, 4*n - 396} {
				require.ErrorContains(t, chain.DecodeRange(&s, dst, enc, from), fmt.Sprintf("400 bytes from %d", from))
			}
			require.ErrorContains(t, chain.DecodeRange(&s, dst[:5], enc, 0), "5 bytes from 0")
			require.ErrorContains(t, chain.DecodeRange(&s, dst, enc[:len(enc)/2], 4*n-400), "codec ")
			require.ErrorContains(t, chain.DecodeRange(&s, dst, enc[:len(c.codecs)], 0), "codec ")
			other := compile(t, int32s, []int64{n + 1}, c.codecs...)
			require.Error(t, other.DecodeRange(&s, dst, enc, 0), "a chunk of another size")
		})
	}
	require.Error(t, compile(t, int32s, []int64{n}, little, codec.Zstd{}).DecodeRange(nil, nil, nil, 0), "no scratch")
}
