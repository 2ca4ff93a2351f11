package zarr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// ArrayMetadata is the metadata document of an array.
type ArrayMetadata struct {
	// Shape is the number of elements along each axis.
	Shape []int64
	// DataType is the type of the elements.
	DataType element.Type
	// ChunkShape is the shape of chunks, or of shards where Codecs has
	// Sharding: one extent an axis, at least 1.
	ChunkShape []int64
	// ChunkKeys says how chunks are named.
	ChunkKeys ChunkKeys
	// FillValue is one element, what chunks that are not stored consist of: its
	// bytes as an NDBuffer holds them, or a byte string. Nil means
	// DataType.DefaultFill.
	FillValue []byte
	// Codecs turn chunks into bytes. They must fit DataType; see
	// DefaultCodecs.
	Codecs codec.List
	// Attributes are the user's: anything that encoding/json writes. Numbers
	// are read as json.Number.
	Attributes map[string]any
	// DimensionNames are the names of the axes, "" for an axis without one, or
	// nil when none has one.
	DimensionNames []string
	// Extra are further keys of the document. Each value is an object with
	// "must_understand": false.
	Extra map[string]json.RawMessage
}

func (*ArrayMetadata) node() {}

// DefaultCodecs is the shortest codec list for elements of a type: the codec
// that turns them into bytes, followed by the given bytes-to-bytes codecs.
func DefaultCodecs(t element.Type, then ...codec.Codec) codec.List {
	var first codec.Codec
	switch {
	case t == element.String:
		first = codec.VLenUTF8{}
	case t == element.Bytes:
		first = codec.VLenBytes{}
	case t.Size() == 1:
		first = codec.Bytes{}
	default:
		first = codec.Bytes{Endian: codec.Little}
	}
	return append(codec.List{first}, then...)
}

// Check answers an error unless the metadata is whole and fits together.
func (m *ArrayMetadata) Check() error {
	_, err := m.compile()
	return err
}

// compile checks everything and makes the codecs ready.
func (m *ArrayMetadata) compile() (*codec.Chain, error) {
	if len(m.ChunkShape) != len(m.Shape) {
		return nil, fmt.Errorf("chunk shape %v for an array of shape %v", m.ChunkShape, m.Shape)
	}
	for i, d := range m.Shape {
		if d < 0 || d > math.MaxInt64-max(m.ChunkShape[i], 0) {
			return nil, fmt.Errorf("shape %v: extent %d is out of range", m.Shape, d)
		}
	}
	if m.DimensionNames != nil && len(m.DimensionNames) != len(m.Shape) {
		return nil, fmt.Errorf("%d dimension names for %d axes", len(m.DimensionNames), len(m.Shape))
	}
	for _, name := range m.DimensionNames {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("dimension name %q is not UTF-8", name)
		}
	}
	if err := checkExtra(m.Extra, arrayKeys); err != nil {
		return nil, err
	}
	if err := m.ChunkKeys.check(); err != nil {
		return nil, err
	}
	if err := m.DataType.CheckFill(m.fill()); err != nil {
		return nil, err
	}
	return m.Codecs.Compile(codec.Chunk{Type: m.DataType, Shape: slices.Clone(m.ChunkShape), Fill: slices.Clone(m.fill())})
}

// fill is the fill value, set or not.
func (m *ArrayMetadata) fill() []byte {
	if m.FillValue == nil {
		return m.DataType.DefaultFill()
	}
	return m.FillValue
}

// MarshalJSON writes the document, keys in the order of the specification.
func (m *ArrayMetadata) MarshalJSON() ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	fill, err := m.DataType.FormatFill(m.fill())
	if err != nil {
		return nil, err
	}
	doc := metajson.Members{
		{Key: "zarr_format", Value: 3},
		{Key: "node_type", Value: "array"},
		{Key: "shape", Value: metajson.List(m.Shape)},
		{Key: "data_type", Value: m.DataType},
		{Key: "chunk_grid", Value: metajson.Named("regular", metajson.Members{{Key: "chunk_shape", Value: metajson.List(m.ChunkShape)}})},
		{Key: "chunk_key_encoding", Value: m.ChunkKeys},
		{Key: "fill_value", Value: fill},
		{Key: "codecs", Value: m.Codecs},
		{Key: "attributes", Value: attributes(m.Attributes)},
	}
	if m.DimensionNames != nil {
		names := make([]any, len(m.DimensionNames))
		for i, name := range m.DimensionNames {
			if name != "" {
				names[i] = name
			}
		}
		doc = append(doc, metajson.Member{Key: "dimension_names", Value: names})
	}
	return append(doc, extra(m.Extra)...).MarshalJSON()
}

// arrayKeys are the keys that an array's document can have.
var arrayKeys = []string{"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding",
	"fill_value", "codecs", "attributes", "dimension_names", "storage_transformers"}

