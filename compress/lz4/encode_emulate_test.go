//go:build emulate

package lz4

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// encodeEmulated runs the kernels on inputs, as encodingPlan.encode does.
func encodeEmulated(e *batchtest.Emulator, src []byte, items []batch.Item, size int64) ([]batch.Outcome, []byte) {
	var p encodingPlan
	for _, it := range items {
		p.add(it)
	}
	p.finish()
	dst, outcomes := bytes.Repeat([]byte{0xEE}, int(size)), make([]batch.Outcome, len(items))
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
	return outcomes, dst
}

// TestKernelsEncodeWithinTheirMemory runs the kernels under AddressSanitizer, and compares
// the blocks with those of the host implementation.
func TestKernelsEncodeWithinTheirMemory(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(1, 2))
	dev := batchtest.Simulated(t)
	for round := range 20 {
		n := r.IntN(6000)
		if round%6 == 0 {
			n = 30_000 + r.IntN(300_000)
		}
		inputs := append(batchtest.Samples(r, n), batchtest.Adversarial(r, n)...)
		var src []byte
		var items []batch.Item
		var sizes []int
		var size int64
		for _, in := range inputs {
			src = append(src, make([]byte, r.IntN(20))...)
			items = append(items, batch.Item{Src: int64(len(src)), SrcSize: int64(len(in)), Dst: size + 3, DstSize: Bound(int64(len(in)))})
			src = append(src, in...)
			size += 3 + Bound(int64(len(in)))
			sizes = append(sizes, int(Bound(int64(len(in)))))
		}
		outcomes, dst := encodeEmulated(e, src, items, size)
		want, results := batchtest.Run(t, dev, inputs, sizes, func(b compress.Batch) ([]compress.Result, error) { return Encode(b, EncodeOptions{}) })
		for i, in := range inputs {
			require.Equal(t, batch.OK, outcomes[i].Status)
			require.NoError(t, results[i].Err)
			got, back := dst[items[i].Dst:items[i].Dst+outcomes[i].Size], make([]byte, n)
			require.NoError(t, DecodeBlock(back, got), "input %d of %d bytes", i, n)
			require.True(t, bytes.Equal(in, back), "input %d of %d bytes", i, n)
			require.True(t, bytes.Equal(want[i], got), "input %d of %d bytes: the host implementation has %d bytes, the kernels %d", i, n, len(want[i]), len(got))
		}
	}
}
