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

// add counts one chunk.
func (s *Stats) add(codec Codec, engine Engine, decode bool, bytes int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[StepCount]StepCount{}
	}
	key := StepCount{Codec: codec.Name(), Engine: engine, Decode: decode}
	c, ok := s.counts[key]
	if !ok {
		c = key
	}
	c.Chunks++
	c.Bytes += bytes
	s.counts[key] = c
}
