package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// V2 is the encoding of chunks in the .zarray document of Zarr v2, where filters and
// the compressor are codecs of numcodecs. A filter or compressor of id x is the codec
// that is registered as "numcodecs.x".
type V2 struct {
	// Order is the order of elements in a chunk: "C" or "F".
	Order string
	// Endian is the byte order of the dtype, empty if it has none.
	Endian Endian
	// Filters is a JSON list of filters. It is null or nil for none.
	Filters json.RawMessage
	// Compressor is a JSON object. It is null or nil for none.
	Compressor json.RawMessage
}

// numcodecs prefixes the names of codecs that Zarr v3 took from Zarr v2.
const numcodecs = "numcodecs."

// List returns the codecs for chunks of a type and a number of axes. It returns an error
// wrapping errors.ErrUnsupported if a codec is not registered.
func (v V2) List(of element.Type, axes int) (List, error) {
	var list List
	switch v.Order {
	case "C":
	case "F":
		if axes > 1 {
			order, err := Transpose{letter: "F"}.axes(axes)
			if err != nil {
				return nil, err
			}
			list = append(list, Transpose{Order: order})
		}
	default:
		return nil, fmt.Errorf(`order %q is neither "C" nor "F"`, v.Order)
	}
	entries, err := v.entries()
	if err != nil {
		return nil, err
	}
	endian, in, serialized := v.Endian, of, false
	for _, c := range entries {
		switch c := c.(type) {
		case ArrayCodec:
			ordered, ok := c.(byteOrdered)
			if !ok {
				if serialized {
					return nil, fmt.Errorf("codec %q after bytes: %w", c.Name(), errors.ErrUnsupported)
				}
				break
			}
			t, err := ordered.types()
			if err != nil {
				return nil, fmt.Errorf("codec %q: %w", c.Name(), err)
			}
			want, decoded := t.decodedOrder, t.decoded.element()
			others := in.Size() != decoded.Size() || in.NumberWidth() != decoded.NumberWidth()
			if !serialized && others && (endian == Big || want == Big) {
				list, serialized = append(list, Bytes{Endian: endian}), true
			}
			if serialized {
				list = append(list, viewed{c, t})
				continue
			}
			if endian != want && endian != "" && want != "" {
				list = append(list, reorder{endian, want})
			}
			endian, in = t.encodedOrder, t.encoded.element()
		case ArrayBytesCodec:
			if serialized {
				return nil, fmt.Errorf("codec %q after bytes: %w", c.Name(), errors.ErrUnsupported)
			}
			serialized = true
		case BytesCodec:
			if !serialized {
				list = append(list, Bytes{Endian: endian})
			}
			serialized = true
		default:
			return nil, fmt.Errorf("codec %q: %w in Zarr v2", c.Name(), errors.ErrUnsupported)
		}
		list = append(list, c)
	}
	if !serialized {
		if of.IsVLen() {
			return nil, fmt.Errorf("no filter encodes objects: %w", errors.ErrUnsupported)
		}
		list = append(list, Bytes{Endian: endian})
	}
	return list, nil
}

// byteOrdered is an array-to-array codec whose configuration has byte orders.
type byteOrdered interface {
	// types returns the types of elements before and after encoding. Their orders are
	// empty if elements have one byte.
	types() (filterTypes, error)
}

// reorder makes elements of one byte order those of the other, with the same bytes. It
// stands between elements and a filter whose configuration has another order, which
// reinterprets them. Metadata does not have it.
type reorder struct{ from, to Endian }

// Name returns a name for errors.
func (reorder) Name() string { return "reorder" }

// Configuration returns nil.
func (reorder) Configuration() any { return nil }

// Transform returns the transform of chunks whose elements have a byte order.
func (reorder) Transform(in ChunkSpec) (Transform, error) {
	out := in
	out.Fill = make([]byte, len(in.Fill))
	swap := func(dst, src []byte) error { in.Type.SwapBytes(dst, src); return nil }
	return Transform{Out: out, Encode: swap, Decode: swap}, swap(out.Fill, in.Fill)
}

// viewed is a filter of numbers that takes bytes for elements of its type: one after a
// filter of bytes, or after elements that a byte order reverses differently. Metadata of
// Zarr v3 does not have it.
type viewed struct {
	filter ArrayCodec
	types  filterTypes
}

// Name returns the name of the filter.
func (v viewed) Name() string { return v.filter.Name() }

// Configuration returns that of the filter.
func (v viewed) Configuration() any { return v.filter.Configuration() }

// Encode appends the encoding of src to dst.
func (v viewed) Encode(dst, src []byte) ([]byte, error) {
	of := v.types.decoded.element()
	if int64(len(src))%of.Size() != 0 {
		return nil, fmt.Errorf("%d bytes are no elements of %s", len(src), of)
	}
	n, _ := v.EncodedSize(int64(len(src)))
	start := len(dst)
	dst = slices.Grow(dst, int(n))[:start+int(n)]
	return dst, v.apply(dst[start:], src, true)
}

