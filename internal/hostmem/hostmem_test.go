package hostmem

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGrowKeepsBytesAndMakesRoom(t *testing.T) {
	for _, room := range []int{0, 1, 1000, 4 << 20, 5<<20 + 3} {
		for _, before := range [][]byte{nil, []byte("before"), bytes.Repeat([]byte("long"), 2<<20)} {
			grown := Grow(before, room)
			require.Equal(t, len(before), len(grown))
			require.True(t, bytes.Equal(before, grown))
			require.GreaterOrEqual(t, cap(grown), len(before)+room)
			whole := grown[:len(before)+room]
			for i := range whole { // faults if the memory is not the slice's own
				whole[i] = 1
			}
			if len(whole) > 0 {
				again := Grow(whole[:0], len(whole))
				assert.Same(t, &whole[0], &again[:1][0], "memory that suffices is kept")
			}
		}
	}
}
