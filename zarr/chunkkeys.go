package zarr

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

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
