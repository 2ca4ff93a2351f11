package lz4

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The kernels of kernels/compress/lz4_decode.cu, which says what each does.
var decodeProgram = launch.Program("compress/lz4_decode", map[string]cudabuf.HostKernel{
	"quiver_lz4_parts": partsHostKernel, "quiver_lz4_link": linkHostKernel,
	"quiver_lz4_execute": executeHostKernel, "quiver_lz4_mark": markHostKernel, "quiver_lz4_resolve": resolveHostKernel,
})

const (
	partBytes      = 1 << 10
	partWords      = partBytes / 32
	segmentParts   = 64
	segmentBytes   = segmentParts * partBytes
	linkThreads    = 64
	laterPasses    = 2 // of quiver_lz4_parts, for inputs of several segments
	resolveThreads = 1024
)

type (
	// place is the struct Place of lz4_decode.cu.
	place struct {
		marks          int64
		segment, piece uint32
	}
	// piece is the struct Piece of lz4_decode.cu.
	piece struct{ entry, out uint32 }
	// walk is the struct Walk of lz4_decode.cu.
	walk struct {
		entry, exit, bytes uint32
		status             batch.Status
	}
)

const pieceScratch = int64(unsafe.Sizeof(piece{}) + unsafe.Sizeof(uint32(0))) // with whether it has marks

// pieceBytes is the size of the pieces of an output that has several. One of at most
// onePiece bytes is a single piece, which needs no marks.
var pieceBytes, onePiece int64 = 16 << 10, 64 << 10

// The pieces of a batch with an output of more than largeOutput bytes are larger, since the
// marks of an output are replaced piece by piece.
const largeOutput, largerPieces = 4 << 20, 2

// decodePlan says where what belongs to some items lies in scratch memory.
type decodePlan struct {
	places []place // of the items, and one after them
	piece  int64   // the size of pieces
	marks  int64   // the most marks of the items of a step
	one    bool    // whether an output is one piece
	steps  []decodeStep
}

// decodeStep is a range of items, some of several pieces, whose marks are in memory at the
// same time.
type decodeStep struct{ first, end int }

func (p *decodePlan) segments() int64 { return int64(p.places[len(p.places)-1].segment) }

// passes returns how often parts are read.
func (p *decodePlan) passes() int64 {
	if p.segments() <= int64(len(p.places)-1) {
		return 1 // of one segment each, or of two and none
	}
	return 1 + laterPasses
}

func (p *decodePlan) pieces() int64 { return int64(p.places[len(p.places)-1].piece) }

// piecesOf returns the most pieces of the output of an item, of a size if it has several.
func piecesOf(it batch.Item, size int64) int64 {
	if it.DstSize <= onePiece {
		return 1
	}
	return ceil(min(it.DstSize, mostLength)+15, size)
}

// marksOf returns the number of marks of an item.
func marksOf(it batch.Item) int64 {
	if it.DstSize <= onePiece {
		return 0
	}
	return ceil(min(it.DstSize, mostLength)+15, 8) * 8
}

// The memory of items and of places.
var (
	itemMemory  batch.Memory[batch.Item]
	placeMemory batch.Memory[place]
)

// planDecoding plans the decoding of items. The marks of a step take at most a limit of bytes,
// unless those of one item take more.
func planDecoding(items []batch.Item, limit int64) decodePlan {
	p := decodePlan{places: placeMemory.Get(len(items) + 1), piece: pieceBytes}
	var at place
	all := int64(0)
	for _, it := range items {
		all += marksOf(it)
		if it.DstSize > largeOutput {
			p.piece = largerPieces * pieceBytes
		}
	}
	// Steps have about as many marks each, or the last one might have few blocks of threads.
	most := max(limit, 2) / 2
	enough := ceil(all, max(ceil(all, most), 1))
	step, marks := decodeStep{}, int64(0)
	for i, it := range items {
		own := marksOf(it)
		if marks > 0 && (marks >= enough || marks+own > most) {
			p.steps = append(p.steps, step)
			step, marks = decodeStep{first: i}, 0
		}
		if at.marks = marks; own == 0 {
			at.marks, p.one = -1, true
		}
		p.places[i] = at
		marks, step.end = marks+own, i+1
		p.marks = max(p.marks, marks)
		at.segment += uint32(ceil(it.SrcSize, segmentBytes))
		at.piece += uint32(piecesOf(it, p.piece))
	}
	p.places[len(items)] = at
	if marks > 0 {
		p.steps = append(p.steps, step)
	}
	return p
}

