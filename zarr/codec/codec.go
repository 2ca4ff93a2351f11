package codec

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Codec is one entry of a codec list: a name and its configuration, as
// metadata gives them. The implementations are this package's.
type Codec interface {
	// Name is the codec's name in metadata.
	Name() string
	// configuration is what metadata writes; nil for none.
	configuration() any
}

// List is the codecs of an array, in the order in which they encode.
type List []Codec

// MarshalJSON writes the codecs of metadata, each in the long form.
func (l List) MarshalJSON() ([]byte, error) {
	out := make([]metajson.Members, len(l))
	for i, c := range l {
		if c == nil {
			return nil, fmt.Errorf("codec %d is nil", i)
		}
		out[i] = metajson.Named(c.Name(), c.configuration())
	}
	return metajson.Compact(out)
}

// UnmarshalJSON reads the codecs of metadata: a list of objects or names. A
// codec that this package lacks is an error that is errors.ErrUnsupported.
func (l *List) UnmarshalJSON(raw []byte) (err error) {
	*l, err = parseList("codecs", raw, 0)
	return err
}

// maxNesting bounds how deep shards may nest in shards. Real ones nest once or
// twice; without a bound a small document can ask for a great deal of work.
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
		// must_understand may be false for a codec, but what a codec did not
		// understand it cannot decode either: all of them are understood.
		if list[i], err = parseOne(ext, depth); err != nil {
			return nil, err
		}
		if err := ext.Config.Done(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func parseOne(ext metajson.Extension, depth int) (Codec, error) {
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
