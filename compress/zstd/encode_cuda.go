package zstd

import (
	"errors"
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

// size returns the number of bytes of the GPU's memory that the plan needs.
func (p *encodingPlan) size() int64 {
	return 4*p.scratch + int64(len(p.blocks))*int64(unsafe.Sizeof(sourceBlock{})+unsafe.Sizeof(encodedBlock{}))
}

// add adds an item.
func (p *encodingPlan) add(it batch.Item) {
	most := int64(blockSize)
	if it.SrcSize <= smallInput {
		most = smallBlockSize
	}
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

func encodeCUDA(dev *cudabuf.Device, b compress.Batch, o EncodeOptions) (_ []batch.Outcome, err error) {
	outcomes := make([]batch.Outcome, len(b.In))
	stream, err := dev.NewStream(cudabuf.StreamOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	limit := o.Scratch
	if limit <= 0 {
		limit = defaultScratch
	}
	items := batch.Items(b)
	for first := 0; first < len(items); {
		// As many items as fit into the scratch memory, and at least one.
		var p encodingPlan
		p.add(items[first])
		end := first + 1
		for end < len(items) && p.size()+4*ceil(items[end].SrcSize, scratchUnit)*scratchUnit <= limit {
			p.add(items[end])
			end++
		}
		p.finish()
		if err := p.encode(dev, stream, b, o, outcomes[first:end]); err != nil {
			return nil, err
		}
		first = end
	}
	return outcomes, nil
}

// encode encodes the items of the plan.
func (p *encodingPlan) encode(dev *cudabuf.Device, stream *cudabuf.Stream, b compress.Batch, o EncodeOptions, outcomes []batch.Outcome) error {
	items, err := batch.Upload(dev, p.items)
	if err != nil {
		return err
	}
	defer items.Release()
	starts, err := batch.Upload(dev, p.starts)
	if err != nil {
		return err
	}
	defer starts.Release()
	pieces, err := batch.Upload(dev, p.pieces)
	if err != nil {
		return err
	}
	defer pieces.Release()
	blocks, err := batch.Upload(dev, p.blocks)
	if err != nil {
		return err
	}
	defer blocks.Release()
	results, err := dev.NewBuffer(int64(len(batch.Bytes(outcomes))))
	if err != nil {
		return err
	}
	defer results.Release()
	encoded, err := dev.NewBuffer(int64(len(p.blocks)) * int64(unsafe.Sizeof(encodedBlock{})))
	if err != nil {
		return err
	}
	defer encoded.Release()
	memory, err := dev.NewBuffer(4 * p.scratch)
	if err != nil {
		return err
	}
	defer memory.Release()

	n, blockCount, sum := int64(len(p.items)), int64(len(p.blocks)), int64(0)
	if o.Checksum {
		sum = 1
	}
	find := "matches"
	if o.Level == 0 || o.Level >= moreMatchesLevel {
		find = "more_matches"
	}
	src, dst := launch.In(b.Src, 0), launch.InOut(b.Dst, 0)
	literals, contents, sequences := launch.InOut(memory, 0), launch.InOut(memory, p.scratch), launch.InOut(memory, 2*p.scratch)
	state, out := launch.InOut(encoded, 0), launch.InOut(results, 0)
	from := launch.In(blocks, 0)
	type step struct {
		program         *cudabuf.Program
		name            string
		blocks, threads int64
		arguments       []any
	}
	for _, s := range []step{
		{matchesProgram, find, int64(len(p.pieces)) - 1, warp, []any{src, from, launch.In(pieces, 0), literals, sequences, state}},
		{entropyProgram, "entropy", blockCount, warp, []any{src, from, literals, contents, sequences, state}},
		{frameProgram, "frame", ceil(n*warp, frameThreads), frameThreads, []any{dst, src, launch.In(items, 0), launch.In(starts, 0), state, out, n, sum}},
		{frameProgram, "pack", blockCount, packThreads, []any{dst, src, launch.In(items, 0), launch.In(starts, 0), from, contents, state, out}},
	} {
		if s.blocks == 0 {
			continue // all items are empty
		}
		if err := launch.OnStream(stream, s.program, "quiver_zstd_"+s.name, s.blocks, s.threads, s.arguments...); err != nil {
			return err
		}
	}
	_, err = results.CopyToHost(batch.Bytes(outcomes), 0)
	return err
}
