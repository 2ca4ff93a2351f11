package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
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

// Shards is a Sharding codec made ready for one kind of shard. Its parts let a
// caller write a shard chunk by chunk, and read one chunk of it alone.
type Shards struct {
	shard    Chunk
	inner    *Chain
	counts   []int64
	index    *Chain
	location Location
}

// shards keeps the serializer's methods off the exported type.
type shards struct{ *Shards }

// Shards returns the parts of a chain that is nothing but a Sharding codec, so
// that the bytes of a shard are chunks and an index; false for other chains.
func (c *Chain) Shards() (*Shards, bool) {
	if c.sharded == nil || c.order != nil || len(c.bytes) > 0 {
		return nil, false
	}
	return c.sharded.Shards, true
}

func (c Sharding) compile(shard Chunk) (serializer, error) {
	c = c.defaults()
	if c.IndexLocation != Start && c.IndexLocation != End {
		return nil, fmt.Errorf("%s: index_location %q, where %q or %q is expected", c.Name(), c.IndexLocation, Start, End)
	}
	if len(c.ChunkShape) != len(shard.Shape) {
		return nil, fmt.Errorf("%s: chunk shape %v for shards of shape %v", c.Name(), c.ChunkShape, shard.Shape)
	}
	for i, d := range c.ChunkShape {
		if d < 1 || shard.Shape[i]%d != 0 {
			return nil, fmt.Errorf("%s: chunk shape %v does not divide the shard's, %v", c.Name(), c.ChunkShape, shard.Shape)
		}
	}
	s := &Shards{shard: shard, counts: grid.Counts(shard.Shape, c.ChunkShape), location: c.IndexLocation}
	var err error
	if s.inner, err = c.Codecs.Compile(Chunk{Type: shard.Type, Shape: slices.Clone(c.ChunkShape), Fill: shard.Fill}); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name(), err)
	}
	if s.index, err = c.IndexCodecs.Compile(Chunk{Type: element.Of(ndview.Uint64), Shape: append(slices.Clone(s.counts), 2), Fill: make([]byte, 8)}); err != nil {
		return nil, fmt.Errorf("%s: index_codecs: %w", c.Name(), err)
	}
	if _, exact := s.index.size(); !exact {
		return nil, fmt.Errorf("%s: index_codecs compress, so that no reader can know the size of the index", c.Name())
	}
	return &shards{s}, nil
}

// Inner is the chain that encodes the chunks of a shard.
func (s *Shards) Inner() *Chain { return s.inner }

// ChunkShape is the shape of the chunks of a shard.
func (s *Shards) ChunkShape() []int64 { return s.inner.chunk.Shape }

// Counts is the number of chunks along each axis of a shard.
func (s *Shards) Counts() []int64 { return s.counts }

// Location is where the index is.
func (s *Shards) Location() Location { return s.location }

// IndexSize is the number of bytes of an encoded index.
func (s *Shards) IndexSize() int64 {
	n, _ := s.index.size()
	return n
}

func (s *shards) size() (int64, bool) {
	inner, _ := s.inner.size()
	n := grid.Size(s.counts)
	if inner > (math.MaxInt64-s.IndexSize())/n {
		return math.MaxInt64, false
	}
	return n*inner + s.IndexSize(), false
}

// encode makes a whole shard in memory: for shards within shards, and where
// other codecs follow.
func (s *shards) encode(scratch *Scratch, v element.Values) ([]byte, error) {
	out, index := scratch.next(), s.NewIndex()
	*out = (*out)[:0]
	if s.location == Start {
		*out = append(*out, make([]byte, s.IndexSize())...)
	}
	err := s.Cut(v, func(at []int64, chunk element.Values) error {
		mark := scratch.mark()
		defer scratch.back(mark)
		enc, err := s.inner.encode(scratch, chunk)
		if err != nil || enc == nil {
			return err
		}
		index.Set(at, int64(len(*out)), int64(len(enc)))
		*out = append(*out, enc...)
		return nil
	})
	if err != nil || index.Empty() {
		return nil, err
	}
	raw, err := index.Encode()
	if err != nil {
		return nil, err
	}
	if s.location == Start {
		copy(*out, raw)
	} else {
		*out = append(*out, raw...)
	}
	return *out, nil
}