// Decode returns the decoding of src: at most limit bytes.
func (v viewed) Decode(dst, src []byte, limit int64) ([]byte, error) {
	of := v.types.encoded.element()
	if int64(len(src))%of.Size() != 0 {
		return nil, fmt.Errorf("%d bytes are no elements of %s", len(src), of)
	}
	n := int64(len(src)) / of.Size() * v.types.decoded.element().Size()
	if n > limit {
		return nil, errTooLong(limit)
	}
	dst = slices.Grow(dst[:0], int(n))[:n]
	return dst, v.apply(dst, src, false)
}

// apply encodes or decodes whole elements in the byte orders of the types.
func (v viewed) apply(dst, src []byte, encode bool) error {
	t := v.types
	from, to, fromOrder, toOrder := t.encoded.element(), t.decoded.element(), t.encodedOrder, t.decodedOrder
	if encode {
		from, to, fromOrder, toOrder = to, from, toOrder, fromOrder
	}
	n := int64(len(src)) / from.Size()
	if n == 0 {
		return nil
	}
	filter, err := v.filter.Transform(ChunkSpec{Type: t.decoded.element(), Shape: []int64{n}, Fill: t.decoded.element().DefaultFill()})
	if err != nil {
		return err
	}
	if fromOrder == Big {
		swapped := make([]byte, len(src))
		from.SwapBytes(swapped, src)
		src = swapped
	}
	move := filter.Decode
	if encode {
		move = filter.Encode
	}
	if err := move(dst, src); err != nil {
		return err
	}
	if toOrder == Big {
		to.SwapBytes(dst, dst)
	}
	return nil
}

// EncodedSize returns the size of the elements in n bytes, exactly.
func (v viewed) EncodedSize(n int64) (int64, bool) {
	return n / v.types.decoded.element().Size() * v.types.encoded.element().Size(), true
}

// MaxRatio bounds the number of decoded bytes per encoded byte.
func (v viewed) MaxRatio() int64 {
	decoded, encoded := v.types.decoded.element().Size(), v.types.encoded.element().Size()
	return (decoded + encoded - 1) / encoded
}

