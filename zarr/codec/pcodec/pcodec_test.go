package pcodec

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/codec/internal/codectest"
	"github.com/quiver-gpu/quiver/zarr/element"
)

const golden = "testdata/golden.json" // written by testdata/make.py

func TestEncodingsAreThoseOfNumcodecs(t *testing.T) {
	codectest.EncodesTheSame(t, codectest.Cases(t, golden), parse)
}

func TestChunksOfManyGoroutines(t *testing.T) {
	codectest.DecodesInManyGoroutines(t, codectest.Cases(t, golden)[0], parse)
}

// Every cut and every flipped bit is an error or other numbers, and the module works on.
func TestCorruptChunksAreErrors(t *testing.T) {
	codectest.RefusesCorruptChunks(t, codectest.Cases(t, golden)[:8], parse, 1, 300)
}

func TestChunksOfOtherKindsAreErrors(t *testing.T) {
	g := codectest.Cases(t, golden)[0] // 400 uint16
	for _, n := range []int64{1, 399, 401, 800} {
		s := codectest.Serializer(t, Default(), ndview.Uint16, n)
		assert.Error(t, s.Decode(make([]byte, 2*n), g.Encoded), "%d numbers", n)
	}
	s := codectest.Serializer(t, Default(), ndview.Int16, 400)
	assert.Error(t, s.Decode(make([]byte, 800), g.Encoded), "another type")
	for _, of := range []ndview.DType{ndview.Uint8, ndview.Bool, ndview.Complex64, ndview.BFloat16} {
		e := element.Of(of)
		_, err := Default().Serializer(codec.ChunkSpec{Type: e, Shape: []int64{4}})
		assert.Error(t, err, of)
	}
	e := element.Of(ndview.Int64)
	_, err := Default().Serializer(codec.ChunkSpec{Type: e, Shape: []int64{1 << 28}})
	assert.ErrorContains(t, err, "want at most 1073741824")
}

func TestTimesAreIntegers(t *testing.T) {
	want := codectest.Serializer(t, Default(), ndview.Int64, 3)
	raw := []byte("\x00\x00\x00\x00\x00\x00\x00\x80\x05\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff") // NaT, 5, -1
	encoded, err := want.Encode(nil, raw)
	require.NoError(t, err)
	for _, of := range []ndview.DType{ndview.Datetime64(ndview.Second, 1), ndview.Timedelta64(ndview.Hour, 3)} {
		s := codectest.Serializer(t, Default(), of, 3)
		got, err := s.Encode(nil, raw)
		require.NoError(t, err)
		assert.Equal(t, encoded, got)
		decoded := make([]byte, len(raw))
		require.NoError(t, s.Decode(decoded, encoded))
		assert.Equal(t, raw, decoded)
	}
}

func TestInvalidConfigurations(t *testing.T) {
	for _, text := range []string{
		`{"level": 13}`, `{"level": -1}`, `{"level": 1.5}`, `{"mode_spec": "fast"}`, `{"delta_spec": "x"}`, `{"paging_spec": "exact"}`,
		`{"delta_spec": "try_consecutive"}`, `{"delta_encoding_order": 8}`, `{"delta_spec": "no_op", "delta_encoding_order": 1}`,
		`{"equal_pages_up_to": 0}`, `{"unknown": 1}`, `[]`, ``,
	} {
		_, err := parse(json.RawMessage(text))
		assert.Error(t, err, text)
	}
}

func TestMetadataRoundTrips(t *testing.T) {
	var list codec.List
	require.NoError(t, json.Unmarshal([]byte(`[{"name": "numcodecs.pcodec", "configuration": {"level": 3}}]`), &list))
	raw, err := json.Marshal(list)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"name": "numcodecs.pcodec", "configuration": {"level": 3, "mode_spec": "auto", "delta_spec": "auto",
		"paging_spec": "equal_pages_up_to", "delta_encoding_order": null, "equal_pages_up_to": 262144}}]`, string(raw))
	of := element.Of(ndview.Float32)
	list, err = codec.V2{Order: "C", Endian: "little", Compressor: json.RawMessage(`{"id": "pcodec", "level": 5}`)}.List(of, 2)
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, 5, list[0].(Codec).Level)
}

func FuzzDecode(f *testing.F) {
	for _, g := range codectest.Cases(f, golden) {
		f.Add(g.Encoded)
	}
	s := codectest.Serializer(f, Default(), ndview.Float32, 700)
	f.Fuzz(func(t *testing.T, encoded []byte) {
		dst := make([]byte, 2800)
		if s.Decode(dst, encoded) != nil {
			return
		}
		again, err := s.Encode(nil, dst)
		require.NoError(t, err)
		same := make([]byte, 2800)
		require.NoError(t, s.Decode(same, again))
		require.Equal(t, dst, same)
	})
}