// Cut gives f the chunks of a shard, or of as much of one as there is, in C
// order. The values are f's until it returns.
func (s *Shards) Cut(v element.Values, f func(index []int64, chunk element.Values) error) error {
	shape := v.Shape()
	for index := range grid.Indices(grid.Counts(shape, s.ChunkShape())) {
		box, _ := grid.Chunk(index, s.ChunkShape()).Intersect(grid.Whole(shape))
		chunk, err := element.Box(v, box.At, box.Extent)
		if err != nil {
			return err
		}
		err = f(index, chunk)
		chunk.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *shards) decodeFixed(scratch *Scratch, dst, src []byte) error {
	width := s.shard.Type.Size()
	return s.each(src, func(box grid.Box, chunk []byte) error {
		defer scratch.back(scratch.mark())
		if start, ok := box.Run(s.shard.Shape); ok {
			home := dst[start*width:][:grid.Size(box.Extent)*width]
			if chunk == nil {
				grid.Fill(home, s.shard.Fill)
				return nil
			}
			return s.inner.decodeFixed(scratch, home, chunk)
		}
		raw := scratch.sized(s.inner.chunk.bytes())
		if chunk == nil {
			grid.Fill(raw, s.shard.Fill)
		} else if err := s.inner.decodeFixed(scratch, raw, chunk); err != nil {
			return err
		}
		grid.Copy(dst, s.shard.Shape, box.At, raw, box.Extent, make([]int64, len(box.At)), box.Extent, width)
		return nil
	})
}

func (s *shards) decodeVLen(scratch *Scratch, src []byte) (*element.VLen, error) {
	headers, err := grid.Bytes(s.shard.Shape, 24) // of slices
	if err == nil {
		err = arrowbuf.CheckRoom(headers)
	}
	if err != nil {
		return nil, err
	}
	whole := slices.Repeat([][]byte{s.shard.Fill}, int(grid.Size(s.shard.Shape)))
	err = s.each(src, func(box grid.Box, chunk []byte) error {
		if chunk == nil {
			return nil
		}
		defer scratch.back(scratch.mark())
		v, err := s.inner.decodeVLen(scratch, chunk)
		if err != nil {
			return err
		}
		grid.Copy(whole, s.shard.Shape, box.At, v.Elements(), box.Extent, make([]int64, len(box.At)), box.Extent, 1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return element.Strings(whole, s.shard.Shape...)
}

// each gives f every chunk of an encoded shard; nil for one that is missing.
func (s *Shards) each(src []byte, f func(box grid.Box, chunk []byte) error) error {
	n := s.IndexSize()
	if int64(len(src)) < n {
		return fmt.Errorf("shard of %d bytes, where the index alone takes %d", len(src), n)
	}
	raw := src[int64(len(src))-n:]
	if s.location == Start {
		raw = src[:n]
	}
	index, err := s.DecodeIndex(raw)
	if err != nil {
		return err
	}
	for at := range grid.Indices(s.counts) {
		var chunk []byte
		if offset, length, ok := index.Get(at); ok {
			if offset > int64(len(src)) || length > int64(len(src))-offset {
				return fmt.Errorf("chunk %v of a shard: bytes [%d, +%d) of %d", at, offset, length, len(src))
			}
			chunk = src[offset : offset+length]
		}
		if err := f(grid.Chunk(at, s.ChunkShape()), chunk); err != nil {
			return fmt.Errorf("chunk %v of a shard: %w", at, err)
		}
	}
	return nil
}

// ShardIndex says where in a shard its chunks lie. It is not safe for
// concurrent use.
type ShardIndex struct {
	shards  *Shards
	entries []uint64 // offset and length, by chunk in C order
	present int
}

// missing stands for both the offset and the length of a chunk that is not
// there.
const missing = math.MaxUint64

// NewIndex is the index of a shard without chunks.
func (s *Shards) NewIndex() *ShardIndex {
	x := &ShardIndex{shards: s, entries: make([]uint64, 2*grid.Size(s.counts))}
	for i := range x.entries {
		x.entries[i] = missing
	}
	return x
}

// DecodeIndex reads an encoded index. Offsets and lengths are below 2^63; who
// uses them compares them with the size of the shard.
func (s *Shards) DecodeIndex(raw []byte) (*ShardIndex, error) {
	if n := s.IndexSize(); int64(len(raw)) != n {
		return nil, fmt.Errorf("shard index of %d bytes, where %d are expected", len(raw), n)
	}
	scratch := GetScratch()
	defer scratch.Release()
	decoded := make([]byte, s.index.chunk.bytes())
	if err := s.index.DecodeFixed(scratch, decoded, raw); err != nil {
		return nil, fmt.Errorf("shard index: %w", err)
	}
	x := &ShardIndex{shards: s, entries: make([]uint64, len(decoded)/8)}
	for i := range x.entries {
		x.entries[i] = binary.LittleEndian.Uint64(decoded[8*i:])
	}
	for i := 0; i < len(x.entries); i += 2 {
		offset, length := x.entries[i], x.entries[i+1]
		if offset == missing && length == missing {
			continue
		}
		if offset > math.MaxInt64 || length > math.MaxInt64-offset {
			return nil, fmt.Errorf("shard index: entry %d has offset %d and length %d", i/2, offset, length)
		}
		x.present++
	}
	return x, nil
}

// Set records a chunk.
func (x *ShardIndex) Set(chunk []int64, offset, length int64) {
	i := x.at(chunk)
	if x.entries[i] == missing {
		x.present++
	}
	x.entries[i], x.entries[i+1] = uint64(offset), uint64(length)
}

// Unset makes a chunk a missing one.
func (x *ShardIndex) Unset(chunk []int64) {
	i := x.at(chunk)
	if x.entries[i] != missing {
		x.present--
	}
	x.entries[i], x.entries[i+1] = missing, missing
}

// Get tells where a chunk lies; false where it is missing.
func (x *ShardIndex) Get(chunk []int64) (offset, length int64, ok bool) {
	i := x.at(chunk)
	if x.entries[i] == missing {
		return 0, 0, false
	}
	return int64(x.entries[i]), int64(x.entries[i+1]), true
}

// Empty tells whether all chunks are missing.
func (x *ShardIndex) Empty() bool { return x.present == 0 }

// Encode returns the index as it lies in the shard: IndexSize bytes.
func (x *ShardIndex) Encode() ([]byte, error) {
	v, err := ndview.FromHost(arrowbuf.CPU(), ndview.Uint64, x.entries, x.shards.index.chunk.Shape...)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	scratch := GetScratch()
	defer scratch.Release()
	scratch.KeepEmpty = true
	enc, err := x.shards.index.Encode(scratch, v)
	return append([]byte(nil), enc...), err
}

func (x *ShardIndex) at(chunk []int64) int64 {
	i := int64(0)
	for axis, n := range x.shards.counts {
		i = i*n + chunk[axis]
	}
	return 2 * i
}
