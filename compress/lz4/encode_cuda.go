package lz4

import (
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
	warp          = 32
	placeThreads  = 64
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

func encodeCUDA(dev *cudabuf.Device, b compress.Batch, o EncodeOptions) ([]batch.Outcome, error) {
	outcomes := make([]batch.Outcome, len(b.In))
	items := batch.Items(b)
	for i := range items {
		if items[i].SrcSize > MaxSize { // encoded as an empty input, whose result is dropped
			items[i].SrcSize, items[i].DstSize = 0, 0
		}
	}
	err := batch.OnGPU(dev, func(w *batch.Work) error {
		return batch.InSteps(len(items), batch.Limit(o.Scratch), func(i int) int64 { return need(items[i].SrcSize) }, func(first, end int) error {
			defer w.Release()
			var p encodingPlan
			for _, it := range items[first:end] {
				p.add(it)
			}
			p.finish()
			return p.encode(w, b, outcomes[first:end])
		})
	})
	for i, in := range b.In {
		if in.Length > MaxSize {
			outcomes[i].Status = batch.Unsupported
		}
	}
	return outcomes, err
}

// finish adds the end of the last item.
func (p *encodingPlan) finish() { p.starts = append(p.starts, uint32(len(p.pieces))) }

// encode encodes the items of the plan.
func (p *encodingPlan) encode(w *batch.Work, b compress.Batch, outcomes []batch.Outcome) error {
	results := w.Buffer(int64(len(batch.Bytes(outcomes))))
	state := launch.InOut(w.Buffer(int64(len(p.pieces))*int64(unsafe.Sizeof(encodedPiece{}))), 0)
	list := launch.InOut(w.Buffer(p.scratch*sequenceSize), 0)
	src, dst, out := launch.In(b.Src, 0), launch.InOut(b.Dst, 0), launch.InOut(results, 0)
	items, starts, from := launch.In(batch.Put(w, p.items), 0), launch.In(batch.Put(w, p.starts), 0), launch.In(batch.Put(w, p.pieces), 0)

	n, pieces := int64(len(p.items)), int64(len(p.pieces))
	w.Launch(encodeProgram, "quiver_lz4_matches", pieces, warp, src, from, list, state)
	w.Launch(encodeProgram, "quiver_lz4_place", (n+placeThreads-1)/placeThreads, placeThreads, dst, items, starts, state, out, n)
	w.Launch(encodeProgram, "quiver_lz4_write", pieces, warp, dst, src, items, starts, from, list, state, out)
	return w.Fetch(results, outcomes)
}
