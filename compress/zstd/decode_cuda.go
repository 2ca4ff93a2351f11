package zstd

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The kernels of kernels/compress/zstd_*.cu; zstd.cuh says what each does.
var (
	scanProgram = launch.Program("compress/zstd_scan", map[string]cudabuf.HostKernel{
		"quiver_zstd_count": countHostKernel, "quiver_zstd_scan": scanHostKernel,
	})
	blocksProgram = launch.Program("compress/zstd_blocks", map[string]cudabuf.HostKernel{"quiver_zstd_blocks": blocksHostKernel})
	writeProgram  = launch.Program("compress/zstd_write", map[string]cudabuf.HostKernel{
		"quiver_zstd_place": placeHostKernel, "quiver_zstd_write": writeHostKernel, "quiver_zstd_execute": executeHostKernel, "quiver_zstd_checksum": checksumHostKernel,
	})
)

// The launches of those kernels.
const (
	threads         = 64 // of kernels with a thread per item
	warp            = 32
	blocksPerWarp   = 8
	checksumThreads = 256
)

func ceil(n, by int64) int64 { return (n + by - 1) / by }

// counts is the struct Counts of zstd.cuh: of an item, or of all items before it.
type counts struct{ Blocks, Literals, Sequences, Windows, Status int64 }

// scratch returns the scratch memory that these need, in bytes.
func (c counts) scratch() int64 {
	return c.Sequences*batch.SequenceBytes + c.Blocks*(blockBytes+indexSize*2) + c.Windows*batch.WindowSize + c.Literals
}

const blockBytes = int64(unsafe.Sizeof(block{}))

// smallOutput is the size in bytes up to which a warp writes an output. Larger ones are
// written by blocks of threads that share windows.
var smallOutput int64 = 64 << 10

// writers returns which item each block of threads of quiver_zstd_write works at, and the
// items that a warp of quiver_zstd_execute each writes.
func writers(items []batch.Item, found []counts) (writes, small []int32) {
	windows := make([]int64, len(found))
	for i, c := range found {
		if items[i].DstSize <= smallOutput {
			small = append(small, int32(i))
		} else {
			windows[i] = c.Windows
		}
	}
	return batch.Writers(windows), small
}

func decodeCUDA(dev *cudabuf.Device, b compress.Batch, o compress.DecodeOptions) ([]batch.Outcome, error) {
	n := int64(len(b.In))
	items, outcomes, found := batch.Items(b), make([]batch.Outcome, n), make([]counts, n)
	if n == 0 {
		return outcomes, nil
	}
	return outcomes, batch.OnGPU(dev, func(w *batch.Work) error {
		memory := w.Buffer(int64(len(batch.Bytes(found))))
		w.Launch(scanProgram, "quiver_zstd_count", ceil(n, threads), threads, launch.In(b.Src, 0), launch.In(batch.Put(w, items), 0), launch.InOut(memory, 0), n)
		if err := batch.Get(w, memory, found); err != nil {
			return err
		}
		return batch.InSteps(len(items), batch.Limit(dev, o.Scratch), func(i int) int64 { return found[i].scratch() }, func(first, end int) error {
			defer w.Release()
			return decodeItems(w, b, items[first:end], found[first:end], outcomes[first:end])
		})
	})
}

// prefixSums returns what the items before each have, and its own status.
func prefixSums(found []counts) []counts {
	starts := make([]counts, len(found)+1)
	for i, c := range found {
		starts[i].Status = c.Status
		starts[i+1] = counts{starts[i].Blocks + c.Blocks, starts[i].Literals + c.Literals, starts[i].Sequences + c.Sequences, starts[i].Windows + c.Windows, 0}
	}
	return starts
}

// decodeItems decodes items of a batch that have what was found.
func decodeItems(w *batch.Work, b compress.Batch, items []batch.Item, found []counts, outcomes []batch.Outcome) error {
	n, starts := int64(len(items)), prefixSums(found)
	all := starts[n]
	writes, small := writers(items, found)
	memory, results := w.Buffer(all.scratch()), w.Buffer(int64(len(batch.Bytes(outcomes))))
	// In the order of their alignments: the sizes of sequences are multiples of 16, those of
	// blocks, their indices and windows of 8.
	blocksAt := all.Sequences * batch.SequenceBytes
	indexAt := blocksAt + all.Blocks*blockBytes
	windowsAt := indexAt + all.Blocks*indexSize*2
	literalsAt := windowsAt + all.Windows*batch.WindowSize
	sequences, blocks, index := launch.InOut(memory, 0), launch.InOut(memory, blocksAt), launch.InOut(memory, indexAt)
	windows, literals := launch.InOut(memory, windowsAt), launch.InOut(memory, literalsAt)
	src, dst, written, in := launch.In(b.Src, 0), launch.InOut(b.Dst, 0), launch.In(b.Dst, 0), launch.In(batch.Put(w, items), 0)
	begin, progress, out := launch.In(batch.Put(w, starts), 0), launch.InOut(w.Buffer(n*batch.ProgressSize), 0), launch.InOut(results, 0)

	w.Launch(scanProgram, "quiver_zstd_scan", ceil(n, threads), threads, src, in, begin, blocks, n)
	w.Launch(blocksProgram, "quiver_zstd_blocks", 2*ceil(all.Blocks, blocksPerWarp), warp, src, blocks, literals, sequences, index, all.Blocks)
	w.Launch(writeProgram, "quiver_zstd_place", ceil(n, threads), threads, written, in, begin, blocks, windows, progress, out, n)
	w.LaunchShared(writeProgram, "quiver_zstd_write", int64(len(writes)), batch.WriteThreads, batch.WriteShared, dst, src, launch.In(batch.Put(w, writes), 0), in, begin, blocks, index, sequences, literals, windows, progress, out)
	w.Launch(writeProgram, "quiver_zstd_execute", int64(len(small)), warp, dst, src, launch.In(batch.Put(w, small), 0), in, begin, blocks, sequences, literals, out)
	w.Launch(writeProgram, "quiver_zstd_checksum", ceil(n*warp, checksumThreads), checksumThreads, written, in, begin, blocks, out, n)
	return w.Fetch(results, outcomes)
}
