package codec_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What numcodecs 0.17.1 encodes arrays of dtype object to.
func TestObjectsOfNumcodecsDecode(t *testing.T) {
	unhex := func(s string) string {
		raw, err := hex.DecodeString(s)
		require.NoError(t, err)
		return string(raw)
	}
	for _, c := range []struct {
		filter string
		of     element.Type
		shape  []int64
		enc    string
		want   []string
	}{
		{`{"id":"json2","encoding":"utf-8","allow_nan":true,"check_circular":true,"ensure_ascii":true,"indent":null,"separators":[",",":"],"skipkeys":false,"sort_keys":true,"strict":true}`,
			element.String, []int64{4}, `["a","b\u00e9",null,"","|O",[4]]`, []string{"a", "bé", "", ""}},
		{`{"id":"json2"}`, element.String, []int64{2, 2}, `[["a","b\u00e9"],[null,""],"|O",[2,2]]`, []string{"a", "bé", "", ""}},
		{`{"id":"json2"}`, element.String, []int64{3}, `["a",0,0,"|O",[3]]`, []string{"a", "", ""}},
		{`{"id":"msgpack2"}`, element.String, []int64{2}, unhex("94a16100a27c4f9102"), []string{"a", ""}},
		{`{"id":"json2"}`, element.String, []int64{}, `["q","|O",[]]`, []string{"q"}},
		{`{"id":"msgpack2","raw":false,"use_bin_type":true,"use_single_float":false}`, element.String, []int64{2}, unhex("94a161a362c3a9a27c4f9102"), []string{"a", "bé"}},
		{`{"id":"msgpack2"}`, element.Bytes, []int64{2}, unhex("94c40178c402797aa27c4f9102"), []string{"x", "yz"}},
		{`{"id":"msgpack2"}`, element.String, []int64{2, 2}, unhex("9492a161a362c3a992c0a0a27c4f920202"), []string{"a", "bé", "", ""}},
		{`{"id":"categorize","labels":["x","y"],"dtype":"|O","astype":"|u1"}`, element.String, []int64{3}, "\x02\x01\x00", []string{"y", "x", ""}},
		{`{"id":"categorize","labels":["x","y"],"dtype":"|O","astype":">u2"}`, element.String, []int64{3}, "\x00\x02\x00\x01\x00\x00", []string{"y", "x", ""}},
	} {
		filters := json.RawMessage("[" + c.filter + "]")
		list, err := codec.V2{Order: "C", Filters: filters}.List(c.of, len(c.shape))
		require.NoError(t, err)
		chain := compile(t, c.of, c.shape, list...)
		got, err := decodeAny(chain, c.of, 0, []byte(c.enc))
		require.NoError(t, err, c.enc)
		assert.Equal(t, c.want, got)
		v, err := element.PackVLen(c.want, c.shape...)
		require.NoError(t, err)
		back, err := decodeAny(chain, c.of, 0, encode(t, chain, v))
		require.NoError(t, err)
		assert.Equal(t, c.want, back)
		again, err := list.V2(len(c.shape))
		require.NoError(t, err)
		same, err := again.List(c.of, len(c.shape))
		require.NoError(t, err)
		assert.Equal(t, list, same)
		if c.of == element.String {
			of, err := codec.V2ObjectType(filters)
			require.NoError(t, err)
			assert.Equal(t, c.of, of)
		}
	}
}

func TestObjectsThatAreNoStringsAreErrors(t *testing.T) {
	json2, msgpack2 := compile(t, element.String, []int64{2}, codec.JSON2{}), compile(t, element.String, []int64{2}, codec.MsgPack2{})
	for enc, unsupported := range map[string]bool{
		`["a",1,"|O",[2]]`: true, `["a",true,"|O",[2]]`: true, `["a",["b"],"|O",[2]]`: true, `["a",{"b":1},"|O",[2]]`: true,
		`["a","b","|O",[3]]`: false, `["a","b","|O",[2],1]`: false, `["a","b","|O",[2]] 1`: false, `["a","|O",[2]]`: true,
		`["a","b","|O",[2.5]]`: false, `["a","b","|O",[1e300]]`: false, `["a","b","|O",["2"]]`: false, `{}`: false, ``: false, `["a","b"`: false,
	} {
		_, err := decodeAny(json2, element.String, 0, []byte(enc))
		require.Error(t, err, enc)
		assert.Equal(t, unsupported, errors.Is(err, errors.ErrUnsupported), "%s: %v", enc, err)
	}
	for enc, unsupported := range map[string]bool{
		"\x94\xa1a\x01\xa2|O\x91\x02": true, "\x94\xa1a\xc3\xa2|O\x91\x02": true, "\x94\xa1a\xa1b\xa2|O\x91\x03": false, "\x93\xa1a\xa1b\x91\x02": false,
		"\x94\xa1a\xa1b\xa2|O\x91\x02\x00": false, "\xdd\xff\xff\xff\xff": false, "\x94\xdb\xff\xff\xff\xff": false, "\x94\xa1\xff\xa1b\xa2|O\x91\x02": false,
		"\x94\xa1a\xa1b\xa2|O\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff": false,
	} {
		_, err := decodeAny(msgpack2, element.String, 0, []byte(enc))
		require.Error(t, err, "%q", enc)
		assert.Equal(t, unsupported, errors.Is(err, errors.ErrUnsupported), "%q: %v", enc, err)
	}
	categorize := compile(t, element.String, []int64{2}, codec.Categorize{Labels: []string{"x"}})
	for _, enc := range []string{"\x02\x00", "\x00", "\x00\x00\x00"} {
		_, err := decodeAny(categorize, element.String, 0, []byte(enc))
		assert.Error(t, err, "%q", enc)
	}
	v, err := element.PackVLen([]string{"x", "y"}, 2)
	require.NoError(t, err)
	_, err = categorize.Encode(codec.GetScratch(), v)
	assert.ErrorContains(t, err, `"y" has no label`)
}

