package zarr_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestValidDocumentsAreParsed(t *testing.T) {
	root := sharedData(t, "zarr-metadata", "v3")
	seen := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Base(path) == "data_type.json" {
			return err
		}
		name, _ := filepath.Rel(root, path)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		for label, doc := range documents(t, name, raw) {
			seen++
			t.Run(filepath.Join(name, label), func(t *testing.T) {
				node, err := zarr.ParseNode(doc)
				require.NoError(t, err, string(doc))
				again, err := node.MarshalJSON()
				require.NoError(t, err)
				back, err := zarr.ParseNode(again)
				require.NoError(t, err, string(again))
				assert.Equal(t, node, back, "the written document parses to the same node")
			})
		}
		return nil
	})
	require.NoError(t, err)
	assert.Greater(t, seen, 80)
}

// documents returns the documents in a file. Some files hold cases of one member, which
// is inserted into a complete document.
func documents(t *testing.T, name string, raw []byte) map[string][]byte {
	t.Helper()
	dir, file, kind := filepath.Base(filepath.Dir(name)), filepath.Base(name), strings.Split(name, "/")[0]
	switch kind {
	case "array", "group":
		return map[string][]byte{"": raw}
	case "consolidated":
		return map[string][]byte{"": fmt.Appendf(nil, `{"zarr_format":3,"node_type":"group","consolidated_metadata":%s}`, raw)}
	}
	var cases map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &cases))
	docs := map[string][]byte{}
	for label, c := range cases {
		part := parts{shape: "[8]", grid: regular("[4]"), keys: `"default"`, dtype: `"uint8"`, fill: "0", codecs: `["bytes"]`}
		switch {
		case kind == "codec":
			part.useCodec(dir, string(c))
		case kind == "chunk_grid":
			part.grid = string(c)
			part.shape = map[string]string{"1d": "[8]", "2d": "[8,8]", "3d": "[8,8,8]", "explicit_per_dim": "[100,50]", "with_rle_pair": "[60,30]"}[label]
			if part.shape == "" {
				part.shape = "[100,100]"
			}
		case kind == "chunk_key_encoding":
			part.keys = string(c)
		case file == "fill_values.json":
			part.useType(t, filepath.Dir(name), dir)
			part.fill = string(c)
		}
		docs[label] = part.document()
	}
	return docs
}

// parts are the members of an array's document as JSON.
type parts struct{ shape, dtype, grid, keys, fill, codecs, more string }

func regular(shape string) string {
	return `{"name":"regular","configuration":{"chunk_shape":` + shape + `}}`
}

func rectilinear(shapes string) string {
	return `{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":` + shapes + `}}`
}

func (p parts) document() []byte {
	return fmt.Appendf(nil, `{"zarr_format":3,"node_type":"array","shape":%s,"data_type":%s,"chunk_grid":%s,
		"chunk_key_encoding":%s,"fill_value":%s,"codecs":%s%s}`, p.shape, p.dtype, p.grid, p.keys, p.fill, p.codecs, p.more)
}

func (p *parts) useCodec(name, codec string) {
	switch name {
	case "transpose":
		p.shape, p.grid, p.codecs = "[8,8,8]", regular("[4,4,4]"), "["+codec+`,"bytes"]`
	case "sharding_indexed":
		p.codecs = "[" + codec + "]"
		p.shape, p.grid = "[128]", regular("[128]")
		if strings.Contains(codec, "64") {
			p.shape, p.grid = "[128,128]", regular("[128,128]")
		}
	case "bytes":
		p.codecs = "[" + codec + "]"
	case "cast_value", "scale_offset":
		p.dtype, p.codecs = `"float64"`, "["+codec+`,{"name":"bytes","configuration":{"endian":"little"}}]`
	default:
		p.codecs = `["bytes",` + codec + "]"
	}
}

func (p *parts) useType(t *testing.T, dir, name string) {
	t.Helper()
	p.dtype = `"` + strings.ReplaceAll(name, "raw", "r32") + `"`
	if doc, err := os.ReadFile(filepath.Join(sharedData(t, "zarr-metadata", "v3"), dir, "data_type.json")); err == nil {
		p.dtype = string(doc)
	}
	switch name {
	case "string":
		p.codecs = `["vlen-utf8"]`
	case "bytes":
		p.codecs = `["vlen-bytes"]`
	default:
		p.codecs = `[{"name":"bytes","configuration":{"endian":"little"}}]`
	}
}

