package codec_test

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/cast_value.json.gz
var castGolden []byte

func typeNamed(t testing.TB, name string) element.Type {
	t.Helper()
	var of element.Type
	require.NoError(t, json.Unmarshal(fmt.Appendf(nil, "%q", name), &of))
	return of
}

func TestCastValueMatchesReference(t *testing.T) {
	var cases [][6]*string
	r, err := gzip.NewReader(bytes.NewReader(castGolden))
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(r).Decode(&cases))
	require.Greater(t, len(cases), 5000)
	for _, c := range cases {
		from, to := typeNamed(t, *c[0]), typeNamed(t, *c[1])
		cast := codec.CastValue{Type: to, Rounding: codec.Rounding(*c[2]), OutOfRange: codec.OutOfRange(*c[3])}
		in, err := hex.DecodeString(*c[4])
		require.NoError(t, err)
		transform, err := cast.Transform(codec.ChunkSpec{Type: from, Shape: []int64{1}, Fill: make([]byte, from.Size())})
		require.NoError(t, err)
		got := make([]byte, to.Size())
		err = transform.Encode(got, in)
		name := fmt.Sprintf("%s to %s, %s, %q, %s", *c[0], *c[1], *c[2], *c[3], *c[4])
		if c[5] == nil {
			require.Error(t, err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, *c[5], hex.EncodeToString(got), name)
	}
}

// roundTrip parses a list and returns the encoding of elements and its decoding.
func roundTrip(t *testing.T, metadata string, of element.Type, fill, raw []byte, shape ...int64) (enc, dec []byte, err error) {
	t.Helper()
	var list codec.List
	require.NoError(t, json.Unmarshal([]byte(metadata), &list), metadata)
	again, err := json.Marshal(list)
	require.NoError(t, err)
	var back codec.List
	require.NoError(t, json.Unmarshal(again, &back))
	require.Equal(t, list, back, "the written metadata parses to the same codecs")
	chain, err := list.Compile(codec.ChunkSpec{Type: of, Shape: shape, Fill: fill})
	if err != nil {
		return nil, nil, err
	}
	s := codec.GetScratch()
	defer s.Release()
	s.KeepEmpty = true
	out, err := chain.Encode(s, values(t, of, raw, shape))
	if err != nil {
		return nil, nil, err
	}
	enc = append([]byte{}, out...)
	dec = make([]byte, len(raw))
	return enc, dec, chain.DecodeFixed(s, dec, enc)
}

func TestScalarMapsApplyFirst(t *testing.T) {
	float32s := element.Of(ndview.Float32)
	const metadata = `[{"name":"cast_value","configuration":{"data_type":"uint8","out_of_range":"clamp","scalar_map":{
		"encode":[["NaN",255],["+Infinity",254],["-Infinity",253],[1.0,7],[1.0,8]],"decode":[[255,"NaN"],[254,"Infinity"],[253,"-Infinity"],[7,1.0]]}}},"bytes"]`
	numbers := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1, 2.5, 1000}
	var raw []byte
	for _, x := range numbers {
		raw = appendFloat32(raw, x)
	}
	nan := appendFloat32(nil, float32(math.NaN()))
	enc, dec, err := roundTrip(t, metadata, float32s, nan, raw, 6)
	require.NoError(t, err)
	assert.Equal(t, []byte{255, 254, 253, 7, 2, 255}, enc)
	assert.Equal(t, append(raw[:16:16], append(appendFloat32(nil, 2), nan...)...), dec)
	for name, bad := range map[string]string{
		"fill value":  `[{"name":"cast_value","configuration":{"data_type":"uint8"}},"bytes"]`,
		"scalar_map":  `[{"name":"cast_value","configuration":{"data_type":"uint8","scalar_map":{"encode":[["x",1]]}}},"bytes"]`,
		"decodes to":  `[{"name":"cast_value","configuration":{"data_type":"uint8","scalar_map":{"encode":[["NaN",1]]}}},"bytes"]`,
		"unsupported": `[{"name":"cast_value","configuration":{"data_type":"float32"}},{"name":"cast_value","configuration":{"data_type":"int8"}},"vlen-utf8"]`,
	} {
		_, _, err := roundTrip(t, bad, float32s, nan, raw, 6)
		if name != "unsupported" {
			assert.ErrorContains(t, err, name)
		} else {
			assert.Error(t, err)
		}
	}
	for _, config := range []string{`{}`, `{"data_type":"bool"}`, `{"data_type":"string"}`, `{"data_type":"int8","rounding":"up"}`, `{"data_type":"int8","out_of_range":"x"}`,
		`{"data_type":"float32","out_of_range":"wrap"}`, `{"data_type":"int8","x":1}`, `{"data_type":"int8","scalar_map":{"encode":[[1]]}}`, `{"data_type":"int8","scalar_map":{"x":[]}}`} {
		assert.Error(t, json.Unmarshal([]byte(`[{"name":"cast_value","configuration":`+config+`}]`), new(codec.List)), config)
	}
}

