package codec_test

import (
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// naiveFletcher adds one word at a time, with end-around carries.
func naiveFletcher(b []byte) uint32 {
	var low, high uint32
	carry := func(x uint32) uint32 { return x&0xffff + x>>16 }
	for i := 0; i < len(b); i += 2 {
		word := uint32(b[i]) << 8
		if i+1 < len(b) {
			word |= uint32(b[i+1])
		}
		low = carry(carry(low + word))
		high = carry(carry(high + low))
	}
	return high<<16 | low
}

func TestFletcherOfManyBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	for _, n := range []int{131_071, 131_072, 131_073, 500_001} {
		for _, fill := range []int{0, 255, -1} {
			data := make([]byte, n)
			for i := range data {
				data[i] = byte(fill)
				if fill < 0 {
					data[i] = byte(random.Uint32())
				}
			}
			enc, err := codec.Fletcher32{}.Encode(nil, data)
			require.NoError(t, err)
			require.Equal(t, naiveFletcher(data), binary.LittleEndian.Uint32(enc[n:]), "%d bytes of %d", n, fill)
		}
	}
}

// Vectors of the function's author.
func TestLookup3MatchesItsVectors(t *testing.T) {
	for text, want := range map[string]uint32{"": 0xdeadbeef, "Four score and seven years ago": 0x17770551} {
		enc, err := codec.JenkinsLookup3{}.Encode(nil, []byte(text))
		require.NoError(t, err)
		assert.Equal(t, want, binary.LittleEndian.Uint32(enc[len(text):]), text)
	}
	enc, err := codec.JenkinsLookup3{InitVal: 1}.Encode(nil, []byte("Four score and seven years ago"))
	require.NoError(t, err)
	assert.Equal(t, uint32(0xcd628161), binary.LittleEndian.Uint32(enc[30:]))
}

func TestZstdSkipsSkippableFrames(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}
	enc := append([]byte{}, skippable...)
	enc = w.EncodeAll([]byte("hello "), enc)
	enc = append(enc, skippable...)
	enc = w.EncodeAll([]byte("world"), enc)
	enc = append(enc, skippable...)
	got, err := codec.Zstd{}.Decode(nil, enc, 11)
	require.NoError(t, err)
	assert.Equal(t, "hello world", string(got))
	_, err = codec.Zstd{}.Decode(nil, enc, 10)
	assert.Error(t, err)
}

