//go:build emulate

package blosc

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// TestKernelsDecodeWithinTheirMemory finds the parts of chunks whose starts and sizes are
// often wrong, under AddressSanitizer.
func TestKernelsDecodeWithinTheirMemory(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(1, 2))
	failed := 0
	for range 500 {
		var src []byte
		var chunks []chunk
		var blocks, parts int64
		for range 1 + r.IntN(20) {
			c := chunk{src: int64(len(src)), firstBlock: blocks, firstPart: parts, blocks: 1 + r.Int32N(20), parts: 1 + r.Int32N(16), lastParts: 1}
			c.size = headerSize + 4*int64(c.blocks) + r.Int64N(200)
			src = append(src, make([]byte, c.size)...)
			body := src[c.src:]
			for i := headerSize + 4*int64(c.blocks); i < c.size; i++ {
				body[i] = byte(r.IntN(3)) * byte(r.IntN(2))
			}
			for b := range c.blocks {
				start := uint32(r.Int64N(c.size + 3))
				if r.IntN(20) == 0 {
					start = r.Uint32()
				}
				binary.LittleEndian.PutUint32(body[headerSize+4*b:], start)
			}
			blocks += int64(c.blocks)
			parts += int64(c.blocks-1)*int64(c.parts) + int64(c.lastParts)
			chunks = append(chunks, c)
		}
		got := make([]part, parts)
		e.Launch("quiver_blosc_parts", (blocks+threads-1)/threads, threads, src, batch.Bytes(chunks), int64(len(chunks)), batch.Bytes(got), blocks)
		want := make([]part, parts)
		for _, c := range chunks {
			c.findParts(src[c.src:c.src+c.size], want[c.firstPart:])
		}
		require.Equal(t, want, got)
		for _, p := range got {
			if p.status != batch.OK {
				failed++
			}
		}
	}
	require.Greater(t, failed, 1000)
}
