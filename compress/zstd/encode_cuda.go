package zstd

import (
	"unsafe"

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

// add adds an item.
func (p *encodingPlan) add(it batch.Item) {
	most := blockSizeOf(it.SrcSize)
	p.starts = append(p.starts, uint32(len(p.blocks)))
	for at := int64(0); at < it.SrcSize; at += most {
		if at%matches.PieceSize == 0 {
			p.pieces = append(p.pieces, uint32(len(p.blocks)))
		}
		size := uint32(min(most, it.SrcSize-at))
		p.blocks = append(p.blocks, sourceBlock{it.Src + at, p.scratch, size, uint32(len(p.items))})
		p.scratch += scratchSize(size)
	}
	p.items = append(p.items, it)
}

// finish adds the ends of the last item and the last piece.
func (p *encodingPlan) finish() {
	p.starts = append(p.starts, uint32(len(p.blocks)))
	p.pieces = append(p.pieces, uint32(len(p.blocks)))
}

func encodeCUDA(dev *cudabuf.Device, b compress.Batch, o EncodeOptions) ([]batch.Outcome, error) {
	outcomes := make([]batch.Outcome, len(b.In))
	items := batch.Items(b)
	err := batch.OnGPU(dev, func(w *batch.Work) error {
		return batch.InSteps(len(items), batch.Limit(o.Scratch), func(i int) int64 { return need(items[i].SrcSize) }, func(first, end int) error {
			defer w.Release()
			var p encodingPlan
			for _, it := range items[first:end] {
				p.add(it)
			}
			p.finish()
			return p.encode(w, b, o, outcomes[first:end])
		})
	})
	return outcomes, err
}

// encode encodes the items of the plan.
func (p *encodingPlan) encode(w *batch.Work, b compress.Batch, o EncodeOptions, outcomes []batch.Outcome) error {
	memory, results := w.Buffer(4*p.scratch), w.Buffer(int64(len(batch.Bytes(outcomes))))
	literals, contents, sequences := launch.InOut(memory, 0), launch.InOut(memory, p.scratch), launch.InOut(memory, 2*p.scratch)
	state := launch.InOut(w.Buffer(int64(len(p.blocks))*int64(unsafe.Sizeof(encodedBlock{}))), 0)
	src, dst, out := launch.In(b.Src, 0), launch.InOut(b.Dst, 0), launch.InOut(results, 0)
	from, pieces := launch.In(batch.Put(w, p.blocks), 0), launch.In(batch.Put(w, p.pieces), 0)
	items, starts := launch.In(batch.Put(w, p.items), 0), launch.In(batch.Put(w, p.starts), 0)

	n, blockCount, sum := int64(len(p.items)), int64(len(p.blocks)), int64(0)
	if o.Checksum {
		sum = 1
	}
	find := "quiver_zstd_matches"
	if o.Level == 0 || o.Level >= moreMatchesLevel {
		find = "quiver_zstd_more_matches"
	}
	w.Launch(matchesProgram, find, int64(len(p.pieces))-1, warp, src, from, pieces, literals, sequences, state)
	w.Launch(entropyProgram, "quiver_zstd_entropy", blockCount, warp, src, from, literals, contents, sequences, state)
	w.Launch(frameProgram, "quiver_zstd_frame", ceil(n*warp, frameThreads), frameThreads, dst, src, items, starts, state, out, n, sum)
	w.Launch(frameProgram, "quiver_zstd_pack", blockCount, packThreads, dst, src, items, starts, from, contents, state, out)
	return w.Fetch(results, outcomes)
}
