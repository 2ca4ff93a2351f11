package zarr_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// v2Ints returns the metadata of an int32 array of Zarr v2.
func v2Ints(shape, chunk []int64, then ...codec.Codec) *zarr.ArrayMetadata {
	m := ints(shape, chunk, then...)
	m.Format, m.ChunkKeyEncoding = 2, zarr.ChunkKeyEncoding{V2: true}
	return m
}

// normalV2 returns a .zarray document with its optional members, as this package writes
// them. Unset and empty members mean the same.
func normalV2(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var doc map[string]any
	require.NoError(t, json.Unmarshal(raw, &doc))
	if _, isArray := doc["shape"]; isArray {
		if doc["dimension_separator"] == nil {
			doc["dimension_separator"] = "."
		}
		if list, ok := doc["filters"].([]any); ok && len(list) == 0 {
			doc["filters"] = nil
		}
		filters, _ := doc["filters"].([]any)
		for _, filter := range filters {
			if f := filter.(map[string]any); f["id"] == "delta" && f["astype"] == nil {
				f["astype"] = f["dtype"]
			}
		}
		if len(doc["shape"].([]any)) < 2 {
			doc["order"] = "C" // the same as "F"
		}
	}
	return doc
}

func TestValidV2DocumentsKeepTheirMeaning(t *testing.T) {
	root := sharedData(t, "zarr-metadata", "v2")
	seen := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		seen++
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		name, _ := filepath.Rel(root, path)
		node, err := zarr.ParseNode(raw)
		require.NoError(t, err, name)
		written, err := json.Marshal(node)
		require.NoError(t, err, name)
		want, got := normalV2(t, raw), normalV2(t, written)
		if strings.HasPrefix(name, "consolidated") {
			back, err := zarr.ParseNode(written)
			require.NoError(t, err)
			assert.Equal(t, node, back)
			return nil
		}
		if name == "array/structured_dtype.json" {
			want["fill_value"] = strings.Repeat("A", 27) + "=" // the number 0 in base64 of the record
		}
		assert.Equal(t, want, got, name)
		return nil
	}))
	assert.Equal(t, 7, seen)
	raw, err := os.ReadFile(filepath.Join(root, "consolidated", "with_array_and_group.json"))
	require.NoError(t, err)
	g, err := zarr.ParseGroup(raw)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"description": "root group attrs"}, g.Attributes)
	assert.Equal(t, map[string]any{"units": "meters"}, g.Consolidated["data"].(*zarr.ArrayMetadata).Attributes)
}

func TestV2ArraysOfEveryTypeRoundTrip(t *testing.T) {
	types := append([]element.Type{}, fixedTypes...)
	sub, err := element.Struct(element.Field{Name: "a", Type: element.Of(ndview.Uint16), Shape: []int64{2, 2}}, element.Field{Name: "b", Type: element.Of(ndview.Bool)})
	require.NoError(t, err)
	for _, of := range append(types, sub) {
		if strings.HasPrefix(of.String(), "complex_") {
			continue // Zarr v2 has no name for it
		}
		for _, endian := range []codec.Endian{codec.Little, codec.Big} {
			for _, order := range []string{"C", "F"} {
				t.Run(of.String()+" "+string(endian)+" "+order, func(t *testing.T) { roundTripV2(t, of, endian, order) })
			}
		}
	}
}

