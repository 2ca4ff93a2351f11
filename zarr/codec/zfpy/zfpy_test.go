package zfpy

import (
	"encoding/hex"
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

func TestReversibleModeLosesNothing(t *testing.T) {
	for _, c := range []Codec{Lossless(), {Mode: Reversible}, {Mode: FixedRate, Rate: -1}, {Mode: FixedPrecision, Precision: -1}} {
		for _, g := range codectest.Cases(t, golden) {
			s := codectest.Serializer(t, c, g.Type(t), g.Shape...)
			encoded, err := s.Encode(nil, g.Values)
			require.NoError(t, err)
			got := make([]byte, len(g.Values))
			require.NoError(t, s.Decode(got, encoded))
			assert.Equal(t, g.Values, got, g.Name)
		}
	}
}

func TestChunksOfManyGoroutines(t *testing.T) {
	codectest.DecodesInManyGoroutines(t, codectest.Cases(t, golden)[0], parse)
}

// Every cut at a word is an error, a flipped bit is an error or other numbers, and the
// module works on.
func TestCorruptChunksAreErrors(t *testing.T) {
	codectest.RefusesCorruptChunks(t, codectest.Cases(t, golden), parse, 8, 100)
}

// Old versions of numcodecs encoded chunks of any shape as one axis.
func TestChunksEncodedAsOneAxisAreRead(t *testing.T) {
	g := codectest.Cases(t, golden)[0] // int32, 50 elements
	for _, shape := range [][]int64{{50}, {50, 1}, {5, 10}, {5, 2, 5}, {1, 5, 5, 2}} {
		got := make([]byte, len(g.Values))
		require.NoError(t, codectest.Serializer(t, Lossless(), ndview.Int32, shape...).Decode(got, g.Encoded))
		assert.Equal(t, g.Values, got, "shape %v", shape)
	}
}

func TestChunksOfOtherKindsAreErrors(t *testing.T) {
	g := codectest.Cases(t, golden)[0] // int32, 50 elements
	for _, shape := range [][]int64{{49}, {51}, {50, 2}, {5, 11}} {
		s := codectest.Serializer(t, Lossless(), ndview.Int32, shape...)
		n := int64(4)
		for _, d := range shape {
			n *= d
		}
		assert.Error(t, s.Decode(make([]byte, n), g.Encoded), "shape %v", shape)
	}
	square, err := codectest.Serializer(t, Lossless(), ndview.Int32, 5, 10).Encode(nil, g.Values)
	require.NoError(t, err)
	assert.Error(t, codectest.Serializer(t, Lossless(), ndview.Int32, 10, 5).Decode(make([]byte, 200), square), "two axes of other extents")
	s := codectest.Serializer(t, Lossless(), ndview.Float32, 50)
	assert.Error(t, s.Decode(make([]byte, 200), g.Encoded), "another type")
	for _, of := range []ndview.DType{ndview.Uint32, ndview.Int16, ndview.Float16, ndview.Bool, ndview.Complex64} {
		_, err := Lossless().Serializer(codec.ChunkSpec{Type: element.Of(of), Shape: []int64{4}})
		assert.Error(t, err, of)
	}
	for _, shape := range [][]int64{{1, 1, 1, 1, 1}, {1 << 40}, {1 << 20, 1 << 20}} {
		_, err := Lossless().Serializer(codec.ChunkSpec{Type: element.Of(ndview.Int32), Shape: shape})
		assert.Error(t, err, shape)
	}
}

// zarr-python 3.4 stores 1.5 as an array without axes, and the seconds 1, 5 and -7, so.
func TestTimesAndChunksWithoutAxes(t *testing.T) {
	for _, c := range []struct {
		of           ndview.DType
		shape        []int64
		want, stored string
	}{
		{ndview.Float64, nil, "000000000000f83f", "7a66700503000000000000880170b002"},
		{ndview.Datetime64(ndview.Second, 1), []int64{3}, "01000000000000000500000000000000f9ffffffffffffff", "7a66700521000000000000883f0000000000008060028500"},
	} {
		s := codectest.Serializer(t, Lossless(), c.of, c.shape...)
		want, err := hex.DecodeString(c.want)
		require.NoError(t, err)
		stored, err := hex.DecodeString(c.stored)
		require.NoError(t, err)
		got := make([]byte, len(want))
		require.NoError(t, s.Decode(got, stored))
		assert.Equal(t, want, got)
		encoded, err := s.Encode(nil, want)
		require.NoError(t, err)
		assert.Equal(t, stored, encoded)
	}
}

func TestInvalidConfigurations(t *testing.T) {
	for _, text := range []string{
		`{"mode": 1}`, `{"mode": "rate"}`, `{"mode": 2, "rate": 65}`, `{"mode": 2, "rate": 0}`, `{"mode": 3, "precision": 65}`,
		`{"mode": 3, "precision": 1.5}`, `{"mode": 4, "tolerance": "NaN"}`, `{"unknown": 1}`, `[]`, ``,
	} {
		_, err := parse(json.RawMessage(text))
		assert.Error(t, err, text)
	}
}

func TestMetadataRoundTrips(t *testing.T) {
	var list codec.List
	require.NoError(t, json.Unmarshal([]byte(`[{"name": "numcodecs.zfpy", "configuration": {"mode": 4, "tolerance": 0.5, "compression_kwargs": {"tolerance": 0.5}}}]`), &list))
	raw, err := json.Marshal(list)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"name": "numcodecs.zfpy", "configuration": {"mode": 4, "tolerance": 0.5, "rate": -1, "precision": -1}}]`, string(raw))
	list, err = codec.V2{Order: "C", Endian: "little", Compressor: json.RawMessage(`{"id": "zfpy", "mode": 2, "rate": 8}`)}.List(element.Of(ndview.Float32), 2)
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, FixedRate, list[0].(Codec).Mode)
}

func FuzzDecode(f *testing.F) {
	for _, g := range codectest.Cases(f, golden) {
		f.Add(g.Encoded)
	}
	s := codectest.Serializer(f, Lossless(), ndview.Float32, 9, 7)
	f.Fuzz(func(t *testing.T, encoded []byte) {
		_ = s.Decode(make([]byte, 252), encoded)
	})
}
