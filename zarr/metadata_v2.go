package zarr

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Keys of the documents of Zarr v2 relative to the path of their node.
const (
	v2ArrayKey        = ".zarray"
	v2GroupKey        = ".zgroup"
	v2AttributesKey   = ".zattrs"
	v2ConsolidatedKey = ".zmetadata"
)

// dimensionsAttribute is the attribute in which xarray stores dimension names, for which
// Zarr v2 has no member.
const dimensionsAttribute = "_ARRAY_DIMENSIONS"

// parseV2Array parses a .zarray document. Attributes stand in another one; see
// setV2Attributes.
func parseV2Array(o *metajson.Object) (*ArrayMetadata, error) {
	m := &ArrayMetadata{Format: 2, Attributes: map[string]any{}}
	var encoding codec.V2
	var format, fill json.RawMessage
	for _, field := range []struct {
		key string
		dst any
	}{{"shape", &m.Shape}, {"chunks", &m.ChunkShape}, {"dtype", &format}, {"order", &encoding.Order}} {
		if err := o.DecodeRequired(field.key, field.dst); err != nil {
			return nil, err
		}
	}
	encoding.Filters, _ = o.Take("filters")
	encoding.Compressor, _ = o.Take("compressor")
	fill, _ = o.Take("fill_value")
	m.ChunkKeyEncoding = ChunkKeyEncoding{V2: true, Separator: "."}
	if raw, ok := o.Take("dimension_separator"); ok && string(raw) != "null" {
		if err := metajson.Decode("dimension_separator", raw, &m.ChunkKeyEncoding.Separator); err != nil {
			return nil, err
		}
		if m.ChunkKeyEncoding.Separator == "" {
			return nil, errors.New(`dimension_separator "" is neither "/" nor "."`)
		}
	}
	var order ndview.ByteOrder
	var err error
	if m.DataType, order, err = element.ParseV2(format); errors.Is(err, element.ErrObject) {
		m.DataType, err = codec.V2ObjectType(encoding.Filters)
	}
	if err != nil {
		return nil, err
	}
	if len(fill) > 0 && string(fill) != "null" {
		if m.FillValue, err = m.DataType.ParseV2Fill(fill, order); err != nil {
			return nil, err
		}
	}
	for i, extent := range m.ChunkShape {
		if extent == 0 && i < len(m.Shape) && m.Shape[i] == 0 { // zarr-python 2 wrote this
			m.ChunkShape[i] = 1
		}
	}
	encoding.Endian = endianOf(order)
	if m.Codecs, err = encoding.List(m.DataType, len(m.Shape)); err != nil {
		return nil, err
	}
	return m, m.Check()
}

func endianOf(order ndview.ByteOrder) codec.Endian {
	switch order {
	case dtype.LittleEndian:
		return codec.Little
	case dtype.BigEndian:
		return codec.Big
	default:
		return ""
	}
}

func byteOrderOf(endian codec.Endian) ndview.ByteOrder {
	if endian == codec.Big {
		return dtype.BigEndian
	}
	return dtype.LittleEndian
}

// checkV2 returns an error unless Zarr v2 has everything that the metadata uses.
func (m *ArrayMetadata) checkV2() error {
	switch {
	case m.ChunkRuns != nil:
		return fmt.Errorf("a rectilinear chunk grid: %w in Zarr v2", errors.ErrUnsupported)
	case !m.ChunkKeyEncoding.V2 || m.ChunkKeyEncoding.Suffix != "":
		return fmt.Errorf(`chunk key encoding other than "v2": %w in Zarr v2`, errors.ErrUnsupported)
	case len(m.Extra) > 0:
		return fmt.Errorf("extra members: %w in Zarr v2", errors.ErrUnsupported)
	}
	_, _, err := m.v2Encoding()
	return err
}

// v2Encoding returns the codecs and the dtype as a .zarray document has them.
func (m *ArrayMetadata) v2Encoding() (codec.V2, json.RawMessage, error) {
	encoding, err := m.Codecs.V2(len(m.Shape))
	if err != nil {
		return codec.V2{}, nil, err
	}
	format, err := m.DataType.V2(byteOrderOf(encoding.Endian))
	return encoding, format, err
}