func roundTripV2(t *testing.T, of element.Type, endian codec.Endian, order string) {
	t.Helper()
	if !of.HasByteOrder() {
		endian = ""
	}
	if of == element.Of(ndview.BFloat16) && endian == codec.Big {
		return // has no name
	}
	codecs := codec.List{codec.Bytes{Endian: endian}, codec.Zstd{}}
	if order == "F" {
		codecs = append(codec.List{codec.Transpose{Order: []int{1, 0}}}, codecs...)
	}
	fill := bytes.Repeat([]byte{1}, int(of.Size()))
	if !of.IsStruct() {
		fill = someFill(t, of)
	}
	s := store.NewMemory()
	meta := &zarr.ArrayMetadata{Format: 2, Shape: []int64{5, 7}, ChunkShape: []int64{2, 3}, DataType: of, FillValue: fill, Codecs: codecs,
		ChunkKeyEncoding: zarr.ChunkKeyEncoding{V2: true}, DimensionNames: []string{"y", "x"}, Attributes: map[string]any{"units": "m"}}
	a := create(t, s, "g/a", meta)
	want := randomElements(meta.Shape, meta.ChunkShape, fill)
	of.Normalize(want)
	dtype, _ := of.DType()
	require.NoError(t, a.Write(ctx, onDevice(t, arrowbuf.CPU(), dtype, want, meta.Shape), 2))

	back, err := zarr.Open(ctx, s, "g/a")
	require.NoError(t, err)
	got, err := back.Read(ctx, zarr.Prototype{}, 2)
	require.NoError(t, err)
	defer got.Release()
	assert.Equal(t, want, bytesOf(t, got))
	m := back.Metadata()
	assert.Equal(t, 2, m.Format)
	if of == element.RawBytes(5) { // Zarr v2 has one type of raw bytes
		of = element.Of(ndview.Bytes(5))
	}
	assert.True(t, m.DataType == of)
	assert.Equal(t, fill, m.FillValue)
	assert.Equal(t, meta.DimensionNames, m.DimensionNames)
	assert.Equal(t, meta.Attributes, m.Attributes)
	keys := keysOf(t, s)
	assert.Contains(t, keys, "g/a/.zarray")
	assert.Contains(t, keys, "g/a/.zattrs")
	assert.Contains(t, keys, "g/a/2.1")
	assert.NotContains(t, keys, "g/a/zarr.json")
	assert.NotContains(t, keys, "g/a/0.0", "a chunk of fill values is not stored")
}

