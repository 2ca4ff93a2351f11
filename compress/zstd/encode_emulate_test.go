//go:build emulate

package zstd

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// encodeEmulated runs the kernels on inputs, as encodingPlan.encode does.
func encodeEmulated(e *batchtest.Emulator, src []byte, items []batch.Item, size int64, checksum int64, find string) ([]batch.Outcome, []byte) {
	var p encodingPlan
	for _, it := range items {
		p.add(it)
	}
	p.finish()
	dst, outcomes := bytes.Repeat([]byte{0xEE}, int(size)), make([]batch.Outcome, len(items))
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
	return outcomes, dst
}

// TestKernelsEncodeWithinTheirMemory runs the kernels under AddressSanitizer, and compares
// the frames with those of the host implementation.
func TestKernelsEncodeWithinTheirMemory(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(1, 2))
	dev := batchtest.Simulated(t)
	for round := range 12 {
		n := r.IntN(6000)
		if round%6 == 0 {
			n = 30_000 + r.IntN(300_000)
		}
		inputs := append(batchtest.Samples(r, n), batchtest.Adversarial(r, n)...)
		var src []byte
		var items []batch.Item
		var size int64
		for _, in := range inputs {
			src = append(src, make([]byte, r.IntN(20))...)
			items = append(items, batch.Item{Src: int64(len(src)), SrcSize: int64(len(in)), Dst: size + 3, DstSize: Bound(int64(len(in)))})
			src = append(src, in...)
			size += 3 + Bound(int64(len(in)))
		}
		level, find := 1, "matches"
		if round%3 == 0 {
			level, find = 0, "more_matches"
		}
		outcomes, dst := encodeEmulated(e, src, items, size, int64(round&1), find)
		sizes := make([]int, len(inputs))
		for i := range sizes {
			sizes[i] = int(items[i].DstSize)
		}
		want, results := batchtest.Run(t, dev, inputs, sizes, func(b compress.Batch) ([]compress.Result, error) {
			return Encode(b, EncodeOptions{Level: level, Checksum: round&1 == 1})
		})
		for i, in := range inputs {
			require.Equal(t, batch.OK, outcomes[i].Status)
			require.NoError(t, results[i].Err)
			got := dst[items[i].Dst : items[i].Dst+outcomes[i].Size]
			back, err := DecodeFrames(nil, got, int64(n))
			require.NoError(t, err, "input %d of %d bytes", i, n)
			require.True(t, bytes.Equal(in, back), "input %d of %d bytes", i, n)
			require.True(t, bytes.Equal(want[i], got), "input %d of %d bytes: the host implementation has %d bytes, the kernels %d", i, n, len(want[i]), len(got))
		}
	}
}
