package lz4

import (
	"errors"
	"unsafe"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// smallThreads is the number of threads per block of quiver_lz4_small: a warp that reads
// sequences, and those that write the output.
const smallThreads = 128

var smallProgram = launch.Program("compress/lz4_small", map[string]cudabuf.HostKernel{"quiver_lz4_small": func(l *cudabuf.HostLaunch) {
	batch.DecodeLaunched(l, decodeBlock)
}})

// The kernels of kernels/compress/lz4_decode.cu, which says what each does.
var decodeProgram = launch.Program("compress/lz4_decode", map[string]cudabuf.HostKernel{
	"quiver_lz4_exits": exitsHostKernel, "quiver_lz4_chain": chainHostKernel, "quiver_lz4_enter": enterHostKernel,
	"quiver_lz4_count": countHostKernel, "quiver_lz4_total": totalHostKernel, "quiver_lz4_sequences": sequencesHostKernel,
	"quiver_lz4_execute": executeHostKernel,
})

const (
	segmentBytes = 16 << 10
	partBytes    = 2 << 10
	parts        = segmentBytes / partBytes // of a segment
	exitThreads  = parts * warp
	exitShared   = segmentBytes + 2075 + 47 + 2*segmentBytes // of ExitMemory, rounded up
	readThreads  = 64                                        // of kernels with a thread per part
	warpThreads  = 64                                        // of kernels with a warp per item or segment
	noEntry      = 1<<32 - 1
)

// segment is the struct Segment of lz4_decode.cu.
type segment struct {
	src, item, exits      int64
	begin, size, entry, _ uint32
}

// part is the struct Part of lz4_decode.cu.
type part struct {
	item, entry, end uint32
	sequences, bytes uint32
	status           batch.Status
	out, first       uint32
}

const (
	segmentSize = int64(unsafe.Sizeof(segment{}))
	partSize    = int64(unsafe.Sizeof(part{}))
)

// segmentsOf divides the inputs of items. It also returns the first segment of each item,
// and the number of exits.
func segmentsOf(items []batch.Item) (segments []segment, starts []uint32, exits int64) {
	starts = make([]uint32, 0, len(items)+1)
	for i, it := range items {
		starts = append(starts, uint32(len(segments)))
		for at := int64(0); at < it.SrcSize; at += segmentBytes {
			size := min(segmentBytes, it.SrcSize-at)
			segments = append(segments, segment{src: it.Src + at, item: int64(i), exits: exits + at, begin: uint32(at), size: uint32(size), entry: noEntry})
		}
		exits += it.SrcSize
	}
	return segments, append(starts, uint32(len(segments))), exits
}

// largeOutput is the size in bytes from which an output is written by many blocks of
// threads. One block per input needs no scratch memory, and an H200 decodes 512 MiB in
// inputs of 64 KiB faster so: 51 GB/s of columns instead of 33.
var largeOutput int64 = 256 << 10

func decodeCUDA(dev *cudabuf.Device, b compress.Batch, o compress.DecodeOptions) ([]batch.Outcome, error) {
	outcomes := make([]batch.Outcome, len(b.In))
	var small, large []batch.Item
	var smallAt, largeAt []int // where they are in the batch
	for i, it := range batch.Items(b) {
		if it.DstSize < largeOutput {
			small, smallAt = append(small, it), append(smallAt, i)
		} else {
			large, largeAt = append(large, it), append(largeAt, i)
		}
	}
	limit := batch.Limit(o.Scratch)
	// The memory for exits. That for sequences is needed later.
	need := func(i int) int64 {
		n := large[i].SrcSize
		return 2*n + ceil(n, segmentBytes)*(2*partBytes+segmentSize+parts*partSize)
	}
	return outcomes, batch.OnGPU(dev, func(w *batch.Work) error {
		if err := decodeSmall(w, b, small, smallAt, outcomes); err != nil {
			return err
		}
		return batch.InSteps(len(large), limit, need, func(first, end int) error {
			defer w.Release()
			own := make([]batch.Outcome, end-first)
			err := decodeItems(w, b, large[first:end], own, limit)
			for i, o := range own {
				outcomes[largeAt[first+i]] = o
			}
			return err
		})
	})
}

// decodeSmall decodes items with a block of threads for each. places are where they are in
// outcomes.
func decodeSmall(w *batch.Work, b compress.Batch, items []batch.Item, places []int, outcomes []batch.Outcome) error {
	if len(items) == 0 {
		return nil
	}
	defer w.Release()
	own := make([]batch.Outcome, len(items))
	results := w.Buffer(int64(len(batch.Bytes(own))))
	w.Launch(smallProgram, "quiver_lz4_small", int64(len(items)), smallThreads,
		launch.InOut(b.Dst, 0), launch.In(b.Src, 0), launch.In(batch.Put(w, items), 0), launch.InOut(results, 0))
	err := w.Fetch(results, own)
	for i, o := range own {
		outcomes[places[i]] = o
	}
	return err
}

// decodeItems decodes items of a batch.
func decodeItems(w *batch.Work, b compress.Batch, items []batch.Item, outcomes []batch.Outcome, limit int64) error {
	launchKernel := func(name string, blocks, threads int64, arguments ...any) {
		w.Launch(decodeProgram, "quiver_lz4_"+name, blocks, threads, arguments...)
	}
	n := int64(len(items))
	segments, starts, exits := segmentsOf(items)
	all := int64(len(segments))
	segmentsMemory, exitsMemory, segmentExits := batch.Put(w, segments), w.Buffer(2*exits), w.Buffer(2*all*partBytes)
	partsMemory, countsMemory, results := w.Buffer(all*parts*partSize), w.Buffer(4*n), w.Buffer(int64(len(batch.Bytes(outcomes))))
	src, dst, in, begin := launch.In(b.Src, 0), launch.InOut(b.Dst, 0), launch.In(batch.Put(w, items), 0), launch.In(batch.Put(w, starts), 0)
	found, ofParts, ofSegments := launch.InOut(segmentsMemory, 0), launch.InOut(exitsMemory, 0), launch.InOut(segmentExits, 0)
	own, progress, out := launch.InOut(partsMemory, 0), launch.InOut(w.Buffer(n*batch.ProgressSize), 0), launch.InOut(results, 0)
	w.LaunchShared(decodeProgram, "quiver_lz4_exits", all, exitThreads, exitShared, src, in, found, ofParts, ofSegments)
	launchKernel("chain", ceil(n*warp, warpThreads), warpThreads, src, in, begin, found, ofParts, ofSegments, n)
	launchKernel("enter", ceil(all*warp, warpThreads), warpThreads, src, in, found, ofParts, own, all)
	for _, done := range []*cudabuf.Buffer{segmentsMemory, exitsMemory, segmentExits} {
		w.Drop(done)
	}
	launchKernel("count", ceil(all*parts, readThreads), readThreads, src, in, own, all*parts)
	launchKernel("total", ceil(n*warp, warpThreads), warpThreads, launch.In(b.Dst, 0), in, begin, own, launch.InOut(countsMemory, 0), progress, out, n)
	counts := make([]uint32, n)
	if err := errors.Join(batch.Get(w, countsMemory, counts), w.Fetch(results, outcomes)); err != nil {
		return err
	}

	// The sequences and windows of as many items at a time as fit into the scratch memory.
	windows := make([]int64, n)
	need := func(i int) int64 {
		return int64(counts[i])*batch.SequenceBytes + windows[i]*batch.WindowSize
	}
	for i, o := range outcomes {
		if o.Size > 0 {
			windows[i] = batch.Windows(o.Size)
		}
	}
	err := batch.InSteps(len(items), limit, need, func(first, end int) error {
		firstSequence, firstWindow := make([]int64, n), make([]int64, n)
		var sequences, allWindows int64
		for i := first; i < end; i++ {
			firstSequence[i], firstWindow[i] = sequences, allWindows
			sequences, allWindows = sequences+int64(counts[i]), allWindows+windows[i]
		}
		writers := batch.Writers(windows[first:end])
		if len(writers) == 0 {
			return nil
		}
		for i := range writers {
			writers[i] += int32(first)
		}
		firstPart, parts := int64(starts[first])*parts, int64(starts[end]-starts[first])*parts
		sequencesMemory, windowsMemory, writes := w.Buffer(sequences*batch.SequenceBytes), w.Buffer(allWindows*batch.WindowSize), batch.Put(w, writers)
		placesMemory, windowPlacesMemory := batch.Put(w, firstSequence), batch.Put(w, firstWindow)
		list, states := launch.InOut(sequencesMemory, 0), launch.InOut(windowsMemory, 0)
		places, windowPlaces := launch.In(placesMemory, 0), launch.In(windowPlacesMemory, 0)
		launchKernel("sequences", ceil(parts, readThreads), readThreads, launch.In(b.Dst, 0), src, in, launch.In(partsMemory, firstPart*partSize), out, places, windowPlaces, list, states, parts)
		w.LaunchShared(decodeProgram, "quiver_lz4_execute", int64(len(writers)), batch.WriteThreads, batch.WriteShared, dst, src, launch.In(writes, 0), in, places, windowPlaces, launch.In(countsMemory, 0), list, states, progress, out)
		for _, done := range []*cudabuf.Buffer{sequencesMemory, windowsMemory, writes, placesMemory, windowPlacesMemory} {
			w.Drop(done)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.Fetch(results, outcomes)
}

func ceil(n, by int64) int64 { return (n + by - 1) / by }