// entries returns the filters, then the compressor.
func (v V2) entries() ([]Codec, error) {
	var filters []json.RawMessage
	if !isNull(v.Filters) {
		if err := metajson.Decode("filters", v.Filters, &filters); err != nil {
			return nil, err
		}
	}
	out := make([]Codec, 0, len(filters)+1)
	for i, raw := range filters {
		c, err := parseV2(fmt.Sprintf("filters[%d]", i), raw)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if isNull(v.Compressor) {
		return out, nil
	}
	c, err := parseV2("compressor", v.Compressor)
	return append(out, c), err
}

func isNull(raw json.RawMessage) bool {
	text := strings.TrimSpace(string(raw))
	return text == "" || text == "null"
}

func parseV2(what string, raw json.RawMessage) (Codec, error) {
	config, err := metajson.ParseObject(what, raw)
	if err != nil {
		return nil, err
	}
	var id string
	if err := config.DecodeRequired("id", &id); err != nil {
		return nil, err
	}
	return parseCodec(metajson.Extension{Name: numcodecs + id, Config: config}, 0)
}

// objectTypes are the filters that encode the elements of dtype |O, by id.
var objectTypes = map[string]element.Type{
	"vlen-utf8":  element.String,
	"vlen-bytes": element.Bytes,
	"vlen-array": element.Bytes,
	"json2":      element.String,
	"msgpack2":   element.String,
	"categorize": element.String,
}

// V2ObjectType returns the type of elements of the v2 dtype |O, which the filters
// imply. It returns an error wrapping errors.ErrUnsupported if no filter does.
func V2ObjectType(filters json.RawMessage) (element.Type, error) {
	var entries []struct{ ID string }
	if !isNull(filters) {
		if err := json.Unmarshal(filters, &entries); err != nil {
			return element.Type{}, fmt.Errorf("filters: %w", err)
		}
	}
	ids := make([]string, len(entries))
	for i, entry := range entries {
		if of, ok := objectTypes[entry.ID]; ok {
			return of, nil
		}
		if why, ok := refused[entry.ID]; ok {
			return element.Type{}, fmt.Errorf("filter %q %s: %w", entry.ID, why, errors.ErrUnsupported)
		}
		ids[i] = entry.ID
	}
	return element.Type{}, fmt.Errorf("objects with filters %q: %w", ids, errors.ErrUnsupported)
}

// V2 is the inverse of [V2.List]: it returns what a .zarray document says about the
// codecs, for chunks with a number of axes. The last codec becomes the compressor if it
// compresses. It returns an error wrapping errors.ErrUnsupported if Zarr v2 lacks a codec.
func (l List) V2(axes int) (V2, error) {
	v, filters := V2{Order: "C"}, []json.RawMessage{}
	for i, c := range l {
		switch c := c.(type) {
		case Transpose:
			order, err := c.axes(axes)
			if err != nil {
				return V2{}, err
			}
			reversed := slices.Clone(order)
			slices.Reverse(reversed)
			switch {
			case i == 0 && slices.IsSorted(order):
			case i == 0 && slices.IsSorted(reversed):
				v.Order = "F"
			default:
				return V2{}, fmt.Errorf("codec %q with order %v: %w in Zarr v2", c.Name(), order, errors.ErrUnsupported)
			}
		case Bytes:
			v.Endian = c.Endian
			for _, before := range slices.Backward(l[:i]) {
				switch before := before.(type) {
				case reorder:
					v.Endian = before.from
				case byteOrdered:
					t, err := before.types()
					if err != nil {
						return V2{}, err
					}
					v.Endian = t.decodedOrder
				}
			}
		case reorder: // List makes it again
		default:
			raw, err := formatV2(c)
			if err != nil {
				return V2{}, err
			}
			if compresses(c) && i == len(l)-1 {
				v.Compressor = raw
			} else {
				filters = append(filters, raw)
			}
		}
	}
	if len(filters) > 0 {
		raw, err := json.Marshal(filters)
		if err != nil {
			return V2{}, err
		}
		v.Filters = raw
	}
	return v, nil
}

// compresses reports whether a codec can be the compressor of Zarr v2. Others are filters
// even at the end: zarr-python 2 cannot read all chunks whose compressor is a checksum.
func compresses(c Codec) bool {
	switch c.(type) {
	case viewed, CRC32C, CRC32, Adler32, Fletcher32, JenkinsLookup3, Shuffle:
		return false
	default:
		_, ok := c.(BytesCodec)
		return ok
	}
}

// v2Codec is a codec whose v2 form is not its v3 configuration with an id.
type v2Codec interface {
	v2() (id string, config metajson.Members)
}

func formatV2(c Codec) (json.RawMessage, error) {
	if c, ok := c.(v2Codec); ok {
		id, config := c.v2()
		return append(metajson.Members{{Key: "id", Value: id}}, config...).MarshalJSON()
	}
	id, ok := strings.CutPrefix(c.Name(), numcodecs)
	if !ok {
		return nil, fmt.Errorf("codec %q: %w in Zarr v2", c.Name(), errors.ErrUnsupported)
	}
	out := metajson.Members{{Key: "id", Value: id}}
	switch config := c.Configuration().(type) {
	case nil:
	case metajson.Members:
		out = append(out, config...)
	default: // of a registered codec
		raw, err := metajson.MarshalLine(config)
		if err != nil {
			return nil, err
		}
		o, err := metajson.ParseObject(c.Name(), raw)
		if err != nil {
			return nil, err
		}
		for _, key := range o.Keys() {
			value, _ := o.Take(key)
			out = append(out, metajson.Member{Key: key, Value: value})
		}
	}
	return out.MarshalJSON()
}

// takes reports whether elements are of the decoded type, or integers or times of its size.
func (t filterTypes) takes(in element.Type) bool {
	n, ok := castableNumber(in)
	integer := ok && !n.floating && !t.decoded.floating && !t.decoded.boolean
	return in == t.decoded.element() || integer && n.size == t.decoded.size && n.bits == t.decoded.bits
}

// V3 returns the codecs of [V2.List] as Zarr v3 has them, for chunks that they encode to the
// same bytes. It returns an error wrapping errors.ErrUnsupported if Zarr v3 lacks a codec:
// filters whose configuration has a big-endian type, or another type or byte order than
// their input, which zarr-python does not reinterpret there.
func (l List) V3(chunk ChunkSpec) (List, error) {
	out, in := make(List, 0, len(l)), chunk.Type
	for _, c := range l {
		switch named := c.(type) {
		case reorder:
			return nil, fmt.Errorf("a filter whose elements have another byte order: %w in Zarr v3", errors.ErrUnsupported)
		case viewed:
			return nil, fmt.Errorf("codec %q after bytes: %w in Zarr v3", c.Name(), errors.ErrUnsupported)
		case byteOrdered:
			t, err := named.types()
			if err != nil || t.decodedOrder == Big {
				return nil, fmt.Errorf("codec %q with a big-endian type: %w in Zarr v3", c.Name(), errors.Join(err, errors.ErrUnsupported))
			}
			if !t.takes(in) {
				return nil, fmt.Errorf("codec %q of %s for elements of %s: %w in Zarr v3", c.Name(), t.decoded.element(), in, errors.ErrUnsupported)
			}
			in = t.encoded.element()
		case NumcodecsPackBits:
			in = element.Of(ndview.Uint8)
		case Blosc:
			named.numcodecs = false
			c = named
		}
		out = append(out, c)
	}
	return out.Complete(chunk)
}
