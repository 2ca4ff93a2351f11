package pcodec

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
	Name, DType     string
	Config          json.RawMessage
	Values, Encoded []byte
}

func goldenCases(t testing.TB) []golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var cases []golden
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.NotEmpty(t, cases)
	return cases
}

func serializerOf(t testing.TB, c codec.Codec, of ndview.DType, shape ...int64) codec.Serializer {
	t.Helper()
	e := element.Of(of)
	s, err := c.(Codec).Serializer(codec.ChunkSpec{Type: e, Shape: shape, Fill: make([]byte, of.Size())})
	require.NoError(t, err)
	return s
}

func (g golden) serializer(t testing.TB) codec.Serializer {
	t.Helper()
	c, err := parse(g.Config)
	require.NoError(t, err)
	of, _, err := dtype.ParseDType(g.DType)
	require.NoError(t, err)
	return serializerOf(t, c, of, int64(len(g.Values))/of.Size())
}

// Both ways: numbers decode as numcodecs wrote them, and encode to the same bytes.
func TestEncodingsAreThoseOfNumcodecs(t *testing.T) {
	for _, g := range goldenCases(t) {
		s := g.serializer(t)
		got := make([]byte, len(g.Values))
		require.NoError(t, s.Decode(got, g.Encoded), g.Name)
		assert.Equal(t, g.Values, got, g.Name)
		encoded, err := s.Encode([]byte("before"), g.Values)
		require.NoError(t, err, g.Name)
		assert.Equal(t, append([]byte("before"), g.Encoded...), encoded, g.Name)
		assert.LessOrEqual(t, int64(len(g.Encoded)), s.MaxSize)
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
				assert.Equal(t, g.Values, got)
			}
		})
	}
	wait.Wait()
}

// Every cut and every flipped bit is an error or other numbers, and the module works on.
func TestCorruptChunksAreErrors(t *testing.T) {
	for _, g := range goldenCases(t)[:8] {
		s := g.serializer(t)
		got := make([]byte, len(g.Values))
		for n := range len(g.Encoded) {
			assert.Error(t, s.Decode(got, g.Encoded[:n]), "%s: the first %d bytes", g.Name, n)
		}
		for at := range min(len(g.Encoded), 300) {
			bad := bytes.Clone(g.Encoded)
			bad[at] ^= 1 << (at % 8)
			_ = s.Decode(got, bad)
		}
		require.NoError(t, s.Decode(got, g.Encoded))
		assert.Equal(t, g.Values, got)
	}
}

func TestChunksOfOtherKindsAreErrors(t *testing.T) {
	g := goldenCases(t)[0] // 400 uint16
	for _, n := range []int64{1, 399, 401, 800} {
		s := serializerOf(t, Default(), ndview.Uint16, n)
		assert.Error(t, s.Decode(make([]byte, 2*n), g.Encoded), "%d numbers", n)
	}
	s := serializerOf(t, Default(), ndview.Int16, 400)
	assert.Error(t, s.Decode(make([]byte, 800), g.Encoded), "another type")
	for _, of := range []ndview.DType{ndview.Uint8, ndview.Bool, ndview.Complex64, ndview.BFloat16, ndview.Datetime64(ndview.Second, 1)} {
		e := element.Of(of)
		_, err := Default().Serializer(codec.ChunkSpec{Type: e, Shape: []int64{4}})
		assert.Error(t, err, of)
	}
	e := element.Of(ndview.Int64)
	_, err := Default().Serializer(codec.ChunkSpec{Type: e, Shape: []int64{1 << 28}})
	assert.ErrorContains(t, err, "want at most 1073741824")
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
	for _, g := range goldenCases(f) {
		f.Add(g.Encoded)
	}
	s := serializerOf(f, Default(), ndview.Float32, 700)
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