func TestScaleOffsetComputesInTheType(t *testing.T) {
	enc, dec, err := roundTrip(t, `[{"name":"scale_offset","configuration":{"offset":-10,"scale":3}},"bytes"]`, int8s, []byte{0}, []byte{246, 0, 32}, 3)
	require.NoError(t, err)
	assert.Equal(t, []byte{0, 30, 126}, enc)
	assert.Equal(t, []byte{246, 0, 32}, dec)
	_, _, err = roundTrip(t, `[{"name":"scale_offset","configuration":{"offset":-10,"scale":3}},"bytes"]`, int8s, []byte{0}, []byte{33}, 1)
	assert.ErrorContains(t, err, "element 0")
	big := []byte{255, 255, 255, 255, 255, 255, 255, 255} // 2^64 - 1
	uint64s := element.Of(ndview.Uint64)
	enc, dec, err = roundTrip(t, `[{"name":"scale_offset","configuration":{"offset":18446744073709551614,"scale":9}},{"name":"bytes","configuration":{"endian":"little"}}]`,
		uint64s, big, big, 1)
	require.NoError(t, err)
	assert.Equal(t, []byte{9, 0, 0, 0, 0, 0, 0, 0}, enc)
	assert.Equal(t, big, dec)
	chain, err := codec.List{codec.ScaleOffset{Scale: json.RawMessage("2")}, codec.Bytes{}}.Compile(codec.ChunkSpec{Type: int8s, Shape: []int64{1}, Fill: []byte{0}})
	require.NoError(t, err)
	_, err = decode(chain, 1, []byte{3})
	assert.ErrorContains(t, err, "multiple")
	for _, bad := range []string{`{"scale":0}`, `{"scale":1.5}`, `{"offset":300}`} {
		_, _, err := roundTrip(t, `[{"name":"scale_offset","configuration":`+bad+`},"bytes"]`, int8s, []byte{0}, []byte{1}, 1)
		assert.Error(t, err, bad)
	}
	raw := appendFloat32(nil, 1.1)
	enc, _, err = roundTrip(t, `[{"name":"scale_offset","configuration":{"offset":0.1,"scale":10}},{"name":"bytes","configuration":{"endian":"little"}}]`,
		element.Of(ndview.Float32), make([]byte, 4), raw, 1)
	require.NoError(t, err)
	offset := float32(0.1)
	assert.Equal(t, appendFloat32(nil, float32(float32(1.1)-offset)*10), enc)
}

func TestFillValuesPassThroughScaleAndCast(t *testing.T) {
	list := codec.List{codec.ScaleOffset{Offset: json.RawMessage("-5"), Scale: json.RawMessage("10")}, codec.CastValue{Type: element.Of(ndview.Uint8)},
		codec.Sharding{ChunkShape: []int64{2}, Codecs: codec.List{codec.Bytes{}}}}
	chain, err := list.Compile(codec.ChunkSpec{Type: element.Of(ndview.Float32), Shape: []int64{4}, Fill: appendFloat32(nil, -1)})
	require.NoError(t, err)
	raw := appendFloat32(appendFloat32(appendFloat32(appendFloat32(nil, -1), -1), 0), 1.5)
	enc := encode(t, chain, values(t, element.Of(ndview.Float32), raw, []int64{4}))
	require.Len(t, enc, 2+36, "the chunk of fill values is missing")
	assert.Equal(t, []byte{50, 65}, enc[:2])
	dec, err := decode(chain, 16, enc)
	require.NoError(t, err)
	assert.Equal(t, raw, dec)
}

func TestCastValueToSmallIntegers(t *testing.T) {
	raw := []byte{0xf8, 7, 8, 0xf7, 0x7f}
	for mode, want := range map[string][]byte{"wrap": {0xf8, 7, 0xf8, 7, 0xff}, "clamp": {0xf8, 7, 7, 0xf8, 7}} {
		enc, _, err := roundTrip(t, `[{"name":"cast_value","configuration":{"data_type":"int4","out_of_range":"`+mode+`"}},"bytes"]`, int8s, []byte{0}, raw, 5)
		require.NoError(t, err)
		assert.Equal(t, want, enc, mode)
	}
	_, _, err := roundTrip(t, `[{"name":"cast_value","configuration":{"data_type":"int4"}},"bytes"]`, int8s, []byte{0}, raw, 5)
	assert.ErrorContains(t, err, "element 2")
	enc, _, err := roundTrip(t, `[{"name":"cast_value","configuration":{"data_type":"uint2","out_of_range":"wrap"}},"bytes"]`, int8s, []byte{0}, []byte{5, 0xff}, 2)
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 3}, enc)
}