func TestLongMsgPackStringsRoundTrip(t *testing.T) {
	for _, n := range []int{31, 32, 255, 256, 65535, 65536} {
		for _, of := range []element.Type{element.String, element.Bytes} {
			v, err := element.PackVLen([]string{string(make([]byte, n))}, 1)
			require.NoError(t, err)
			chain := compile(t, of, []int64{1}, codec.MsgPack2{})
			got, err := decodeAny(chain, of, 0, encode(t, chain, v))
			require.NoError(t, err)
			assert.Equal(t, contents(v), got)
		}
	}
	for _, n := range []int64{13, 14, 127, 128, 70_000} {
		v, err := element.PackVLen(make([]string, n), n)
		require.NoError(t, err)
		chain := compile(t, element.String, []int64{n}, codec.MsgPack2{})
		s := codec.Scratch{KeepEmpty: true}
		enc, err := chain.Encode(&s, v)
		require.NoError(t, err)
		got, err := decodeAny(chain, element.String, 0, enc)
		require.NoError(t, err)
		assert.Equal(t, contents(v), got)
	}
}

func TestRefusedCodecsAreNamed(t *testing.T) {
	for _, name := range []string{"pcodec", "zfp", "zfpy", "pickle"} {
		for _, full := range []string{name, "numcodecs." + name} {
			err := json.Unmarshal([]byte(`[{"name":"`+full+`"}]`), new(codec.List))
			assert.ErrorIs(t, err, errors.ErrUnsupported)
			assert.ErrorContains(t, err, full)
		}
		_, err := codec.V2ObjectType(json.RawMessage(`[{"id":"` + name + `"}]`))
		assert.ErrorIs(t, err, errors.ErrUnsupported)
		assert.ErrorContains(t, err, name)
	}
	for _, raw := range []string{`{"id":"lzma","format":3,"filters":[{"id":4},{"id":33}]}`, `{"id":"lzma","filters":[{"id":4},{"id":33}]}`, `{"id":"lzma","filters":[{"id":3}]}`, `{"id":"jenkins_lookup3","prefix":"AQ=="}`} {
		_, err := codec.V2{Order: "C", Compressor: json.RawMessage(raw)}.List(int8s, 1)
		assert.ErrorIs(t, err, errors.ErrUnsupported, raw)
	}
}

// The codes are what numcodecs 0.17 stores for text of a fixed length.
func TestCategoriesOfTextOfAFixedLength(t *testing.T) {
	of := element.UTF32(3)
	v2 := codec.V2{Order: "C", Endian: codec.Big, Filters: []byte(`[{"id":"categorize","labels":["foo","é"],"dtype":">U3","astype":"<u2"}]`)}
	list, err := v2.List(of, 1)
	require.NoError(t, err)
	text, err := element.PackVLen([]string{"foo", "", "é", "foo"}, 4)
	require.NoError(t, err)
	fixed, err := of.FromVLen(text)
	require.NoError(t, err)
	defer fixed.Release()
	raw, err := fixed.Bytes()
	require.NoError(t, err)
	encoded, decoded := throughChain(t, list, of, raw, 4)
	assert.Equal(t, []byte{1, 0, 0, 0, 2, 0, 1, 0}, encoded)
	assert.Equal(t, raw, decoded)
	written, err := list.V2(1)
	require.NoError(t, err)
	assert.JSONEq(t, string(v2.Filters), string(written.Filters))

	_, err = list.Compile(codec.ChunkSpec{Type: element.UTF32(4), Shape: []int64{4}, Fill: make([]byte, 16)})
	assert.ErrorContains(t, err, "fixed_length_utf32")
	_, err = codec.V2{Order: "C", Filters: []byte(`[{"id":"categorize","labels":["foo"],"dtype":"<i4"}]`)}.List(of, 1)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	labelled, err := codec.V2{Order: "C", Filters: []byte(`[{"id":"categorize","labels":["long label"],"dtype":"<U3"}]`)}.List(of, 1)
	require.NoError(t, err)
	chain, err := labelled.Compile(codec.ChunkSpec{Type: of, Shape: []int64{1}, Fill: of.DefaultFill()})
	require.NoError(t, err)
	_, err = decode(chain, 12, []byte{1})
	assert.ErrorContains(t, err, "long label")
}
