package codec_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func compile(t testing.TB, of element.Type, shape []int64, list ...codec.Codec) *codec.Chain {
	t.Helper()
	c, err := codec.List(list).Compile(codec.ChunkSpec{Type: of, Shape: shape, Fill: of.DefaultFill()})
	require.NoError(t, err)
	return c
}

var (
	int8s  = element.Of(ndview.Int8)
	int32s = element.Of(ndview.Int32)
	little = codec.Bytes{Endian: codec.Little}
)

func encode(t testing.TB, c *codec.Chain, v element.Values) []byte {
	t.Helper()
	s := codec.GetScratch()
	defer s.Release()
	enc, err := c.Encode(s, v)
	require.NoError(t, err)
	return slices.Clone(enc)
}

func decode(c *codec.Chain, size int, enc []byte) ([]byte, error) {
	s := codec.GetScratch()
	defer s.Release()
	dst := make([]byte, size)
	return dst, c.DecodeFixed(s, dst, enc)
}

func array(t testing.TB, data []int32, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	nd, err := ndview.FromHost(arrowbuf.CPU(), ndview.Int32, data, shape...)
	require.NoError(t, err)
	t.Cleanup(nd.Release)
	return nd
}

// values returns elements on the CPU device.
func values(t testing.TB, of element.Type, raw []byte, shape []int64) *ndview.NDBuffer {
	t.Helper()
	dtype, ok := of.DType()
	require.True(t, ok)
	nd, err := ndview.FromBytes(arrowbuf.CPU(), dtype, raw, shape...)
	require.NoError(t, err)
	t.Cleanup(nd.Release)
	return nd
}

func appendFloat32(raw []byte, x float32) []byte {
	return binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
}

func TestEncodedBytes(t *testing.T) {
	crc := func(b ...byte) []byte {
		return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	}
	missing := bytes.Repeat([]byte{255}, 16)
	entry := func(offset, length byte) []byte {
		return []byte{offset, 0, 0, 0, 0, 0, 0, 0, length, 0, 0, 0, 0, 0, 0, 0}
	}
	one := array(t, []int32{1, 2, 3, 4}, 2, 2)
	for name, c := range map[string]struct {
		list codec.List
		want []byte
	}{
		"little":    {codec.List{little}, []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0}},
		"big":       {codec.List{codec.Bytes{Endian: codec.Big}}, []byte{0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4}},
		"transpose": {codec.List{codec.Transpose{Order: []int{1, 0}}, little}, []byte{1, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0}},
		"crc32c":    {codec.List{little, codec.CRC32C{}}, crc(1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0)},
		"sharding": {codec.List{codec.Sharding{ChunkShape: []int64{1, 2}, Codecs: codec.List{little}}},
			append([]byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0}, crc(append(entry(0, 8), entry(8, 8)...)...)...)},
		"sharding, start": {codec.List{codec.Sharding{ChunkShape: []int64{2, 2}, Codecs: codec.List{little}, IndexCodecs: codec.List{little}, IndexLocation: codec.Start}},
			append(entry(16, 16), 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0)},
	} {
		chain := compile(t, int32s, []int64{2, 2}, c.list...)
		assert.Equal(t, c.want, encode(t, chain, one), name)
	}
	half := array(t, []int32{0, 0, 7, 7}, 2, 2)
	chain := compile(t, int32s, []int64{2, 2}, codec.Sharding{ChunkShape: []int64{1, 2}, Codecs: codec.List{little}})
	assert.Equal(t, append([]byte{7, 0, 0, 0, 7, 0, 0, 0}, crc(append(missing, entry(0, 8)...)...)...), encode(t, chain, half), "a missing chunk")
	text, err := element.PackVLen([]string{"hé", "", "x"}, 3)
	require.NoError(t, err)
	assert.Equal(t, []byte("\x03\x00\x00\x00\x03\x00\x00\x00h\xc3\xa9\x00\x00\x00\x00\x01\x00\x00\x00x"),
		encode(t, compile(t, element.String, []int64{3}, codec.VLenUTF8{}), text))
}

