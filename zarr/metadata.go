package zarr

import (
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

// Node is the metadata of a group or of an array: *GroupMetadata,
// *ArrayMetadata or, among the members of a group, *UnsupportedNode.
type Node interface {
	json.Marshaler
	node()
}

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

// fill is the fill value, set or not.
func (m *ArrayMetadata) fill() []byte {
	if m.FillValue == nil {
		return m.DataType.DefaultFill()
	}
	return m.FillValue
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

// Check answers an error unless the metadata is whole and fits together.
func (m *ArrayMetadata) Check() error {
	_, err := m.compile()
	return err
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

// ParseNode reads a metadata document of a group or of an array.
func ParseNode(raw []byte) (Node, error) { return parseNode(raw, 0) }

// parseNode reads one that is so deep in consolidated metadata.
func parseNode(raw []byte, depth int) (Node, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("metadata is not UTF-8")
	}
	o, err := metajson.ParseObject("metadata", raw)
	if err != nil {
		return nil, err
	}
	var format int
	if err := o.Need("zarr_format", &format); err != nil {
		return nil, err
	}
	if format != 3 {
		return nil, fmt.Errorf("zarr_format %d: %w", format, errors.ErrUnsupported)
	}
	var kind string
	if err := o.Need("node_type", &kind); err != nil {
		return nil, err
	}
	switch kind {
	case "array":
		return parseArray(o)
	case "group":
		return parseGroup(o, depth)
	default:
		return nil, fmt.Errorf(`node_type %q is neither "array" nor "group"`, kind)
	}
}

// ParseArray reads the metadata document of an array.
func ParseArray(raw []byte) (*ArrayMetadata, error) { return parseAs[*ArrayMetadata](raw) }

// ParseGroup reads the metadata document of a group.
func ParseGroup(raw []byte) (*GroupMetadata, error) { return parseAs[*GroupMetadata](raw) }

func parseAs[T Node](raw []byte) (T, error) {
	node, err := ParseNode(raw)
	if err != nil {
		var none T
		return none, err
	}
	return nodeAs[T](node)
}

// ErrNodeType: an array was expected where a group is, or a group where an
// array is; test with errors.Is.
var ErrNodeType = errors.New("node of another type")

func nodeAs[T Node](node Node) (T, error) {
	var none T
	switch n := node.(type) {
	case T:
		return n, nil
	case *UnsupportedNode:
		return none, n.Err
	default:
		return none, fmt.Errorf("%T where %T was expected: %w", node, none, ErrNodeType)
	}
}
