package codec

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Engine is what ran a step of a chain.
type Engine string

// The engines.
const (
	OnHost   Engine = "host"
	OnDevice Engine = "device"
)

// StepCount is how many chunks a codec encoded or decoded on an engine. Bytes is the
// size of the chunks on the side of the array: of what was encoded, or of the result.
type StepCount struct {
	Codec  string `json:"codec"`
	Engine Engine `json:"engine"`
	Decode bool   `json:"decode,omitempty"`
	Chunks int64  `json:"chunks"`
	Bytes  int64  `json:"bytes"`
}

// Stats counts the steps of chains by codec and engine. The zero value is ready to use. It
// is safe for concurrent use. A nil Stats counts nothing.
type Stats struct {
	mu     sync.Mutex
	counts map[StepCount]StepCount // by the first three fields
}

// Counts returns what was counted, by codec.
func (s *Stats) Counts() []StepCount {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.counts), func(a, b StepCount) int {
		decodes := func(c StepCount) int {
			if c.Decode {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(a.Codec, b.Codec), cmp.Compare(a.Engine, b.Engine), decodes(a)-decodes(b))
	})
}

// countOf returns the count of one chunk.
func countOf(codec Codec, engine Engine, decode bool, bytes int64) StepCount {
	return StepCount{Codec: codec.Name(), Engine: engine, Decode: decode, Chunks: 1, Bytes: bytes}
}

// add adds counts.
func (s *Stats) add(counts ...StepCount) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[StepCount]StepCount{}
	}
	for _, c := range counts {
		key := StepCount{Codec: c.Codec, Engine: c.Engine, Decode: c.Decode}
		c.Chunks += s.counts[key].Chunks
		c.Bytes += s.counts[key].Bytes
		s.counts[key] = c
	}
}
