package codec_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var int32Type = element.Of(ndview.Int32)

func TestV2DocumentsRoundTrip(t *testing.T) {
	for _, c := range []struct {
		v2   codec.V2
		of   element.Type
		want codec.List
	}{
		{codec.V2{Order: "C", Endian: codec.Little}, int32Type, codec.List{little}},
		{codec.V2{Order: "F", Endian: codec.Big}, int32Type, codec.List{codec.Transpose{Order: []int{2, 1, 0}}, codec.Bytes{Endian: codec.Big}}},
		{codec.V2{Order: "C"}, int8s, codec.List{codec.Bytes{}}},
		{codec.V2{Order: "C", Endian: codec.Little, Compressor: json.RawMessage(`{"id":"zstd","level":0}`)}, int32Type, codec.List{little, codec.Zstd{}}},
		{codec.V2{Order: "C", Endian: codec.Little, Compressor: json.RawMessage(`{"id":"zstd","level":3,"checksum":true}`)}, int32Type, codec.List{little, codec.Zstd{Level: 3, Checksum: true}}},
		{codec.V2{Order: "C", Endian: codec.Little, Filters: json.RawMessage(`[{"id":"gzip","level":1}]`), Compressor: json.RawMessage(`{"id":"gzip","level":9}`)},
			int32Type, codec.List{little, codec.Gzip{Level: 1}, codec.Gzip{Level: 9}}},
		{codec.V2{Order: "C", Endian: codec.Little, Filters: json.RawMessage(`[{"id":"zlib","level":1},{"id":"fletcher32"}]`)},
			int32Type, codec.List{little, codec.Zlib{Level: 1}, codec.Fletcher32{}}},
		{codec.V2{Order: "C", Filters: json.RawMessage(`[{"id":"vlen-utf8"}]`)}, element.String, codec.List{codec.VLenUTF8{}}},
		{codec.V2{Order: "C", Filters: json.RawMessage(`[{"id":"vlen-bytes"}]`), Compressor: json.RawMessage(`{"id":"zstd","level":0}`)},
			element.Bytes, codec.List{codec.VLenBytes{}, codec.Zstd{}}},
	} {
		list, err := c.v2.List(c.of, 3)
		require.NoError(t, err)
		assert.Equal(t, c.want, list)
		back, err := list.V2(3)
		require.NoError(t, err)
		assert.Equal(t, c.v2, back)
	}
}

func TestV2AcceptsEmptyAndNullFilters(t *testing.T) {
	for _, filters := range []string{"", "null", "[]", " null\n"} {
		list, err := codec.V2{Order: "C", Endian: codec.Little, Filters: json.RawMessage(filters), Compressor: json.RawMessage("null")}.List(int32Type, 1)
		require.NoError(t, err, filters)
		assert.Equal(t, codec.List{little}, list, filters)
	}
}

