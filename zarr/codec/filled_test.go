package codec

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// TestFilledRangesAreFound compares ranges that repeat a fill value, of which half have a
// byte that differs.
func TestFilledRangesAreFound(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		r := rand.New(rand.NewPCG(1, 2))
		var data []byte
		var items []filledItem
		var fills [][]byte
		var want []bool
		for i := range 500 {
			fill := make([]byte, 1<<r.IntN(5))
			for k := range fill {
				fill[k] = byte(r.Uint32())
			}
			size := (1 + r.IntN(1<<r.IntN(14))) * len(fill)
			own := bytes.Repeat(fill, size/len(fill))
			if i%2 == 0 {
				own[r.IntN(size)] ^= 1 << r.IntN(8)
			}
			items = append(items, filledItem{Offset: int64(len(data)), Size: int64(size)})
			data, fills, want = append(data, own...), append(fills, fill), append(want, i%2 == 1)
			if i < 499 { // the last range ends with the buffer
				data = append(data, make([]byte, -len(data)&(batchAlignment-1))...)
			}
		}
		buf, err := dev.FromHost(data)
		require.NoError(t, err)
		defer buf.Release()
		got, err := findFilled(dev, buf, items, fills)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
}
