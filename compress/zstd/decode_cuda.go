package zstd

import (
	"errors"
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
	literalsProgram  = launch.Program("compress/zstd_literals", map[string]cudabuf.HostKernel{"quiver_zstd_literals": literalsHostKernel})
	sequencesProgram = launch.Program("compress/zstd_sequences", map[string]cudabuf.HostKernel{"quiver_zstd_sequences": sequencesHostKernel})
	writeProgram     = launch.Program("compress/zstd_write", map[string]cudabuf.HostKernel{
		"quiver_zstd_place": placeHostKernel, "quiver_zstd_resolve": resolveHostKernel,
		"quiver_zstd_write": writeHostKernel, "quiver_zstd_checksum": checksumHostKernel,
	})
)

// The launches of those kernels.
const (
	threads                = 64 // of kernels with a thread per item
	warp                   = 32
	blocksPerLiteralsWarp  = 8
	blocksPerSequencesWarp = 4
	resolveThreads         = 256
	writeThreads           = 544
	checksumThreads        = 256
	defaultScratch         = 1 << 30
)

func ceil(n, by int64) int64 { return (n + by - 1) / by }

// counts is the struct Counts of zstd.cuh: of an item, or of all items before it.
type counts struct{ Blocks, Literals, Sequences, Status int64 }

// scratch returns the scratch memory that these need, in bytes.
func (c counts) scratch() int64 {
	return c.Blocks*int64(unsafe.Sizeof(block{})) + c.Literals + c.Sequences*int64(unsafe.Sizeof(sequence{}))
}

// decoding is the decoding of one batch on a GPU.
type decoding struct {
	dev      *cudabuf.Device
	stream   *cudabuf.Stream
	batch    compress.Batch
	items    *cudabuf.Buffer // []batch.Item
	outcomes *cudabuf.Buffer // []batch.Outcome
}

func decodeCUDA(dev *cudabuf.Device, b compress.Batch, o compress.Options) (_ []batch.Outcome, err error) {
	n := int64(len(b.In))
	outcomes := make([]batch.Outcome, n)
	if n == 0 {
		return outcomes, nil
	}
	d := &decoding{dev: dev, batch: b}
	if d.stream, err = dev.NewStream(cudabuf.StreamOptions{}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stream.Close()) }()
	if d.items, err = batch.Upload(dev, batch.Items(b)); err != nil {
		return nil, err
	}
	defer d.items.Release()
	if d.outcomes, err = dev.NewBuffer(int64(len(batch.Bytes(outcomes)))); err != nil {
		return nil, err
	}
	defer d.outcomes.Release()

	found, err := d.count(n)
	if err != nil {
		return nil, err
	}
	limit := o.Scratch
	if limit <= 0 {
		limit = defaultScratch
	}
	for first := int64(0); first < n; {
		// As many items as fit into the scratch memory, and at least one.
		end, need := first+1, found[first].scratch()
		for end < n && need+found[end].scratch() <= limit {
			need += found[end].scratch()
			end++
		}
		if err := d.decode(first, found[first:end]); err != nil {
			return nil, err
		}
		first = end
	}
	_, err = d.outcomes.CopyToHost(batch.Bytes(outcomes), 0)
	return outcomes, err
}

// count returns what the items have.
func (d *decoding) count(n int64) ([]counts, error) {
	found := make([]counts, n)
	memory, err := d.dev.NewBuffer(int64(len(batch.Bytes(found))))
	if err != nil {
		return nil, err
	}
	defer memory.Release()
	err = launch.OnStream(d.stream, scanProgram, "quiver_zstd_count", ceil(n, threads), threads,
		launch.In(d.batch.Src, 0), launch.In(d.items, 0), launch.InOut(memory, 0), n)
	if err != nil {
		return nil, err
	}
	_, err = memory.CopyToHost(batch.Bytes(found), 0)
	return found, err
}

// decode enqueues the decoding of the items from first on that have found.
func (d *decoding) decode(first int64, found []counts) error {
	n := int64(len(found))
	starts := make([]counts, n+1)
	for i, c := range found {
		starts[i].Status = c.Status
		starts[i+1] = counts{starts[i].Blocks + c.Blocks, starts[i].Literals + c.Literals, starts[i].Sequences + c.Sequences, 0}
	}
	all := starts[n]
	startsMemory, err := batch.Upload(d.dev, starts)
	if err != nil {
		return err
	}
	defer startsMemory.Release()
	memory, err := d.dev.NewBuffer(all.scratch())
	if err != nil {
		return err
	}
	defer memory.Release()
	// Sequences and blocks first: their sizes are multiples of 16, which the sequences need.
	blocksAt := all.Sequences * int64(unsafe.Sizeof(sequence{}))
	literalsAt := blocksAt + all.Blocks*int64(unsafe.Sizeof(block{}))

	src, dst, items := launch.In(d.batch.Src, 0), launch.InOut(d.batch.Dst, 0), launch.In(d.items, first*int64(unsafe.Sizeof(batch.Item{})))
	outcomes := launch.InOut(d.outcomes, first*int64(unsafe.Sizeof(batch.Outcome{})))
	begin := launch.In(startsMemory, 0)
	sequences, blocks, literals := launch.InOut(memory, 0), launch.InOut(memory, blocksAt), launch.InOut(memory, literalsAt)
	type step struct {
		program         *cudabuf.Program
		name            string
		blocks, threads int64
		arguments       []any
	}
	for _, s := range []step{
		{scanProgram, "scan", ceil(n, threads), threads, []any{src, items, begin, blocks, n}},
		{literalsProgram, "literals", ceil(all.Blocks, blocksPerLiteralsWarp), warp, []any{src, blocks, literals, all.Blocks}},
		{sequencesProgram, "sequences", ceil(all.Blocks, blocksPerSequencesWarp), warp, []any{src, blocks, sequences, all.Blocks}},
		{writeProgram, "place", ceil(n, threads), threads, []any{items, begin, blocks, outcomes, n}},
		{writeProgram, "resolve", all.Blocks, resolveThreads, []any{begin, blocks, sequences, outcomes}},
		{writeProgram, "write", n, writeThreads, []any{dst, items, begin, sequences, literals, outcomes}},
		{writeProgram, "checksum", ceil(n*warp, checksumThreads), checksumThreads, []any{launch.In(d.batch.Dst, 0), items, begin, blocks, outcomes, n}},
	} {
		if s.blocks == 0 {
			continue // no item has a block
		}
		if err := launch.OnStream(d.stream, s.program, "quiver_zstd_"+s.name, s.blocks, s.threads, s.arguments...); err != nil {
			return err
		}
	}
	return nil
}
