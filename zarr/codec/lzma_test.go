package codec_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// squares are the numbers that Python's module lzma has compressed below.
func squares() []byte {
	var out []byte
	for i := range uint32(300) {
		out = binary.LittleEndian.AppendUint32(out, i*i/7)
	}
	return out
}

func TestXZFilesOfDeltaFiltersDecode(t *testing.T) {
	for name, text := range map[string]string{ // by lzma.compress with filters
		`{"id": "lzma", "format": 1, "check": -1, "preset": null, "filters": [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]}`:            "/Td6WFoAAATm1rRGAgEDAQMhARCiKhIV4ASvAPVdAABsPoNCMLDBdzcn83U+8RUvIbv1euvouypjDzlgi2iLa7IeJYKcgMVhtSCeI5HSV3CiB+I+Qm2PkMxXKLgMT6PoQnHoIiCDMAvkdRBfcZiOjqa1ko+0WDjOyjtumQBO4kQNSbvePl7b875fC4D7/COlhfxkNFHxuxZW68+e/UcZT1zVcrqHobEnJXEWzJUEbzy/cyltj2VZ72EDLw21v3b9O3o+oZTs11ZTbzD4LQvHUcj40uLPJW4sO6cCXm6XED2DDJzUbg4tYRSpaL4wQv0EsmB84cbnVrI4mYCZFrBuCq7WkCfVWxJTgL6rF/+KarS4FypAAAAAAIkCszH0ZQFQAAGRArAJAABONwx9scRn+wIAAAAABFla",
		`{"id": "lzma", "format": 1, "check": -1, "preset": null, "filters": [{"id": 3, "dist": 2}, {"id": 3, "dist": 256}, {"id": 33}]}`: "/Td6WFoAAATm1rRGAwIDAQEDAf8hARYAjxvFUeAErwLaXQAAbD5vCbFx0kvXFw14awrY0/53z1SMyCYSFUV+WFyWxmt9Dy3ehoEitDa3wtNf4gU05baufR+J5zqikp9RUPO+skECaYAGkGIRXeVsVH5JMSPL2H4UA0I+5i14hj1ZwgAQmxISsRX6bz1lEHCNcmHKOlxZv4/3KEu2NXakItXr2a1i+uHD+tQq6okGQdrlFARFoJUh+Retqgwl20475E+qRrv5H/Tjf21Hhp9XVRoKEFihwpxxxrbjdZ9w/G5csXBJq+ToaxQYXj5tC0UNuVrtHBirL0Yi8GP+2l2NKz/+2q7f6Gg6RnDGx44Ypk4jGVoKB1FW4uJrC0k3gMycdkmjPEGv1IfYsMvq82BLZ59/4K2JQfgbE4N5yD8kHvYQ4d9AmuQBqZNDuDD1+fnJDcobqD4BintvrodynQLd7//P++qeJ5S05Ni2nHLr7kniluyDOqzbx9Tet+DKDAcvmiP2NWOqWZiMwJIVFZMRhhDXOe9s0L7OoAtn1rvzQZQUIXmCXuUXdTtxwpB801SETQZnXE0o25L1qIb45o+VAqT7nlvfxatN7iyg+WPXq1fRA8cC0m5Xni00uhA1V5yE1x9sX+ahpQhsX2EYvJhup742tJH8T+R7tJpXFIsJmUnEcscSWTxbHhvIalLDbR8TBwJwUUX1r1FS55SYMJ0kHH7xKy/CJAIF0c3+Y1iW0wl0ugKM3wfZc1A+VJ8PbqZArT4Hs54HrlVr0FalmxBifHfM5Hf1SZQm1G4aCiRie9/IZMYidNDay7B1a7gMLxUnqhQlD1/AdDpByRVUTQM8bwMA/HThijJ23WeamPByihKSFSo4mS24bGrCTc9IiVTaqRP7EnV04P4zKdMd4F5+rqMmGNzGfBrXQB7yakq04jLPt3Spn8SPKfy3U+LeNi9ktFwJlLeeu+Patp4+50Z/akrwkBX0LGHxdx82zQTRyM5mjwiIbLIQJjafNJ4AAAAAiQKzMfRlAVAAAfoFsAkAAMcUH62xxGf7AgAAAAAEWVo=",
	} {
		file, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		list, err := codec.V2{Order: "C", Compressor: json.RawMessage(name)}.List(int8s, 1)
		require.NoError(t, err)
		c := list[1].(codec.LZMA)
		got, err := c.Decode(nil, file, 1200)
		require.NoError(t, err, name)
		assert.Equal(t, squares(), got)
		for _, format := range []int{codec.LZMAFormatXZ, codec.LZMAFormatRaw} {
			c.Format = format
			enc, err := c.Encode([]byte("before"), squares())
			require.NoError(t, err)
			require.Equal(t, "before", string(enc[:6]))
			enc = enc[6:]
			require.Less(t, len(enc), 1200)
			got, err = c.Decode(nil, enc, 1200)
			require.NoError(t, err)
			require.Equal(t, squares(), got)
			for n := range enc {
				_, err := c.Decode(nil, enc[:n], 1200)
				require.Error(t, err, "%d of %d bytes", n, len(enc))
			}
			_, err = c.Decode(nil, enc, 1199)
			require.Error(t, err)
			if format == codec.LZMAFormatXZ {
				_, err = c.Decode(nil, append(enc, 0), 1200)
				require.Error(t, err, "padding that is no multiple of 4 bytes")
			}
		}
		back, err := json.Marshal(codec.List{codec.Bytes{}, list[1]})
		require.NoError(t, err)
		var again codec.List
		require.NoError(t, json.Unmarshal(back, &again))
		assert.Equal(t, list[1], again[1])
	}
}

