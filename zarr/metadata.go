package zarr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// ArrayMetadata is the metadata of an array: the zarr.json document of Zarr v3 (Zarr core
// 3.1, "Array metadata"), or the .zarray and .zattrs documents of Zarr v2.
type ArrayMetadata struct {
	// Format is the version of Zarr: 2, 3, or 0 for 3. Version 2 needs ChunkKeyEncoding
	// "v2" and lacks rectilinear grids, sharding, Extra and some types and codecs.
	// DimensionNames are its attribute _ARRAY_DIMENSIONS, as in xarray.
	Format int
	// Shape is the number of elements along each axis.
	Shape []int64
	// DataType is the type of the elements.
	DataType element.Type
	// ChunkShape is the shape of a chunk, or of a shard if Codecs contains
	// codec.Sharding. It has one extent of at least 1 per axis.
	ChunkShape []int64
	// ChunkRuns makes the chunk grid rectilinear: the extents of the chunks along each
	// axis, nil for an axis whose chunks all have the extent in ChunkShape. For other
	// axes ChunkShape has the largest extent. Nil means a regular grid.
	ChunkRuns [][]ChunkRun
	// ChunkKeyEncoding determines the store keys of chunks.
	ChunkKeyEncoding ChunkKeyEncoding
	// FillValue is the value of all elements of chunks that are not stored. It is one
	// element as an NDBuffer holds it, or a byte string. Nil means
	// DataType.DefaultFill. Zarr v2 stores nil as null.
	FillValue []byte
	// Codecs convert chunks to bytes and must fit DataType; see [DefaultCodecs].
	Codecs codec.List
	// Attributes are user data that encoding/json can encode. Numbers are decoded as
	// json.Number. The bare words NaN and Infinity, which Python writes, are decoded as
	// float64. Such floats are written as the strings "NaN", "Infinity" and "-Infinity",
	// since strict readers refuse a document with the words.
	Attributes map[string]any
	// DimensionNames has one name per axis, "" for an unnamed axis. Nil means that no
	// axis has a name.
	DimensionNames []string
	// Extra holds unknown members of the document. Each value is a JSON object with
	// "must_understand": false.
	Extra map[string]json.RawMessage
}

func (*ArrayMetadata) node() {}

// DefaultCodecs returns the shortest codec list for elements of type t: the serializer
// followed by the given bytes-to-bytes codecs.
func DefaultCodecs(t element.Type, then ...codec.Codec) codec.List {
	var first codec.Codec
	switch {
	case t == element.String:
		first = codec.VLenUTF8{}
	case t == element.Bytes:
		first = codec.VLenBytes{}
	case t.HasByteOrder():
		first = codec.Bytes{Endian: codec.Little}
	default:
		first = codec.Bytes{}
	}
	return append(codec.List{first}, then...)
}

// Check returns an error unless the metadata is complete and consistent.
func (m *ArrayMetadata) Check() error {
	_, err := m.compile()
	return err
}

// compile validates the metadata and returns its codec chain.
func (m *ArrayMetadata) compile() (*codec.Chain, error) {
	if len(m.ChunkShape) != len(m.Shape) {
		return nil, fmt.Errorf("chunk shape %v does not fit array shape %v", m.ChunkShape, m.Shape)
	}
	for i, d := range m.Shape {
		if d < 0 || d > math.MaxInt64-max(m.ChunkShape[i], 0) {
			return nil, fmt.Errorf("shape %v: extent %d is out of range", m.Shape, d)
		}
	}
	if err := checkFormat(m.Format); err != nil {
		return nil, err
	}
	if m.DimensionNames != nil && len(m.DimensionNames) != len(m.Shape) {
		return nil, fmt.Errorf("%d dimension names, want %d", len(m.DimensionNames), len(m.Shape))
	}
	for _, name := range m.DimensionNames {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("dimension name %q is not UTF-8", name)
		}
	}
	if err := checkExtra(m.Extra, arrayKeys); err != nil {
		return nil, err
	}
	if err := m.ChunkKeyEncoding.check(); err != nil {
		return nil, err
	}
	if err := m.DataType.CheckFill(m.fillValue()); err != nil {
		return nil, err
	}
	if _, err := m.grid(); err != nil {
		return nil, err
	}
	if m.Format == 2 {
		if err := m.checkV2(); err != nil {
			return nil, err
		}
	}
	if err := m.checkChunks(); err != nil {
		return nil, err
	}
	return m.compileFor(m.ChunkShape)
}

// fillValue returns FillValue, or the default fill value if that is nil.
func (m *ArrayMetadata) fillValue() []byte {
	if m.FillValue == nil {
		return m.DataType.DefaultFill()
	}
	return m.FillValue
}

// MarshalJSON writes the document with its members in the order of the specification.
// That of Zarr v2 is .zarray, which has no attributes.
func (m *ArrayMetadata) MarshalJSON() ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if m.Format == 2 {
		return m.marshalV2()
	}
	fill, err := m.DataType.FormatFill(m.fillValue())
	if err != nil {
		return nil, err
	}
	doc := metajson.Members{
		{Key: "zarr_format", Value: 3},
		{Key: "node_type", Value: "array"},
		{Key: "shape", Value: metajson.NonNil(m.Shape)},
		{Key: "data_type", Value: m.DataType},
		{Key: "chunk_grid", Value: formatGrid(m.ChunkShape, m.ChunkRuns)},
		{Key: "chunk_key_encoding", Value: m.ChunkKeyEncoding},
		{Key: "fill_value", Value: fill},
		{Key: "codecs", Value: m.Codecs},
		{Key: "attributes", Value: encodableAttributes(m.Attributes)},
	}
	if m.DimensionNames != nil {
		doc = append(doc, metajson.Member{Key: "dimension_names", Value: namesOrNull(m.DimensionNames)})
	}
	return append(doc, extraMembers(m.Extra)...).MarshalJSON()
}

