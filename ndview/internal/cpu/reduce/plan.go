// Package reduce has the loops of reductions on the host: those of the CPU device,
// which are also the twins of the kernels (kernels/reduce.cuh).
package reduce

import (
	"math/bits"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// MaxAxes is how many axes a reduction keeps at most, and how many it
// reduces, after those that can be were joined.
const MaxAxes = 16

// Divisor divides an index below 2^63 by By: (high word of index*Magic) >> Shift,
// or by 1 where Magic is 0.
type Divisor struct {
	By    int64
	Magic uint64
	Shift int64
}

// NewDivisor divides by d >= 1.
func NewDivisor(d int64) Divisor {
	if d == 1 {
		return Divisor{By: 1}
	}
	// With 2^(l-1) < d <= 2^l, floor(2^(63+l)/d)+1 is exact for all of 63 bits.
	l := bits.Len64(uint64(d - 1))
	quotient, _ := bits.Div64(1<<(l-1), 0, uint64(d))
	return Divisor{By: d, Magic: quotient + 1, Shift: int64(l - 1)}
}

// Axis is an axis of a nest: its extent, and the bytes from one element to
// the next in the array and in the results.
type Axis struct {
	Extent  Divisor
	In, Out int64
}

// Plan says where the elements of a reduction are. Each result is made of
// steps: runs of Length steps, Stride bytes apart, one run for each place of the
// nest Run. Kernels take it by value, so it has C's layout; what only they need
// is explained there (kernels/reduce.cuh).
type Plan struct {
	Outputs              int64
	Items, Width         int64
	Length, Stride, Part int64
	Parts                Divisor
	AllParts, PerSplit   int64
	Folded               int64
	Base                 int64
	Neutral              [2]uint64
	Finish               Finish
	Partial, Lanes       int32
	KeptAxes, RunAxes    int32
	Dense, Vector        int32
	OutSize, Aligned     int32         // bytes of a result
	Kept                 [MaxAxes]Axis // the innermost first
	Run                  [MaxAxes]Axis
}

// Finish is what an operation needs to know besides the elements.
type Finish struct {
	Flip  uint64 // of maxima and counts: see kernels/reduce_ops.cuh
	Bias  uint64
	Total int64 // the elements of a result
	To    int32 // the elementwise.Type of the results
	What  int32
}

// What a Finish makes: sums as they are or means, counts or what they tell.
const (
	Itself = iota
	Mean
	Any
	All
)

// blockOutputs is how many results are made at a time: their accumulators stay in
// the cache. fewBlocks is how many such blocks are split no further.
const (
	blockOutputs = 1024
	fewBlocks    = 64
)

// steps is how many elements a result has.
func (p *Plan) steps() int64 { return p.Length * p.runs() }

func (p *Plan) runs() int64 {
	n := int64(1)
	for _, axis := range p.Run[:p.RunAxes] {
		n *= axis.Extent.By
	}
	return n
}

// Results makes all results. How the work is divided depends on its size only, so
// that a sum is the same whatever the machine.
func Results(p *Plan, f *Reducer, in, out unsafe.Pointer) {
	blocks, steps := (p.Outputs-1)/blockOutputs+1, p.steps()
	chunks := int64(1)
	if blocks < fewBlocks {
		chunks = max(min(fewBlocks/blocks, p.Outputs*steps*f.Element/(4*grain), steps), 1)
	}
	accs := make([]byte, chunks*p.Outputs*f.Size*min(chunks-1, 1))
	cpu.Parallel(blocks*chunks, max(grain*blocks*chunks/max(p.Outputs*steps*f.Element, 1), 1), func(lo, hi int64) {
		var own []byte
		if chunks == 1 {
			own = make([]byte, min(blockOutputs, p.Outputs)*f.Size)
		}
		for i := lo; i < hi; i++ {
			block, chunk := i/chunks, i%chunks
			first := block * blockOutputs
			last := min(first+blockOutputs, p.Outputs)
			if chunks == 1 {
				p.accumulate(f, in, first, last, 0, steps, unsafe.Pointer(&own[0]))
				p.store(f, unsafe.Pointer(&own[0]), out, first, last)
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
	p.store(f, all, out, 0, p.Outputs)
}

// Parts makes the accumulators of every result of the parts that split s
// of a grid does.
func Parts(p *Plan, f *Reducer, in unsafe.Pointer, split int64, accs unsafe.Pointer) {
	first := split * p.PerSplit
	p.accumulate(f, in, 0, p.Outputs, p.partAt(first), p.partAt(min(first+p.PerSplit, p.AllParts)), accs)
}

// partAt is the first step of a part.
func (p *Plan) partAt(part int64) int64 {
	return part/p.Parts.By*p.Length + part%p.Parts.By*p.Part
}

// Unvectored is the plan by elements of one by vectors, as kernels for columns
// have it.
func (p *Plan) Unvectored() {
	if axis := &p.Kept[0]; p.Vector > 0 && p.KeptAxes > 0 {
		by := int64(p.Vector)
		*axis = Axis{Extent: NewDivisor(p.Width), In: axis.In / by, Out: axis.Out / by}
	}
}

// Reach is the range of bytes that the elements, of size bytes, and the results
// touch, from where the first are.
func (p *Plan) Reach(size int64) (low, high, outLow, outHigh int64) {
	extend := func(low, high *int64, n, stride int64) {
		*low += min((n-1)*stride, 0)
		*high += max((n-1)*stride, 0)
	}
	for _, axis := range p.Kept[:p.KeptAxes] {
		extend(&low, &high, axis.Extent.By, axis.In)
		extend(&outLow, &outHigh, axis.Extent.By, axis.Out)
	}
	for _, axis := range p.Run[:p.RunAxes] {
		extend(&low, &high, axis.Extent.By, axis.In)
	}
	if p.Length == 0 {
		return 0, 0, outLow, outHigh + int64(p.OutSize)
	}
	extend(&low, &high, p.Length, p.Stride)
	return low, high + size, outLow, outHigh + int64(p.OutSize)
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
	p.store(f, accs, out, 0, p.Outputs)
}

// offset is where index i of a nest is.
func offset(axes []Axis, i int64) (in, out int64) {
	for k := range axes {
		at := i
		if k < len(axes)-1 {
			i, at = i/axes[k].Extent.By, i%axes[k].Extent.By
		}
		in += at * axes[k].In
		out += at * axes[k].Out
	}
	return in, out
}

// store writes the results [first, last), whose accumulators these are.
func (p *Plan) store(f *Reducer, accs, out unsafe.Pointer, first, last int64) {
	p.eachRow(first, last, func(i, n, _, to, _, stride int64) {
		f.Store(unsafe.Add(accs, (i-first)*f.Size), unsafe.Add(out, to), n, stride, &p.Finish)
	})
}

// eachRow calls do for the rows of results [first, last), along the innermost
// axis: the first of the row, how many, where they are in the array and in the
// results, and the strides there.
func (p *Plan) eachRow(first, last int64, do func(i, n, in, out, inStride, outStride int64)) {
	axes := p.Kept[:p.KeptAxes]
	if len(axes) == 0 {
		do(0, 1, 0, 0, 0, 0)
		return
	}
	for i := first; i < last; {
		n := min(axes[0].Extent.By-i%axes[0].Extent.By, last-i)
		from, to := offset(axes, i)
		do(i, n, from, to, axes[0].In, axes[0].Out)
		i += n
	}
}

// eachRun calls do for the parts of runs that make up steps [lo, hi).
func (p *Plan) eachRun(lo, hi int64, do func(step, n, in int64)) {
	for s := lo; s < hi; {
		within := s % p.Length
		n := min(p.Length-within, hi-s)
		in, _ := offset(p.Run[:p.RunAxes], s/p.Length)
		do(s, n, in+within*p.Stride)
		s += n
	}
}

// accumulate makes the accumulators of results [first, last) of steps [lo, hi).
// It goes along the axis with the smaller stride in its inner loop.
func (p *Plan) accumulate(f *Reducer, in unsafe.Pointer, first, last, lo, hi int64, accs unsafe.Pointer) {
	f.None(accs, last-first)
	down := p.KeptAxes > 0 && abs(p.Kept[0].In) < abs(p.Stride) && p.Kept[0].In != 0
	p.eachRow(first, last, func(i, n, from, _, stride, _ int64) {
		acc := unsafe.Add(accs, (i-first)*f.Size)
		switch {
		case !down:
			for k := range n {
				p.eachRun(lo, hi, func(step, steps, at int64) {
					f.Along(unsafe.Add(acc, k*f.Size), unsafe.Add(in, from+k*stride+at), steps, p.Stride, p.Base+step, &p.Finish)
				})
			}
		case n*8 <= shortRow && p.Stride == n*stride && stride == f.Element:
			p.eachRun(lo, hi, func(step, steps, at int64) {
				p.interleaved(f, acc, unsafe.Add(in, from+at), n, steps, p.Base+step)
			})
		default:
			p.eachRun(lo, hi, func(step, steps, at int64) {
				for s := range steps {
					f.Across(acc, unsafe.Add(in, from+at+s*p.Stride), n, stride, p.Base+step+s, &p.Finish)
				}
			})
		}
	})
}

// shortRow is how many elements make a row that is worth a call.
const shortRow = 256

// interleaved folds rows of few results that lie without gaps. Several rows are
// taken as one of more results, which are merged in the end.
func (p *Plan) interleaved(f *Reducer, acc, in unsafe.Pointer, n, steps, number int64) {
	rows := shortRow / n
	wide := steps / rows
	accs := make([]byte, rows*n*f.Size)
	all := unsafe.Pointer(&accs[0])
	f.None(all, rows*n)
	for s := range wide {
		f.Across(all, unsafe.Add(in, s*rows*n*f.Element), rows*n, f.Element, s, &p.Finish)
	}
	for r := range rows {
		one := unsafe.Add(all, r*n*f.Size)
		f.Number(one, n, rows, number+r)
		f.Merge(acc, one, n)
	}
	for s := wide * rows; s < steps; s++ {
		f.Across(acc, unsafe.Add(in, s*n*f.Element), n, f.Element, number+s, &p.Finish)
	}
}

func abs(n int64) int64 { return max(n, -n) }

// grain is how many bytes are worth a goroutine.
const grain = 64 << 10

// share is where part i of parts of n begins.
func share(n, i, parts int64) int64 { return n/parts*i + min(i, n%parts) }
