package lz4

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
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
	warp          = 32
	placeThreads  = 256
	shortestMatch = 5 // of the kernels
	sequenceSize  = int64(unsafe.Sizeof(encodedSequence{}))
	pieceSize     = int64(unsafe.Sizeof(sourcePiece{}) + unsafe.Sizeof(encodedPiece{}))
)

// encodingPlan divides the inputs of one step of a batch into pieces.
type encodingPlan struct {
	items   []batch.Item
	starts  []uint32 // the first piece of each item
	pieces  []sourcePiece
	scratch int64 // sequences
}

// need returns the number of bytes of the GPU's memory that n bytes of input need.
func need(n int64) int64 {
	return n/shortestMatch*sequenceSize + ceil(n, matches.PieceSize)*pieceSize
}

// planEncoding returns the plan of items. Those that are too large get neither pieces nor
// room, so that their outcome is an error.
func planEncoding(items []batch.Item) *encodingPlan {
	pieces := int64(0)
	for i, it := range items {
		if it.SrcSize > MaxSize {
			items[i].DstSize = 0
		} else {
			pieces += ceil(it.SrcSize, matches.PieceSize)
		}
	}
	p := &encodingPlan{items: items, starts: make([]uint32, 0, len(items)+1), pieces: make([]sourcePiece, 0, pieces)}
	for i, it := range items {
		p.starts = append(p.starts, uint32(len(p.pieces)))
		for at := int64(0); at < it.SrcSize && it.SrcSize <= MaxSize; at += matches.PieceSize {
			size := min(matches.PieceSize, it.SrcSize-at)
			matched := max(0, min(size, it.SrcSize-lastLiterals-at))
			p.pieces = append(p.pieces, sourcePiece{src: it.Src + at, scratch: p.scratch, size: uint32(size), matched: uint32(matched), item: uint32(i)})
			p.scratch += size / shortestMatch
		}
	}
	p.starts = append(p.starts, uint32(len(p.pieces)))
	return p
}

func init() {
	batch.LZ4 = batch.Encoder{Bound: Bound, Need: need, Enqueue: func(w *batch.Work, dst, src arrowbuf.Buffer, items []batch.Item, _ int) (onGPU, outcomes *cudabuf.Buffer) {
		return planEncoding(items).enqueue(w, dst, src)
	}}
}

func encodeCUDA(dev *cudabuf.Device, b compress.Batch, o EncodeOptions) ([]batch.Outcome, error) {
	outcomes := make([]batch.Outcome, len(b.In))
	items := batch.Items(b)
	// A step is not divided by batch.Overlap, which makes shuffled data slower.
	err := batch.OnGPU(dev, func(w *batch.Work) error {
		return batch.InSteps(len(items), batch.Limit(dev, o.Scratch), func(i int) int64 { return need(items[i].SrcSize) }, func(first, end int) error {
			defer w.Release()
			_, results := planEncoding(items[first:end]).enqueue(w, b.Dst, b.Src)
			return w.Fetch(results, outcomes[first:end])
		})
	})
	for i, in := range b.In {
		if in.Length > MaxSize {
			outcomes[i].Status = batch.Unsupported
		}
	}
	return outcomes, err
}

// enqueue launches the kernels that encode the items of the plan. It returns them and their
// outcomes in the memory of the GPU.
func (p *encodingPlan) enqueue(w *batch.Work, to, from arrowbuf.Buffer) (onGPU, outcomes *cudabuf.Buffer) {
	outcomes = w.Buffer(int64(len(p.items)) * int64(unsafe.Sizeof(batch.Outcome{})))
	state := launch.InOut(w.Buffer(int64(len(p.pieces))*int64(unsafe.Sizeof(encodedPiece{}))), 0)
	list := launch.InOut(w.Buffer(p.scratch*sequenceSize), 0)
	src, dst, out := launch.In(from, 0), launch.InOut(to, 0), launch.InOut(outcomes, 0)
	onGPU = batch.Put(w, p.items)
	items, starts, sources := launch.In(onGPU, 0), launch.In(batch.Put(w, p.starts), 0), launch.In(batch.Put(w, p.pieces), 0)

	n, pieces := int64(len(p.items)), int64(len(p.pieces))
	w.Launch(encodeProgram, "quiver_lz4_matches", pieces, warp, src, sources, list, state)
	w.Launch(encodeProgram, "quiver_lz4_place", ceil(n*warp, placeThreads), placeThreads, dst, items, starts, state, out, n)
	w.Launch(encodeProgram, "quiver_lz4_write", pieces, warp, dst, src, items, starts, sources, list, state, out)
	return onGPU, outcomes
}
