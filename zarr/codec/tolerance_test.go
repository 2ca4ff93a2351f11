package codec_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// numcodecs has each of these parameters in its fixtures, or writes it.
func TestParametersThatNumcodecsAcceptsAreAccepted(t *testing.T) {
	raw := bytes.Repeat([]byte{1, 2, 3, 4}, 100)
	for _, compressor := range []string{
		`{"id":"zlib","level":-1}`, `{"id":"gzip","level":-1}`, `{"id":"zlib","level":null}`, `{"id":"zlib","level":9.0}`,
		`{"id":"zstd","level":100}`, `{"id":"zstd","level":-200000,"checksum":null}`,
		`{"id":"shuffle","elementsize":0}`, `{"id":"shuffle","elementsize":-1}`,
		`{"id":"lz4","acceleration":null}`, `{"id":"crc32","location":null}`,
		`{"id":"blosc","cname":"lz4","clevel":5,"shuffle":null,"blocksize":null}`,
		`{"id":"jenkins_lookup3","initval":7,"prefix":null}`,
	} {
		t.Run(compressor, func(t *testing.T) {
			of := element.Of(ndview.Int32)
			v2 := codec.V2{Order: "C", Endian: codec.Little, Compressor: json.RawMessage(compressor)}
			list, err := v2.List(of, 1)
			require.NoError(t, err)
			_, decoded := throughChain(t, list, of, raw, 100)
			assert.Equal(t, raw, decoded)
			written, err := list.V2(1)
			require.NoError(t, err)
			again, err := written.List(of, 1)
			require.NoError(t, err)
			assert.Equal(t, list, again)
		})
	}
}

func TestParametersThatNoEncoderHasAreErrors(t *testing.T) {
	for _, compressor := range []string{`{"id":"zlib","level":10}`, `{"id":"zlib","level":-2}`, `{"id":"gzip","level":10}`, `{"id":"zlib","level":1.5}`, `{"id":"blosc","clevel":10}`} {
		v2 := codec.V2{Order: "C", Endian: codec.Little, Compressor: json.RawMessage(compressor)}
		_, err := v2.List(element.Of(ndview.Int32), 1)
		assert.ErrorContains(t, err, "level", compressor)
	}
	var list codec.List
	assert.ErrorContains(t, json.Unmarshal([]byte(`[{"name":"gzip","configuration":{"level":-1}}]`), &list), "level")
}

// zarr-python writes null for the size of elements that it has not determined.
func TestBloscOfZarrV3MayHaveNoTypeSize(t *testing.T) {
	var list codec.List
	require.NoError(t, json.Unmarshal([]byte(`[{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":null,"blocksize":0}}]`), &list))
	assert.Zero(t, list[0].(codec.Blosc).TypeSize)
}
