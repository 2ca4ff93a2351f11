package codec

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

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
