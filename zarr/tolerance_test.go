package zarr_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Other implementations write or read each of these documents.
func TestTolerableDocumentsAreRead(t *testing.T) {
	little := `[{"name":"bytes","configuration":{"endian":"little"}}]`
	good := parts{shape: "[4,6]", dtype: `"int32"`, grid: regular("[2,3]"), keys: `"default"`, fill: "0", codecs: little}
	with := func(change func(*parts)) []byte {
		p := good
		change(&p)
		return p.document()
	}
	want, err := zarr.ParseArray(good.document())
	require.NoError(t, err)
	for name, doc := range map[string][]byte{
		"attributes null":           with(func(p *parts) { p.more = `,"attributes":null` }),
		"storage_transformers null": with(func(p *parts) { p.more = `,"storage_transformers":null` }),
		"storage_transformers []":   with(func(p *parts) { p.more = `,"storage_transformers":[]` }),
		"dimension_names null":      with(func(p *parts) { p.more = `,"dimension_names":null` }),
		"fill 0.0":                  with(func(p *parts) { p.fill = "0.0" }),
		"fill \"0\"":                with(func(p *parts) { p.fill = `"0"` }),
		"byte order mark":           append([]byte("\ufeff"), good.document()...),
		"empty configuration":       with(func(p *parts) { p.dtype = `{"name":"int32","configuration":{}}` }),
		"data type as an object":    with(func(p *parts) { p.dtype = `{"name":"int32"}` }),
		"keys as an object":         with(func(p *parts) { p.keys = `{"name":"default"}` }),
		"integral floats":           with(func(p *parts) { p.shape, p.grid = "[4.0,6.00]", regular("[2.0,3.0]") }),
		"must_understand true":      with(func(p *parts) { p.dtype = `{"name":"int32","must_understand":true}` }),
		"a key twice":               with(func(p *parts) { p.fill, p.more = "1", `,"fill_value":0` }),
		"a key of a codec twice":    with(func(p *parts) { p.codecs = strings.Replace(little, `"endian"`, `"endian":"big","endian"`, 1) }),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := zarr.ParseArray(doc)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestTolerableFillValues(t *testing.T) {
	little := `[{"name":"bytes","configuration":{"endian":"little"}}]`
	for _, c := range []struct {
		dtype, fill string
		want        []byte
	}{
		{"int32", `"5"`, []byte{5, 0, 0, 0}}, {"int16", `-7.0`, []byte{0xf9, 0xff}}, {"uint8", `"255"`, []byte{255}},
		{"float32", `"3.5"`, []byte{0, 0, 0x60, 0x40}}, {"float32", `NaN`, []byte{0, 0, 0xc0, 0x7f}}, {"float16", `-Infinity`, []byte{0, 0xfc}},
		{"uint8", `-0.0`, []byte{0}}, {"int16", `1e3`, []byte{0xe8, 3}}, {"int16", `" +5 "`, []byte{5, 0}},
		{"float32", `"nan"`, []byte{0, 0, 0xc0, 0x7f}}, {"float32", `"-nan"`, []byte{0, 0, 0xc0, 0x7f}}, {"float32", `"-inf"`, []byte{0, 0, 0x80, 0xff}}, {"float16", `"+Infinity"`, []byte{0, 0x7c}},
		{"bool", `0`, []byte{0}}, {"bool", `1`, []byte{1}}, {"bool", `2`, []byte{1}}, {"bool", `0.0`, []byte{0}}, {"bool", `-0.5`, []byte{1}},
		{"int32", `true`, []byte{1, 0, 0, 0}}, {"uint8", `false`, []byte{0}}, {"float32", `true`, []byte{0, 0, 0x80, 0x3f}}, {"int4", `true`, []byte{1}}, {"float8_e5m2", `true`, []byte{0x3c}},
		{"complex64", `[true, false]`, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0}}, {"complex64", `[NaN, 1]`, []byte{0, 0, 0xc0, 0x7f, 0, 0, 0x80, 0x3f}},
		{`{"name":"raw_bytes","configuration":{"length_bytes":3}}`, `"AQI="`, []byte{1, 2, 0}}, {`{"name":"raw_bytes","configuration":{"length_bytes":2}}`, `""`, []byte{0, 0}},
	} {
		if c.dtype[0] != '{' {
			c.dtype = `"` + c.dtype + `"`
		}
		doc := parts{shape: "[1]", dtype: c.dtype, grid: regular("[1]"), keys: `"default"`, fill: c.fill, codecs: little}.document()
		m, err := zarr.ParseArray(doc)
		require.NoError(t, err, "%s %s", c.dtype, c.fill)
		assert.Equal(t, c.want, m.FillValue, "%s %s", c.dtype, c.fill)
	}
}

func TestNonFiniteAttributesAreReadAndWrittenAsStrictJSON(t *testing.T) {
	g, err := zarr.ParseGroup([]byte(`{"zarr_format":3,"node_type":"group",
		"attributes":{"a":NaN,"b":[Infinity,-Infinity,1],"c":{"d":NaN},"e":"NaN, \"Infinity\"","f":"-Infinity"},
		"extra":{"must_understand":false,"x":[NaN]}}`))
	require.NoError(t, err)
	a := g.Attributes
	assert.True(t, math.IsNaN(a["a"].(float64)))
	assert.Equal(t, []any{math.Inf(1), math.Inf(-1), json.Number("1")}, a["b"])
	assert.True(t, math.IsNaN(a["c"].(map[string]any)["d"].(float64)))
	assert.Equal(t, `NaN, "Infinity"`, a["e"])
	written, err := json.Marshal(g)
	require.NoError(t, err)
	assert.JSONEq(t, `{"zarr_format":3,"node_type":"group",
		"attributes":{"a":"NaN","b":["Infinity","-Infinity",1],"c":{"d":"NaN"},"e":"NaN, \"Infinity\"","f":"-Infinity"},
		"extra":{"must_understand":false,"x":["NaN"]}}`, string(written))
	assert.True(t, math.IsNaN(a["a"].(float64)), "writing changes nothing")

	s := store.NewMemory()
	of := map[string]any{"list": []float32{1, float32(math.NaN())}, "by": map[string]float64{"x": math.Inf(-1)}, "nil": nil, "bytes": []byte{1}}
	_, err = zarr.CreateGroup(ctx, s, "", &zarr.GroupMetadata{Attributes: of})
	require.NoError(t, err)
	back, err := zarr.OpenGroup(ctx, s, "")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"list": []any{json.Number("1"), "NaN"}, "by": map[string]any{"x": "-Infinity"}, "nil": nil, "bytes": "AQ=="}, back.Metadata().Attributes)
}