// marshalV2 returns the .zarray document.
func (m *ArrayMetadata) marshalV2() ([]byte, error) {
	encoding, format, err := m.v2Encoding()
	if err != nil {
		return nil, err
	}
	fill := json.RawMessage("null")
	if m.FillValue != nil {
		if fill, err = m.DataType.FormatV2Fill(m.FillValue, byteOrderOf(encoding.Endian)); err != nil {
			return nil, err
		}
	}
	return metajson.Members{
		{Key: "shape", Value: metajson.NonNil(m.Shape)},
		{Key: "chunks", Value: metajson.NonNil(m.ChunkShape)},
		{Key: "dtype", Value: format},
		{Key: "fill_value", Value: fill},
		{Key: "order", Value: encoding.Order},
		{Key: "filters", Value: orNull(encoding.Filters)},
		{Key: "dimension_separator", Value: m.ChunkKeyEncoding.separator()},
		{Key: "compressor", Value: orNull(encoding.Compressor)},
		{Key: "zarr_format", Value: 2},
	}.MarshalJSON()
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// setV2Attributes sets the attributes of a node from its .zattrs document. Dimension
// names move to DimensionNames.
func setV2Attributes(node Node, raw []byte) error {
	if !json.Valid(raw) || !utf8.Valid(raw) {
		return fmt.Errorf("expected a JSON object, got %s", metajson.Excerpt(raw))
	}
	attributes, err := decodeAttributes(raw)
	if err != nil {
		return err
	}
	switch m := node.(type) {
	case *GroupMetadata:
		m.Attributes = attributes
	case *ArrayMetadata:
		m.Attributes = attributes
		if names, ok := dimensionNames(attributes[dimensionsAttribute], len(m.Shape)); ok {
			m.DimensionNames = names
			delete(attributes, dimensionsAttribute)
		}
	}
	return nil
}

// dimensionNames returns the names in an attribute, or false if it is not a list of one
// name per axis.
func dimensionNames(attribute any, axes int) ([]string, bool) {
	list, ok := attribute.([]any)
	if !ok || len(list) != axes {
		return nil, false
	}
	names := make([]string, axes)
	for i, item := range list {
		name, ok := item.(string)
		if !ok && item != nil {
			return nil, false
		}
		names[i] = name
	}
	return names, true
}

// v2Attributes returns the .zattrs document of an array.
func (m *ArrayMetadata) v2Attributes() any {
	if m.DimensionNames == nil {
		return encodableAttributes(m.Attributes)
	}
	attributes := map[string]any{dimensionsAttribute: namesOrNull(m.DimensionNames)}
	for key, value := range m.Attributes {
		if key != dimensionsAttribute {
			attributes[key] = value
		}
	}
	return encodableAttributes(attributes)
}

// parseV2Member parses a cleaned .zarray or .zgroup document, by its key.
func parseV2Member(raw []byte, key string) Node {
	node, err := parseV2Document(raw, key)
	if err != nil {
		return unreadableV2(slices.Clone(metajson.Restore(raw)), key, err)
	}
	return node
}

// parseV2Document parses a .zarray or .zgroup document. Unknown members are ignored
// (Zarr v2, "Metadata").
func parseV2Document(raw []byte, key string) (Node, error) {
	o, err := parseDocument(raw)
	if err != nil {
		return nil, err
	}
	var format int
	if err := o.DecodeRequired("zarr_format", &format); err != nil {
		return nil, err
	}
	switch {
	case format != 2:
		return nil, fmt.Errorf("zarr_format %d, want 2", format)
	case key == v2ArrayKey:
		return parseV2Array(o)
	default:
		return &GroupMetadata{Format: 2, Attributes: map[string]any{}}, nil
	}
}

// marshalV2 returns the .zmetadata document of a consolidated group, otherwise the
// .zgroup document.
func (m *GroupMetadata) marshalV2() ([]byte, error) {
	if len(m.Extra) > 0 {
		return nil, fmt.Errorf("extra members: %w in Zarr v2", errors.ErrUnsupported)
	}
	if m.Consolidated != nil {
		return m.marshalV2Consolidated()
	}
	return metajson.Members{{Key: "zarr_format", Value: 2}}.MarshalJSON()
}
