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
	"quiver_lz4_guess": guessHostKernel, "quiver_lz4_correct": correctHostKernel, "quiver_lz4_link": linkHostKernel,
	"quiver_lz4_execute": executeHostKernel, "quiver_lz4_resolve": resolveHostKernel,
})

const (
	partBytes      = 1 << 10
	partWords      = partBytes / 32
	segmentParts   = 64
	segmentBytes   = segmentParts * partBytes
	linkThreads    = 64
	executeThreads = 128
	resolveThreads = 1024
)

type (
	// segment is the struct Segment of lz4_decode.cu.
	segment struct{ item, first uint32 }
	// place is the struct Place of lz4_decode.cu.
	place struct {
		marks          int64
		segment, piece uint32
	}
	// piece is the struct Piece of lz4_decode.cu.
	piece struct{ item, number, entry, out uint32 }
	// walk is the struct Walk of lz4_decode.cu.
	walk struct {
		entry, exit, bytes uint32
		status             batch.Status
	}
)

const walkBytes = int64(unsafe.Sizeof(walk{}))

// pieceBytes is the size of the pieces of an output that has several. One of at most
// onePiece bytes is a single piece, which needs no marks.
var pieceBytes, onePiece int64 = 16 << 10, 64 << 10

// decodePlan divides the inputs and outputs of some items.
type decodePlan struct {
	segments []segment
	places   []place // of the items, and one after them
	pieces   []piece
	marks    int64 // the most marks of the items of a step
}

// several reports whether the output of an item has several pieces.
func several(it batch.Item) bool { return it.DstSize > onePiece }

// marksOf returns the number of marks of an item.
func marksOf(it batch.Item) int64 {
	if !several(it) {
		return 0
	}
	return ceil(min(it.DstSize, mostLength)+15, 8) * 8
}

// planDecoding divides items. It calls step with those whose marks lie in memory at a time,
// which is at most a limit of bytes.
func planDecoding(items []batch.Item, limit int64, step func(first, end int)) decodePlan {
	var p decodePlan
	err := batch.InSteps(len(items), limit, func(i int) int64 { return 2 * marksOf(items[i]) }, func(first, end int) error {
		var marks int64
		for i := first; i < end; i++ {
			it := items[i]
			at := place{marks: -1, segment: uint32(len(p.segments)), piece: uint32(len(p.pieces))}
			for k := uint32(0); int64(k)*partBytes < it.SrcSize; k += segmentParts {
				p.segments = append(p.segments, segment{uint32(i), k})
			}
			count := int64(1)
			if several(it) {
				at.marks, count = marks, ceil(min(it.DstSize, mostLength)+15, pieceBytes)
				marks += marksOf(it)
			}
			for k := range count {
				p.pieces = append(p.pieces, piece{item: uint32(i), number: uint32(k)})
			}
			p.places = append(p.places, at)
		}
		p.marks = max(p.marks, marks)
		step(first, end)
		return nil
	})
	_ = err // no step fails
	p.places = append(p.places, place{segment: uint32(len(p.segments)), piece: uint32(len(p.pieces))})
	return p
}

func decodeCUDA(dev *cudabuf.Device, b compress.Batch, o compress.DecodeOptions) ([]batch.Outcome, error) {
	outcomes, items, limit := make([]batch.Outcome, len(b.In)), batch.Items(b), batch.Limit(o.Scratch)
	// Everything but the marks.
	need := func(i int) int64 {
		return ceil(items[i].SrcSize, segmentBytes)*segmentParts*(2*walkBytes+4*partWords) + (items[i].DstSize/pieceBytes+1)*16
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
	type step struct{ first, end int }
	var steps []step
	p := planDecoding(items, limit, func(first, end int) { steps = append(steps, step{first, end}) })
	launchKernel := func(name string, blocks, threads int64, arguments ...any) {
		w.Launch(decodeProgram, "quiver_lz4_"+name, blocks, threads, arguments...)
	}
	n, segments := int64(len(items)), int64(len(p.segments))
	src, dst, in, places := launch.In(b.Src, 0), launch.InOut(b.Dst, 0), launch.In(batch.Put(w, items), 0), launch.In(batch.Put(w, p.places), 0)
	own, pieces, results := launch.In(batch.Put(w, p.segments), 0), launch.InOut(batch.Put(w, p.pieces), 0), w.Buffer(int64(len(batch.Bytes(outcomes))))
	guesses, walks := launch.InOut(w.Buffer(segments*segmentParts*walkBytes), 0), launch.InOut(w.Buffer(segments*segmentParts*walkBytes), 0)
	bits, out := launch.InOut(w.Buffer(segments*segmentParts*partWords*4), 0), launch.InOut(results, 0)
	marks, marked := launch.InOut(w.Buffer(2*p.marks), 0), launch.InOut(w.Buffer(4*int64(len(p.pieces))), 0)
	launchKernel("guess", segments, segmentParts, src, in, own, guesses, bits)
	launchKernel("correct", segments, segmentParts, src, in, own, guesses, walks, bits)
	launchKernel("link", ceil(n*warp, linkThreads), linkThreads, dst, src, in, places, walks, bits, pieces, out, uint32(pieceBytes), n)
	for _, s := range steps {
		first, last := int64(p.places[s.first].piece), int64(p.places[s.end].piece)
		launchKernel("execute", ceil((last-first)*warp, executeThreads), executeThreads, dst, src, in, places, pieces, bits, marks, marked, out, uint32(pieceBytes), first, last)
		var list []uint32
		for i := s.first; i < s.end; i++ {
			if several(items[i]) {
				list = append(list, uint32(i))
			}
		}
		if len(list) > 0 {
			launchKernel("resolve", int64(len(list)), resolveThreads, dst, in, places, launch.In(batch.Put(w, list), 0), marks, marked, out, uint32(pieceBytes))
		}
	}
	return w.Fetch(results, outcomes)
}

func ceil(n, by int64) int64 { return (n + by - 1) / by }