func TestRawLZMA1StreamsDecode(t *testing.T) {
	for name, text := range map[string]string{ // by lzma.compress with filters
		`{"id": "lzma", "format": 3, "check": -1, "preset": null, "filters": [{"id": 3, "dist": 4}, {"id": 4611686018427387905, "preset": 1}]}`:                                   "AABsPoNCMLDBdzcn83U+8RUvIbv1euvouypjDzlgi2iLa7IeJYKcgMVhtSCeI5HSV3CiB+I+Qm2PkMxXKLgMT6PoQnHoIiCDMAvkdRBfcZiOjqa1ko+0WDjOyjtumQBO4kQNSbvePl7b875fC4D7/COlhfxkNFHxuxZW68+e/UcZT1zVcrqHobEnJXEWzJUEbzy/cyltj2VZ72EDLw21v3b9O3o+oZTs11ZTbzD4LQvHUcj40uLPJW4sO6cCXm6XED2DDJzUbg4tYRSpaL4wQv0EsmB84cbnVrI4mYCZFrBuCq7WkCfVWxJTgL6rF/+KarTPXXIi//1eUAA=",
		`{"id": "lzma", "format": 3, "check": -1, "preset": null, "filters": [{"id": 3, "dist": 4}, {"id": 4611686018427387905, "dict_size": 65536, "lc": 0, "lp": 2, "pb": 1}]}`: "AABsPoNCMLDBdzcn83U+8RUvIbv1euvouypjDxyx0mqCppaCX2J2FGA7GcIlnJWmw5amdkUPaQuhVNdEv4LoA2Ad23PAZDuQxsG1NMek6b+sPIKsAMC5IIwhw+O0zzeDaCzsf5hYQAv7161R+2Pwv5hJcVo4cV0UDF/PNmtJDBWCy/Bx34Ffzoa/vcTwIW7vaX0VYTrk8zX9gbu2KW4NeLkL59VKA+nngllpUpNsIQhvIMwp9ERe8yIx3yT4HgxqosgDkLfRtuJj5MQJk3PmZG09dZqD3pNfVhJp0g6682z+9TOCjL8vW27D///wLcAA",
	} {
		stream, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		list, err := codec.V2{Order: "C", Compressor: json.RawMessage(name)}.List(int8s, 1)
		require.NoError(t, err)
		c := list[1].(codec.LZMA)
		ours, err := c.Encode([]byte("before"), squares())
		require.NoError(t, err)
		require.Equal(t, "before", string(ours[:6]))
		for _, enc := range [][]byte{stream, ours[6:], append(ours[6:], "more"...)} {
			got, err := c.Decode(nil, enc, 1200)
			require.NoError(t, err, name)
			require.Equal(t, squares(), got)
			_, err = c.Decode(nil, enc, 1199)
			require.Error(t, err)
		}
		for n := range stream {
			_, err := c.Decode(nil, stream[:n], 1200)
			require.Error(t, err, "%d of %d bytes", n, len(stream))
		}
		written, err := list.V2(1)
		require.NoError(t, err)
		again, err := written.List(int8s, 1)
		require.NoError(t, err)
		assert.Equal(t, list, again)
	}
}

