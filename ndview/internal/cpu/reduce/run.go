package reduce

import (
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

const (
	// blockBytes is the size of the accumulators of a block of results, which stay in
	// the cache.
	blockBytes = 16 << 10
	// targetTasks is the number of tasks that keep the processors busy.
	targetTasks = 64
	// maxAccBytes limits the accumulators of results that are computed in parts, if
	// that leaves minTasks tasks.
	maxAccBytes = 512 << 10
	minTasks    = 32
	// shortRow is the number of elements from which a row is worth a call.
	shortRow = 512
	// shortRun is the number of steps up to which neighbouring results are computed
	// together, even if their steps are contiguous.
	shortRun = 32
	// grain is the number of bytes that are worth a goroutine.
	grain = 64 << 10
)

// columnwise reports whether neighbouring results are computed together: the inner loop
// is along the axis with the smaller stride, or avoids very short runs.
func (p *Plan) columnwise() bool {
	if p.KeptAxes == 0 || p.Kept[0].In == 0 {
		return false
	}
	return abs(p.Kept[0].In) < abs(p.Stride) || p.Length <= shortRun && p.Kept[0].Extent.By >= p.Length
}

// Run computes all results. The division into tasks depends on the size only, so
// that sums do not depend on the machine.
func Run(p *Plan, f *Reducer, in, out unsafe.Pointer) {
	size := max(min(blockBytes/f.Size, p.Outputs), 1)
	if !p.columnwise() {
		size = min(size, (p.Outputs-1)/targetTasks+1)
	}
	blocks, steps := (p.Outputs-1)/size+1, p.steps()
	bytes := p.Outputs * steps * f.Element
	cached := max(maxAccBytes/max(p.Outputs*f.Size, 1), (minTasks-1)/blocks+1)
	chunks := max(min(targetTasks/blocks, bytes/(4*grain), steps, cached), 1)
	accs := make([]byte, chunks*p.Outputs*f.Size*min(chunks-1, 1))
	streams := chunks == 1 && cpu.ShouldStream(bytes+p.Outputs*int64(p.OutSize))
	cpu.Parallel(blocks*chunks, max(grain*blocks*chunks/max(bytes, 1), 1), func(lo, hi int64) {
		var own, results []byte
		if chunks == 1 {
			own = make([]byte, size*f.Size)
		}
		if streams {
			results = make([]byte, size*int64(p.OutSize))
			defer cpu.StreamFence()
		}
		for i := lo; i < hi; i++ {
			block, chunk := i/chunks, i%chunks
			first := block * size
			last := min(first+size, p.Outputs)
			if chunks == 1 {
				p.accumulate(f, in, first, last, 0, steps, unsafe.Pointer(&own[0]))
				p.store(f, unsafe.Pointer(&own[0]), out, first, last, results)
				continue
			}
			acc := unsafe.Pointer(&accs[(chunk*p.Outputs+first)*f.Size])
			p.accumulate(f, in, first, last, partStart(steps, chunk, chunks), partStart(steps, chunk+1, chunks), acc)
		}
	})
	if chunks == 1 {
		return
	}
	all := unsafe.Pointer(&accs[0])
	for chunk := int64(1); chunk < chunks; chunk++ {
		f.Merge(all, unsafe.Add(all, chunk*p.Outputs*f.Size), p.Outputs)
	}
	p.store(f, all, out, 0, p.Outputs, nil)
}

// RunSplit computes the accumulators of all results for the parts of one split of a grid.
func RunSplit(p *Plan, f *Reducer, in unsafe.Pointer, split int64, accs unsafe.Pointer) {
	first := split * p.PerSplit
	p.accumulate(f, in, 0, p.Outputs, p.partAt(first), p.partAt(min(first+p.PerSplit, p.AllParts)), accs)
}

// Merge merges the accumulators accs[AllParts][Outputs] and writes the results.
func Merge(p *Plan, f *Reducer, accs, out unsafe.Pointer) {
	if p.Folded > 1 {
		for s := range p.AllParts {
			f.Renumber(unsafe.Add(accs, s*p.Outputs*f.Size), p.Outputs, p.Folded, s%p.Folded)
		}
	}
	for s := int64(1); s < p.AllParts; s++ {
		f.Merge(accs, unsafe.Add(accs, s*p.Outputs*f.Size), p.Outputs)
	}
	p.store(f, accs, out, 0, p.Outputs, nil)
}

// accumulate computes the accumulators of results [first, last) for steps [lo, hi).
func (p *Plan) accumulate(f *Reducer, in unsafe.Pointer, first, last, lo, hi int64, accs unsafe.Pointer) {
	f.None(accs, last-first)
	down := p.columnwise()
	p.eachRow(first, last, func(i, n, from, _, stride, _ int64) {
		acc := unsafe.Add(accs, (i-first)*f.Size)
		switch {
		case !down:
			for k := range n {
				p.eachRun(lo, hi, func(step, steps, at int64) {
					f.Along(unsafe.Add(acc, k*f.Size), unsafe.Add(in, from+k*stride+at), steps, p.Stride, p.Base+step, &p.Finish)
				})
			}
		case n*4 <= shortRow && p.Stride == n*stride && stride == f.Element:
			p.eachRun(lo, hi, func(step, steps, at int64) {
				p.accumulateNarrow(f, acc, unsafe.Add(in, from+at), n, steps, p.Base+step)
			})
		default:
			p.eachRun(lo, hi, func(step, steps, at int64) {
				f.Across(acc, unsafe.Add(in, from+at), n, stride, steps, p.Stride, p.Base+step, &p.Finish)
			})
		}
	})
}

// accumulateNarrow folds short contiguous rows. Several rows are treated as one wider
// row, whose results are merged at the end.
func (p *Plan) accumulateNarrow(f *Reducer, acc, in unsafe.Pointer, n, steps, number int64) {
	rows := shortRow / n
	wide := steps / rows
	if wide > 0 {
		accs := make([]byte, rows*n*f.Size)
		all := unsafe.Pointer(&accs[0])
		f.None(all, rows*n)
		f.Across(all, in, rows*n, f.Element, wide, rows*n*f.Element, 0, &p.Finish)
		for r := range rows {
			one := unsafe.Add(all, r*n*f.Size)
			f.Renumber(one, n, rows, number+r)
			f.Merge(acc, one, n)
		}
	}
	if done := wide * rows; done < steps {
		f.Across(acc, unsafe.Add(in, done*n*f.Element), n, f.Element, steps-done, n*f.Element, number+done, &p.Finish)
	}
}

func abs(n int64) int64 { return max(n, -n) }

// partStart returns where part i of parts of n begins.
func partStart(n, i, parts int64) int64 { return n/parts*i + min(i, n%parts) }

// grid is rows of contiguous, aligned elements, pitch bytes apart.
type grid[T any] struct {
	at                 unsafe.Pointer
	rows, width, pitch int64
}

func (g grid[T]) row(r int64) []T {
	return unsafe.Slice((*T)(unsafe.Add(g.at, r*g.pitch)), g.width)
}

// shortPitch is the pitch in bytes up to which contiguous rows are read one after the
// other, as one run that the processor prefetches. Four rows at a time would be four
// streams.
const shortPitch = 8 << 10

// fourAt reports whether row r and the three after it should be read together, which
// saves passes over the accumulators.
func (g grid[T]) fourAt(r int64) bool {
	var element T
	gaps := g.pitch != g.width*int64(unsafe.Sizeof(element))
	return g.rows-r >= 4 && (gaps || g.pitch > shortPitch)
}

// prefetchDistance returns the bytes from row r and the three after it to the next four
// rows, or 0 at the end. Processors do not prefetch across rows.
func (g grid[T]) prefetchDistance(r int64) int {
	if g.rows-r < 8 {
		return 0
	}
	return int(4 * g.pitch)
}

// gatherItems is the number of strided elements that are gathered at a time.
const gatherItems = 2048

// gatherBuffers has the memory for gathered elements.
type gatherBuffers[T any] struct{ blocks *sync.Pool }

func newGatherBuffers[T any]() gatherBuffers[T] {
	return gatherBuffers[T]{&sync.Pool{New: func() any { return new([gatherItems]T) }}}
}

// each calls do for parts that cover the rows of n elements, with the row and the
// column of the part. Contiguous elements are used in place, others are gathered.
func (g gatherBuffers[T]) each(from unsafe.Pointer, n, stride, rows, pitch int64, do func(row, column int64, x grid[T])) {
	var element T
	size, align := int64(unsafe.Sizeof(element)), uint64(unsafe.Alignof(element))
	aligned := (uint64(uintptr(from))|uint64(pitch))%align == 0
	if aligned && stride == size {
		do(0, 0, grid[T]{from, rows, n, pitch})
		return
	}
	aligned = aligned && uint64(stride)%align == 0
	block, _ := g.blocks.Get().(*[gatherItems]T)
	defer g.blocks.Put(block)
	// Few rows are gathered whole; of many rows at least 256 elements.
	width := min(max(gatherItems/rows, 256), n)
	for first := int64(0); first < n; first += width {
		width := min(width, n-first)
		height := min(gatherItems/width, rows)
		for row := int64(0); row < rows; row += height {
			x := grid[T]{unsafe.Pointer(block), min(height, rows-row), width, width * size}
			for r := range x.rows {
				gather(x.row(r), unsafe.Add(from, (row+r)*pitch+first*stride), stride, aligned)
			}
			do(row, first, x)
		}
	}
}

// gather copies elements that are stride bytes apart.
func gather[T any](to []T, from unsafe.Pointer, stride int64, aligned bool) {
	if aligned {
		for i := range to {
			to[i] = *(*T)(unsafe.Add(from, int64(i)*stride))
		}
		return
	}
	size := unsafe.Sizeof(to[0])
	for i := range to {
		at := unsafe.Add(from, int64(i)*stride)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&to[i])), size), unsafe.Slice((*byte)(at), size))
	}
}
