package lz4

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress/internal/batch"
)

// Steps have all items with marks in order, keep their marks within the limit if those of
// each item are, and are not many more than full ones would be.
func TestMarksOfStepsFitTheLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		items := make([]batch.Item, 1+r.IntN(40))
		all := int64(0)
		for i := range items {
			items[i].DstSize = r.Int64N(1 << (10 + r.IntN(14)))
			all += 2 * marksOf(items[i])
		}
		limit := 1<<24 + r.Int64N(1<<25)
		p := planDecoding(items, limit)
		next, several := 0, int64(0)
		for _, s := range p.steps {
			require.Equal(t, next, s.first)
			next = s.end
			used := int64(0)
			for i := s.first; i < s.end; i++ {
				if marksOf(items[i]) > 0 {
					require.Equal(t, used/2, p.places[i].marks)
				}
				used += 2 * marksOf(items[i])
			}
			several += used
			require.True(t, used <= limit || s.end == s.first+1, "%d bytes, the limit is %d", used, limit)
			require.LessOrEqual(t, used, 2*p.marks)
		}
		require.Equal(t, all, several)
		require.LessOrEqual(t, int64(len(p.steps)), 2*all/limit+2)
	}
}
