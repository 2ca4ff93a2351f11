//go:build emulate

package lz4

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// TestKernelsDecodeWithinTheirMemory runs the kernel on valid and on changed blocks, under
// AddressSanitizer.
func TestKernelsDecodeWithinTheirMemory(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(1, 2))
	decode := func(in []byte, size int) (batch.Outcome, []byte) {
		items := []batch.Item{{Src: 0, SrcSize: int64(len(in)), Dst: 0, DstSize: int64(size)}}
		dst, outcomes := make([]byte, size), make([]batch.Outcome, 1)
		e.Launch("quiver_lz4_decode", 1, decodeThreads, dst, in, batch.Bytes(items), batch.Bytes(outcomes))
		return outcomes[0], dst[:outcomes[0].Size]
	}
	failed := 0
	for range 100 {
		n := 20 + r.IntN(20_000)
		for _, data := range batchtest.Samples(r, n) {
			in := make([]byte, lz4.CompressBlockBound(n))
			k, err := lz4.CompressBlock(data, in, nil)
			require.NoError(t, err)
			if in = in[:k]; k == 0 {
				continue // does not compress
			}
			outcome, got := decode(in, n)
			require.Equal(t, batch.OK, outcome.Status)
			require.True(t, bytes.Equal(data, got), "%d bytes", n)
			for range 1 + r.IntN(3) {
				in[r.IntN(len(in))] = byte(r.Uint32())
			}
			host := make([]byte, n)
			size, err := lz4.UncompressBlock(in, host)
			if outcome, got = decode(in, n); outcome.Status != batch.OK {
				failed++
			} else if err == nil {
				require.True(t, bytes.Equal(host[:size], got), "%x", in)
			}
		}
	}
	assert.NotZero(t, failed)
}
