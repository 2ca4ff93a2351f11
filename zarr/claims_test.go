package zarr_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Metadata that claims what no memory holds, over a few bytes, ends in an error of the
// read, if not before.
func TestChunksThatClaimTooMuchAreErrors(t *testing.T) {
	const array = `{"zarr_format":3,"node_type":"array","shape":[%d],"data_type":%q,"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[%d]}},
		"chunk_key_encoding":{"name":"default"},"fill_value":%s,"codecs":[%s],"attributes":{}}`
	const bytes, text = `{"name":"bytes","configuration":{"endian":"little"}}`, `{"name":"vlen-utf8"}`
	shard := func(inner int64, codecs, index string) string {
		return fmt.Sprintf(`{"name":"sharding_indexed","configuration":{"chunk_shape":[%d],"codecs":[%s],"index_codecs":[%s],"index_location":"end"}}`, inner, codecs, index)
	}
	inside := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64([]byte("abcd"), 0), 4)
	for about, c := range map[string]struct {
		metadata string
		chunk    []byte
	}{
		"a chunk":                  {fmt.Sprintf(array, 10, "int64", int64(1)<<40, "0", bytes), make([]byte, 80)},
		"a larger chunk":           {fmt.Sprintf(array, 10, "int64", int64(1)<<59, "0", bytes), make([]byte, 80)},
		"a shard of many":          {fmt.Sprintf(array, 10, "int64", int64(1)<<40, "0", shard(1, bytes, bytes)), make([]byte, 100)},
		"a shard of more":          {fmt.Sprintf(array, 10, "int64", int64(1)<<58, "0", shard(1, bytes, bytes)), make([]byte, 100)},
		"an array of text":         {fmt.Sprintf(array, int64(1)<<40, "string", 10, `""`, text), nil},
		"a larger array of text":   {fmt.Sprintf(array, int64(1)<<58, "string", 10, `""`, text), nil},
		"a shard of text in one":   {fmt.Sprintf(array, 10, "string", int64(1)<<50, `""`, shard(1<<50, shard(1<<30, text, bytes), bytes)), inside},
		"a shard of text, checked": {fmt.Sprintf(array, 10, "string", int64(1)<<58, `""`, shard(1<<30, text, bytes)+`,{"name":"crc32c"}`), make([]byte, 100)},
	} {
		s := store.NewMemory()
		require.NoError(t, s.Set(t.Context(), "zarr.json", []byte(c.metadata)))
		if c.chunk != nil {
			require.NoError(t, s.Set(t.Context(), "c/0", c.chunk))
		}
		a, err := zarr.Open(t.Context(), s, "")
		if err == nil {
			_, err = a.Read(t.Context(), ndview.Prototype{}, 2)
		}
		assert.Error(t, err, about)
	}
}

func TestChunksBeyondAnyGridAreErrors(t *testing.T) {
	s := store.NewMemory()
	require.NoError(t, s.Set(t.Context(), "zarr.json", []byte(`{"zarr_format":3,"node_type":"array","shape":[16],"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[8]}},
		"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":[{"name":"bytes"}],"attributes":{}}`)))
	a, err := zarr.Open(t.Context(), s, "")
	require.NoError(t, err)
	for _, index := range []int64{-1, 1 << 61, 1<<63 - 1} {
		_, err := a.ReadChunk(t.Context(), ndview.Prototype{}, []int64{index})
		assert.ErrorContains(t, err, "outside of any grid")
	}
}

func TestConsolidatedMetadataThatNestsWithoutEndIsAnError(t *testing.T) {
	doc := `{"zarr_format":3,"node_type":"group","attributes":{}}`
	for range 40 {
		doc = `{"zarr_format":3,"node_type":"group","attributes":{},"consolidated_metadata":{"kind":"inline","must_understand":false,"metadata":{"a":` + doc + `}}}`
	}
	_, err := zarr.ParseNode([]byte(doc))
	assert.ErrorContains(t, err, "nests deeper")
}
