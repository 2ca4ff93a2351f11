package batch

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// Run runs a batch of a function of a package, such as "zstd.Encode": on a GPU by onGPU,
// otherwise by each for every item in host memory, on all cores. It counts the items in
// stats unless that is nil, as the device's on a GPU.
func Run(function string, b compress.Batch, stats *compress.Stats, onGPU func(dev *cudabuf.Device) ([]Outcome, error), each func(dst, src []byte) (int64, error)) ([]compress.Result, error) {
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", function, err)
	}
	var outcomes []Outcome
	var err error
	dev, cuda := arrowbuf.As[*cudabuf.Device](b.Src.Device())
	if cuda {
		outcomes, err = onGPU(dev)
	} else {
		outcomes, err = RunHost(b, each)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", function, err)
	}
	if stats != nil && cuda {
		stats.Device += int64(len(b.In))
	} else if stats != nil {
		stats.Host += int64(len(b.In))
	}
	results := Results(function, outcomes)
	Outcomes.Put(outcomes)
	return results, nil
}

// OnHost counts items of a GPU's batch that code on the host has processed.
func OnHost(stats *compress.Stats, n int) {
	if stats != nil {
		stats.Device -= int64(n)
		stats.Host += int64(n)
	}
}

// Limit returns the memory of a GPU that a batch may use for the option Scratch. A step of
// many gigabytes is the fastest, because the last warps of a kernel leave a GPU idle.
func Limit(dev *cudabuf.Device, scratch int64) int64 {
	if scratch <= 0 {
		return max(1<<30, dev.Limits().MemoryBytes/32)
	}
	return scratch
}

// InSteps divides n items into steps that need at most a limit of bytes, and calls f with
// the range of each. A step has at least one item.
func InSteps(n int, limit int64, need func(i int) int64, f func(first, end int) error) error {
	for first := 0; first < n; {
		used, end := need(first), first+1
		for end < n && used+need(end) <= limit {
			used += need(end)
			end++
		}
		if err := f(first, end); err != nil {
			return err
		}
		first = end
	}
	return nil
}

// Work is a sequence of kernels on one stream, and the memory that it uses. After an error
// its methods do nothing, and Fetch returns the error.
type Work struct {
	dev    *cudabuf.Device
	stream *cudabuf.Stream
	held   []*cudabuf.Buffer
	err    error
}

