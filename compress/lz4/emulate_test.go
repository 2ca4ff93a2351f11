//go:build emulate

package lz4

import (
	"bytes"
	"math/rand/v2"
	"testing"

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
	segments, starts, exits := segmentsOf(items)
	dst, outcomes, counts, states := make([]byte, room), make([]batch.Outcome, n), make([]uint32, n), make([]batch.Progress, n)
	in, begin, found, all := batch.Bytes(items), batch.Bytes(starts), batch.Bytes(segments), int64(len(segments))
	ofParts, ofSegments, own := make([]byte, 2*exits), make([]byte, 2*all*partBytes), make([]byte, all*parts*partSize)
	e.Launch("quiver_lz4_exits", all, exitThreads, src, in, found, ofParts, ofSegments)
	e.Launch("quiver_lz4_chain", ceil(n*warp, warpThreads), warpThreads, src, in, begin, found, ofParts, ofSegments, n)
	e.Launch("quiver_lz4_enter", ceil(all*warp, warpThreads), warpThreads, src, in, found, ofParts, own, all)
	e.Launch("quiver_lz4_count", ceil(all*parts, readThreads), readThreads, src, in, own, all*parts)
	e.Launch("quiver_lz4_total", ceil(n*warp, warpThreads), warpThreads, dst, in, begin, own, batch.Bytes(counts), batch.Bytes(states), batch.Bytes(outcomes), n)
	firstSequence, firstWindow, windows := make([]int64, n), make([]int64, n), make([]int64, n)
	var sequences, allWindows int64
	for i := range items {
		windows[i] = batch.Windows(outcomes[i].Size)
		firstSequence[i], firstWindow[i] = sequences, allWindows
		sequences, allWindows = sequences+int64(counts[i]), allWindows+windows[i]
	}
	places, windowPlaces := batch.Bytes(firstSequence), batch.Bytes(firstWindow)
	sequencesMemory, windowsMemory, writers := make([]byte, sequences*batch.SequenceBytes), make([]byte, allWindows*batch.WindowSize), batch.Writers(windows)
	e.Launch("quiver_lz4_sequences", ceil(all*parts, readThreads), readThreads, dst, src, in, own, batch.Bytes(outcomes), places, windowPlaces, sequencesMemory, windowsMemory, all*parts)
	e.Launch("quiver_lz4_execute", int64(len(writers)), batch.WriteThreads, dst, src, batch.Bytes(writers), in, places, windowPlaces, batch.Bytes(counts), sequencesMemory, windowsMemory, batch.Bytes(states), batch.Bytes(outcomes))
	return outcomes, batchtest.Unpack(dst, items, outcomes)
}

// decodeSmallEmulated runs the kernel of small inputs.
func decodeSmallEmulated(e *batchtest.Emulator, in []byte, size int) (batch.Outcome, []byte) {
	items := []batch.Item{{Src: 0, SrcSize: int64(len(in)), Dst: 0, DstSize: int64(size)}}
	dst, outcomes := make([]byte, size), make([]batch.Outcome, 1)
	e.Launch("quiver_lz4_small", 1, smallThreads, dst, in, batch.Bytes(items), batch.Bytes(outcomes))
	return outcomes[0], dst[:outcomes[0].Size]
}

// TestKernelsDecodeWithinTheirMemory runs the kernels on valid and on changed blocks, under
// AddressSanitizer.
func TestKernelsDecodeWithinTheirMemory(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(1, 2))
	failed := 0
	for round := range 10 {
		n := 20 + r.IntN(20_000)
		if round%10 == 0 {
			n = 200_000
		}
		var want, inputs [][]byte
		var sizes []int
		for _, data := range append(batchtest.Samples(r, n), batchtest.Adversarial(r, n)...) {
			in := make([]byte, Bound(int64(n)))
			k, err := EncodeBlock(in, data, 1)
			require.NoError(t, err)
			want, inputs, sizes = append(want, data), append(inputs, in[:k]), append(sizes, n)
		}
		for i, data := range want {
			outcome, got := decodeSmallEmulated(e, inputs[i], n)
			require.Equal(t, batch.OK, outcome.Status)
			require.True(t, bytes.Equal(data, got), "%d bytes", n)
		}
		outcomes, got := decodeEmulated(e, inputs, sizes)
		for i, data := range want {
			require.Equal(t, batch.OK, outcomes[i].Status)
			require.True(t, bytes.Equal(data, got[i]), "%d bytes", n)
			for range 3 {
				inputs, sizes = append(inputs, batchtest.Mutate(r, inputs[i])), append(sizes, n)
			}
		}
		if outcomes, got = decodeEmulated(e, inputs, sizes); n > 20_000 {
			continue
		}
		for i, in := range inputs {
			host := make([]byte, n)
			size, err := decodeBlock(host, in)
			if outcome, got := decodeSmallEmulated(e, in, n); outcome.Status == batch.OK && err == nil {
				require.True(t, bytes.Equal(host[:size], got), "%x", in)
			}
			if outcomes[i].Status != batch.OK {
				failed++
			} else if err == nil {
				require.True(t, bytes.Equal(host[:size], got[i]), "%x", in)
			}
		}
	}
	assert.NotZero(t, failed)
}

// encodeEmulated runs the kernels on inputs, as encodingPlan.encode does.
func encodeEmulated(e *batchtest.Emulator, src []byte, items []batch.Item, dst []byte) []batch.Outcome {
	var p encodingPlan
	for _, it := range items {
		p.add(it)
	}
	p.finish()
	outcomes := make([]batch.Outcome, len(items))
	encoded, sequences := make([]encodedPiece, len(p.pieces)), make([]encodedSequence, p.scratch)
	pieces, starts, n := batch.Bytes(p.pieces), batch.Bytes(p.starts), int64(len(p.pieces))
	if n > 0 {
		e.Launch("quiver_lz4_matches", n, warp, src, pieces, batch.Bytes(sequences), batch.Bytes(encoded))
	}
	count := int64(len(items))
	e.Launch("quiver_lz4_place", (count+placeThreads-1)/placeThreads, placeThreads, dst, batch.Bytes(items), starts, batch.Bytes(encoded), batch.Bytes(outcomes), count)
	if n > 0 {
		e.Launch("quiver_lz4_write", n, warp, dst, src, batch.Bytes(items), starts, pieces, batch.Bytes(sequences), batch.Bytes(encoded), batch.Bytes(outcomes))
	}
	return outcomes
}

// TestKernelsEncodeWithinTheirMemory runs the kernels under AddressSanitizer, and compares
// the blocks with those of the host implementation.
func TestKernelsEncodeWithinTheirMemory(t *testing.T) {
	encoders := func(int) (batchtest.EmulatedEncoder, batchtest.Function) {
		return encodeEmulated, func(b compress.Batch) ([]compress.Result, error) { return Encode(b, EncodeOptions{}) }
	}
	batchtest.CompareEncoders(t, 20, Bound, encoders, func(in []byte, n int) ([]byte, error) {
		out := make([]byte, n)
		return out, DecodeBlock(out, in)
	})
}
