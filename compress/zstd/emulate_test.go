//go:build emulate

package zstd

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// decodeEmulated runs the kernels on one input, as decoding.decode does.
func decodeEmulated(e *batchtest.Emulator, in []byte, size int) (batch.Outcome, []byte) {
	items := []batch.Item{{Src: 0, SrcSize: int64(len(in)), Dst: 0, DstSize: int64(size)}}
	dst, outcomes, found := make([]byte, size), make([]batch.Outcome, 1), make([]counts, 1)
	e.Launch("quiver_zstd_count", 1, threads, in, batch.Bytes(items), batch.Bytes(found), int64(1))
	c := found[0]
	starts := []counts{{Status: c.Status}, {Blocks: c.Blocks, Literals: c.Literals, Sequences: c.Sequences}}
	blocks, sequences, literals := make([]block, c.Blocks), make([]sequence, c.Sequences), make([]byte, c.Literals)
	begin := batch.Bytes(starts)
	launch := func(name string, blocks, threads int64, arguments ...any) {
		if blocks > 0 {
			e.Launch("quiver_zstd_"+name, blocks, threads, arguments...)
		}
	}
	launch("scan", 1, threads, in, batch.Bytes(items), begin, batch.Bytes(blocks), int64(1))
	launch("literals", ceil(c.Blocks, blocksPerLiteralsWarp), warp, in, batch.Bytes(blocks), literals, c.Blocks)
	launch("sequences", ceil(c.Blocks, blocksPerSequencesWarp), warp, in, batch.Bytes(blocks), batch.Bytes(sequences), c.Blocks)
	launch("place", 1, threads, batch.Bytes(items), begin, batch.Bytes(blocks), batch.Bytes(outcomes), int64(1))
	launch("resolve", c.Blocks, resolveThreads, begin, batch.Bytes(blocks), batch.Bytes(sequences), batch.Bytes(outcomes))
	launch("write", 1, writeThreads, dst, batch.Bytes(items), begin, batch.Bytes(sequences), literals, batch.Bytes(outcomes))
	launch("checksum", 1, checksumThreads, dst, batch.Bytes(items), begin, batch.Bytes(blocks), batch.Bytes(outcomes), int64(1))
	return outcomes[0], dst[:outcomes[0].Size]
}

// TestKernelsDecodeWithinTheirMemory runs the kernels on valid and on changed frames, under
// AddressSanitizer.
func TestKernelsDecodeWithinTheirMemory(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(1, 2))
	var encoders []*zstd.Encoder
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedBestCompression} {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithAllLitEntropyCompression(true))
		require.NoError(t, err)
		encoders = append(encoders, w)
	}
	failed := 0
	for round := range 25 {
		n := r.IntN(5000)
		if round%20 == 0 {
			n = 200_000
		}
		for _, data := range batchtest.Samples(r, n) {
			in := encoders[r.IntN(2)].EncodeAll(data, nil)
			outcome, got := decodeEmulated(e, in, n)
			require.Equal(t, batch.OK, outcome.Status)
			require.True(t, bytes.Equal(data, got), "%d bytes", n)
			if n > 5000 || len(in) == 0 {
				continue
			}
			for range 1 + r.IntN(3) {
				in[r.IntN(len(in))] = byte(r.Uint32())
			}
			host := make([]byte, n)
			size, err := decodeFrames(host, in)
			if outcome, got = decodeEmulated(e, in, n); outcome.Status != batch.OK {
				failed++
			} else if err == nil {
				require.True(t, bytes.Equal(host[:size], got), "%x", in)
			}
		}
	}
	assert.NotZero(t, failed)
}
