package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Location is a position in encoded bytes: that of the index in a shard, or of a
// checksum.
type Location string

// The locations.
const (
	End   Location = "end"
	Start Location = "start"
)

// Sharding splits a chunk, which is then called a shard, into inner chunks and encodes
// each of them separately. An index holds their positions, so that readers can fetch
// single inner chunks (Zarr core 3.1, "sharding codec").
type Sharding struct {
	// ChunkShape is the shape of an inner chunk. It divides the shape of the shard.
	ChunkShape []int64
	// Codecs encode the inner chunks.
	Codecs List
	// IndexCodecs encode the index; nil means Bytes and CRC32C. They must not compress:
	// readers compute the size of the index.
	IndexCodecs List
	// IndexLocation is End if empty.
	IndexLocation Location
}

// Name returns "sharding_indexed".
func (Sharding) Name() string { return "sharding_indexed" }

// Configuration returns the inner chunks, their codecs and the index.
func (c Sharding) Configuration() any {
	c = c.defaults()
	return metajson.Members{
		{Key: "chunk_shape", Value: metajson.NonNil(c.ChunkShape)},
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
	if err := config.DecodeRequired("chunk_shape", &c.ChunkShape); err != nil {
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
	if _, err := config.DecodeOptional("index_location", &c.IndexLocation); err != nil {
		return nil, err
	}
	c = c.defaults()
	if c.IndexLocation != End && c.IndexLocation != Start {
		return nil, fmt.Errorf(`%s: index_location %q is neither "end" nor "start"`, c.Name(), c.IndexLocation)
	}
	return c, nil
}

// ShardLayout is a compiled [Sharding] codec. Callers use it to write a shard chunk by
// chunk and to read single chunks. It is safe for concurrent use.
type ShardLayout struct {
	shard     ChunkSpec
	chunks    *Chain
	gridShape []int64
	index     *Chain
	location  Location
}

// shardSerializer keeps the methods of chunkSerializer off the exported type.
type shardSerializer struct{ *ShardLayout }

// ShardLayout returns the layout of a chain that consists of a Sharding codec alone, so
// that its encoding is inner chunks and an index. It returns false for other chains.
func (c *Chain) ShardLayout() (*ShardLayout, bool) {
	if c.sharding == nil || c.axisOrder != nil || len(c.transforms) > 0 || len(c.compressors) > 0 {
		return nil, false
	}
	return c.sharding.ShardLayout, true
}

func (c Sharding) compile(shard ChunkSpec) (chunkSerializer, error) {
	c = c.defaults()
	if c.IndexLocation != Start && c.IndexLocation != End {
		return nil, fmt.Errorf("%s: index_location %q, want %q or %q", c.Name(), c.IndexLocation, Start, End)
	}
	if len(c.ChunkShape) != len(shard.Shape) {
		return nil, fmt.Errorf("%s: chunk shape %v does not fit shard shape %v", c.Name(), c.ChunkShape, shard.Shape)
	}
	for i, d := range c.ChunkShape {
		if d < 1 || shard.Shape[i]%d != 0 {
			return nil, fmt.Errorf("%s: chunk shape %v does not divide shard shape %v", c.Name(), c.ChunkShape, shard.Shape)
		}
	}
	s := &ShardLayout{shard: shard, gridShape: grid.GridShape(shard.Shape, c.ChunkShape), location: c.IndexLocation}
	var err error
	if s.chunks, err = c.Codecs.Compile(ChunkSpec{Type: shard.Type, Shape: slices.Clone(c.ChunkShape), Fill: shard.Fill}); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name(), err)
	}
	if s.index, err = c.IndexCodecs.Compile(ChunkSpec{Type: element.Of(ndview.Uint64), Shape: append(slices.Clone(s.gridShape), 2), Fill: make([]byte, 8)}); err != nil {
		return nil, fmt.Errorf("%s: index_codecs: %w", c.Name(), err)
	}
	if _, exact := s.index.size(); !exact {
		return nil, fmt.Errorf("%s: index_codecs compress, so readers cannot compute the size of the index", c.Name())
	}
	return &shardSerializer{s}, nil
}

// ChunkChain returns the chain that encodes inner chunks.
func (s *ShardLayout) ChunkChain() *Chain { return s.chunks }

// ChunkShape returns the shape of an inner chunk. The caller must not modify it.
func (s *ShardLayout) ChunkShape() []int64 { return s.chunks.chunk.Shape }