// namesOrNull returns dimension names with nil for unnamed axes.
func namesOrNull(names []string) []any {
	out := make([]any, len(names))
	for i, name := range names {
		if name != "" {
			out[i] = name
		}
	}
	return out
}

// arrayKeys are the members that the specification defines for an array.
var arrayKeys = []string{"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding",
	"fill_value", "codecs", "attributes", "dimension_names", "storage_transformers"}

func parseArray(o *metajson.Object) (*ArrayMetadata, error) {
	m := &ArrayMetadata{Format: 3}
	if err := checkTransformers(o); err != nil {
		return nil, err
	}
	var chunkGrid, fill json.RawMessage
	for _, field := range []struct {
		key string
		dst any
	}{
		{"shape", &m.Shape},
		{"data_type", &m.DataType},
		{"chunk_grid", &chunkGrid},
		{"chunk_key_encoding", &m.ChunkKeyEncoding},
		{"fill_value", &fill},
		{"codecs", &m.Codecs},
	} {
		if err := o.DecodeRequired(field.key, field.dst); err != nil {
			return nil, err
		}
	}
	var err error
	if m.ChunkShape, m.ChunkRuns, err = parseGrid(chunkGrid); err != nil {
		return nil, err
	}
	if m.FillValue, err = m.DataType.ParseFill(fill); err != nil {
		return nil, err
	}
	if m.Attributes, err = parseAttributes(o); err != nil {
		return nil, err
	}
	if m.DimensionNames, err = parseNames(o); err != nil {
		return nil, err
	}
	m.Extra = takeExtra(o)
	return m, m.Check()
}

// checkTransformers accepts an empty list and null, which some writers store. No
// storage transformer is registered.
func checkTransformers(o *metajson.Object) error {
	raw, ok := o.Take("storage_transformers")
	if !ok || string(raw) == "null" {
		return nil
	}
	var transformers []json.RawMessage
	if err := metajson.Decode("storage_transformers", raw, &transformers); err != nil {
		return err
	}
	if len(transformers) > 0 {
		return fmt.Errorf("storage_transformers %s: %w", metajson.Excerpt(raw), errors.ErrUnsupported)
	}
	return nil
}

// parseNames treats null as no names, since zarr-python has written it.
func parseNames(o *metajson.Object) ([]string, error) {
	raw, ok := o.Take("dimension_names")
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	var given []*string
	if err := metajson.Decode("dimension_names", raw, &given); err != nil {
		return nil, err
	}
	names := make([]string, len(given))
	for i, name := range given {
		if name != nil {
			names[i] = *name
		}
	}
	return names, nil
}

// parseAttributes returns a non-nil map even if the document has no attributes, or
// null.
func parseAttributes(o *metajson.Object) (map[string]any, error) {
	raw, ok := o.Take("attributes")
	if !ok {
		return map[string]any{}, nil
	}
	return decodeAttributes(raw)
}

func decodeAttributes(raw json.RawMessage) (map[string]any, error) {
	attributes := map[string]any{}
	if string(bytes.TrimSpace(raw)) == "null" {
		return attributes, nil
	}
	err := metajson.Decode("attributes", raw, &attributes)
	metajson.DecodeNonFinite(attributes)
	return attributes, err
}

// takeExtra returns the remaining members, each value on one line.
func takeExtra(o *metajson.Object) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	for _, key := range o.Keys() {
		raw, _ := o.Take(key)
		var line bytes.Buffer
		_ = json.Compact(&line, metajson.Restore(raw)) // cannot fail: raw is valid JSON
		if fields == nil {
			fields = map[string]json.RawMessage{}
		}
		fields[key] = line.Bytes()
	}
	return fields
}

// encodableAttributes makes empty attributes encode as {} instead of null, and floats
// that JSON lacks as strings.
func encodableAttributes(a map[string]any) any {
	if a == nil {
		return map[string]any{}
	}
	return metajson.EncodeNonFinite(a)
}

// extraMembers returns the fields sorted by key.
func extraMembers(fields map[string]json.RawMessage) metajson.Members {
	var m metajson.Members
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		m = append(m, metajson.Member{Key: key, Value: fields[key]})
	}
	return m
}

// checkExtra returns an error unless every unknown member says that it need not be
// understood (Zarr core 3.1, "Extension points").
func checkExtra(fields map[string]json.RawMessage, known []string) error {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if slices.Contains(known, key) {
			return fmt.Errorf("extra key %q is a key of the specification", key)
		}
		o, err := metajson.ParseObject(fmt.Sprintf("unknown key %q", key), fields[key])
		if err != nil {
			return err
		}
		must := true
		if _, err := o.DecodeOptional("must_understand", &must); err != nil {
			return err
		}
		if must {
			return fmt.Errorf(`unknown key %q, without "must_understand": false: %w`, key, errors.ErrUnsupported)
		}
	}
	return nil
}
