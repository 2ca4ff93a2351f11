// Package codectest compares serializers with encodings that other libraries wrote.
package codectest

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

// Case is an encoding that the reference implementation wrote, of a chunk.
type Case struct {
	Name, DType string
	Shape       []int64
	Config      json.RawMessage // of the codec in metadata
	Values      []byte
	Encoded     []byte
	Decoded     []byte // what the reference implementation decodes
}

// Cases reads the cases of a file. Without a shape, a case has one axis; without decoded
// bytes, its codec is lossless.
func Cases(t testing.TB, file string) []Case {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var cases []Case
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.NotEmpty(t, cases)
	for i := range cases {
		c := &cases[i]
		if c.Shape == nil {
			c.Shape = []int64{int64(len(c.Values)) / c.Type(t).Size()}
		}
		if c.Decoded == nil {
			c.Decoded = c.Values
		}
	}
	return cases
}

// Type returns the dtype of a case.
func (c Case) Type(t testing.TB) ndview.DType {
	t.Helper()
	of, _, err := dtype.ParseDType(c.DType)
	require.NoError(t, err, c.Name)
	return of
}

// Codec is a codec that compiles to a serializer.
type Codec interface {
	Serializer(in codec.ChunkSpec) (codec.Serializer, error)
}

// Serializer returns the serializer of a codec for chunks of a shape.
func Serializer(t testing.TB, c Codec, of ndview.DType, shape ...int64) codec.Serializer {
	t.Helper()
	s, err := c.Serializer(codec.ChunkSpec{Type: element.Of(of), Shape: shape, Fill: make([]byte, of.Size())})
	require.NoError(t, err)
	return s
}

// Parse is a codec's parser of its configuration.
type Parse func(configuration json.RawMessage) (codec.Codec, error)

// Serializer returns the serializer of the case's codec.
func (c Case) Serializer(t testing.TB, parse Parse) codec.Serializer {
	t.Helper()
	parsed, err := parse(c.Config)
	require.NoError(t, err, c.Name)
	return Serializer(t, parsed.(Codec), c.Type(t), c.Shape...)
}

// EncodesTheSame checks both ways: chunks decode as the reference implementation decodes
// them, and encode to the same bytes.
func EncodesTheSame(t *testing.T, cases []Case, parse Parse) {
	for _, c := range cases {
		s := c.Serializer(t, parse)
		got := make([]byte, len(c.Values))
		require.NoError(t, s.Decode(got, c.Encoded), c.Name)
		assert.Equal(t, c.Decoded, got, c.Name)
		encoded, err := s.Encode([]byte("before"), c.Values)
		require.NoError(t, err, c.Name)
		assert.Equal(t, append([]byte("before"), c.Encoded...), encoded, c.Name)
		assert.LessOrEqual(t, int64(len(c.Encoded)), s.MaxSize)
	}
}

// DecodesInManyGoroutines decodes a case in several goroutines at once.
func DecodesInManyGoroutines(t *testing.T, c Case, parse Parse) {
	s := c.Serializer(t, parse)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 20 {
				got := make([]byte, len(c.Values))
				assert.NoError(t, s.Decode(got, c.Encoded))
				assert.Equal(t, c.Decoded, got)
			}
		})
	}
	wait.Wait()
}

// RefusesCorruptChunks checks that every cut at a multiple of step bytes is an error. A
// flipped bit of the first bytes is an error or gives other numbers. The codec works on.
func RefusesCorruptChunks(t *testing.T, cases []Case, parse Parse, step, flipped int) {
	for _, c := range cases {
		s := c.Serializer(t, parse)
		got := make([]byte, len(c.Values))
		for n := 0; n < len(c.Encoded); n += step {
			assert.Error(t, s.Decode(got, c.Encoded[:n]), "%s: the first %d bytes", c.Name, n)
		}
		for at := range min(len(c.Encoded), flipped) {
			bad := bytes.Clone(c.Encoded)
			bad[at] ^= 1 << (at % 8)
			_ = s.Decode(got, bad)
		}
		require.NoError(t, s.Decode(got, c.Encoded))
		assert.Equal(t, c.Decoded, got)
	}
}
