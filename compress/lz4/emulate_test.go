//go:build emulate

package lz4

import (
	"bytes"
	"math/rand/v2"
	"testing"

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
	outputs := make([][]byte, n)
	for i, it := range items {
		outputs[i] = dst[it.Dst : it.Dst+outcomes[i].Size]
	}
	return outcomes, outputs
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
