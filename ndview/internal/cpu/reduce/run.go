package reduce

import (
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
	streams := chunks == 1 && cpu.Streams(bytes+p.Outputs*int64(p.OutSize))
	cpu.Parallel(blocks*chunks, max(grain*blocks*chunks/max(bytes, 1), 1), func(lo, hi int64) {
		var own, results []byte
		if chunks == 1 {
			own = make([]byte, size*f.Size)
		}
		if streams {
			results = make([]byte, size*int64(p.OutSize))
			defer cpu.StreamEnd()
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