func TestBareWordsElsewhereAreErrors(t *testing.T) {
	for _, doc := range []string{
		`{"zarr_format":NaN,"node_type":"group"}`, `{"zarr_format":3,"node_type":NaN}`, `NaN`,
		`{"zarr_format":3,"node_type":"group",NaN:1}`, `{"zarr_format":3,"node_type":"group","attributes":{"a":NaNa}}`,
	} {
		_, err := zarr.ParseNode([]byte(doc))
		assert.Error(t, err, doc)
	}
}

func TestAttributesThatContainThemselvesAreErrors(t *testing.T) {
	loop := map[string]any{"x": math.NaN()}
	loop["self"] = loop
	_, err := zarr.CreateGroup(ctx, store.NewMemory(), "", &zarr.GroupMetadata{Attributes: loop})
	assert.Error(t, err)
}

// Other writers leave bits without a meaning in stored bytes.
func TestStoredBytesWithStrayBitsAreRead(t *testing.T) {
	for _, c := range []struct {
		of           element.Type
		stored, want []byte
	}{
		{element.Of(ndview.Bool), []byte{2, 0, 255}, []byte{1, 0, 1}},
		{element.Int4, []byte{0x0e, 0xfe, 0x17}, []byte{0xfe, 0xfe, 7}},
		{element.Uint2, []byte{0xff, 4, 1}, []byte{3, 0, 1}},
		{element.Float4E2M1FN, []byte{0xf1, 0, 1}, []byte{1, 0, 1}},
	} {
		s := store.NewMemory()
		create(t, s, "a", &zarr.ArrayMetadata{Shape: []int64{3}, ChunkShape: []int64{3}, DataType: c.of, Codecs: zarr.DefaultCodecs(c.of)})
		require.NoError(t, s.Set(ctx, "a/c/0", c.stored))
		a, err := zarr.Open(ctx, s, "a")
		require.NoError(t, err)
		v, err := a.Read(ctx, zarr.Prototype{}, 1)
		require.NoError(t, err)
		assert.Equal(t, c.want, bytesOf(t, v), c.of.String())
		v.Release()
	}
}

func TestNumbersThatDoNotFitTheirTypeAreNotWritten(t *testing.T) {
	of := element.Int4
	a := create(t, store.NewMemory(), "a", &zarr.ArrayMetadata{Shape: []int64{3}, ChunkShape: []int64{3}, DataType: of, Codecs: zarr.DefaultCodecs(of)})
	err := a.Write(ctx, values(t, ndview.Int8, []int8{-8, 7, 8}, 3), 1)
	assert.ErrorContains(t, err, "element 2")
	assert.ErrorContains(t, err, "int4")
}