// OnGPU calls f, and releases the memory of the work when it returns.
func OnGPU(dev *cudabuf.Device, f func(w *Work) error) (err error) {
	w := &Work{dev: dev}
	if w.stream, err = dev.NewStream(cudabuf.StreamOptions{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	return f(w)
}

func (w *Work) close() error {
	w.Release()
	return w.stream.Close()
}

const (
	partBytes         = 256 << 20 // of memory that a part of a step uses at least
	parallelPartBytes = 64 << 20  // of the outputs of a part of InParallel, at least
	mostParts         = 4
)

// Overlap divides n items into steps as InSteps does, and large steps into parts that have a
// stream each. The host prepares a part while a GPU runs the ones before, and the last warps
// of a kernel run beside the next part. enqueue launches the kernels for some items. fetch,
// which it returns, waits for them.
func Overlap(dev *cudabuf.Device, n int, limit int64, need func(i int) int64, enqueue func(w *Work, first, end int) (fetch func() error, err error)) error {
	return InSteps(n, limit, need, func(first, end int) (err error) {
		used := int64(0)
		for i := first; i < end; i++ {
			used += need(i)
		}
		var fetches []func() error
		each := max(partBytes, (used+mostParts-1)/mostParts)
		err = InSteps(end-first, each, func(i int) int64 { return need(first + i) }, func(from, to int) error {
			w := &Work{dev: dev}
			if w.stream, err = dev.NewStream(cudabuf.StreamOptions{}); err != nil {
				return err
			}
			fetch, err := enqueue(w, first+from, first+to)
			if err != nil {
				return errors.Join(err, w.close())
			}
			fetches = append(fetches, func() error { return errors.Join(fetch(), w.close()) })
			return nil
		})
		for _, f := range fetches {
			err = errors.Join(err, f())
		}
		return err
	})
}

// InParallel divides n items into parts by the sizes of their outputs, and calls f for all
// parts at the same time.
func InParallel(n int, size func(i int) int64, f func(first, end, parts int) error) error {
	all := int64(0)
	for i := range n {
		all += size(i)
	}
	each := max(parallelPartBytes, (all+mostParts-1)/mostParts)
	var ends []int
	err := InSteps(n, each, size, func(_, end int) error { ends = append(ends, end); return nil })
	var group errgroup.Group
	first := 0
	for _, end := range ends {
		from := first
		group.Go(func() error { return f(from, end, len(ends)) })
		first = end
	}
	return errors.Join(err, group.Wait())
}

// Release releases the memory of the kernels so far.
func (w *Work) Release() {
	for _, b := range w.held {
		b.Release()
	}
	w.held = nil
}

// Drop releases a buffer before the others, after its last kernel. It may be nil.
func (w *Work) Drop(b *cudabuf.Buffer) {
	if i := slices.Index(w.held, b); i >= 0 {
		w.held = slices.Delete(w.held, i, i+1)
		b.Release()
	}
}

// Buffer returns n bytes for the kernels, or nil after an error.
func (w *Work) Buffer(n int64) *cudabuf.Buffer {
	if w.err != nil {
		return nil
	}
	b, err := w.dev.NewBuffer(n)
	return w.hold(b, err)
}

// Put returns a buffer with the bytes of values for the kernels, as Buffer.
func Put[T any](w *Work, values []T) *cudabuf.Buffer {
	if w.err != nil {
		return nil
	}
	b, err := Upload(w.dev, values)
	return w.hold(b, err)
}

func (w *Work) hold(b *cudabuf.Buffer, err error) *cudabuf.Buffer {
	if err != nil {
		w.err = err
		return nil
	}
	w.held = append(w.held, b)
	return b
}

// Launch launches a kernel after the others, unless it has no blocks.
func (w *Work) Launch(program *cudabuf.Program, kernel string, blocks, threads int64, arguments ...any) {
	w.LaunchShared(program, kernel, blocks, threads, 0, arguments...)
}

// LaunchShared is Launch with bytes of dynamic shared memory for each block.
func (w *Work) LaunchShared(program *cudabuf.Program, kernel string, blocks, threads int64, shared uint32, arguments ...any) {
	if w.err == nil && blocks > 0 {
		w.err = launch.OnStreamShared(w.stream, program, kernel, blocks, threads, shared, arguments...)
	}
}

// Fetch waits for the kernels, and copies the outcomes that they have written.
func (w *Work) Fetch(results *cudabuf.Buffer, outcomes []Outcome) error {
	return Get(w, results, outcomes)
}

// Get is Fetch for values of any type.
func Get[T any](w *Work, from *cudabuf.Buffer, values []T) error {
	if w.err == nil {
		_, w.err = from.CopyToHost(Bytes(values), 0)
	}
	return w.err
}

// Encoder is the encoder of a format on a GPU, for another format that contains its outputs.
type Encoder struct {
	// Bound returns a size that suffices for the output of n bytes, and Need the number of
	// bytes of memory that Enqueue takes for them.
	Bound, Need func(n int64) int64
	// Enqueue launches the kernels that encode items. It returns the items and their
	// outcomes in the memory of the GPU, or nil after an error of the work.
	Enqueue func(w *Work, dst, src arrowbuf.Buffer, items []Item, level int) (onGPU, outcomes *cudabuf.Buffer)
}

// The encoders that the packages zstd and lz4 register. LZ4 has one level.
var Zstd, LZ4 Encoder

// LaunchItems launches a kernel with a block of threads per item, and returns the outcomes
// that it writes. Its arguments are the output, the input, the items, the outcomes, and
// others.
func LaunchItems(dev *cudabuf.Device, b compress.Batch, program *cudabuf.Program, kernel string, threads int64, others ...any) ([]Outcome, error) {
	outcomes := make([]Outcome, len(b.In))
	if len(outcomes) == 0 {
		return outcomes, nil
	}
	err := OnGPU(dev, func(w *Work) error {
		results := w.Buffer(int64(len(Bytes(outcomes))))
		arguments := []any{launch.InOut(b.Dst, 0), launch.In(b.Src, 0), launch.In(Put(w, Items(b)), 0), launch.InOut(results, 0)}
		w.Launch(program, kernel, int64(len(outcomes)), threads, append(arguments, others...)...)
		return w.Fetch(results, outcomes)
	})
	return outcomes, err
}

// DecodeLaunched is the host implementation of a kernel of LaunchItems, which calls decode
// for each item.
func DecodeLaunched(l *cudabuf.HostLaunch, decode func(dst, src []byte) (int64, error)) {
	n := int64(l.Grid.X)
	items, outcomes := launch.Structs[Item](l, 2, n), launch.Structs[Outcome](l, 3, n)
	var src, dst int64
	for _, it := range items {
		src, dst = max(src, it.Src+it.SrcSize), max(dst, it.Dst+it.DstSize)
	}
	DecodeItems(l.Memory(l.Pointer(0), dst), l.Memory(l.Pointer(1), src), items, outcomes, decode)
}