func TestPartialChunksOfStringsArePaddedWithTheFillValue(t *testing.T) {
	data := []byte("_abcde_")
	for _, c := range []struct {
		fill    string
		shape   []int64 // of the strings a, bc and de, of a chunk of shape (2, 3)
		offsets []int64
		want    []string
	}{
		{"", []int64{1, 3}, []int64{1, 2, 4, 6}, []string{"a", "bc", "de", "", "", ""}},
		{"no", []int64{1, 3}, []int64{1, 2, 4, 6}, []string{"a", "bc", "de", "no", "no", "no"}},
		{"", []int64{2, 1}, []int64{1, 2, 4}, []string{"a", "", "", "bc", "", ""}},
		{"no", []int64{2, 1}, []int64{1, 2, 4}, []string{"a", "no", "no", "bc", "no", "no"}},
	} {
		chain, err := codec.List{codec.VLenUTF8{}}.Compile(codec.ChunkSpec{Type: element.String, Shape: []int64{2, 3}, Fill: []byte(c.fill)})
		require.NoError(t, err)
		whole, err := element.PackVLen(c.want, 2, 3)
		require.NoError(t, err)
		want := encode(t, chain, whole)
		wide, err := element.NewVLen(c.offsets, data, c.shape...)
		require.NoError(t, err)
		assert.Equal(t, want, encode(t, chain, wide), "%q", c.want)
		var offsets []int32
		for _, o := range c.offsets {
			offsets = append(offsets, int32(o))
		}
		narrow, err := element.NewVLen(offsets, data, c.shape...)
		require.NoError(t, err)
		assert.Equal(t, want, encode(t, chain, narrow), "%q", c.want)
	}
}

func TestVLenCodecsRequireTheirType(t *testing.T) {
	for of, first := range map[element.Type]codec.Codec{element.String: codec.VLenBytes{}, element.Bytes: codec.VLenUTF8{}, int8s: codec.VLenUTF8{}} {
		_, err := codec.List{first}.Compile(codec.ChunkSpec{Type: of, Shape: []int64{1}, Fill: of.DefaultFill()})
		assert.ErrorContains(t, err, first.Name())
	}
	_, err := codec.List{little}.Compile(codec.ChunkSpec{Type: element.String, Shape: []int64{1}})
	assert.ErrorContains(t, err, "string")
}

func TestDecodeRejectsOtherSizes(t *testing.T) {
	compress := func(then codec.Codec, n int) []byte { // encodes a chunk of n bytes
		nd, err := ndview.FromBytes(arrowbuf.CPU(), ndview.Int8, bytes.Repeat([]byte{1}, n), int64(n))
		require.NoError(t, err)
		return encode(t, compile(t, int8s, []int64{int64(n)}, codec.Bytes{}, then), nd)
	}
	for _, then := range []codec.Codec{codec.Zstd{Level: 1}, codec.Zstd{Level: 1, Checksum: true}, codec.Gzip{Level: 5}, codec.CRC32C{}} {
		chain := compile(t, int8s, []int64{100}, codec.Bytes{}, then)
		for _, n := range []int{1, 99, 101, 1 << 20} {
			_, err := decode(chain, 100, compress(then, n))
			assert.Error(t, err, "%s of %d bytes for 100", then.Name(), n)
		}
		good := compress(then, 100)
		got, err := decode(chain, 100, good)
		require.NoError(t, err)
		assert.Equal(t, bytes.Repeat([]byte{1}, 100), got)
		for cut := range len(good) {
			_, err := decode(chain, 100, good[:cut])
			assert.Error(t, err, "%s cut to %d of %d bytes", then.Name(), cut, len(good))
		}
	}
	_, err := decode(compile(t, int8s, []int64{100}, codec.Bytes{}), 100, make([]byte, 101))
	assert.ErrorContains(t, err, "101")
}

func TestDecompressionBombAllocatesNothing(t *testing.T) {
	const huge = 1 << 40
	for _, then := range []codec.Codec{codec.Zstd{}, codec.Gzip{}, codec.CRC32C{}} {
		chain := compile(t, int8s, []int64{huge}, codec.Bytes{}, then)
		s := codec.GetScratch()
		assert.Error(t, chain.DecodeFixed(s, nil, []byte("small")))
		s.Release()
	}
	// Metadata does not bound the size of strings, so the claim of a frame must not be trusted.
	lying := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0}
	var header zstd.Header
	require.NoError(t, header.Decode(lying))
	require.EqualValues(t, 1<<40, header.FrameContentSize)
	s := codec.GetScratch()
	defer s.Release()
	_, err := compile(t, element.Bytes, []int64{1}, codec.VLenBytes{}, codec.Zstd{}).DecodeVLen(s, lying)
	assert.Error(t, err)
}

