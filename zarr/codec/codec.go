package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Codec is one entry of a codec list: a name and its configuration, as in metadata.
// Every codec is also an [ArrayCodec], an [ArrayBytesCodec] or a [BytesCodec]. Codecs
// are immutable values, which are safe for concurrent use.
type Codec interface {
	// Name returns the name of the codec in metadata.
	Name() string
	// Configuration returns a value that encodes as the JSON object in metadata, or
	// nil for none.
	Configuration() any
}

// ArrayCodec is an array-to-array codec for elements of fixed width.
type ArrayCodec interface {
	Codec
	// Transform returns the codec for chunks of one kind, or an error if it cannot
	// encode those.
	Transform(in ChunkSpec) (Transform, error)
}

// Transform is an [ArrayCodec] for chunks of one kind. Both functions run on the host
// and must be safe for concurrent use. Their arguments are elements of whole chunks in
// C order and the byte order of the host. They never overlap and have the size of a
// chunk, so that dst is filled.
type Transform struct {
	// Out describes the encoded chunks: their type, shape and fill value.
	Out ChunkSpec
	// Encode fills dst, a chunk of Out.
	Encode func(dst, src []byte) error
	// Decode fills dst, a chunk of the kind that the transform was made for.
	Decode func(dst, src []byte) error

	fillLost bool // the fill value has no encoding
	// fillErr is why new arrays must not have the fill value. Other arrays are read: in
	// them it counts only for chunks that are not stored.
	fillErr error
}

// ArrayBytesCodec is an array-to-bytes codec.
type ArrayBytesCodec interface {
	Codec
	// Serializer returns the codec for chunks of one kind, or an error if it cannot
	// encode those.
	Serializer(in ChunkSpec) (Serializer, error)
}

// Serializer is an [ArrayBytesCodec] for chunks of one kind. Its functions run on the
// host and must be safe for concurrent use. Elements are those of a whole chunk. Those
// of fixed width are in C order and the byte order of the host.
type Serializer struct {
	// MaxSize bounds the size of an encoded chunk in bytes. Exact reports whether all
	// encoded chunks have that size.
	MaxSize int64
	Exact   bool
	// Encode appends the encoding of src to dst. Decode fills dst from a foreign
	// encoding. Both are nil for variable-length elements.
	Encode func(dst, src []byte) ([]byte, error)
	Decode func(dst, src []byte) error
	// EncodeVLen and DecodeVLen are their counterparts for variable-length elements,
	// otherwise nil. The result of DecodeVLen shares no memory with src.
	EncodeVLen func(dst []byte, v *element.VLen) ([]byte, error)
	DecodeVLen func(src []byte) (*element.VLen, error)
}

// BytesCodec is a bytes-to-bytes codec.
type BytesCodec interface {
	Codec
	// Encode appends the encoding of src to dst. They never overlap.
	Encode(dst, src []byte) ([]byte, error)
	// Decode returns the decoding of src, as a part of src or in dst[:0], which it
	// grows if needed. It returns an error if the result exceeds limit bytes, and
	// allocates no more than a small multiple of that. src is foreign: Decode must not
	// panic.
	Decode(dst, src []byte, limit int64) ([]byte, error)
}

// SizeBounder is a [BytesCodec] that bounds sizes. Corrupt chunks are then detected
// before memory is allocated for them. For other codecs, an encoding has at most twice
// the size of its input plus 64 KiB, and any number of decoded bytes is possible.
type SizeBounder interface {
	BytesCodec
	// EncodedSize returns the size of the largest encoding of n bytes that Decode
	// accepts. exact reports whether all encodings have that size.
	EncodedSize(n int64) (most int64, exact bool)
	// MaxRatio bounds the number of decoded bytes per encoded byte.
	MaxRatio() int64
}

// List is the codecs of an array, in the order in which they encode.
type List []Codec

// MarshalJSON writes the codecs member of metadata. Every codec is an object.
func (l List) MarshalJSON() ([]byte, error) {
	out := make([]metajson.Members, len(l))
	for i, c := range l {
		if c == nil {
			return nil, fmt.Errorf("codec %d is nil", i)
		}
		switch c := c.(type) {
		case reorder:
			return nil, fmt.Errorf("a filter that reinterprets %s-endian numbers as %s-endian ones: %w in Zarr v3", c.from, c.to, errors.ErrUnsupported)
		case viewed:
			return nil, fmt.Errorf("codec %q after bytes: %w in Zarr v3", c.Name(), errors.ErrUnsupported)
		}
		config := c.Configuration()
		if config == nil && strings.HasPrefix(c.Name(), numcodecs) {
			config = metajson.Members{} // zarr-python requires one
		}
		out[i] = metajson.FormatExtension(c.Name(), config)
	}
	return metajson.MarshalLine(out)
}

// UnmarshalJSON reads the codecs member of metadata: a list of objects or names. It
// returns an error wrapping errors.ErrUnsupported if a codec is not registered.
func (l *List) UnmarshalJSON(raw []byte) (err error) {
	*l, err = parseList("codecs", raw, 0)
	return err
}

// maxNesting bounds the nesting of shards, since work grows with it. Arrays in use nest
// once or twice.
const maxNesting = 8

func parseList(what string, raw json.RawMessage, depth int) (List, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("shards nest deeper than %d", maxNesting)
	}
	var entries []json.RawMessage
	if err := metajson.Decode(what, raw, &entries); err != nil {
		return nil, err
	}
	list := make(List, len(entries))
	for i, entry := range entries {
		ext, err := metajson.ParseExtension(fmt.Sprintf("%s[%d]", what, i), entry)
		if err != nil {
			return nil, err
		}
		// must_understand is ignored: without every codec, chunks cannot be decoded.
		if list[i], err = parseCodec(ext, depth); err != nil {
			return nil, err
		}
		if ordered, ok := list[i].(byteOrdered); ok {
			// zarr-python reinterprets numbers of the host as big-endian ones, and so loses
			// them. The order of encoded numbers has no effect: codec "bytes" has one.
			if t, err := ordered.types(); err != nil || t.decodedOrder == Big {
				return nil, fmt.Errorf("codec %q with a big-endian type in Zarr v3: %w", ext.Name, errors.ErrUnsupported)
			}
		}
	}
	return list, nil
}
