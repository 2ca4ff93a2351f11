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
// is explained there (kernels/reduce_plan.cuh).
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
	OutSize, Aligned     int32         // OutSize: bytes of a result
	Kept                 [MaxAxes]Axis // the innermost first
	Run                  [MaxAxes]Axis
}

// Finish is what an operation needs to know besides the elements.
type Finish struct {
	Flip  uint64 // of maxima and counts: see kernels/reduce_order.cuh
	Bias  uint64
	Total int64 // the elements of a result
	To    int32 // the cpu.Type of the results
	What  int32
}

// What a Finish makes: sums as they are or means, counts or what they tell.
const (
	Itself = iota
	Mean
	Any
	All
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

// partAt is the first step of a part.
func (p *Plan) partAt(part int64) int64 {
	return part/p.Parts.By*p.Length + part%p.Parts.By*p.Part
}

// Unvectored is the plan by elements of one by vectors, as kernels for columns
// have it.
func (p *Plan) Unvectored() {
	if axis := &p.Kept[0]; p.Vector > 0 && p.KeptAxes > 0 {
		by := int64(p.Vector)
		*axis = Axis{Extent: NewDivisor(p.Width / p.Folded), In: axis.In / by, Out: axis.Out / by}
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

// store writes the results [first, last), whose accumulators these are. Those without
// gaps are streamed, by way of a block, if there is one.
func (p *Plan) store(f *Reducer, accs, out unsafe.Pointer, first, last int64, block []byte) {
	p.eachRow(first, last, func(i, n, _, to, _, stride int64) {
		acc, at, size := unsafe.Add(accs, (i-first)*f.Size), unsafe.Add(out, to), int64(p.OutSize)
		if block == nil || stride != size {
			f.Store(acc, at, n, stride, &p.Finish)
			return
		}
		f.Store(acc, unsafe.Pointer(&block[0]), n, size, &p.Finish)
		cpu.Stream(at, unsafe.Pointer(&block[0]), n*size)
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