func TestV2StringsRoundTrip(t *testing.T) {
	s := store.NewMemory()
	meta := &zarr.ArrayMetadata{Format: 2, Shape: []int64{3}, ChunkShape: []int64{2}, DataType: element.String, FillValue: []byte("none"),
		Codecs: zarr.DefaultCodecs(element.String, codec.Zstd{}), ChunkKeyEncoding: zarr.ChunkKeyEncoding{V2: true, Separator: "/"}}
	a := create(t, s, "a", meta)
	v, err := element.PackVLen([]string{"a", "é", ""}, 3)
	require.NoError(t, err)
	require.NoError(t, a.Write(ctx, v, 1))
	raw, err := s.Get(ctx, "a/.zarray", store.Range{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"shape":[3],"chunks":[2],"dtype":"|O","fill_value":"none","order":"C","filters":[{"id":"vlen-utf8"}],
		"dimension_separator":"/","compressor":{"id":"zstd","level":0},"zarr_format":2}`, string(raw))
	back, err := zarr.Open(ctx, s, "a")
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "é", ""}, readAs(t, back, []string{}))
}

func TestV2MetadataThatV2LacksIsAnError(t *testing.T) {
	for want, change := range map[string]func(*zarr.ArrayMetadata){
		"key encoding": func(m *zarr.ArrayMetadata) { m.ChunkKeyEncoding = zarr.ChunkKeyEncoding{} },
		"rectilinear":  func(m *zarr.ArrayMetadata) { m.ChunkRuns = [][]zarr.ChunkRun{nil} },
		"extra": func(m *zarr.ArrayMetadata) {
			m.Extra = map[string]json.RawMessage{"x": []byte(`{"must_understand":false}`)}
		},
		"sharding_indexed": func(m *zarr.ArrayMetadata) {
			m.Codecs = codec.List{codec.Sharding{ChunkShape: []int64{1}, Codecs: m.Codecs}}
		},
		"complex_float16": func(m *zarr.ArrayMetadata) { m.DataType = element.Complex(element.Of(ndview.Float16)) },
	} {
		m := v2Ints([]int64{4}, []int64{2})
		require.NoError(t, m.Check())
		change(m)
		err := m.Check()
		assert.ErrorIs(t, err, errors.ErrUnsupported, want)
		assert.ErrorContains(t, err, want)
	}
	m := ints([]int64{4}, []int64{2})
	m.Format = 1
	assert.ErrorContains(t, m.Check(), "format 1")
	_, err := json.Marshal(&zarr.GroupMetadata{Format: 4})
	assert.ErrorContains(t, err, "format 4")
}

func TestMalformedV2DocumentsAreErrors(t *testing.T) {
	good := `{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"<i4","compressor":null,"fill_value":0,"order":"C","filters":null,"other":1}`
	_, err := zarr.ParseArray([]byte(good))
	require.NoError(t, err)
	for _, c := range [][3]string{
		{`"shape":[4]`, `"shape":[-4]`, "shape"}, {`"shape":[4]`, `"shape":[4,4]`, "chunk shape"}, {`"chunks":[2]`, `"chunks":null`, "chunks"}, {`"chunks":[2]`, `"chunk":[2]`, "chunks"},
		{`"chunks":[2]`, `"chunks":[0]`, "at least 1"}, {`"dtype":"<i4"`, `"dtype":"<i3"`, "<i3"}, {`"dtype":"<i4",`, ``, "dtype"}, {`"dtype":"<i4"`, `"dtype":"|O"`, "objects"},
		{`"fill_value":0`, `"fill_value":"x"`, "fill_value"}, {`"order":"C"`, `"order":"D"`, "order"}, {`"filters":null`, `"filters":3`, "filters"},
		{`"filters":null`, `"filters":[{"id":"unknown"}]`, "unknown"}, {`"compressor":null`, `"compressor":{}`, "id"}, {`"compressor":null`, `"compressor":"zlib"`, "compressor"},
		{`"filters":null`, `"filters":[{"id":"pickle"}]`, "pickle"},
		{`"other":1`, `"dimension_separator":"_"`, "_"}, {`"other":1`, `"dimension_separator":""`, "dimension_separator"},
	} {
		doc := strings.Replace(good, c[0], c[1], 1)
		require.NotEqual(t, good, doc)
		_, err := zarr.ParseArray([]byte(doc))
		require.Error(t, err, doc)
		assert.ErrorContains(t, err, c[2], doc)
	}
	for doc, want := range map[string]string{
		`{"zarr_consolidated_format":2,"metadata":{}}`: "zarr_consolidated_format 2", `{"zarr_consolidated_format":1}`: "metadata",
		`{"zarr_consolidated_format":1,"metadata":[]}`: "JSON object", `{"zarr_consolidated_format":1,"metadata":{"a//b/.zarray":{}}}`: "empty",
		`{"zarr_consolidated_format":1,"metadata":{".zattrs":3}}`: ".zattrs",
	} {
		_, err := zarr.ParseNode([]byte(doc))
		assert.ErrorContains(t, err, want, doc)
	}
}

// v2Hierarchy is a hierarchy of Zarr v2 with one broken member.
func v2Hierarchy(t *testing.T) *store.Memory {
	t.Helper()
	s := store.NewMemory()
	for _, path := range []string{"", "inner"} {
		_, err := zarr.CreateGroup(ctx, s, path, &zarr.GroupMetadata{Format: 2, Attributes: map[string]any{"path": path}})
		require.NoError(t, err)
	}
	create(t, s, "b", v2Ints([]int64{2}, []int64{1}))
	deep := v2Ints([]int64{2}, []int64{1}, codec.Zstd{})
	deep.DimensionNames = []string{"t"}
	create(t, s, "inner/x", deep)
	require.NoError(t, s.Set(ctx, "broken/.zarray", []byte(`{"zarr_format":2}`)))
	return s
}

func TestV2HierarchiesAreReadAndConsolidated(t *testing.T) {
	s := v2Hierarchy(t)
	for _, consolidated := range []bool{false, true} {
		g, err := zarr.OpenGroup(ctx, s, "")
		require.NoError(t, err)
		if consolidated {
			require.NoError(t, g.Consolidate(ctx))
			assert.Contains(t, keysOf(t, s), ".zmetadata")
			g, err = zarr.OpenGroup(ctx, s, "")
			require.NoError(t, err)
			require.Len(t, g.Metadata().Consolidated, 4)
		}
		assert.Equal(t, 2, g.Metadata().Format)
		children, err := g.Children(ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{"b", "broken", "inner"}, names(children))
		require.IsType(t, &zarr.UnreadableNode{}, children[1].Node)
		assert.ErrorContains(t, children[1].Node.(*zarr.UnreadableNode).Err, "shape")
		inner, err := g.OpenGroup(ctx, "inner")
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"path": "inner"}, inner.Metadata().Attributes)
		a, err := inner.OpenArray(ctx, "x")
		require.NoError(t, err)
		assert.Equal(t, []string{"t"}, a.Metadata().DimensionNames)
		assert.Empty(t, a.Metadata().Attributes)
	}
	raw, err := s.Get(ctx, ".zmetadata", store.Range{})
	require.NoError(t, err)
	var doc struct {
		Metadata map[string]json.RawMessage
		Format   int `json:"zarr_consolidated_format"`
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	assert.Equal(t, 1, doc.Format)
	assert.JSONEq(t, `{"_ARRAY_DIMENSIONS":["t"]}`, string(doc.Metadata["inner/x/.zattrs"]))
	assert.JSONEq(t, `{"zarr_format":2}`, string(doc.Metadata[".zgroup"]))
	assert.JSONEq(t, `{"path":"inner"}`, string(doc.Metadata["inner/.zattrs"]))
}

func TestNodesOfBothVersionsAreFound(t *testing.T) {
	s := v2Hierarchy(t)
	create(t, s, "v3", ints([]int64{2}, []int64{1}))
	g, err := zarr.OpenGroup(ctx, s, "")
	require.NoError(t, err)
	children, err := g.Children(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{"b", "broken", "inner", "v3"}, names(children))
	assert.Equal(t, 3, children[3].Node.(*zarr.ArrayMetadata).Format)
	err = g.Consolidate(ctx)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorContains(t, err, "v3")

	// Zarr v3 wins where both versions are.
	both, err := json.Marshal(&zarr.GroupMetadata{})
	require.NoError(t, err)
	require.NoError(t, s.Set(ctx, "b/zarr.json", both))
	_, err = zarr.Open(ctx, s, "b")
	assert.ErrorIs(t, err, zarr.ErrNodeType)

	_, err = zarr.OpenGroup(ctx, s, "absent")
	assert.ErrorIs(t, err, store.ErrNotFound)
	for _, malformed := range []string{"[]", "{", "{} {}", "{\"a\":\"\xff\"}"} {
		require.NoError(t, s.Set(ctx, "inner/.zattrs", []byte(malformed)))
		_, err = zarr.OpenGroup(ctx, s, "inner")
		assert.ErrorContains(t, err, ".zattrs", malformed)
	}
	for _, malformed := range []string{"x", `{"zarr_format":2}`, `{"zarr_format":3,"node_type":"group"}`} {
		require.NoError(t, s.Set(ctx, "inner/.zmetadata", []byte(malformed)))
		_, err = zarr.OpenGroup(ctx, s, "inner")
		assert.ErrorContains(t, err, ".zmetadata", malformed)
	}
	require.NoError(t, s.Delete(ctx, "inner/.zmetadata"))
	require.NoError(t, s.Set(ctx, "inner/.zattrs", []byte("null")))
	_, err = zarr.OpenGroup(ctx, s, "inner")
	assert.NoError(t, err)
}

func TestDimensionNamesThatDoNotFitStayAttributes(t *testing.T) {
	s := v2Hierarchy(t)
	for _, attribute := range []string{`["a","b"]`, `"a"`, `[1]`} {
		require.NoError(t, s.Set(ctx, "b/.zattrs", []byte(`{"_ARRAY_DIMENSIONS":`+attribute+`}`)))
		a, err := zarr.Open(ctx, s, "b")
		require.NoError(t, err)
		assert.Nil(t, a.Metadata().DimensionNames)
		assert.Contains(t, a.Metadata().Attributes, "_ARRAY_DIMENSIONS")
	}
}

// A short document must not claim much memory.
func TestFillValuesOfConsolidatedMetadataAreBounded(t *testing.T) {
	v3 := parts{shape: "[1]", dtype: `{"name":"null_terminated_bytes","configuration":{"length_bytes":1048576}}`, grid: regular("[1]"), keys: `"default"`, fill: `""`, codecs: `["bytes"]`}.document()
	v2 := []byte(`{"zarr_format":2,"shape":[1],"chunks":[1],"dtype":"|S1048576","compressor":null,"fill_value":"","order":"C","filters":null}`)
	for _, c := range []struct {
		doc          []byte
		start, after string
	}{{v3, `{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline","metadata":{`, `}}}`}, {v2, `{"zarr_consolidated_format":1,"metadata":{`, `}}`}} {
		var members []string
		for i := range 40 {
			key := strconv.Itoa(i)
			if c.doc[15] == '2' {
				key += "/.zarray"
			}
			members = append(members, strconv.Quote(key)+":"+string(c.doc))
		}
		g, err := zarr.ParseGroup([]byte(c.start + strings.Join(members, ",") + c.after))
		require.NoError(t, err)
		readable := 0
		for _, node := range g.Consolidated {
			if broken, ok := node.(*zarr.UnreadableNode); ok {
				assert.ErrorContains(t, broken.Err, "fill values")
			} else {
				readable++
			}
		}
		assert.Equal(t, 16, readable)
		assert.Len(t, g.Consolidated, 40)
		_, err = json.Marshal(g)
		assert.NoError(t, err)
	}
}
