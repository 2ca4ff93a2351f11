package integers_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/arrowbuf/internal/integers"
)

func TestIntegersRoundTrip(t *testing.T) {
	for width, least := range map[int]int64{1: math.MinInt8, 2: math.MinInt16, 4: math.MinInt32, 8: math.MinInt64} {
		s := integers.Slice{Bytes: make([]byte, 3*width), Width: width}
		assert.Equal(t, 3, s.Len())
		for i, n := range []int64{least, -1, -(least + 1)} {
			s.Put(i, n)
		}
		assert.Equal(t, []int64{least, -1, -(least + 1)}, []int64{s.At(0), s.At(1), s.At(2)}, "%d bytes", width)
		assert.EqualValues(t, -3, s.Subtract(2).At(1))
		assert.EqualValues(t, -1, s.At(1), "the original stays")
	}
}
