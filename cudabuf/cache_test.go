package cudabuf

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSizeClassesWasteAnEighthAtMost(t *testing.T) {
	c := newCache(512, 0, nil, nil)
	last := int64(0)
	for n := int64(1); n < 1<<40; n += 1 + n/97 {
		class := c.class(n)
		assert.GreaterOrEqual(t, class, n)
		assert.GreaterOrEqual(t, class, last, "classes grow with sizes")
		assert.LessOrEqual(t, class-n, max(511, min(n/8, maxStep)), "%d", n)
		assert.Equal(t, class, c.class(class), "a class is its own")
		assert.Zero(t, class%512)
		last = class
	}
	assert.EqualValues(t, math.MaxInt64, c.class(math.MaxInt64), "no overflow")
}
