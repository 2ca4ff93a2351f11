package zstd

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWorkGrowsWithTheLevel(t *testing.T) {
	for level, want := range map[int]int{-5: 1000, 0: 3000, 1: 1000, 3: 3000, 9: 9000, 10: math.MaxInt, 22: math.MaxInt} {
		assert.Equal(t, want, (&cctx{level: level}).work(1000), "level %d", level)
	}
}
