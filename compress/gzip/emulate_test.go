//go:build emulate

package gzip

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// TestKernelsDecodeWithinTheirMemory runs the kernel on valid and on changed streams, under
// AddressSanitizer. The decoder in Go must accept the same streams.
func TestKernelsDecodeWithinTheirMemory(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(1, 2))
	decode := func(in []byte, size int, f Format) (batch.Outcome, []byte) {
		skip := r.IntN(5)
		src := append(make([]byte, skip), in...)
		items := []batch.Item{{Src: int64(skip), SrcSize: int64(len(in)), Dst: 0, DstSize: int64(size)}}
		dst, outcomes := make([]byte, size), make([]batch.Outcome, 1)
		e.Launch("quiver_gzip_decode", 1, warp, dst, src, batch.Bytes(items), batch.Bytes(outcomes), int64(f))
		return outcomes[0], dst[:outcomes[0].Size]
	}
	failed, passed := 0, 0
	for round := range 60 {
		n := 1 + r.IntN(6000)
		if round%20 == 0 {
			n = 150_000
		}
		for _, data := range batchtest.Samples(r, n) {
			f := Format(r.IntN(3))
			in := encoded(t, r, f, data)
			outcome, got := decode(in, n, f)
			require.Equal(t, batch.OK, outcome.Status, "%d bytes, format %d", n, f)
			require.True(t, bytes.Equal(data, got), "%d bytes, format %d", n, f)
			if n > 6000 {
				continue
			}
			for range 3 {
				bad := batchtest.Mutate(r, in)
				host := make([]byte, n)
				size, err := formats[f].decodeGoInto(host, bad)
				outcome, got = decode(bad, n, f)
				require.Equal(t, err == nil, outcome.Status == batch.OK, "%v, status %d, format %d: %x", err, outcome.Status, f, bad)
				if err != nil {
					failed++
					continue
				}
				passed++
				require.True(t, bytes.Equal(host[:size], got), "%x", bad)
			}
		}
	}
	assert.NotZero(t, failed)
	assert.NotZero(t, passed)
}
