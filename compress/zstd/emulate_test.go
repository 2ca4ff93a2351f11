//go:build emulate

package zstd

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// decodeEmulated runs the kernels on a batch of inputs, as decoding.decode does.
func decodeEmulated(e *batchtest.Emulator, inputs [][]byte, sizes []int) ([]batch.Outcome, [][]byte) {
	src, items, room := batchtest.Pack(inputs, sizes)
	n := int64(len(items))
	dst, outcomes, found := make([]byte, room), make([]batch.Outcome, n), make([]counts, n)
	e.Launch("quiver_zstd_count", ceil(n, threads), threads, src, batch.Bytes(items), batch.Bytes(found), n)
	starts := prefixSums(found)
	all := starts[n]
	blocks, sequences, literals := make([]block, all.Blocks), make([]batch.Sequence, all.Sequences), make([]byte, all.Literals)
	windows, states, index := make([]batch.Window, all.Windows), make([]batch.Progress, n), make([]uint16, all.Blocks*indexSize)
	writes, small := writers(items, found)
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
	launch("execute", int64(len(small)), warp, dst, src, batch.Bytes(small), batch.Bytes(items), begin, batch.Bytes(blocks), batch.Bytes(sequences), literals, batch.Bytes(outcomes))
	launch("checksum", ceil(n*warp, checksumThreads), checksumThreads, dst, batch.Bytes(items), begin, batch.Bytes(blocks), batch.Bytes(outcomes), n)
	return outcomes, batchtest.Unpack(dst, items, outcomes)
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
		SetSmallOutput(t, int64(round%2)<<20)
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

// encodeEmulated runs the kernels on inputs, as encodingPlan.encode does. find is the name of
// the kernel that finds matches.
func encodeEmulated(e *batchtest.Emulator, src []byte, items []batch.Item, dst []byte, checksum int64, find string) []batch.Outcome {
	p := planEncoding(items)
	outcomes := make([]batch.Outcome, len(items))
	encoded := make([]byte, len(p.blocks)*int(unsafe.Sizeof(encodedBlock{})))
	literals, contents, sequences := make([]byte, p.scratch), make([]byte, p.scratch), make([]byte, 2*p.scratch)
	blocks, starts, pieces := batch.Bytes(p.blocks), batch.Bytes(p.starts), batch.Bytes(p.pieces)
	n := int64(len(p.blocks))
	if n > 0 {
		e.Launch("quiver_zstd_"+find, int64(len(p.pieces))-1, warp, src, blocks, pieces, literals, sequences, encoded)
		e.Launch("quiver_zstd_entropy", n, warp, src, blocks, literals, contents, sequences, encoded)
	}
	e.Launch("quiver_zstd_frame", ceil(int64(len(items))*warp, frameThreads), frameThreads, dst, src, batch.Bytes(items), starts, encoded, batch.Bytes(outcomes), int64(len(items)), checksum)
	if n > 0 {
		e.Launch("quiver_zstd_pack", n, packThreads, dst, src, batch.Bytes(items), starts, blocks, contents, encoded, batch.Bytes(outcomes))
	}
	return outcomes
}

// TestKernelsEncodeWithinTheirMemory runs the kernels under AddressSanitizer, and compares
// the frames with those of the host implementation.
func TestKernelsEncodeWithinTheirMemory(t *testing.T) {
	encoders := func(round int) (batchtest.EmulatedEncoder, batchtest.Function) {
		o, find := EncodeOptions{Level: 1, Checksum: round&1 == 1}, "matches"
		if round%3 == 0 {
			o.Level, find = 0, "more_matches"
		}
		emulated := func(e *batchtest.Emulator, src []byte, items []batch.Item, dst []byte) []batch.Outcome {
			return encodeEmulated(e, src, items, dst, int64(round&1), find)
		}
		return emulated, func(b compress.Batch) ([]compress.Result, error) { return Encode(b, o) }
	}
	batchtest.CompareEncoders(t, 12, Bound, encoders, func(in []byte, n int) ([]byte, error) { return DecodeFrames(nil, in, int64(n)) })
}