func TestBytesTypeHasAliases(t *testing.T) {
	for _, name := range []string{"bytes", "variable_length_bytes", "binary"} {
		var got element.Type
		require.NoError(t, json.Unmarshal([]byte(`"`+name+`"`), &got))
		assert.Equal(t, element.Bytes, got)
	}
}

func TestMalformedDocumentsAreErrors(t *testing.T) {
	good := parts{shape: "[8]", dtype: `"int16"`, grid: regular("[4]"), keys: `"default"`, fill: "0",
		codecs: `[{"name":"bytes","configuration":{"endian":"little"}}]`}
	_, err := zarr.ParseArray(good.document())
	require.NoError(t, err)

	with := func(change func(*parts)) string {
		p := good
		change(&p)
		return string(p.document())
	}
	shape := func(s string) string { return with(func(p *parts) { p.shape = s }) }
	dtype := func(s string) string { return with(func(p *parts) { p.dtype = s }) }
	chunks := func(s string) string { return with(func(p *parts) { p.grid = s }) }
	keys := func(s string) string { return with(func(p *parts) { p.keys = s }) }
	fill := func(dtype, s string) string { return with(func(p *parts) { p.dtype, p.fill = dtype, s }) }
	codecs := func(s string) string { return with(func(p *parts) { p.codecs = s }) }
	more := func(s string) string { return with(func(p *parts) { p.more = "," + s }) }
	le := `{"name":"bytes","configuration":{"endian":"little"}}`
	shard := func(config string) string {
		return codecs(`[{"name":"sharding_indexed","configuration":` + config + `}]`)
	}

	for doc, want := range map[string]string{
		``:                                     "JSON object",
		`[]`:                                   "JSON object",
		`null`:                                 "JSON object",
		`{"zarr_format":3,"node_type":"array"`: "no end",
		`{"zarr_format":3,"node_type":"group"} {}`:                                                               "after the JSON object",
		`{"Zarr_Format":3,"node_type":"group"}`:                                                                  "zarr_format",
		`{"zarr_format":4,"node_type":"group"}`:                                                                  "zarr_format 4",
		`{"zarr_format":"3","node_type":"group"}`:                                                                "zarr_format",
		`{"zarr_format":3}`:                                                                                      "node_type",
		`{"zarr_format":3,"node_type":"thing"}`:                                                                  "thing",
		`{"zarr_format":3,"node_type":"group","attributes":[]}`:                                                  "attributes",
		`{"zarr_format":3,"node_type":"group","x":1}`:                                                            `"x"`,
		`{"zarr_format":3,"node_type":"group","x":{}}`:                                                           `"x"`,
		`{"zarr_format":3,"node_type":"group","x":{"must_understand":true}}`:                                     `"x"`,
		`{"zarr_format":3,"node_type":"group","consolidated_metadata":{"metadata":{}}}`:                          "kind",
		`{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"outline","metadata":{}}}`:         "outline",
		`{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline","metadata":{"a//b":{}}}}`: "empty",
		`{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline","metadata":{"":{}}}}`:     "empty",
		`{"zarr_format":3,"node_type":"group","attributes":{"a":"` + "\xff" + `"}}`:                              "UTF-8",
		shape(`[-1]`): "-1", shape(`[8.5]`): "shape", shape(`[null]`): "null", shape(`null`): "null", shape(`8`): "shape",
		shape(`[8,8]`): "chunk shape", shape(`[]`): "chunk shape", shape(`["8"]`): "shape", shape(`[9223372036854775807]`): "range",
		shape(`[9223372036854775808]`): "shape",
		dtype(`"int7"`):                "int7", dtype(`"r12"`): "r12", dtype(`"r0"`): "r0", dtype(`"r08"`): "r08", dtype(`"r+8"`): "r+8", dtype(`""`): "data_type", dtype(`3`): "data_type", dtype(`null`): "null",
		dtype(`{"name":"int16","must_understand":false}`):                                                                       "must_understand",
		dtype(`{"name":"int16","configuration":{"x":1}}`):                                                                       `"x"`,
		dtype(`{"name":"int16","config":{}}`):                                                                                   `"config"`,
		dtype(`{"configuration":{}}`):                                                                                           "name",
		dtype(`"fixed_length_utf32"`):                                                                                           "length_bytes",
		dtype(`{"name":"fixed_length_utf32","configuration":{"length_bytes":6}}`):                                               "multiple of 4",
		dtype(`{"name":"raw_bytes","configuration":{"length_bytes":0}}`):                                                        "positive",
		dtype(`{"name":"null_terminated_bytes","configuration":{"length_bytes":2147483647}}`):                                   "at most",
		dtype(`{"name":"struct","configuration":{"fields":[]}}`):                                                                "no fields",
		dtype(`{"name":"struct","configuration":{"fields":[{"name":"a","data_type":"string"}]}}`):                               "fixed size",
		dtype(`{"name":"struct","configuration":{"fields":[{"name":"a"}]}}`):                                                    "data_type",
		dtype(`{"name":"struct","configuration":{"fields":[["a"]]}}`):                                                           "field 0",
		dtype(`{"name":"struct","configuration":{"fields":[{"name":"a","data_type":"int8"},{"name":"a","data_type":"int8"}]}}`): "duplicate",
		dtype(`"numpy.datetime64"`):                                                                                             "unit",
		dtype(`{"name":"numpy.datetime64","configuration":{"unit":"ns"}}`):                                                      "scale_factor",
		dtype(`{"name":"numpy.datetime64","configuration":{"unit":"fortnight","scale_factor":1}}`):                              "fortnight",
		dtype(`{"name":"numpy.datetime64","configuration":{"unit":"s","scale_factor":0}}`):                                      "scale_factor",
		chunks(regular(`[0]`)): "at least 1", chunks(regular(`[-4]`)): "at least 1", chunks(regular(`[4,4]`)): "chunk shape",
		chunks(regular(`[4611686018427387904]`)): "2^63",
		chunks(`"regular"`):                      "chunk_shape",
		chunks(`{"name":"regular","configuration":{"chunk_shape":[4],"x":1}}`):                   `"x"`,
		chunks(`{"name":"regular","must_understand":false,"configuration":{"chunk_shape":[4]}}`): "must_understand",
		chunks(`{"name":"hexagonal"}`): "hexagonal",
		chunks(rectilinear(`[[5]]`)):   "the chunks cover 5", chunks(rectilinear(`[[5,[3,0]]]`)): "at least 1", chunks(rectilinear(`[[-5,13]]`)): "at least 1",
		chunks(rectilinear(`[[]]`)): "chunk_shapes[0]", chunks(rectilinear(`["8"]`)): "chunk_shapes[0]", chunks(rectilinear(`[[[1,2,3]]]`)): "item 0", chunks(rectilinear(`[4,4]`)): "chunk shape",
		chunks(rectilinear(`[0]`)): "at least 1", chunks(rectilinear(`[[[9223372036854775807,9223372036854775807]]]`)): "out of range",
		chunks(rectilinear(`[[[1,9223372036854775807],1]]`)):                                  "2^63",
		chunks(`{"name":"rectilinear","configuration":{"kind":"remote","chunk_shapes":[8]}}`): "remote",
		chunks(`{"name":"rectilinear","configuration":{"chunk_shapes":[8]}}`):                 "kind",
		chunks(`{"name":"rectilinear","configuration":{"kind":"inline"}}`):                    "chunk_shapes",
		keys(`{"name":"fanout","configuration":{}}`):                                          `"fanout"`, keys(`"zarrs.default_suffix"`): "suffix",
		keys(`{"name":"zarrs.default_suffix","configuration":{"suffix":"/x"}}`): "slash",
		keys(`"v3"`): "v3", keys(`{"name":"default","configuration":{"separator":"_"}}`): "_",
		keys(`{"name":"default","configuration":{"separator":""}}`): "separator",
		keys(`{"name":"default","configuration":{"sep":"/"}}`):      "sep",
		keys(`{"name":"default","must_understand":false}`):          "must_understand",
		fill(`"int16"`, `0.5`):                                      "integer", fill(`"int16"`, `40000`): "16 bits", fill(`"int16"`, `"zero"`): "integer", fill(`"int16"`, `null`): "null",
		fill(`"uint16"`, `-1`): "not negative", fill(`"bool"`, `[1]`): "true or false", fill(`"bool"`, `"true"`): "true or false",
		fill(`"float32"`, `"nun"`):    "NaN",
		fill(`"float32"`, `"0x7fc0"`): "hexadecimal", fill(`"float32"`, `"7fc00000"`): "hexadecimal", fill(`"float32"`, `null`): "null", fill(`"float32"`, `"true"`): "expected a number",
		fill(`"int4"`, `8`): "4 bits", fill(`"uint2"`, `-1`): "2 bits", fill(`"float8_e4m3fn"`, `"Infinity"`): "has no", fill(`"float8_e4m3fn"`, `1000`): "out of range",
		fill(`"float4_e2m1fn"`, `"NaN"`): "has no", fill(`"float4_e2m1fn"`, `"0x10"`): "4 bits", fill(`"float8_e8m0fnu"`, `-1`): "out of range",
		fill(`{"name":"fixed_length_utf32","configuration":{"length_bytes":4}}`, `"ab"`):                        "at most 1",
		fill(`{"name":"null_terminated_bytes","configuration":{"length_bytes":1}}`, `"AQI="`):                   "at most 1",
		fill(`{"name":"struct","configuration":{"fields":[{"name":"a","data_type":"int8"}]}}`, `{"a":0,"b":0}`): `"b"`,
		fill(`{"name":"struct","configuration":{"fields":[{"name":"a","data_type":"int8"}]}}`, `{"a":1,"b":2}`): `"b"`,
		fill(`{"name":"struct","configuration":{"fields":[{"name":"a","data_type":"int8"}]}}`, `"AQI="`):        "2 bytes",
		fill(`"complex64"`, `1`): "imaginary", fill(`"complex64"`, `[1]`): "imaginary", fill(`"complex64"`, `[1,"x"]`): "NaN",
		fill(`"r16"`, `[1]`): "2 bytes", fill(`"r16"`, `[1,256]`): "255", fill(`"r16"`, `"AQ=="`): "2 bytes", fill(`"string"`, `1`): "string", fill(`"string"`, `null`): "null",
		fill(`"bytes"`, `"*"`): "base64", fill(`"bytes"`, `[-1]`): "255", fill(`"bytes"`, `null`): "null",
		fill(`{"name":"numpy.datetime64","configuration":{"unit":"s","scale_factor":1}}`, `"nat"`): "integer",
		codecs(`[]`): "no array-to-bytes codec", codecs(`null`): "null", codecs(`["bytes"]`): "endian", codecs(`{}`): "codecs", codecs(`[null]`): "codecs[0]",
		codecs(`["crc32c",` + le + `]`):                                               "before any array-to-bytes codec",
		codecs(`[` + le + `,` + le + `]`):                                             "only one",
		codecs(`[` + le + `,"transpose"]`):                                            "order",
		codecs(`[` + le + `,{"name":"transpose","configuration":{"order":[0]}}]`):     "after",
		codecs(`[{"name":"transpose","configuration":{"order":[1]}},` + le + `]`):     "permutation",
		codecs(`[{"name":"transpose","configuration":{"order":[1,0]}},` + le + `]`):   "1 axes",
		codecs(`[{"name":"transpose","configuration":{"order":"A"}},` + le + `]`):     "order",
		codecs(`["vlen-utf8"]`):                                                       "vlen-utf8",
		codecs(`[{"name":"bytes","configuration":{"endian":"middle"}}]`):              "middle",
		codecs(`[{"name":"bytes","configuration":{"endian":"little","x":0}}]`):        `"x"`,
		codecs(`[` + le + `,{"name":"zstd","configuration":{"level":23}}]`):           "23",
		codecs(`[` + le + `,{"name":"zstd","configuration":{"level":1.5}}]`):          "level",
		codecs(`[` + le + `,{"name":"gzip","configuration":{"level":10}}]`):           "10",
		codecs(`[` + le + `,{"name":"gzip","configuration":{"level":-1}}]`):           "-1",
		codecs(`[` + le + `,{"name":"gzip","configuration":{"Level":1}}]`):            `"Level"`,
		codecs(`[` + le + `,{"name":"crc32c","configuration":{"x":0}}]`):              `"x"`,
		codecs(`[` + le + `,{"name":"lz4","must_understand":false}]`):                 "lz4",
		codecs(`[` + le + `,{"name":"numcodecs.zlib","configuration":{"id":"bz2"}}]`): "bz2",
		chunks(`"regular"`):                                                       `chunk_grid regular: key "chunk_shape"`,
		shard(`{"codecs":[` + le + `]}`):                                          "chunk_shape",
		shard(`{"chunk_shape":[3],"codecs":[` + le + `]}`):                        "does not divide",
		shard(`{"chunk_shape":[0],"codecs":[` + le + `]}`):                        "does not divide",
		shard(`{"chunk_shape":[2,2],"codecs":[` + le + `]}`):                      "chunk shape",
		shard(`{"chunk_shape":[2]}`):                                              "codecs",
		shard(`{"chunk_shape":[2],"codecs":["crc32c"]}`):                          "before any array-to-bytes codec",
		shard(`{"chunk_shape":[2],"codecs":[` + le + `],"index_location":"mid"}`): "mid",
		shard(`{"chunk_shape":[2],"codecs":[` + le + `],"index_codecs":[` + le + `,{"name":"gzip","configuration":{"level":1}}]}`): "compress",
		shard(`{"chunk_shape":[2],"codecs":[` + le + `],"x":1}`):                                                                   `"x"`,
		more(`"x":1`): `"x"`, more(`"attributes":1`): "attributes", more(`"storage_transformers":["x"]`): "storage_transformers",
		more(`"dimension_names":["a","b"]`): "dimension names", more(`"dimension_names":[1]`): "dimension_names", more(`"dimension_names":"a"`): "dimension_names",
		strings.Replace(string(good.document()), `"fill_value":0,`, "", 1): "fill_value",
		strings.Replace(string(good.document()), `"array"`, `"group"`, 1):  "unknown key",
	} {
		_, err := zarr.ParseNode([]byte(doc))
		if assert.Error(t, err, doc) {
			assert.Contains(t, err.Error(), want, doc)
		}
	}
}