// zarr-python wrote structs without a byte order.
func TestStructsWithoutByteOrderAreLittleEndian(t *testing.T) {
	doc := parts{shape: "[1]", grid: regular("[1]"), keys: `"default"`, codecs: `["bytes"]`, fill: `"AQAC"`,
		dtype: `{"name":"structured","configuration":{"fields":[["a","uint16"],["b","uint8"]]}}`}.document()
	s := store.NewMemory()
	require.NoError(t, s.Set(ctx, "a/zarr.json", doc))
	require.NoError(t, s.Set(ctx, "a/c/0", []byte{3, 1, 9}))
	a, err := zarr.Open(ctx, s, "a")
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 0, 2}, a.Metadata().FillValue)
	v, err := a.Read(ctx, zarr.Prototype{}, 1)
	require.NoError(t, err)
	defer v.Release()
	assert.Equal(t, []byte{3, 1, 9}, bytesOf(t, v))
	dtype := v.(*ndview.NDBuffer).DType()
	assert.Equal(t, ndview.Uint16, dtype.Fields()[0].DType)

	plain := parts{shape: "[1]", grid: regular("[1]"), keys: `"default"`, codecs: `["bytes"]`, fill: `0`, dtype: `"uint16"`}.document()
	_, err = zarr.ParseArray(plain)
	assert.ErrorContains(t, err, "endian")
	assert.NotErrorIs(t, err, errors.ErrUnsupported)
	assert.Equal(t, codec.List{codec.Bytes{Endian: codec.Little}}, zarr.DefaultCodecs(a.Metadata().DataType))
}

func TestNumcodecsOfZarrV3MayNameTheirID(t *testing.T) {
	for text, want := range map[string]codec.Codec{
		`{"name":"numcodecs.zlib","configuration":{"id":"zlib","level":3}}`: codec.Zlib{Level: 3},
		`{"name":"numcodecs.crc32c","configuration":{"id":"crc32c"}}`:       codec.CRC32C{},
	} {
		var list codec.List
		require.NoError(t, json.Unmarshal([]byte("["+text+"]"), &list))
		assert.Equal(t, want, list[0])
	}
}

func TestUnknownKeysOfConsolidatedMetadataAreIgnored(t *testing.T) {
	g, err := zarr.ParseGroup([]byte(`{"zarr_format":3,"node_type":"group",
		"consolidated_metadata":{"kind":"inline","must_understand":false,"written":"today","metadata":{"g":{"zarr_format":3,"node_type":"group"}}}}`))
	require.NoError(t, err)
	assert.Contains(t, g.Consolidated, "g")
}

func TestConsolidatedMetadataOfZarrV2MayHaveNoFormat(t *testing.T) {
	s := store.NewMemory()
	require.NoError(t, s.Set(ctx, ".zgroup", []byte(`{"zarr_format":2}`)))
	require.NoError(t, s.Set(ctx, ".zmetadata", []byte(`{"metadata":{".zgroup":{"zarr_format":2},"g/.zgroup":{"zarr_format":2}}}`)))
	g, err := zarr.OpenGroup(ctx, s, "")
	require.NoError(t, err)
	assert.Contains(t, g.Metadata().Consolidated, "g")
}

// A fill value that the codecs do not restore counts only for chunks that are not stored.
func TestFillValuesThatCodecsChangeAreReadAndNotCreated(t *testing.T) {
	for fill, codecs := range map[string]string{
		`"NaN"`: `{"name":"cast_value","configuration":{"data_type":"uint8","scalar_map":{"encode":[["NaN",1]]}}}`,
		`0.25`:  `{"name":"cast_value","configuration":{"data_type":"uint8"}}`,
		`1e38`:  `{"name":"cast_value","configuration":{"data_type":"uint8","out_of_range":"clamp"}}`,
	} {
		doc := parts{shape: "[4]", dtype: `"float32"`, grid: regular("[2]"), keys: `"default"`, fill: fill, codecs: "[" + codecs + `,"bytes"]`}.document()
		s := store.NewMemory()
		require.NoError(t, s.Set(ctx, "a/zarr.json", doc))
		require.NoError(t, s.Set(ctx, "a/c/0", []byte{7, 1}))
		a, err := zarr.Open(ctx, s, "a")
		require.NoError(t, err)
		got := readAs(t, a, []float32{}).([]float32)
		assert.Equal(t, []float32{7, 1}, got[:2])
		_, err = zarr.Create(ctx, s, "b", a.Metadata())
		assert.ErrorContains(t, err, "decodes to", fill)
		err = zarr.CreateHierarchy(ctx, s, "c", map[string]zarr.Node{"d": a.Metadata()})
		assert.ErrorContains(t, err, "decodes to", fill)
	}
	of := element.Of(ndview.Int64)
	m := &zarr.ArrayMetadata{Shape: []int64{1}, ChunkShape: []int64{1}, DataType: of, FillValue: []byte{0, 0, 0, 0, 0, 0, 0, 128}}
	m.Codecs = append(codec.List{codec.ScaleOffset{Offset: json.RawMessage("1")}}, zarr.DefaultCodecs(of)...)
	require.NoError(t, m.Check(), "other arrays may have it")
	_, err := zarr.Create(ctx, store.NewMemory(), "a", m)
	assert.ErrorContains(t, err, "fill value")
}
