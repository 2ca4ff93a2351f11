package reduce

import (
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

const (
	// blockBytes is how much the accumulators of a block of results take up, so
	// that they stay in the cache.
	blockBytes = 16 << 10
	// tasks is how many parts of work keep the processors busy.
	tasks = 64
	// mostBytes is how much all accumulators take up where results are made of parts, if
	// those are fewTasks at least.
	mostBytes = 512 << 10
	fewTasks  = 32
	// shortRow is how many elements make a row that is worth a call.
	shortRow = 512
	// shortRun is how many elements of a result are taken by rows of neighbouring
	// results, even where they have no gaps.
	shortRun = 32
	// grain is how many bytes are worth a goroutine.
	grain = 64 << 10
)

// down tells whether the elements of neighbouring results are taken together: the
// inner loop goes along the axis with the smaller stride, or not along few.
func (p *Plan) down() bool {
	if p.KeptAxes == 0 || p.Kept[0].In == 0 {
		return false
	}
	return abs(p.Kept[0].In) < abs(p.Stride) || p.Length <= shortRun && p.Kept[0].Extent.By >= p.Length
}

// Results makes all results. How the work is divided depends on its size only, so
// that a sum is the same whatever the machine.
func Results(p *Plan, f *Reducer, in, out unsafe.Pointer) {
	size := max(min(blockBytes/f.Size, p.Outputs), 1)
	if !p.down() {
		size = min(size, (p.Outputs-1)/tasks+1)
	}
	blocks, steps := (p.Outputs-1)/size+1, p.steps()
	bytes := p.Outputs * steps * f.Element
	cached := max(mostBytes/max(p.Outputs*f.Size, 1), (fewTasks-1)/blocks+1)
	chunks := max(min(tasks/blocks, bytes/(4*grain), steps, cached), 1)
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
			p.accumulate(f, in, first, last, share(steps, chunk, chunks), share(steps, chunk+1, chunks), acc)
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

// Parts makes the accumulators of every result of the parts that split s
// of a grid does.
func Parts(p *Plan, f *Reducer, in unsafe.Pointer, split int64, accs unsafe.Pointer) {
	first := split * p.PerSplit
	p.accumulate(f, in, 0, p.Outputs, p.partAt(first), p.partAt(min(first+p.PerSplit, p.AllParts)), accs)
}

// Merge merges the accumulators accs[AllParts][Outputs] and writes the
// results.
func Merge(p *Plan, f *Reducer, accs, out unsafe.Pointer) {
	if p.Folded > 1 {
		for s := range p.AllParts {
			f.Number(unsafe.Add(accs, s*p.Outputs*f.Size), p.Outputs, p.Folded, s%p.Folded)
		}
	}
	for s := int64(1); s < p.AllParts; s++ {
		f.Merge(accs, unsafe.Add(accs, s*p.Outputs*f.Size), p.Outputs)
	}
	p.store(f, accs, out, 0, p.Outputs, nil)
}

// accumulate makes the accumulators of results [first, last) of steps [lo, hi).
func (p *Plan) accumulate(f *Reducer, in unsafe.Pointer, first, last, lo, hi int64, accs unsafe.Pointer) {
	f.None(accs, last-first)
	down := p.down()
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
				p.interleaved(f, acc, unsafe.Add(in, from+at), n, steps, p.Base+step)
			})
		default:
			p.eachRun(lo, hi, func(step, steps, at int64) {
				f.Across(acc, unsafe.Add(in, from+at), n, stride, steps, p.Stride, p.Base+step, &p.Finish)
			})
		}
	})
}

// interleaved folds rows of few results that lie without gaps. Several rows are
// taken as one of more results, which are merged in the end.
func (p *Plan) interleaved(f *Reducer, acc, in unsafe.Pointer, n, steps, number int64) {
	rows := shortRow / n
	wide := steps / rows
	if wide > 0 {
		accs := make([]byte, rows*n*f.Size)
		all := unsafe.Pointer(&accs[0])
		f.None(all, rows*n)
		f.Across(all, in, rows*n, f.Element, wide, rows*n*f.Element, 0, &p.Finish)
		for r := range rows {
			one := unsafe.Add(all, r*n*f.Size)
			f.Number(one, n, rows, number+r)
			f.Merge(acc, one, n)
		}
	}
	if done := wide * rows; done < steps {
		f.Across(acc, unsafe.Add(in, done*n*f.Element), n, f.Element, steps-done, n*f.Element, number+done, &p.Finish)
	}
}

func abs(n int64) int64 { return max(n, -n) }

// share is where part i of parts of n begins.
func share(n, i, parts int64) int64 { return n/parts*i + min(i, n%parts) }

// grid is rows of elements, pitch bytes apart. Those of a row have no gaps and lie
// as Go wants them.
type grid[T any] struct {
	at                 unsafe.Pointer
	rows, width, pitch int64
}

func (g grid[T]) row(r int64) []T {
	return unsafe.Slice((*T)(unsafe.Add(g.at, r*g.pitch)), g.width)
}

// shortPitch is up to how many bytes rows without gaps between them are read one
// after the other, as one run that the processor foresees. Each of four at once would
// be foreseen anew.
const shortPitch = 8 << 10

// fourAt tells whether row r and the three that follow are to be read at once, which
// saves passes through the accumulators.
func (g grid[T]) fourAt(r int64) bool {
	var element T
	gaps := g.pitch != g.width*int64(unsafe.Sizeof(element))
	return g.rows-r >= 4 && (gaps || g.pitch > shortPitch)
}

// ahead is how many bytes after row r and the three that follow it the next four are, or
// 0 where there are no four: no processor foresees where they are.
func (g grid[T]) ahead(r int64) int {
	if g.rows-r < 8 {
		return 0
	}
	return int(4 * g.pitch)
}

// gathered is how many elements with gaps are put together at a time.
const gathered = 2048

// gathers are blocks to put elements together in.
type gathers[T any] struct{ blocks *sync.Pool }

func newGathers[T any]() gathers[T] {
	return gathers[T]{&sync.Pool{New: func() any { return new([gathered]T) }}}
}

// each calls do with parts of rows of n elements that cover them, and with the row
// and the column where a part begins. It takes elements in place where it can.
func (g gathers[T]) each(from unsafe.Pointer, n, stride, rows, pitch int64, do func(row, column int64, x grid[T])) {
	var element T
	size, align := int64(unsafe.Sizeof(element)), uint64(unsafe.Alignof(element))
	aligned := (uint64(uintptr(from))|uint64(pitch))%align == 0
	if aligned && stride == size {
		do(0, 0, grid[T]{from, rows, n, pitch})
		return
	}
	aligned = aligned && uint64(stride)%align == 0
	block, _ := g.blocks.Get().(*[gathered]T)
	defer g.blocks.Put(block)
	// Few rows are taken whole, of many rows not less than some elements.
	width := min(max(gathered/rows, 256), n)
	for first := int64(0); first < n; first += width {
		width := min(width, n-first)
		height := min(gathered/width, rows)
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