func TestDeeplyNestedShardsAreErrors(t *testing.T) {
	codecs := `["bytes"]`
	for range 9 {
		codecs = `[{"name":"sharding_indexed","configuration":{"chunk_shape":[1],"codecs":` + codecs + `}}]`
	}
	p := parts{shape: "[1]", dtype: `"int8"`, grid: regular("[1]"), keys: `"default"`, fill: "0", codecs: codecs}
	_, err := zarr.ParseArray(p.document())
	assert.ErrorContains(t, err, "deeper")
}

func TestParseRejectsOtherNodeType(t *testing.T) {
	_, err := zarr.ParseArray([]byte(`{"zarr_format":3,"node_type":"group"}`))
	assert.ErrorIs(t, err, zarr.ErrNodeType)
	p := parts{shape: "[1]", dtype: `"int8"`, grid: regular("[1]"), keys: `"default"`, fill: "0", codecs: `["bytes"]`}
	_, err = zarr.ParseGroup(p.document())
	assert.ErrorIs(t, err, zarr.ErrNodeType)
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "my group", "…", "_x", "a__", ".a", "a..", "zarr.jsonx", "c", "0"} {
		assert.NoError(t, zarr.CheckName(name), name)
	}
	for _, name := range []string{"", "a/b", "/", ".", "..", "...", "__x", "__", "zarr.json", "a\x00"} {
		assert.ErrorIs(t, zarr.CheckName(name), zarr.ErrInvalidName, name)
	}
}

