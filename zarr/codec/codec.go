package codec

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Codec is one entry of a codec list: a name and its configuration, as in metadata. All
// implementations are in this package.
type Codec interface {
	// Name returns the name of the codec in metadata.
	Name() string
	// configuration returns the value that metadata stores, or nil for none.
	configuration() any
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
		out[i] = metajson.FormatExtension(c.Name(), c.configuration())
	}
	return metajson.MarshalLine(out)
}

// UnmarshalJSON reads the codecs member of metadata: a list of objects or names. It
// returns an error wrapping errors.ErrUnsupported if this package lacks a codec.
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
		if err := ext.Config.CheckEmpty(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func parseCodec(ext metajson.Extension, depth int) (Codec, error) {
	switch ext.Name {
	case "bytes":
		return parseBytes(ext.Config)
	case "vlen-utf8":
		return VLenUTF8{}, nil
	case "vlen-bytes":
		return VLenBytes{}, nil
	case "transpose":
		return parseTranspose(ext.Config)
	case "sharding_indexed":
		return parseSharding(ext.Config, depth)
	case "zstd":
		return parseZstd(ext.Config)
	case "gzip":
		return parseGzip(ext.Config)
	case "crc32c":
		return CRC32C{}, nil
	default:
		return nil, fmt.Errorf("codec %q: %w", ext.Name, errors.ErrUnsupported)
	}
}
