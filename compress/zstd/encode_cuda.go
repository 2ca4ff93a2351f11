package zstd

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/matches"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The kernels of kernels/compress; zstd_encode.cuh says what each does.
var (
	matchesProgram = launch.Program("compress/zstd_matches", map[string]cudabuf.HostKernel{
		"quiver_zstd_matches": matchesHostKernel, "quiver_zstd_more_matches": moreMatchesHostKernel,
	})
	entropyProgram = launch.Program("compress/zstd_entropy", map[string]cudabuf.HostKernel{"quiver_zstd_entropy": entropyHostKernel})
	frameProgram   = launch.Program("compress/zstd_frame", map[string]cudabuf.HostKernel{
		"quiver_zstd_frame": frameHostKernel, "quiver_zstd_pack": packHostKernel,
	})
)

const (
	frameThreads = 256
	packThreads  = 128

	// A small input has small blocks, as their codes fit shorter parts of it.
	smallInput     = 256 << 10
	smallBlockSize = 16 << 10
	blockSize      = 32 << 10

	moreMatchesLevel = 3 // levels from here on, and 0, find more matches

	scratchUnit  = 64
	sequenceSize = int64(unsafe.Sizeof(encodedSequence{}))
)

// scratchSize returns the number of bytes of scratch memory for literals of a block, which
// is that for its encoded bytes, and half of that for its sequences.
func scratchSize(size uint32) int64 { return ceil(int64(size), scratchUnit)*scratchUnit + scratchUnit }

// encodingPlan divides the inputs of one step of a batch into pieces and blocks.
type encodingPlan struct {
	items   []batch.Item
	starts  []uint32 // the first block of each item
	pieces  []uint32 // the first block of each piece
	blocks  []sourceBlock
	scratch int64
}

// blockSizeOf returns the size of the blocks of an input of n bytes, except the last.
func blockSizeOf(n int64) int64 {
	if n <= smallInput {
		return smallBlockSize
	}
	return blockSize
}

// need returns the number of bytes of the GPU's memory that n bytes of input need.
func need(n int64) int64 {
	most := blockSizeOf(n)
	of := func(size int64) int64 {
		return 4*scratchSize(uint32(size)) + int64(unsafe.Sizeof(sourceBlock{})+unsafe.Sizeof(encodedBlock{}))
	}
	bytes := n / most * of(most)
	if rest := n % most; rest > 0 {
		bytes += of(rest)
	}
	return bytes
}

// planEncoding returns the plan of items.
func planEncoding(items []batch.Item) *encodingPlan {
	blocks, pieces := int64(0), int64(0)
	for _, it := range items {
		blocks += ceil(it.SrcSize, blockSizeOf(it.SrcSize))
		pieces += ceil(it.SrcSize, matches.PieceSize)
	}
	p := &encodingPlan{items: items, starts: make([]uint32, 0, len(items)+1), pieces: make([]uint32, 0, pieces+1), blocks: make([]sourceBlock, 0, blocks)}
	for i, it := range items {
		most := blockSizeOf(it.SrcSize)
		p.starts = append(p.starts, uint32(len(p.blocks)))
		for at := int64(0); at < it.SrcSize; at += most {
			if at%matches.PieceSize == 0 {
				p.pieces = append(p.pieces, uint32(len(p.blocks)))
			}
			size := uint32(min(most, it.SrcSize-at))
			p.blocks = append(p.blocks, sourceBlock{it.Src + at, p.scratch, size, uint32(i)})
			p.scratch += scratchSize(size)
		}
	}
	p.starts = append(p.starts, uint32(len(p.blocks)))
	p.pieces = append(p.pieces, uint32(len(p.blocks)))
	return p
}

func init() {
	batch.Zstd = batch.Encoder{Bound: Bound, Need: need, Enqueue: func(w *batch.Work, dst, src arrowbuf.Buffer, items []batch.Item, level int) (onGPU, outcomes *cudabuf.Buffer) {
		return planEncoding(items).enqueue(w, dst, src, EncodeOptions{Level: level})
	}}
}

func encodeCUDA(dev *cudabuf.Device, b compress.Batch, o EncodeOptions) ([]batch.Outcome, error) {
	outcomes := make([]batch.Outcome, len(b.In))
	items := batch.Items(b)
	need := func(i int) int64 { return need(items[i].SrcSize) }
	err := batch.Overlap(dev, len(items), batch.Limit(dev, o.Scratch), need, func(w *batch.Work, first, end int) (func() error, error) {
		_, results := planEncoding(items[first:end]).enqueue(w, b.Dst, b.Src, o)
		return func() error { return w.Fetch(results, outcomes[first:end]) }, nil
	})
	return outcomes, err
}

// enqueue launches the kernels that encode the items of the plan. It returns them and their
// outcomes in the memory of the GPU.
func (p *encodingPlan) enqueue(w *batch.Work, to, from arrowbuf.Buffer, o EncodeOptions) (onGPU, outcomes *cudabuf.Buffer) {
	memory, outcomes := w.Buffer(4*p.scratch), w.Buffer(int64(len(p.items))*int64(unsafe.Sizeof(batch.Outcome{})))
	literals, contents, sequences := launch.InOut(memory, 0), launch.InOut(memory, p.scratch), launch.InOut(memory, 2*p.scratch)
	state := launch.InOut(w.Buffer(int64(len(p.blocks))*int64(unsafe.Sizeof(encodedBlock{}))), 0)
	src, dst, out := launch.In(from, 0), launch.InOut(to, 0), launch.InOut(outcomes, 0)
	blocks, pieces := launch.In(batch.Put(w, p.blocks), 0), launch.In(batch.Put(w, p.pieces), 0)
	onGPU = batch.Put(w, p.items)
	items, starts := launch.In(onGPU, 0), launch.In(batch.Put(w, p.starts), 0)

	n, blockCount, sum := int64(len(p.items)), int64(len(p.blocks)), int64(0)
	if o.Checksum {
		sum = 1
	}
	find := "quiver_zstd_matches"
	if o.Level == 0 || o.Level >= moreMatchesLevel {
		find = "quiver_zstd_more_matches"
	}
	w.Launch(matchesProgram, find, int64(len(p.pieces))-1, warp, src, blocks, pieces, literals, sequences, state)
	w.Launch(entropyProgram, "quiver_zstd_entropy", blockCount, warp, src, blocks, literals, contents, sequences, state)
	w.Launch(frameProgram, "quiver_zstd_frame", ceil(n*warp, frameThreads), frameThreads, dst, src, items, starts, state, out, n, sum)
	w.Launch(frameProgram, "quiver_zstd_pack", blockCount, packThreads, dst, src, items, starts, blocks, contents, state, out)
	return onGPU, outcomes
}