func FuzzParseNode(f *testing.F) {
	for _, pattern := range []string{"v3/array/*.json", "v3/group/*.json", "v2/*/*.json"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "shared", "data", "zarr-metadata", pattern))
		require.NoError(f, err)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(raw)
		}
	}
	f.Add(parts{shape: "[1]", dtype: `"string"`, grid: regular("[1]"), keys: `"v2"`, fill: `""`, codecs: `["vlen-utf8"]`}.document())
	f.Fuzz(func(t *testing.T, raw []byte) {
		node, err := zarr.ParseNode(raw)
		if err != nil {
			return
		}
		written, err := node.MarshalJSON()
		require.NoError(t, err)
		again, err := zarr.ParseNode(written)
		require.NoError(t, err, "%s", written)
		rewritten, err := again.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, string(written), string(rewritten))
	})
}

func TestMetadataDocumentIsStable(t *testing.T) {
	s := store.NewMemory()
	meta := ints([]int64{3, 4}, []int64{2, 2}, codec.Zstd{Level: 1})
	meta.DimensionNames = []string{"x", ""}
	meta.Attributes = map[string]any{"b": 1, "a": "<é>"}
	create(t, s, "a", meta)
	raw, err := s.Get(ctx, "a/zarr.json", store.Range{})
	require.NoError(t, err)
	assert.Equal(t, `{
  "zarr_format": 3,
  "node_type": "array",
  "shape": [
    3,
    4
  ],
  "data_type": "int32",
  "chunk_grid": {
    "name": "regular",
    "configuration": {
      "chunk_shape": [
        2,
        2
      ]
    }
  },
  "chunk_key_encoding": {
    "name": "default",
    "configuration": {
      "separator": "/"
    }
  },
  "fill_value": 0,
  "codecs": [
    {
      "name": "bytes",
      "configuration": {
        "endian": "little"
      }
    },
    {
      "name": "zstd",
      "configuration": {
        "level": 1,
        "checksum": false
      }
    }
  ],
  "attributes": {
    "a": "<é>",
    "b": 1
  },
  "dimension_names": [
    "x",
    null
  ]
}`, string(raw))
}

