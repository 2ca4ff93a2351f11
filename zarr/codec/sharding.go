package codec

import (
	"fmt"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Location says where in a shard its index is.
type Location string

// The locations of an index.
const (
	End   Location = "end"
	Start Location = "start"
)

// Sharding cuts a chunk, then called a shard, into chunks of ChunkShape, which
// divides the shard's shape, and encodes each by itself. An index says where
// each lies, so that readers can fetch one alone.
type Sharding struct {
	ChunkShape []int64
	// Codecs encode the chunks.
	Codecs List
	// IndexCodecs encode the index; nil means Bytes and CRC32C. They must not
	// compress: readers know the size of the index beforehand.
	IndexCodecs List
	// IndexLocation is End when empty.
	IndexLocation Location
}

// Name is "sharding_indexed".
func (Sharding) Name() string { return "sharding_indexed" }

func (c Sharding) configuration() any {
	c = c.defaults()
	return metajson.Members{
		{Key: "chunk_shape", Value: metajson.List(c.ChunkShape)},
		{Key: "codecs", Value: c.Codecs},
		{Key: "index_codecs", Value: c.IndexCodecs},
		{Key: "index_location", Value: c.IndexLocation},
	}
}

func (c Sharding) defaults() Sharding {
	if c.IndexCodecs == nil {
		c.IndexCodecs = List{Bytes{Endian: Little}, CRC32C{}}
	}
	if c.IndexLocation == "" {
		c.IndexLocation = End
	}
	return c
}

func parseSharding(config *metajson.Object, depth int) (Codec, error) {
	var c Sharding
	if err := config.Need("chunk_shape", &c.ChunkShape); err != nil {
		return nil, err
	}
	lists := []struct {
		key  string
		dst  *List
		need bool
	}{{"codecs", &c.Codecs, true}, {"index_codecs", &c.IndexCodecs, false}}
	for _, list := range lists {
		raw, ok := config.Take(list.key)
		if !ok && list.need {
			return nil, fmt.Errorf("%s: key %q is missing", c.Name(), list.key)
		}
		if ok {
			var err error
			if *list.dst, err = parseList(list.key, raw, depth+1); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name(), err)
			}
		}
	}
	if _, err := config.Maybe("index_location", &c.IndexLocation); err != nil {
		return nil, err
	}
	c = c.defaults()
	if c.IndexLocation != End && c.IndexLocation != Start {
		return nil, fmt.Errorf(`%s: index_location %q is neither "end" nor "start"`, c.Name(), c.IndexLocation)
	}
	return c, nil
}