func TestHighlyCompressedStringsAreDecoded(t *testing.T) {
	v, err := element.PackVLen([]string{string(bytes.Repeat([]byte{'a'}, 1<<20)), "b"}, 2)
	require.NoError(t, err)
	for _, then := range []codec.List{{codec.Zstd{Level: 1}}, {codec.Gzip{Level: 9}}, {codec.Zstd{Level: 9}, codec.Gzip{Level: 1}, codec.CRC32C{}}} {
		chain := compile(t, element.String, []int64{2}, append(codec.List{codec.VLenUTF8{}}, then...)...)
		s := codec.GetScratch()
		got, err := chain.DecodeVLen(s, encode(t, chain, v))
		s.Release()
		require.NoError(t, err)
		assert.Equal(t, v.Elements(), got.Elements())
	}
}

func TestZstdDecodesStreamedFrames(t *testing.T) {
	want := make([]byte, 300_000)
	for i := range want {
		want[i] = byte(rand.Uint32() % 5)
	}
	var streamed bytes.Buffer // frames without a content size, two of them
	for _, half := range [][]byte{want[:100_000], want[100_000:]} {
		w, err := zstd.NewWriter(&streamed)
		require.NoError(t, err)
		_, err = w.Write(half)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	got, err := decode(compile(t, int8s, []int64{300_000}, codec.Bytes{}, codec.Zstd{}), len(want), streamed.Bytes())
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestZstdLevels(t *testing.T) {
	data := make([]int32, 1<<14)
	for i := range data {
		data[i] = int32(i % 1000 * i % 77)
	}
	for _, level := range []int{-131072, -1, 0, 1, 2, 3, 5, 6, 9, 10, 22} {
		chain := compile(t, int32s, []int64{1 << 14}, little, codec.Zstd{Level: level})
		enc := encode(t, chain, array(t, data, 1<<14))
		if level > -1000 { // lower levels barely compress
			assert.Less(t, len(enc), 4*len(data), level)
		}
		_, err := decode(chain, 4*len(data), enc)
		assert.NoError(t, err, level)
	}
}

func TestChecksumsDetectCorruption(t *testing.T) {
	for _, list := range []codec.List{{little, codec.CRC32C{}}, {little, codec.Zstd{Checksum: true}}, {little, codec.Gzip{Level: 1}},
		{codec.Sharding{ChunkShape: []int64{2}, Codecs: codec.List{little, codec.CRC32C{}}}}} {
		chain := compile(t, int32s, []int64{4}, list...)
		enc := encode(t, chain, array(t, []int32{1, 2, 3, 4}, 4))
		want, err := decode(chain, 16, enc)
		require.NoError(t, err)
		for i := range enc {
			bad := slices.Clone(enc)
			bad[i] ^= 1
			if got, err := decode(chain, 16, bad); err == nil {
				assert.Equal(t, want, got, "%v: byte %d", list, i) // some bytes of gzip's header are unused
			}
		}
	}
}

func TestShardIndexOutsideShardIsAnError(t *testing.T) {
	noCheck := codec.Sharding{ChunkShape: []int64{1}, Codecs: codec.List{little}, IndexCodecs: codec.List{little}}
	chain := compile(t, int32s, []int64{2}, noCheck)
	for _, c := range [][2]uint64{{0, 5}, {0, 100}, {100, 4}, {math.MaxUint64, 4}, {4, math.MaxUint64}, {math.MaxInt64, math.MaxInt64},
		{1 << 63, 1 << 63}, {0, 0}, {0, 3}} {
		shard := []byte{1, 0, 0, 0}
		for _, n := range []uint64{c[0], c[1], math.MaxUint64, math.MaxUint64} {
			shard = binary.LittleEndian.AppendUint64(shard, n)
		}
		_, err := decode(chain, 8, shard)
		assert.Error(t, err, c)
	}
	for n := range 32 {
		_, err := decode(chain, 8, make([]byte, n))
		assert.Error(t, err, n)
	}
}

func TestMalformedVLenChunksAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		enc  string
		want string
	}{
		"empty":     {"", "too few"},
		"count":     {"\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "3 strings in a chunk of 2"},
		"too long":  {"\x02\x00\x00\x00\x05\x00\x00\x00a\x00\x00\x00\x00", "string 0"},
		"2^32 - 1":  {"\x02\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00", "string 0"},
		"cut":       {"\x02\x00\x00\x00\x04\x00\x00\x00abcd", "string"},
		"more":      {"\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00z", "after the last"},
		"not UTF-8": {"\x02\x00\x00\x00\x01\x00\x00\x00a\x01\x00\x00\x00\xff", "element 1"},
		"cut rune":  {"\x02\x00\x00\x00\x01\x00\x00\x00\xc3\x01\x00\x00\x00\xa9", "element 0"},
	} {
		s := codec.GetScratch()
		_, err := compile(t, element.String, []int64{2}, codec.VLenUTF8{}).DecodeVLen(s, []byte(c.enc))
		s.Release()
		assert.ErrorContains(t, err, c.want, name)
	}
}

// fuzzed are codec lists that decode foreign bytes.
var fuzzed = []codec.List{
	{little}, {codec.Bytes{Endian: codec.Big}, codec.CRC32C{}}, {little, codec.Zstd{}}, {codec.Transpose{Order: []int{1, 0}}, little, codec.Gzip{}},
	{codec.Sharding{ChunkShape: []int64{1, 2}, Codecs: codec.List{little, codec.Zstd{}}, IndexCodecs: codec.List{little}}},
	{codec.Sharding{ChunkShape: []int64{2, 2}, Codecs: codec.List{codec.Sharding{ChunkShape: []int64{1, 1}, Codecs: codec.List{little}}},
		IndexCodecs: codec.List{little}, IndexLocation: codec.Start}, codec.Zstd{}},
}

func FuzzDecodeFixed(f *testing.F) {
	for i, list := range fuzzed {
		chain := compile(f, int32s, []int64{2, 4}, list...)
		f.Add(i, encode(f, chain, array(f, []int32{1, 2, 3, 4, 0, 0, 7, 8}, 2, 4)))
	}
	f.Fuzz(func(t *testing.T, which int, enc []byte) {
		if which < 0 || which >= len(fuzzed) {
			return
		}
		chain := compile(t, int32s, []int64{2, 4}, fuzzed[which]...)
		raw, err := decode(chain, 32, enc)
		if err != nil {
			return
		}
		nd := array(t, make([]int32, 8), 2, 4)
		require.NoError(t, nd.CopyFromHost(raw))
		s := codec.GetScratch()
		defer s.Release()
		s.KeepEmpty = true
		again, err := chain.Encode(s, nd)
		require.NoError(t, err)
		back, err := decode(chain, 32, slices.Clone(again))
		require.NoError(t, err)
		require.Equal(t, raw, back)
	})
}

func FuzzDecodeVLen(f *testing.F) {
	v, err := element.PackVLen([]string{"a", "", "né"}, 3)
	require.NoError(f, err)
	lists := []codec.List{{codec.VLenUTF8{}}, {codec.VLenUTF8{}, codec.Zstd{}}, {codec.Sharding{ChunkShape: []int64{1}, Codecs: codec.List{codec.VLenUTF8{}}, IndexCodecs: codec.List{little}}}}
	for i, list := range lists {
		f.Add(i, encode(f, compile(f, element.String, []int64{3}, list...), v))
	}
	f.Fuzz(func(t *testing.T, which int, enc []byte) {
		if which < 0 || which >= len(lists) {
			return
		}
		s := codec.GetScratch()
		defer s.Release()
		s.KeepEmpty = true
		chain := compile(t, element.String, []int64{3}, lists[which]...)
		v, err := chain.DecodeVLen(s, enc)
		if err != nil {
			return
		}
		again, err := chain.Encode(s, v)
		require.NoError(t, err)
		back, err := chain.DecodeVLen(s, slices.Clone(again))
		require.NoError(t, err)
		require.Equal(t, v.Elements(), back.Elements())
	})
}

// zarr-python refuses a codec of numcodecs without a configuration.
func TestNumcodecsAreWrittenWithAConfiguration(t *testing.T) {
	for _, name := range []string{"numcodecs.adler32", "numcodecs.fletcher32", "crc32c"} {
		var list codec.List
		require.NoError(t, json.Unmarshal([]byte(`["bytes",{"name":"`+name+`"}]`), &list))
		raw, err := json.Marshal(list)
		require.NoError(t, err)
		assert.Equal(t, name != "crc32c", strings.Contains(string(raw), `{"name":"`+name+`","configuration":{}}`), string(raw))
	}
}
