//go:build emulate

package blosc

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
)

// TestKernelsDecodeWithinTheirMemory finds the parts of chunks whose starts and sizes are
// often wrong, under AddressSanitizer.
func TestKernelsDecodeWithinTheirMemory(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(1, 2))
	failed := 0
	for range 500 {
		var src []byte
		var chunks []chunk
		var blocks, parts int64
		for range 1 + r.IntN(20) {
			c := chunk{src: int64(len(src)), firstBlock: blocks, firstPart: parts, blocks: 1 + r.Int32N(20), parts: 1 + r.Int32N(16), lastParts: 1}
			c.size = headerSize + 4*int64(c.blocks) + r.Int64N(200)
			src = append(src, make([]byte, c.size)...)
			body := src[c.src:]
			for i := headerSize + 4*int64(c.blocks); i < c.size; i++ {
				body[i] = byte(r.IntN(3)) * byte(r.IntN(2))
			}
			for b := range c.blocks {
				start := uint32(r.Int64N(c.size + 3))
				if r.IntN(20) == 0 {
					start = r.Uint32()
				}
				binary.LittleEndian.PutUint32(body[headerSize+4*b:], start)
			}
			blocks += int64(c.blocks)
			parts += int64(c.blocks-1)*int64(c.parts) + int64(c.lastParts)
			chunks = append(chunks, c)
		}
		got := make([]part, parts)
		e.Launch("quiver_blosc_parts", (blocks+threads-1)/threads, threads, src, batch.Bytes(chunks), int64(len(chunks)), batch.Bytes(got), blocks)
		want := make([]part, parts)
		for _, c := range chunks {
			c.findParts(src[c.src:c.src+c.size], want[c.firstPart:])
		}
		require.Equal(t, want, got)
		for _, p := range got {
			if p.status != batch.OK {
				failed++
			}
		}
	}
	require.Greater(t, failed, 1000)
}

// TestKernelsWriteChunksWithinTheirMemory writes chunks whose parts have random bytes and
// sizes, under AddressSanitizer. Some outputs are too short.
func TestKernelsWriteChunksWithinTheirMemory(t *testing.T) {
	e, r := batchtest.StartEmulator(t), rand.New(rand.NewPCG(3, 4))
	statuses, stored := map[batch.Status]int{}, 0
	for round := range 100 {
		o := EncodeOptions{Options: Options{Compressor: []Compressor{LZ4, Zstd}[round%2], Level: 1 + r.IntN(9), Shuffle: Shuffle(r.IntN(3)), TypeSize: 1 + r.IntN(9), BlockSize: r.IntN(3) * (1 + r.IntN(3000))}}
		x := &encoding{options: o, encoder: []batch.Encoder{batch.LZ4, batch.Zstd}[round%2]}
		var inputs []int
		var srcSize, dstSize int64
		for i := range 1 + r.IntN(20) {
			inputs = append(inputs, i)
			n := minSplitSize + r.Int64N(5000)
			srcSize += r.Int64N(20)
			x.batch.In = append(x.batch.In, compress.Range{Offset: srcSize, Length: n})
			srcSize += n
			room := Bound(n)
			if r.IntN(4) == 0 {
				room = r.Int64N(room)
			}
			dstSize += r.Int64N(20)
			x.batch.Out = append(x.batch.Out, compress.Range{Offset: dstSize, Length: room})
			dstSize += room
		}
		p := x.plan(inputs)
		random := func(n int64) []byte {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			return b
		}
		src, parts, encoded, dst := random(srcSize), random(max(p.shuffled, srcSize)), random(p.encoded), random(dstSize)
		results := make([]batch.Outcome, len(p.items))
		for i, it := range p.items {
			results[i].Size = r.Int64N(it.SrcSize + 1 + it.SrcSize*int64(r.IntN(2)))
			if r.IntN(10) == 0 {
				results[i] = batch.Outcome{Status: batch.TooLarge}
			}
		}
		want, outcomes := slices.Clone(dst), make([]batch.Outcome, len(inputs))
		placed, wantPlaced := make([]placedPart, len(p.items)), make([]placedPart, len(p.items))
		n, count, each := int64(len(inputs)), int64(len(p.items)), 1+r.Int64N(3)
		e.Launch("quiver_blosc_place", (n*warp+threads-1)/threads, threads, dst, batch.Bytes(p.chunks), batch.Bytes(p.items), batch.Bytes(results), batch.Bytes(placed), batch.Bytes(outcomes), n)
		e.Launch("quiver_blosc_pack", count*each, packThreads, dst, src, parts, encoded, batch.Bytes(placed), each)
		for i, c := range p.chunks {
			from, end := c.firstPart, c.firstPart+c.count()
			got := c.place(want[c.dst:c.dst+c.room], p.items[from:end], results[from:end], wantPlaced[from:end])
			require.Equal(t, got, outcomes[i])
			statuses[got.Status]++
		}
		require.Equal(t, wantPlaced, placed)
		for _, p := range wantPlaced {
			copy(want[p.to:][:p.size], [][]byte{encoded, parts, src}[p.source][p.from:])
			if p.source == fromInput {
				stored++
			}
		}
		require.Equal(t, want, dst)
	}
	require.Greater(t, statuses[batch.OK], 100)
	require.Greater(t, statuses[batch.TooLarge], 50)
	require.NotZero(t, stored)
}