// GridShape returns the number of inner chunks along each axis. The caller must not
// modify it.
func (s *ShardLayout) GridShape() []int64 { return s.gridShape }

// IndexLocation returns the position of the index.
func (s *ShardLayout) IndexLocation() Location { return s.location }

// IndexSize returns the size of an encoded index in bytes.
func (s *ShardLayout) IndexSize() int64 {
	n, _ := s.index.size()
	return n
}

func (s *shardSerializer) spec() ChunkSpec { return s.shard }

func (s *shardSerializer) size() (int64, bool) {
	inner, _ := s.chunks.size()
	n := grid.Size(s.gridShape)
	if inner > (math.MaxInt64-s.IndexSize())/n {
		return math.MaxInt64, false
	}
	return n*inner + s.IndexSize(), false
}

// encode builds a whole shard in memory, for nested shards and for shards that other
// codecs encode further.
func (s *shardSerializer) encode(scratch *Scratch, v element.Values, keep bool) ([]byte, error) {
	out, index := scratch.nextBuffer(), s.NewIndex()
	*out = (*out)[:0]
	if s.location == Start {
		*out = append(*out, make([]byte, s.IndexSize())...)
	}
	err := s.Split(v, func(at []int64, chunk element.Values) error {
		mark := scratch.mark()
		defer scratch.rewind(mark)
		enc, err := s.chunks.encode(scratch, chunk)
		if err != nil || enc == nil {
			return err
		}
		index.Set(at, int64(len(*out)), int64(len(enc)))
		*out = append(*out, enc...)
		return nil
	})
	if err != nil || index.Empty() && !keep {
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

// Split calls f with each inner chunk of a whole or partial shard, in C order. The
// chunk passed to f is valid until f returns, unless f retains it.
func (s *ShardLayout) Split(v element.Values, f func(index []int64, chunk element.Values) error) error {
	if v == nil || f == nil {
		return errors.New("codec.ShardLayout.Split: nil values or function")
	}
	shape := v.Shape()
	for index := range grid.Indices(grid.GridShape(shape, s.ChunkShape())) {
		box, _ := grid.ChunkBox(index, s.ChunkShape()).Intersect(grid.WholeBox(shape))
		chunk, err := element.SliceBox(v, box.Origin, box.Shape)
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

func (s *shardSerializer) decodeFixed(scratch *Scratch, dst, src []byte) error {
	width := s.shard.Type.Size()
	return s.visitChunks(src, func(box grid.Box, chunk []byte) error {
		defer scratch.rewind(scratch.mark())
		if start, ok := box.ContiguousRange(s.shard.Shape); ok {
			chunkDst := dst[start*width:][:grid.Size(box.Shape)*width]
			if chunk == nil {
				grid.Fill(chunkDst, s.shard.Fill)
				return nil
			}
			return s.chunks.decodeFixed(scratch, chunkDst, chunk)
		}
		raw := scratch.Bytes(s.chunks.chunk.nbytes())
		if chunk == nil {
			grid.Fill(raw, s.shard.Fill)
		} else if err := s.chunks.decodeFixed(scratch, raw, chunk); err != nil {
			return err
		}
		grid.Copy(dst, s.shard.Shape, box.Origin, raw, box.Shape, make([]int64, len(box.Origin)), box.Shape, width)
		return nil
	})
}

func (s *shardSerializer) decodeVLen(scratch *Scratch, src []byte) (*element.VLen, error) {
	headers, err := grid.ByteSize(s.shard.Shape, 24) // the size of a slice header
	if err == nil {
		err = arrowbuf.CheckHostMemory(headers)
	}
	if err != nil {
		return nil, err
	}
	whole := slices.Repeat([][]byte{s.shard.Fill}, int(grid.Size(s.shard.Shape)))
	err = s.visitChunks(src, func(box grid.Box, chunk []byte) error {
		if chunk == nil {
			return nil
		}
		defer scratch.rewind(scratch.mark())
		v, err := s.chunks.decodeVLen(scratch, chunk)
		if err != nil {
			return err
		}
		grid.Copy(whole, s.shard.Shape, box.Origin, v.Elements(), box.Shape, make([]int64, len(box.Origin)), box.Shape, 1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return element.PackVLen(whole, s.shard.Shape...)
}

// visitChunks calls f with each inner chunk of an encoded shard; enc is nil for a
// missing chunk.
func (s *ShardLayout) visitChunks(src []byte, f func(box grid.Box, enc []byte) error) error {
	n := s.IndexSize()
	if int64(len(src)) < n {
		return fmt.Errorf("shard of %d bytes is smaller than its index of %d", len(src), n)
	}
	raw := src[int64(len(src))-n:]
	if s.location == Start {
		raw = src[:n]
	}
	index, err := s.DecodeIndex(raw)
	if err != nil {
		return err
	}
	for at := range grid.Indices(s.gridShape) {
		var chunk []byte
		if offset, length, ok := index.Get(at); ok {
			if offset > int64(len(src)) || length > int64(len(src))-offset {
				return fmt.Errorf("chunk %v of a shard: bytes [%d, +%d) are outside %d bytes", at, offset, length, len(src))
			}
			chunk = src[offset : offset+length]
		}
		if err := f(grid.ChunkBox(at, s.ChunkShape()), chunk); err != nil {
			return fmt.Errorf("chunk %v of a shard: %w", at, err)
		}
	}
	return nil
}

// ShardIndex holds the position of each inner chunk in a shard. It is not safe for
// concurrent use.
type ShardIndex struct {
	layout  *ShardLayout
	entries []uint64 // offset and length, by chunk in C order
	present int
}

// missing is the offset and the length of a missing chunk.
const missing = math.MaxUint64

// NewIndex returns the index of an empty shard.
func (s *ShardLayout) NewIndex() *ShardIndex {
	x := &ShardIndex{layout: s, entries: make([]uint64, 2*grid.Size(s.gridShape))}
	for i := range x.entries {
		x.entries[i] = missing
	}
	return x
}

// DecodeIndex decodes an index. Offsets and lengths are below 2^63; callers must
// compare them with the size of the shard.
func (s *ShardLayout) DecodeIndex(raw []byte) (*ShardIndex, error) {
	if n := s.IndexSize(); int64(len(raw)) != n {
		return nil, fmt.Errorf("shard index of %d bytes, want %d", len(raw), n)
	}
	scratch := GetScratch()
	defer scratch.Release()
	decoded := make([]byte, s.index.chunk.nbytes())
	if err := s.index.DecodeFixed(scratch, decoded, raw); err != nil {
		return nil, fmt.Errorf("shard index: %w", err)
	}
	x := &ShardIndex{layout: s, entries: make([]uint64, len(decoded)/8)}
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

// Set records the position of a chunk. Like an index of a slice, a chunk outside the
// grid panics, here and in Delete and Get.
func (x *ShardIndex) Set(chunk []int64, offset, length int64) {
	i := x.entry(chunk)
	if x.entries[i] == missing {
		x.present++
	}
	x.entries[i], x.entries[i+1] = uint64(offset), uint64(length)
}

// Delete marks a chunk as missing.
func (x *ShardIndex) Delete(chunk []int64) {
	i := x.entry(chunk)
	if x.entries[i] != missing {
		x.present--
	}
	x.entries[i], x.entries[i+1] = missing, missing
}

// Get returns the position of a chunk, or false if it is missing.
func (x *ShardIndex) Get(chunk []int64) (offset, length int64, ok bool) {
	i := x.entry(chunk)
	if x.entries[i] == missing {
		return 0, 0, false
	}
	return int64(x.entries[i]), int64(x.entries[i+1]), true
}

// Empty reports whether all chunks are missing.
func (x *ShardIndex) Empty() bool { return x.present == 0 }

// Equal reports whether both indices have the same positions.
func (x *ShardIndex) Equal(y *ShardIndex) bool {
	return y != nil && slices.Equal(x.entries, y.entries)
}

// Encode returns the encoded index: IndexSize bytes.
func (x *ShardIndex) Encode() ([]byte, error) {
	v, err := ndview.FromHost(arrowbuf.CPU(), ndview.Uint64, x.entries, x.layout.index.chunk.Shape...)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	scratch := GetScratch()
	defer scratch.Release()
	scratch.KeepEmpty = true
	enc, err := x.layout.index.Encode(scratch, v)
	return append([]byte(nil), enc...), err
}

// entry returns the position of a chunk's offset in entries.
func (x *ShardIndex) entry(chunk []int64) int64 {
	i := int64(0)
	for axis, n := range x.layout.gridShape {
		i = i*n + chunk[axis]
	}
	return 2 * i
}
