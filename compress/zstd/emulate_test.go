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

// decodeEmulated runs the kernels on a batch of inputs, as decoding.decode does.
func decodeEmulated(e *batchtest.Emulator, inputs [][]byte, sizes []int) ([]batch.Outcome, [][]byte) {
	var items []batch.Item
	var src []byte
	var room int64
	for i, in := range inputs {
		src, room = append(src, make([]byte, i*7%20)...), room+int64(i*5%20)
		items = append(items, batch.Item{Src: int64(len(src)), SrcSize: int64(len(in)), Dst: room, DstSize: int64(sizes[i])})
		src, room = append(src, in...), room+int64(sizes[i])
	}
	n := int64(len(items))
	dst, outcomes, found := make([]byte, room), make([]batch.Outcome, n), make([]counts, n)
	e.Launch("quiver_zstd_count", ceil(n, threads), threads, src, batch.Bytes(items), batch.Bytes(found), n)
	starts := prefixSums(found)
	all := starts[n]
	blocks, sequences, literals := make([]block, all.Blocks), make([]batch.Sequence, all.Sequences), make([]byte, all.Literals)
	windows, states, index, writes := make([]batch.Window, all.Windows), make([]batch.Progress, n), make([]uint16, all.Blocks*indexSize), writers(found)
	begin := batch.Bytes(starts)
	launch := func(name string, blocks, threads int64, arguments ...any) {
		if blocks > 0 {
			e.Launch("quiver_zstd_"+name, blocks, threads, arguments...)
		}
	}
	launch("scan", ceil(n, threads), threads, src, batch.Bytes(items), begin, batch.Bytes(blocks), n)
	launch("blocks", 2*ceil(all.Blocks, blocksPerWarp), warp, src, batch.Bytes(blocks), literals, batch.Bytes(sequences), batch.Bytes(index), all.Blocks)
	launch("place", ceil(n, threads), threads, dst, batch.Bytes(items), begin, batch.Bytes(blocks), batch.Bytes(windows), batch.Bytes(states), batch.Bytes(outcomes), n)
	launch("write", int64(len(writes)), batch.WriteThreads, dst, src, batch.Bytes(writes), batch.Bytes(items), begin, batch.Bytes(blocks), batch.Bytes(index), batch.Bytes(sequences), literals, batch.Bytes(windows), batch.Bytes(states), batch.Bytes(outcomes))
	launch("checksum", ceil(n*warp, checksumThreads), checksumThreads, dst, batch.Bytes(items), begin, batch.Bytes(blocks), batch.Bytes(outcomes), n)
	outputs := make([][]byte, n)
	for i, it := range items {
		outputs[i] = dst[it.Dst : it.Dst+outcomes[i].Size]
	}
	return outcomes, outputs
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
		var inputs [][]byte
		var sizes []int
		samples := append(batchtest.Samples(r, n), batchtest.Adversarial(r, n)...)
		for _, data := range samples {
			inputs, sizes = append(inputs, encoders[r.IntN(2)].EncodeAll(data, nil)), append(sizes, n)
		}
		outcomes, got := decodeEmulated(e, inputs, sizes)
		for i, data := range samples {
			require.Equal(t, batch.OK, outcomes[i].Status)
			require.True(t, bytes.Equal(data, got[i]), "%d bytes", n)
			for range 4 {
				inputs, sizes = append(inputs, batchtest.Mutate(r, inputs[i])), append(sizes, n)
			}
		}
		if n > 5000 {
			continue
		}
		outcomes, got = decodeEmulated(e, inputs, sizes)
		for i, in := range inputs {
			host := make([]byte, n)
			size, err := decodeFrames(host, in)
			if outcomes[i].Status != batch.OK {
				failed++
			} else if err == nil {
				require.True(t, bytes.Equal(host[:size], got[i]), "%x", in)
			}
		}
	}
	assert.NotZero(t, failed)
}