func parseArray(o *metajson.Object) (*ArrayMetadata, error) {
	m := new(ArrayMetadata)
	var transformers []json.RawMessage
	if _, err := o.Maybe("storage_transformers", &transformers); err != nil {
		return nil, err
	}
	if len(transformers) > 0 {
		return nil, fmt.Errorf("storage_transformers: %w", errors.ErrUnsupported)
	}
	var chunkGrid, fill json.RawMessage
	for _, field := range []struct {
		key string
		dst any
	}{
		{"shape", &m.Shape},
		{"data_type", &m.DataType},
		{"chunk_grid", &chunkGrid},
		{"chunk_key_encoding", &m.ChunkKeys},
		{"fill_value", &fill},
		{"codecs", &m.Codecs},
	} {
		if err := o.Need(field.key, field.dst); err != nil {
			return nil, err
		}
	}
	var err error
	if m.ChunkShape, err = parseGrid(chunkGrid); err != nil {
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
	m.Extra = rest(o)
	return m, m.Check()
}

func parseGrid(raw json.RawMessage) ([]int64, error) {
	ext, err := metajson.ParseExtension("chunk_grid", raw)
	if err != nil {
		return nil, err
	}
	if !ext.MustUnderstand {
		return nil, fmt.Errorf("chunk_grid %q: must_understand cannot be false", ext.Name)
	}
	if ext.Name != "regular" {
		return nil, fmt.Errorf("chunk_grid %q: %w", ext.Name, errors.ErrUnsupported)
	}
	var shape []int64
	if err := ext.Config.Need("chunk_shape", &shape); err != nil {
		return nil, err
	}
	return shape, ext.Config.Done()
}

// parseNames takes null, which zarr-python has written, for no names at all.
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

// parseAttributes gives a map even where there is none in the document.
func parseAttributes(o *metajson.Object) (map[string]any, error) {
	attributes := map[string]any{}
	_, err := o.Maybe("attributes", &attributes)
	return attributes, err
}

// rest is what nobody took, each value on one line.
func rest(o *metajson.Object) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	for _, key := range o.Keys() {
		raw, _ := o.Take(key)
		var line bytes.Buffer
		_ = json.Compact(&line, raw) // it was parsed before
		if fields == nil {
			fields = map[string]json.RawMessage{}
		}
		fields[key] = line.Bytes()
	}
	return fields
}

// attributes are written even where there are none: {}, never null.
func attributes(a map[string]any) map[string]any {
	if a == nil {
		return map[string]any{}
	}
	return a
}

func extra(fields map[string]json.RawMessage) metajson.Members {
	var m metajson.Members
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		m = append(m, metajson.Member{Key: key, Value: fields[key]})
	}
	return m
}

// checkExtra: keys that the specification does not know must say that they need
// not be understood.
func checkExtra(fields map[string]json.RawMessage, known []string) error {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if slices.Contains(known, key) {
			return fmt.Errorf("key %q cannot be an extra one", key)
		}
		o, err := metajson.ParseObject(fmt.Sprintf("unknown key %q", key), fields[key])
		if err != nil {
			return err
		}
		must := true
		if _, err := o.Maybe("must_understand", &must); err != nil {
			return err
		}
		if must {
			return fmt.Errorf(`unknown key %q, without "must_understand": false: %w`, key, errors.ErrUnsupported)
		}
	}
	return nil
}

// ChunkKeys says how the key of a chunk is made of its place in the grid. The
// zero value is the usual "c/0/1".
type ChunkKeys struct {
	// V2 leaves out the "c", as Zarr v2 does: "0.1".
	V2 bool
	// Separator is "/" or "."; empty for the default, which is "." with V2 and
	// "/" without.
	Separator string
}

// Key is the key of a chunk, below that of the array.
func (k ChunkKeys) Key(index []int64) string {
	separator := k.separator()
	key := make([]byte, 0, 16)
	if !k.V2 {
		key = append(key, 'c')
	} else if len(index) == 0 {
		return "0"
	}
	for i, n := range index {
		if i > 0 || !k.V2 {
			key = append(key, separator...)
		}
		key = strconv.AppendInt(key, n, 10)
	}
	return string(key)
}

func (k ChunkKeys) separator() string {
	switch {
	case k.Separator != "":
		return k.Separator
	case k.V2:
		return "."
	default:
		return "/"
	}
}

func (k ChunkKeys) check() error {
	if s := k.separator(); s != "/" && s != "." {
		return fmt.Errorf(`chunk_key_encoding: separator %q is neither "/" nor "."`, s)
	}
	return nil
}

// MarshalJSON writes the chunk_key_encoding of metadata.
func (k ChunkKeys) MarshalJSON() ([]byte, error) {
	name := "default"
	if k.V2 {
		name = "v2"
	}
	return metajson.Named(name, metajson.Members{{Key: "separator", Value: k.separator()}}).MarshalJSON()
}

// UnmarshalJSON reads the chunk_key_encoding of metadata.
func (k *ChunkKeys) UnmarshalJSON(raw []byte) error {
	ext, err := metajson.ParseExtension("chunk_key_encoding", raw)
	if err != nil {
		return err
	}
	if !ext.MustUnderstand {
		return fmt.Errorf("chunk_key_encoding %q: must_understand cannot be false", ext.Name)
	}
	if ext.Name != "default" && ext.Name != "v2" {
		return fmt.Errorf("chunk_key_encoding %q: %w", ext.Name, errors.ErrUnsupported)
	}
	*k = ChunkKeys{V2: ext.Name == "v2"}
	given, err := ext.Config.Maybe("separator", &k.Separator)
	if err != nil {
		return err
	}
	if given && k.Separator == "" {
		return errors.New(`chunk_key_encoding: separator "" is neither "/" nor "."`)
	}
	if err := ext.Config.Done(); err != nil {
		return err
	}
	k.Separator = k.separator()
	return k.check()
}
