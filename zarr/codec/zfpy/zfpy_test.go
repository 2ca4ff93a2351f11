package zfpy

import (
	"bytes"
	"encoding/json"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// golden is an encoding that numcodecs wrote, see testdata/make.py.
type golden struct {
	Name, DType              string
	Shape                    []int64
	Config                   json.RawMessage
	Values, Encoded, Decoded []byte
}

func goldenCases(t testing.TB) []golden {
	t.Helper()
	return goldenCasesOf(t, "testdata/golden.json")
}

func goldenCasesOf(t testing.TB, file string) []golden {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var cases []golden
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.NotEmpty(t, cases)
	return cases
}

func serializerOf(t testing.TB, c codec.Codec, of ndview.DType, shape ...int64) codec.Serializer {
	t.Helper()
	s, err := c.(Codec).Serializer(codec.ChunkSpec{Type: element.Of(of), Shape: shape, Fill: make([]byte, of.Size())})
	require.NoError(t, err)
	return s
}

func (g golden) serializer(t testing.TB) codec.Serializer {
	t.Helper()
	c, err := parse(g.Config)
	require.NoError(t, err)
	of, _, err := dtype.ParseDType(g.DType)
	require.NoError(t, err)
	return serializerOf(t, c, of, g.Shape...)
}

// Both ways: chunks decode as numcodecs decodes them, and encode to the same bytes.
func TestEncodingsAreThoseOfNumcodecs(t *testing.T) {
	for _, g := range goldenCases(t) {
		s := g.serializer(t)
		got := make([]byte, len(g.Values))
		require.NoError(t, s.Decode(got, g.Encoded), g.Name)
		assert.Equal(t, g.Decoded, got, g.Name)
		encoded, err := s.Encode([]byte("before"), g.Values)
		require.NoError(t, err, g.Name)
		assert.Equal(t, append([]byte("before"), g.Encoded...), encoded, g.Name)
		assert.LessOrEqual(t, int64(len(g.Encoded)), s.MaxSize)
	}
}

func TestReversibleModeLosesNothing(t *testing.T) {
	for _, c := range []Codec{Lossless(), {Mode: Reversible}, {Mode: FixedRate, Rate: -1}, {Mode: FixedPrecision, Precision: -1}} {
		for _, g := range goldenCases(t) {
			of, _, err := dtype.ParseDType(g.DType)
			require.NoError(t, err)
			s := serializerOf(t, c, of, g.Shape...)
			encoded, err := s.Encode(nil, g.Values)
			require.NoError(t, err)
			got := make([]byte, len(g.Values))
			require.NoError(t, s.Decode(got, encoded))
			assert.Equal(t, g.Values, got, g.Name)
		}
	}
}

func TestChunksOfManyGoroutines(t *testing.T) {
	g := goldenCases(t)[0]
	s := g.serializer(t)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 20 {
				got := make([]byte, len(g.Values))
				assert.NoError(t, s.Decode(got, g.Encoded))
				assert.Equal(t, g.Decoded, got)
			}
		})
	}
	wait.Wait()
}

// Every cut at a word is an error, a flipped bit is an error or other numbers, and the
// module works on.
func TestCorruptChunksAreErrors(t *testing.T) {
	for _, g := range goldenCases(t) {
		s := g.serializer(t)
		got := make([]byte, len(g.Values))
		for n := 0; n < len(g.Encoded); n += 8 {
			assert.Error(t, s.Decode(got, g.Encoded[:n]), "%s: the first %d bytes", g.Name, n)
		}
		for at := range min(len(g.Encoded), 100) {
			bad := bytes.Clone(g.Encoded)
			bad[at] ^= 1 << (at % 8)
			_ = s.Decode(got, bad)
		}
		require.NoError(t, s.Decode(got, g.Encoded))
		assert.Equal(t, g.Decoded, got)
	}
}

func TestChunksOfOtherKindsAreErrors(t *testing.T) {
	g := goldenCases(t)[0] // int32, 50 elements
	for _, shape := range [][]int64{{49}, {51}, {50, 1}, {5, 10}} {
		s := serializerOf(t, Lossless(), ndview.Int32, shape...)
		n := int64(4)
		for _, d := range shape {
			n *= d
		}
		assert.Error(t, s.Decode(make([]byte, n), g.Encoded), "shape %v", shape)
	}
	s := serializerOf(t, Lossless(), ndview.Float32, 50)
	assert.Error(t, s.Decode(make([]byte, 200), g.Encoded), "another type")
	for _, of := range []ndview.DType{ndview.Uint32, ndview.Int16, ndview.Float16, ndview.Bool, ndview.Complex64} {
		_, err := Lossless().Serializer(codec.ChunkSpec{Type: element.Of(of), Shape: []int64{4}})
		assert.Error(t, err, of)
	}
	for _, shape := range [][]int64{{}, {1, 1, 1, 1, 1}, {1 << 40}, {1 << 20, 1 << 20}} {
		_, err := Lossless().Serializer(codec.ChunkSpec{Type: element.Of(ndview.Int32), Shape: shape})
		assert.Error(t, err, shape)
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
	for _, g := range goldenCases(f) {
		f.Add(g.Encoded)
	}
	s := serializerOf(f, Lossless(), ndview.Float32, 9, 7)
	f.Fuzz(func(t *testing.T, encoded []byte) {
		_ = s.Decode(make([]byte, 252), encoded)
	})
}