// segmentScratch is the scratch memory of a segment, in bytes.
const segmentScratch = segmentParts * (int64(unsafe.Sizeof(walk{})) + 4*partWords)

func decodeCUDA(dev *cudabuf.Device, b compress.Batch, o compress.DecodeOptions) ([]batch.Outcome, error) {
	outcomes, items, limit := batch.Outcomes.Get(len(b.In)), batch.FillItems(b, itemMemory.Get(len(b.In))), batch.Limit(dev, o.Scratch)
	defer itemMemory.Put(items)
	// Everything but the marks.
	need := func(i int) int64 {
		return ceil(items[i].SrcSize, segmentBytes)*(segmentScratch+8) + piecesOf(items[i], pieceBytes)*pieceScratch
	}
	return outcomes, batch.OnGPU(dev, func(w *batch.Work) error {
		return batch.InSteps(len(items), limit, need, func(first, end int) error {
			defer w.Release()
			used := int64(0)
			for i := first; i < end; i++ {
				used += need(i)
			}
			return decodeItems(w, b, items[first:end], outcomes[first:end], limit-used)
		})
	})
}

// decodeItems decodes items of a batch, with at most a limit of bytes for their marks, if
// those of each fit.
func decodeItems(w *batch.Work, b compress.Batch, items []batch.Item, outcomes []batch.Outcome, limit int64) error {
	p, n := planDecoding(items, limit), int64(len(items))
	defer placeMemory.Put(p.places)
	// In the order of their alignments.
	walksAt := 2 * ceil(p.marks, 8) * 8
	bitsAt := walksAt + p.segments()*segmentParts*int64(unsafe.Sizeof(walk{}))
	piecesAt := bitsAt + p.segments()*segmentParts*partWords*4
	markedAt := piecesAt + p.pieces()*int64(unsafe.Sizeof(piece{}))
	endsAt := markedAt + 4*p.pieces()
	memory := w.Buffer(endsAt + 2*4*p.segments())
	src, dst, in, places := launch.In(b.Src, 0), launch.InOut(b.Dst, 0), launch.In(batch.Put(w, items), 0), launch.In(batch.Put(w, p.places), 0)
	marks, walks, bits := launch.InOut(memory, 0), launch.InOut(memory, walksAt), launch.InOut(memory, bitsAt)
	pieces, marked := launch.InOut(memory, piecesAt), launch.InOut(memory, markedAt)
	results := w.Buffer(int64(len(batch.Bytes(outcomes))))
	out := launch.InOut(results, 0)
	for pass := range p.passes() {
		before, after := (pass+1)%2*4*p.segments(), pass%2*4*p.segments()
		w.Launch(decodeProgram, "quiver_lz4_parts", p.segments(), segmentParts, src, in, places, walks, bits, launch.In(memory, endsAt+before), launch.InOut(memory, endsAt+after), n, pass)
	}
	w.Launch(decodeProgram, "quiver_lz4_link", ceil(n*warp, linkThreads), linkThreads, dst, src, in, places, walks, bits, pieces, out, uint32(p.piece), n)
	if p.one {
		w.Launch(decodeProgram, "quiver_lz4_execute", p.pieces(), warp, dst, src, in, places, pieces, bits, out, int64(0), n)
	}
	for _, s := range p.steps {
		first, end := int64(s.first), int64(s.end)
		w.Launch(decodeProgram, "quiver_lz4_mark", int64(p.places[end].piece-p.places[first].piece), warp, dst, src, in, places, pieces, bits, marks, marked, out, uint32(p.piece), first, end)
		w.Launch(decodeProgram, "quiver_lz4_resolve", end-first, resolveThreads, dst, in, places, marks, marked, out, uint32(p.piece), first)
	}
	return w.Fetch(results, outcomes)
}

func ceil(n, by int64) int64 { return (n + by - 1) / by }