func TestChunkKeyEncodingsRoundTripThroughJSON(t *testing.T) {
	for text, want := range map[string]zarr.ChunkKeyEncoding{
		`"default"`: {Separator: "/"}, `{"name":"v2"}`: {V2: true, Separator: "."}, `{"name":"v2","configuration":{"separator":"/"}}`: {V2: true, Separator: "/"},
		`{"name":"zarrs.default_suffix","configuration":{"suffix":".tiff"}}`: {Separator: "/", Suffix: ".tiff"},
	} {
		var got, back zarr.ChunkKeyEncoding
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		assert.Equal(t, want, got)
		written, err := json.Marshal(got)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(written, &back))
		assert.Equal(t, got, back)
	}
}

func TestRectilinearGridsRoundTripThroughJSON(t *testing.T) {
	for _, c := range []struct {
		in, out string
		shape   []int64
		runs    [][]zarr.ChunkRun
	}{
		{`[[[5,2],10],4]`, `[[[5,2],10],4]`, []int64{10, 4}, [][]zarr.ChunkRun{{{Size: 5, Count: 2}, {Size: 10, Count: 1}}, nil}},
		{`[[3,3,3,[3,2]],[2,9]]`, `[[[3,5]],[2,9]]`, []int64{3, 9}, [][]zarr.ChunkRun{{{Size: 3, Count: 5}}, {{Size: 2, Count: 1}, {Size: 9, Count: 1}}}},
	} {
		p := parts{shape: "[12,9]", dtype: `"int8"`, grid: rectilinear(c.in), keys: `"default"`, fill: "0", codecs: `["bytes"]`}
		m, err := zarr.ParseArray(p.document())
		require.NoError(t, err)
		assert.Equal(t, c.shape, m.ChunkShape)
		assert.Equal(t, c.runs, m.ChunkRuns)
		written, err := json.Marshal(m)
		require.NoError(t, err)
		var doc struct {
			Grid json.RawMessage `json:"chunk_grid"`
		}
		require.NoError(t, json.Unmarshal(written, &doc))
		assert.JSONEq(t, rectilinear(c.out), string(doc.Grid))
	}
}

func TestChunkKeyEncoding(t *testing.T) {
	for want, c := range map[string]struct {
		keys  zarr.ChunkKeyEncoding
		index []int64
	}{
		"c/0/12": {zarr.ChunkKeyEncoding{}, []int64{0, 12}}, "c": {zarr.ChunkKeyEncoding{}, nil}, "c.1.2": {zarr.ChunkKeyEncoding{Separator: "."}, []int64{1, 2}},
		"c.5.tiff": {zarr.ChunkKeyEncoding{Separator: ".", Suffix: ".tiff"}, []int64{5}}, "c.tiff": {zarr.ChunkKeyEncoding{Suffix: ".tiff"}, nil},
		"0.12": {zarr.ChunkKeyEncoding{V2: true}, []int64{0, 12}}, "0": {zarr.ChunkKeyEncoding{V2: true}, nil}, "3/4": {zarr.ChunkKeyEncoding{V2: true, Separator: "/"}, []int64{3, 4}},
	} {
		assert.Equal(t, want, c.keys.Key(c.index))
	}
}
