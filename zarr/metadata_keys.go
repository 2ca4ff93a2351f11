package zarr

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// ChunkKeyEncoding maps the grid index of a chunk to its store key. The zero value is
// the "default" encoding of the specification: "c/0/1".
type ChunkKeyEncoding struct {
	// V2 selects the encoding "v2", which omits the "c": "0.1".
	V2 bool
	// Separator is "/" or ".". Empty means the default of the encoding: "." for "v2",
	// otherwise "/".
	Separator string
	// Suffix follows the key of every chunk, as in "c/0/1.tiff". If it is not empty, the
	// encoding is "zarrs.default_suffix", and V2 must be false.
	Suffix string
}

// Key returns the key of a chunk relative to the path of its array.
func (k ChunkKeyEncoding) Key(index []int64) string {
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
	return string(key) + k.Suffix
}

func (k ChunkKeyEncoding) separator() string {
	switch {
	case k.Separator != "":
		return k.Separator
	case k.V2:
		return "."
	default:
		return "/"
	}
}

func (k ChunkKeyEncoding) check() error {
	if s := k.separator(); s != "/" && s != "." {
		return fmt.Errorf(`chunk_key_encoding: separator %q is neither "/" nor "."`, s)
	}
	if k.Suffix == "" {
		return nil
	}
	switch {
	case k.V2:
		return fmt.Errorf(`chunk_key_encoding: suffix %q with "v2": %w`, k.Suffix, errors.ErrUnsupported)
	case !utf8.ValidString(k.Suffix) || strings.ContainsAny(k.Suffix, "/\x00"):
		return fmt.Errorf("chunk_key_encoding: suffix %q is not UTF-8 or has a slash or a NUL", k.Suffix)
	}
	return nil
}

// Index returns the grid index of a chunk key with axes indices, or false if the key is
// none. It is the inverse of Key.
func (k ChunkKeyEncoding) Index(key string, axes int) ([]int64, bool) {
	if axes == 0 {
		return nil, key == k.Key(nil)
	}
	key, ok := strings.CutSuffix(key, k.Suffix)
	if !ok {
		return nil, false
	}
	if !k.V2 {
		if key, ok = strings.CutPrefix(key, "c"+k.separator()); !ok {
			return nil, false
		}
	}
	index := make([]int64, 0, axes)
	for part := range strings.SplitSeq(key, k.separator()) {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, 10) != part {
			return nil, false
		}
		index = append(index, n)
	}
	return index, len(index) == axes
}

// suffixEncoding is the name of the encoding that zarrs has for keys with a suffix.
const suffixEncoding = "zarrs.default_suffix"

// MarshalJSON writes the chunk_key_encoding member of metadata.
func (k ChunkKeyEncoding) MarshalJSON() ([]byte, error) {
	name, config := "default", metajson.Members{{Key: "separator", Value: k.separator()}}
	switch {
	case k.V2:
		name = "v2"
	case k.Suffix != "":
		name, config = suffixEncoding, append(config, metajson.Member{Key: "suffix", Value: k.Suffix})
	}
	return metajson.FormatExtension(name, config).MarshalJSON()
}

// UnmarshalJSON reads the chunk_key_encoding member of metadata: "default", "v2" or
// "zarrs.default_suffix". Errors for others, such as "fanout", wrap
// errors.ErrUnsupported.
func (k *ChunkKeyEncoding) UnmarshalJSON(raw []byte) error {
	ext, err := metajson.ParseExtension("chunk_key_encoding", raw)
	if err != nil {
		return err
	}
	if !ext.MustUnderstand {
		return fmt.Errorf("chunk_key_encoding %q: must_understand cannot be false", ext.Name)
	}
	*k = ChunkKeyEncoding{}
	switch ext.Name {
	case "default":
	case "v2":
		k.V2 = true
	case suffixEncoding:
		if err := ext.Config.DecodeRequired("suffix", &k.Suffix); err != nil {
			return err
		}
	default:
		return fmt.Errorf("chunk_key_encoding %q: %w", ext.Name, errors.ErrUnsupported)
	}
	given, err := ext.Config.DecodeOptional("separator", &k.Separator)
	if err != nil {
		return err
	}
	if given && k.Separator == "" {
		return errors.New(`chunk_key_encoding: separator "" is neither "/" nor "."`)
	}
	if err := ext.Config.CheckEmpty(); err != nil {
		return err
	}
	k.Separator = k.separator()
	return k.check()
}
