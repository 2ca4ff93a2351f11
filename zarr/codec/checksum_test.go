package codec_test

import (
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
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