func TestBloscTypeSizeIsThatOfTheElements(t *testing.T) {
	for metadata, want := range map[string]byte{
		`[{"name":"bytes","configuration":{"endian":"little"}},{"name":"blosc","configuration":{"cname":"lz4","clevel":1,"shuffle":"shuffle","blocksize":0}}]`:              4,
		`[{"name":"bytes","configuration":{"endian":"little"}},"numcodecs.blosc"]`:                                                                                          4,
		`[{"name":"bytes","configuration":{"endian":"little"}},"crc32c","numcodecs.blosc"]`:                                                                                 1,
		`[{"name":"bytes","configuration":{"endian":"little"}},{"name":"blosc","configuration":{"cname":"lz4","clevel":1,"shuffle":"shuffle","typesize":2,"blocksize":0}}]`: 2,
	} {
		enc, _, err := roundTrip(t, metadata, int32s, make([]byte, 4), make([]byte, 4000), 1000)
		require.NoError(t, err)
		assert.Equal(t, want, enc[3], metadata)
	}
	list, err := codec.V2{Order: "C", Endian: codec.Little, Compressor: json.RawMessage(`{"id":"blosc","cname":"lz4","clevel":5,"shuffle":-1,"blocksize":0}`)}.List(int32s, 1)
	require.NoError(t, err)
	v, err := list.V2(1)
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"blosc","cname":"lz4","clevel":5,"shuffle":-1,"blocksize":0}`, string(v.Compressor))
	for _, bad := range []string{`{"cname":"lzo"}`, `{"clevel":10}`, `{"shuffle":"both"}`, `{"shuffle":""}`, `{"shuffle":1}`, `{"typesize":0}`, `{"blocksize":-1}`, `{"x":1}`} {
		assert.Error(t, json.Unmarshal([]byte(`[{"name":"blosc","configuration":`+bad+`}]`), new(codec.List)), bad)
	}
}

func TestCompleteSetsWhatMetadataRequires(t *testing.T) {
	inner := codec.List{little, codec.Blosc{Compressor: blosc.LZ4, Level: 5}}
	chunk := codec.ChunkSpec{Type: int32s, Shape: []int64{4, 6}, Fill: make([]byte, 4)}
	for metadata, list := range map[string]codec.List{
		`{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}`:    inner,
		`{"cname":"lz4","clevel":5,"shuffle":"bitshuffle","typesize":1,"blocksize":0}`: {codec.CastValue{Type: int8s}, little, inner[1]},
		`{"cname":"zstd","clevel":1,"shuffle":"noshuffle","typesize":2,"blocksize":9}`: {codec.Transpose{Order: []int{1, 0}}, little,
			codec.Blosc{Compressor: blosc.Zstd, Level: 1, Shuffle: codec.BloscNone, TypeSize: 2, BlockSize: 9}},
	} {
		before := slices.Clone(list)
		done, err := list.Complete(chunk)
		require.NoError(t, err)
		assert.Equal(t, before, list, "the list is unchanged")
		raw, err := json.Marshal(done[len(done)-1].Configuration())
		require.NoError(t, err)
		assert.JSONEq(t, metadata, string(raw))
	}
	sharded, err := codec.List{codec.Sharding{ChunkShape: []int64{2, 6}, Codecs: inner}}.Complete(chunk)
	require.NoError(t, err)
	assert.Equal(t, 4, sharded[0].(codec.Sharding).Codecs[1].(codec.Blosc).TypeSize)
	assert.Zero(t, inner[1].(codec.Blosc).TypeSize)
	after, err := codec.List{little, codec.CRC32C{}, inner[1]}.Complete(chunk)
	require.NoError(t, err)
	assert.Equal(t, 1, after[2].(codec.Blosc).TypeSize)
	_, err = codec.List{codec.Transpose{Order: []int{0}}, little}.Complete(chunk)
	assert.Error(t, err)
}

// numcodecs ignores them too, except that of gzip it allows only zero bytes.
func TestBytesAfterAnEncodingAreIgnored(t *testing.T) {
	data := []byte("hello world, hello world")
	for _, c := range []codec.BytesCodec{
		codec.Gzip{Level: 1}, codec.Zlib{Level: 1}, codec.BZ2{Level: 1}, codec.LZMA{Check: -1, Preset: 1}, codec.LZMA{Format: codec.LZMAFormatAlone, Preset: 1},
		codec.Blosc{Compressor: blosc.LZ4, Level: 5}, codec.Blosc{Level: 0},
	} {
		enc, err := c.Encode(nil, data)
		require.NoError(t, err)
		for _, more := range []string{"\x00\x00\x00\x00", strings.Repeat("\x00", 1000), "\x00", "x", "xy", "more bytes", "B"} {
			_, isXZ := c.(codec.LZMA)
			if isXZ && more == "\x00" {
				continue // padding of xz files has a multiple of 4 bytes
			}
			got, err := c.Decode(nil, append(slices.Clone(enc), more...), 1000)
			if _, isGzip := c.(codec.Gzip); isGzip && more[0] != 0 {
				assert.Error(t, err, "%q", more)
				continue
			}
			require.NoError(t, err, "%s with %q", c.Name(), more)
			assert.Equal(t, data, got, "%s with %q", c.Name(), more)
			_, err = c.Decode(nil, append(slices.Clone(enc), more...), int64(len(data))-1)
			assert.Error(t, err, "%s beyond the limit", c.Name())
		}
		for n := range enc[:len(enc)-1] {
			_, err := c.Decode(nil, enc[:n], 1000)
			assert.Error(t, err, "%s: %d of %d bytes", c.Name(), n, len(enc))
		}
	}
	var members []byte
	for _, part := range []string{"hello ", "world"} {
		var err error
		members, err = codec.Gzip{Level: 1}.Encode(members, []byte(part))
		require.NoError(t, err)
		members = append(members, 0, 0, 0)
	}
	got, err := codec.Gzip{}.Decode([]byte("xyz"), members, 11)
	require.NoError(t, err, "zero bytes between members")
	assert.Equal(t, "hello world", string(got))
	_, err = codec.Gzip{}.Decode(nil, members, 10)
	assert.Error(t, err)
	_, err = codec.Gzip{}.Decode(nil, append(members, "more"...), 11)
	assert.Error(t, err)
	_, err = codec.BZ2{}.Decode(nil, []byte("BZ"), 11)
	assert.Error(t, err)
}

func TestSeveralStreamsDecode(t *testing.T) {
	for _, c := range []codec.BytesCodec{codec.Gzip{Level: 1}, codec.BZ2{Level: 1}, codec.LZMA{Check: -1, Preset: 1}, codec.LZMA{Check: 10, Preset: 1}} {
		var enc []byte
		for _, part := range []string{"hello ", "world"} {
			var err error
			enc, err = c.Encode(enc, []byte(part))
			require.NoError(t, err)
		}
		got, err := c.Decode(nil, enc, 11)
		require.NoError(t, err, c.Name())
		assert.Equal(t, "hello world", string(got), c.Name())
		_, err = c.Decode(nil, enc, 10)
		assert.Error(t, err, c.Name())
	}
}