func TestV2RejectsWhatItCannotDecode(t *testing.T) {
	for name, v := range map[string]codec.V2{
		"order":         {Order: "A"},
		"no order":      {},
		"filters":       {Order: "C", Filters: json.RawMessage(`{}`)},
		"null filter":   {Order: "C", Filters: json.RawMessage(`[null]`)},
		"no id":         {Order: "C", Compressor: json.RawMessage(`{"level":1}`)},
		"text":          {Order: "C", Compressor: json.RawMessage(`"zstd"`)},
		"level":         {Order: "C", Compressor: json.RawMessage(`{"id":"gzip","level":11}`)},
		"key":           {Order: "C", Compressor: json.RawMessage(`{"id":"gzip","levels":1}`)},
		"not a v2 name": {Order: "C", Compressor: json.RawMessage(`{"id":"sharding_indexed"}`)},
		"array codec":   {Order: "C", Filters: json.RawMessage(`[{"id":"gzip"},{"id":"vlen-utf8"}]`)},
	} {
		_, err := v.List(int32Type, 1)
		assert.Error(t, err, name)
	}
	_, err := codec.V2{Order: "C", Compressor: json.RawMessage(`{"id":"unknown"}`)}.List(int32Type, 1)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorContains(t, err, "unknown")
	_, err = codec.V2{Order: "C"}.List(element.String, 1)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestV2ObjectTypeIsThatOfTheFilter(t *testing.T) {
	for filters, want := range map[string]element.Type{
		`[{"id":"vlen-utf8"}]`: element.String, `[{"id":"vlen-bytes"},{"id":"gzip","level":1}]`: element.Bytes,
	} {
		of, err := codec.V2ObjectType(json.RawMessage(filters))
		require.NoError(t, err, filters)
		assert.Equal(t, want, of, filters)
	}
	for _, filters := range []string{``, `null`, `[]`, `[{"id":"pickle"}]`} {
		_, err := codec.V2ObjectType(json.RawMessage(filters))
		assert.ErrorIs(t, err, errors.ErrUnsupported, filters)
	}
	_, err := codec.V2ObjectType(json.RawMessage(`[1]`))
	assert.Error(t, err)
}

func TestListsThatV2LacksAreUnsupported(t *testing.T) {
	for _, list := range []codec.List{
		{codec.Sharding{ChunkShape: []int64{1}, Codecs: codec.List{little}}},
		{codec.Transpose{Order: []int{1, 0, 2}}, little},
		{negate{}, little},
	} {
		_, err := list.V2(3)
		assert.ErrorIs(t, err, errors.ErrUnsupported)
	}
}

func TestLenientNamesAndConfigurations(t *testing.T) {
	for text, want := range map[string]codec.List{
		`[{"name":"endian","configuration":{"endian":"little"}}]`: {little},
		`["bytes","crc32c"]`: {codec.Bytes{}, codec.CRC32C{}},
		`[{"name":"bytes","configuration":{}},{"name":"crc32c","configuration":{}}]`: {codec.Bytes{}, codec.CRC32C{}},
		`["gzip","zstd"]`: {codec.Gzip{Level: 5}, codec.Zstd{}},
		`["numcodecs.gzip",{"name":"numcodecs.zstd","configuration":{"level":7}}]`: {codec.Gzip{Level: 1}, codec.Zstd{Level: 7}},
		`["numcodecs.vlen-utf8"]`: {codec.VLenUTF8{}},
	} {
		var list codec.List
		require.NoError(t, json.Unmarshal([]byte(text), &list), text)
		assert.Equal(t, want, list, text)
	}
}

func TestTransposeOrderMayBeALetter(t *testing.T) {
	const text = `[{"name":"transpose","configuration":{"order":"F"}},{"name":"bytes","configuration":{"endian":"little"}}]`
	var list codec.List
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	again, err := json.Marshal(list)
	require.NoError(t, err)
	assert.JSONEq(t, text, string(again))
	one := array(t, []int32{1, 2, 3, 4, 5, 6}, 1, 2, 3)
	want := encode(t, compile(t, int32s, []int64{1, 2, 3}, codec.Transpose{Order: []int{2, 1, 0}}, little), one)
	assert.Equal(t, want, encode(t, compile(t, int32s, []int64{1, 2, 3}, list...), one))
	for order, good := range map[string]bool{`"C"`: true, `"A"`: false, `[1,1]`: false, `null`: false, `[0,null]`: false} {
		err := json.Unmarshal([]byte(`[{"name":"transpose","configuration":{"order":`+order+`}}]`), new(codec.List))
		assert.Equal(t, good, err == nil, "%s: %v", order, err)
	}
	assert.Error(t, json.Unmarshal([]byte(`["transpose"]`), new(codec.List)))
}

func FuzzV2(f *testing.F) {
	for _, filters := range []string{`null`, `[{"id":"delta","dtype":"<i4","astype":"<i2"},{"id":"shuffle","elementsize":2}]`, `[{"id":"vlen-utf8"}]`, `[{"id":"pickle"}]`,
		`[{"id":"shuffle","elementsize":4},{"id":"delta","dtype":">i4","astype":"<i8"}]`, `[{"id":"delta","dtype":">i8"}]`,
		`[{"id":"fixedscaleoffset","scale":10,"offset":0.5,"dtype":">f4","astype":"|u1"},{"id":"packbits"}]`, `[{"id":"categorize","labels":["a"],"dtype":"|O","astype":"|u1"}]`} {
		for _, compressor := range []string{`null`, `{"id":"blosc","cname":"lz4","clevel":5,"shuffle":-1,"blocksize":0}`, `{"id":"lzma","format":1,"check":-1,"preset":null,"filters":null}`} {
			f.Add("C", filters, compressor)
			f.Add("F", filters, compressor)
		}
	}
	f.Fuzz(func(t *testing.T, order, filters, compressor string) {
		_, _ = codec.V2ObjectType(json.RawMessage(filters)) // must not panic
		v := codec.V2{Order: order, Endian: codec.Little, Filters: json.RawMessage(filters), Compressor: json.RawMessage(compressor)}
		for _, of := range []element.Type{int32Type, element.String} {
			list, err := v.List(of, 2)
			if err != nil {
				continue
			}
			_, _ = list.Compile(codec.ChunkSpec{Type: of, Shape: []int64{2, 3}, Fill: of.DefaultFill()}) // must not panic
			back, err := list.V2(2)
			require.NoError(t, err)
			again, err := back.List(of, 2)
			require.NoError(t, err, "%s %s", back.Filters, back.Compressor)
			require.Equal(t, list, again)
		}
	})
}
