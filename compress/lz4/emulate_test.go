//go:build emulate

package lz4

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// decodeEmulated runs the kernels on a batch of inputs, as decodeItems does.
func decodeEmulated(e *batchtest.Emulator, inputs [][]byte, sizes []int) ([]batch.Outcome, [][]byte) {
	src, items, room := batchtest.Pack(inputs, sizes)
	n := int64(len(items))
	p := planDecoding(items, math.MaxInt64)
	segments, pieces := p.segments(), p.pieces()
	dst, outcomes, in := make([]byte, room), make([]batch.Outcome, n), batch.Bytes(items)
	walks, bits := batch.Bytes(make([]walk, segments*segmentParts)), make([]byte, segments*segmentParts*partWords*4)
	marks, marked, places, results, of := make([]byte, 2*p.marks), make([]byte, 4*pieces), batch.Bytes(p.places), batch.Bytes(outcomes), batch.Bytes(make([]piece, pieces))
	ends := [2][]byte{make([]byte, 4*segments), make([]byte, 4*segments)}
	for pass := range p.passes() {
		e.Launch("quiver_lz4_parts", segments, segmentParts, src, in, places, walks, bits, ends[(pass+1)%2], ends[pass%2], n, pass)
	}
	e.Launch("quiver_lz4_link", ceil(n*warp, linkThreads), linkThreads, dst, src, in, places, walks, bits, of, results, p.piece, n)
	e.Launch("quiver_lz4_execute", pieces, warp, dst, src, in, places, of, bits, results, int64(0), n)
	e.Launch("quiver_lz4_mark", pieces, warp, dst, src, in, places, of, bits, marks, marked, results, p.piece, int64(0), n)
	e.Launch("quiver_lz4_resolve", n, resolveThreads, dst, in, places, marks, marked, results, p.piece, int64(0))
	return outcomes, batchtest.Unpack(dst, items, outcomes)
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
		SetPieces(t, int64(1<<10)<<(round%5), int64(4<<10)<<(round%3*8))
		var want, inputs [][]byte
		var sizes []int
		for _, data := range append(batchtest.Samples(r, n), batchtest.Adversarial(r, n)...) {
			in := make([]byte, Bound(int64(n)))
			k, err := EncodeBlock(in, data, 1)
			require.NoError(t, err)
			want, inputs, sizes = append(want, data), append(inputs, in[:k]), append(sizes, n)
		}
		short, size := ShortSequences(r, 1+n/8)
		data := make([]byte, size)
		_, err := decodeBlock(data, short)
		require.NoError(t, err)
		want, inputs, sizes = append(want, data), append(inputs, short), append(sizes, size)
		outcomes, got := decodeEmulated(e, inputs, sizes)
		for i, data := range want {
			require.Equal(t, batch.OK, outcomes[i].Status)
			require.True(t, bytes.Equal(data, got[i]), "%d bytes", n)
			for range 3 {
				inputs, sizes = append(inputs, batchtest.Mutate(r, inputs[i])), append(sizes, sizes[i])
			}
		}
		if outcomes, got = decodeEmulated(e, inputs, sizes); n > 20_000 {
			continue
		}
		for i, in := range inputs {
			host := make([]byte, sizes[i])
			size, err := decodeBlock(host, in)
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
	p := planEncoding(items)
	outcomes := make([]batch.Outcome, len(items))
	encoded, sequences := make([]encodedPiece, len(p.pieces)), make([]encodedSequence, p.scratch)
	pieces, starts, n := batch.Bytes(p.pieces), batch.Bytes(p.starts), int64(len(p.pieces))
	if n > 0 {
		e.Launch("quiver_lz4_matches", n, warp, src, pieces, batch.Bytes(sequences), batch.Bytes(encoded))
	}
	count := int64(len(items))
	e.Launch("quiver_lz4_place", ceil(count*warp, placeThreads), placeThreads, dst, batch.Bytes(items), starts, batch.Bytes(encoded), batch.Bytes(outcomes), count)
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

// TestKernelsPlaceManyPieces compares where the kernel and the host implementation put the
// pieces of large items, of which some have no match.
func TestKernelsPlaceManyPieces(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(5, 6))
	tooLarge := 0
	for range 200 {
		var pieces []encodedPiece
		var items []batch.Item
		starts := []uint32{0}
		few := r.IntN(4)
		for i := range 1 + r.IntN(5) {
			for range r.IntN(150) {
				p := encodedPiece{tail: r.Uint32N(3000)}
				if r.IntN(4) <= few {
					p.sequences, p.first, p.rest = 1, r.Uint32N(2)*r.Uint32N(40_000), 3+r.Uint32N(20_000)
				}
				pieces = append(pieces, p)
			}
			starts = append(starts, uint32(len(pieces)))
			items = append(items, batch.Item{Dst: int64(i), DstSize: 1 + r.Int64N(4_000_000)})
		}
		want, got, outcomes := slices.Clone(pieces), slices.Clone(pieces), make([]batch.Outcome, len(items))
		n := int64(len(items))
		e.Launch("quiver_lz4_place", ceil(n*warp, placeThreads), placeThreads, make([]byte, n), batch.Bytes(items), batch.Bytes(starts), batch.Bytes(got), batch.Bytes(outcomes), n)
		for i, it := range items {
			size, ok := placePieces(want[starts[i]:starts[i+1]], it.DstSize)
			if !ok {
				require.Equal(t, batch.Outcome{Status: batch.TooLarge}, outcomes[i])
				tooLarge++
				continue
			}
			require.Equal(t, batch.Outcome{Size: size}, outcomes[i])
			require.Equal(t, want[starts[i]:starts[i+1]], got[starts[i]:starts[i+1]])
		}
	}
	require.Greater(t, tooLarge, 10)
}
