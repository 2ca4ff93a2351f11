package codec_test

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/cast_value.json.gz
var castGolden []byte

//go:embed testdata/cast_small.json.gz
var castSmallGolden []byte

func typeNamed(t testing.TB, name string) element.Type {
	t.Helper()
	var of element.Type
	require.NoError(t, json.Unmarshal(fmt.Appendf(nil, "%q", name), &of))
	return of
}

func TestCastValueMatchesReference(t *testing.T) { checkCasts(t, castGolden, 5000) }

func TestCastValueToSmallFloatsMatchesExactArithmetic(t *testing.T) {
	checkCasts(t, castSmallGolden, 10_000)
}

// checkCasts casts single values, as testdata/make_cast.py writes them: least of them or more.
func checkCasts(t *testing.T, golden []byte, least int) {
	var cases [][6]*string
	r, err := gzip.NewReader(bytes.NewReader(golden))
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(r).Decode(&cases))
	require.Greater(t, len(cases), least)
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

func TestCastValueToPowersOfTwo(t *testing.T) {
	scale := codec.CastValue{Type: element.Float8E8M0FNU, OutOfRange: codec.RangeClamp}
	for x, want := range map[float64]byte{1: 127, 1.49: 127, 1.5: 128, 2: 128, math.Ldexp(1, 127): 254, math.Ldexp(1, 128): 254, math.Ldexp(1.25, 127): 254, 0: 0, -4: 0, math.NaN(): 255} {
		raw := binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))
		transform, err := scale.Transform(codec.ChunkSpec{Type: element.Of(ndview.Float64), Shape: []int64{1}, Fill: binary.LittleEndian.AppendUint64(nil, math.Float64bits(1))})
		require.NoError(t, err)
		got := []byte{1}
		require.NoError(t, transform.Encode(got, raw))
		assert.Equal(t, want, got[0], "%g", x)
	}
	strict := codec.CastValue{Type: element.Float8E8M0FNU}
	transform, err := strict.Transform(codec.ChunkSpec{Type: element.Of(ndview.Int8), Shape: []int64{2}, Fill: []byte{1}})
	require.NoError(t, err)
	require.ErrorContains(t, transform.Encode(make([]byte, 2), []byte{4, 0}), "element 1")
}

// int64Bytes returns numbers as they are stored.
func int64Bytes(numbers ...int64) []byte {
	var raw []byte
	for _, x := range numbers {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(x))
	}
	return raw
}

func TestCastValueOfTimes(t *testing.T) {
	const nat = math.MinInt64
	seconds, days := element.Of(ndview.Datetime64("s", 1)), element.Of(ndview.Timedelta64("D", 1))
	const asFloat = `[{"name":"cast_value","configuration":{"data_type":"float32"}},{"name":"bytes","configuration":{"endian":"little"}}]`
	enc, dec, err := roundTrip(t, asFloat, seconds, int64Bytes(nat), int64Bytes(nat, 5, -7), 3)
	require.NoError(t, err)
	assert.Equal(t, appendFloat32(appendFloat32(appendFloat32(nil, float32(math.NaN())), 5), -7), enc, "NaT is NaN")
	assert.Equal(t, int64Bytes(nat, 5, -7), dec)
	const asInt = `[{"name":"cast_value","configuration":{"data_type":"int16","scalar_map":{"encode":[["NaT",-1]],"decode":[[-1,"NaT"]]}}},{"name":"bytes","configuration":{"endian":"little"}}]`
	enc, dec, err = roundTrip(t, asInt, days, int64Bytes(0), int64Bytes(nat, 300, 2), 3)
	require.NoError(t, err)
	assert.Equal(t, []byte{255, 255, 44, 1, 2, 0}, enc)
	assert.Equal(t, int64Bytes(nat, 300, 2), dec)
	_, _, err = roundTrip(t, `[{"name":"cast_value","configuration":{"data_type":"int64"}},{"name":"bytes","configuration":{"endian":"little"}}]`, days, int64Bytes(0), int64Bytes(nat), 1)
	require.ErrorContains(t, err, "NaN as int64")
	const asTime = `[{"name":"cast_value","configuration":{"data_type":{"name":"numpy.timedelta64","configuration":{"unit":"D","scale_factor":1}},"out_of_range":"clamp"}},{"name":"bytes","configuration":{"endian":"little"}}]`
	enc, _, err = roundTrip(t, asTime, element.Of(ndview.Int64), int64Bytes(0), int64Bytes(nat, 9), 2)
	require.NoError(t, err)
	assert.Equal(t, int64Bytes(nat+1, 9), enc, "the number of NaT is out of range")
	for _, of := range []element.Type{seconds, element.Of(ndview.Timedelta64("s", 1))} {
		_, _, err = roundTrip(t, asTime, of, int64Bytes(0), int64Bytes(1), 1)
		require.ErrorIs(t, err, errors.ErrUnsupported, "times of other units")
	}
	assert.Error(t, json.Unmarshal([]byte(strings.ReplaceAll(asTime, "clamp", "wrap")), new(codec.List)))
}

func TestScaleOffsetOfSmallFloatsAndTimes(t *testing.T) {
	enc, dec, err := roundTrip(t, `[{"name":"scale_offset","configuration":{"offset":1.0,"scale":2.0}},"bytes"]`, element.Float4E2M1FN, []byte{2}, []byte{2, 4, 5, 6}, 4) // 1, 2, 3, 4
	require.NoError(t, err)
	assert.Equal(t, []byte{0, 4, 6, 7}, enc, "0, 2, 4, 6")
	assert.Equal(t, []byte{2, 4, 5, 6}, dec)
	_, _, err = roundTrip(t, `[{"name":"scale_offset","configuration":{"scale":2.0}},"bytes"]`, element.Float4E2M1FN, []byte{2}, []byte{2, 6}, 2)
	require.ErrorContains(t, err, "element 1", "8 is beyond the range")
	enc, _, err = roundTrip(t, `[{"name":"scale_offset","configuration":{"scale":4.0}},"bytes"]`, element.Float8E5M2, []byte{0}, []byte{0x7b, 0x3c}, 2)
	require.NoError(t, err)
	assert.Equal(t, []byte{0x7c, 0x44}, enc, "Infinity, and 4")
	enc, _, err = roundTrip(t, `[{"name":"scale_offset","configuration":{"scale":2.0}},"bytes"]`, element.Float8E8M0FNU, []byte{127}, []byte{0, 127, 255}, 3)
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 128, 255}, enc, "the offset is 0")
	const nat = math.MinInt64
	seconds := element.Of(ndview.Datetime64("s", 1))
	const hours = `[{"name":"scale_offset","configuration":{"offset":7200,"scale":3}},{"name":"bytes","configuration":{"endian":"little"}}]`
	enc, dec, err = roundTrip(t, hours, seconds, int64Bytes(nat), int64Bytes(7200, nat, 7210), 3)
	require.NoError(t, err)
	assert.Equal(t, int64Bytes(0, nat, 30), enc)
	assert.Equal(t, int64Bytes(7200, nat, 7210), dec)
	_, _, err = roundTrip(t, hours, seconds, int64Bytes(0), int64Bytes(math.MaxInt64), 1)
	require.ErrorContains(t, err, "element 0")
	_, _, err = roundTrip(t, `[{"name":"scale_offset","configuration":{"offset":"NaT"}},{"name":"bytes","configuration":{"endian":"little"}}]`, seconds, int64Bytes(0), int64Bytes(1), 1)
	require.ErrorContains(t, err, "NaT")
}