// Decoders of raw streams have the dictionary of the metadata, and no larger one.
func TestTheDictionaryOfAFilterBoundsDistances(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{6000, 70000, 200000} {
		data := make([]byte, 2*size) // the second half repeats the first
		for i := range size {
			data[i] = byte(rng.Uint32())
		}
		copy(data[size:], data)
		for _, id := range []uint64{codec.LZMAFilterLZMA1, codec.LZMAFilterLZMA2} {
			for _, dictionary := range []uint32{4096, 5000, 1 << 16, 1 << 17, 1 << 18} {
				c := codec.LZMA{Format: codec.LZMAFormatRaw, Filters: []codec.LZMAFilter{{ID: id, Preset: -1, DictSize: dictionary}}}
				enc, err := c.Encode(nil, data)
				require.NoError(t, err)
				assert.Equal(t, int(dictionary) >= size, len(enc) < len(data)*3/4, "%#x: dictionary of %d bytes, %d bytes became %d", id, dictionary, len(data), len(enc))
				got, err := c.Decode(nil, enc, int64(len(data)))
				require.NoError(t, err)
				require.True(t, bytes.Equal(data, got), "%#x: dictionary of %d bytes, %d bytes", id, dictionary, len(data))
			}
		}
	}
}

func TestLZMAFiltersThatAreNotSupportedAreNamed(t *testing.T) {
	for filters, want := range map[string]string{
		`[{"id":4},{"id":33}]`:                       "x86",
		`[{"id":99},{"id":33}]`:                      "0x63",
		`[{"id":4611686018427387905,"lc":4,"lp":1}]`: "lc 4",
		`[{"id":4611686018427387905,"lc":9223372036854775807,"lp":9223372036854775807}]`: "want lc + lp and pb of 0 to 4",
	} {
		compressor := `{"id":"lzma","format":3,"check":-1,"preset":null,"filters":` + filters + `}`
		_, err := codec.V2{Order: "C", Compressor: json.RawMessage(compressor)}.List(int8s, 1)
		assert.ErrorContains(t, err, want)
	}
	_, err := codec.LZMA{Check: -1, Preset: -1, Filters: []codec.LZMAFilter{{ID: codec.LZMAFilterLZMA1, Preset: -1}}}.Encode(nil, nil)
	assert.ErrorIs(t, err, errors.ErrUnsupported, "LZMA1 in an xz file")
}

func TestChangedXZFilesAreErrors(t *testing.T) {
	file, err := codec.LZMA{Check: 4, Preset: 1}.Encode(nil, squares())
	require.NoError(t, err)
	for i := range file { // every part is under a checksum
		bad := append([]byte{}, file...)
		bad[i] ^= 0x10
		_, err := codec.LZMA{}.Decode(nil, bad, 5000)
		require.Error(t, err, "byte %d of %d", i, len(file))
	}
	twice := append(append([]byte{}, file...), append([]byte{0, 0, 0, 0}, file...)...)
	got, err := codec.LZMA{}.Decode(nil, twice, 2400)
	require.NoError(t, err, "two streams and padding")
	assert.Equal(t, append(squares(), squares()...), got)
}
