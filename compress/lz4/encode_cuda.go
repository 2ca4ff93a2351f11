package lz4

import (
	"errors"
	"unsafe"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/matches"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The kernels of kernels/compress/lz4_encode.cu, which says what each does.
var encodeProgram = launch.Program("compress/lz4_encode", map[string]cudabuf.HostKernel{
	"quiver_lz4_matches": matchesHostKernel, "quiver_lz4_place": placeHostKernel, "quiver_lz4_write": writeHostKernel,
})

const (
	warp           = 32
	placeThreads   = 64
	shortestMatch  = 5 // of the kernels
	defaultScratch = 1 << 30
	sequenceSize   = int64(unsafe.Sizeof(encodedSequence{}))
	pieceSize      = int64(unsafe.Sizeof(sourcePiece{}) + unsafe.Sizeof(encodedPiece{}))
)

// encodingPlan divides the inputs of one step of a batch into pieces.
type encodingPlan struct {
	items    []batch.Item
	starts   []uint32 // the first piece of each item
	pieces   []sourcePiece
	scratch  int64 // sequences
	outcomes []batch.Outcome
}

// need returns the number of bytes of the GPU's memory that n bytes of input need.
func need(n int64) int64 {
	return n/shortestMatch*sequenceSize + (n+matches.PieceSize-1)/matches.PieceSize*pieceSize
}

// add adds an item.
func (p *encodingPlan) add(it batch.Item) {
	p.starts = append(p.starts, uint32(len(p.pieces)))
	for at := int64(0); at < it.SrcSize; at += matches.PieceSize {
		size := min(matches.PieceSize, it.SrcSize-at)
		matched := max(0, min(size, it.SrcSize-lastLiterals-at))
		p.pieces = append(p.pieces, sourcePiece{src: it.Src + at, scratch: p.scratch, size: uint32(size), matched: uint32(matched), item: uint32(len(p.items))})
		p.scratch += size / shortestMatch
	}
	p.items = append(p.items, it)
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
	for i, it := range items {
		if it.SrcSize > MaxSize {
			outcomes[i].Status = batch.Unsupported
			items[i].SrcSize = 0 // encoded as an empty input, whose result is dropped
			items[i].DstSize = 0
		}
	}
	for first := 0; first < len(items); {
		// As many items as fit into the scratch memory, and at least one.
		var p encodingPlan
		used, end := int64(0), first
		for end == first || end < len(items) && used+need(items[end].SrcSize) <= limit {
			p.add(items[end])
			used += need(items[end].SrcSize)
			end++
		}
		if err := p.encode(dev, stream, b); err != nil {
			return nil, err
		}
		for i, o := range p.outcomes {
			if outcomes[first+i].Status == batch.OK {
				outcomes[first+i] = o
			}
		}
		first = end
	}
	return outcomes, nil
}

// encode encodes the items of the plan.
func (p *encodingPlan) encode(dev *cudabuf.Device, stream *cudabuf.Stream, b compress.Batch) error {
	p.starts = append(p.starts, uint32(len(p.pieces)))
	p.outcomes = make([]batch.Outcome, len(p.items))
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
	results, err := dev.NewBuffer(int64(len(batch.Bytes(p.outcomes))))
	if err != nil {
		return err
	}
	defer results.Release()
	encoded, err := dev.NewBuffer(int64(len(p.pieces)) * int64(unsafe.Sizeof(encodedPiece{})))
	if err != nil {
		return err
	}
	defer encoded.Release()
	sequences, err := dev.NewBuffer(p.scratch * sequenceSize)
	if err != nil {
		return err
	}
	defer sequences.Release()

	n, pieceCount := int64(len(p.items)), int64(len(p.pieces))
	src, dst, from, list := launch.In(b.Src, 0), launch.InOut(b.Dst, 0), launch.In(pieces, 0), launch.InOut(sequences, 0)
	inputs, begin, state, out := launch.In(items, 0), launch.In(starts, 0), launch.InOut(encoded, 0), launch.InOut(results, 0)
	type step struct {
		name            string
		blocks, threads int64
		arguments       []any
	}
	for _, s := range []step{
		{"matches", pieceCount, warp, []any{src, from, list, state}},
		{"place", (n + placeThreads - 1) / placeThreads, placeThreads, []any{dst, inputs, begin, state, out, n}},
		{"write", pieceCount, warp, []any{dst, src, inputs, begin, from, list, state, out}},
	} {
		if s.blocks == 0 {
			continue // all items are empty
		}
		if err := launch.OnStream(stream, encodeProgram, "quiver_lz4_"+s.name, s.blocks, s.threads, s.arguments...); err != nil {
			return err
		}
	}
	_, err = results.CopyToHost(batch.Bytes(p.outcomes), 0)
	return err
}
