// Package reduce has the loops of reductions on the host. They run on the CPU device,
// and are the host implementations of kernels/reduce.
package reduce

import (
	"math/bits"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// MaxAxes is the largest number of axes that a reduction keeps, and that it reduces,
// after axes have been merged.
const MaxAxes = 16

// Divisor divides an index below 2^63 by By: (high word of index*Magic) >> Shift. Magic
// is 0 for By = 1.
type Divisor struct {
	By    int64
	Magic uint64
	Shift int64
}

// NewDivisor returns the divisor for d >= 1.
func NewDivisor(d int64) Divisor {
	if d == 1 {
		return Divisor{By: 1}
	}
	// With 2^(l-1) < d <= 2^l, floor(2^(63+l)/d)+1 is exact for all 63-bit indices.
	l := bits.Len64(uint64(d - 1))
	quotient, _ := bits.Div64(1<<(l-1), 0, uint64(d))
	return Divisor{By: d, Magic: quotient + 1, Shift: int64(l - 1)}
}

// Axis is an axis of a nest: its extent, and the bytes between elements in the array
// and in the results.
type Axis struct {
	Extent  Divisor
	In, Out int64
}

// Plan locates the elements of a reduction. Each result is made of steps: runs of
// Length steps, Stride bytes apart, one run per position of the nest Run. Kernels take
// a Plan by value, so it has C's layout; kernels/reduce/plan.cuh documents the fields
// that only kernels use.
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
	OutSize, Aligned     int32         // OutSize: bytes per result
	Kept                 [MaxAxes]Axis // the innermost first
	Run                  [MaxAxes]Axis
}

// Finish has the parameters of an operation.
type Finish struct {
	Flip  uint64 // for maxima and counts: see kernels/reduce/op.cuh
	Bias  uint64
	Total int64 // elements per result
	To    int32 // cpu.Type of the results
	What  int32
}

// The values of Finish.What: sums as such or divided to means, counts as such or as
// bools.
const (
	Value = iota
	Mean
	Any
	All
)

// steps returns the number of elements per result.
func (p *Plan) steps() int64 { return p.Length * p.runs() }

func (p *Plan) runs() int64 {
	n := int64(1)
	for _, axis := range p.Run[:p.RunAxes] {
		n *= axis.Extent.By
	}
	return n
}

// partAt returns the first step of a part.
func (p *Plan) partAt(part int64) int64 {
	return part/p.Parts.By*p.Length + part%p.Parts.By*p.Part
}

// ConvertToElements converts a plan in vectors of columns, as kernels use it, to one in
// elements.
func (p *Plan) ConvertToElements() {
	if axis := &p.Kept[0]; p.Vector > 0 && p.KeptAxes > 0 {
		by := int64(p.Vector)
		*axis = Axis{Extent: NewDivisor(p.Width / p.Folded), In: axis.In / by, Out: axis.Out / by}
	}
}

// ByteBounds returns the ranges of bytes that the elements, of size bytes, and the results
// occupy, relative to the first ones.
func (p *Plan) ByteBounds(size int64) (low, high, outLow, outHigh int64) {
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

// offset returns the offsets of index i of a nest.
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

// store writes results [first, last) from their accumulators. If block is not nil,
// contiguous results are written with non-temporal stores by way of block.
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

// eachRow calls do for the rows of results [first, last) along the innermost axis,
// with: the first result, their number, the offsets in the array and in the results,
// and the strides.
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

// eachRun calls do for the parts of runs in steps [lo, hi).
func (p *Plan) eachRun(lo, hi int64, do func(step, n, in int64)) {
	for s := lo; s < hi; {
		within := s % p.Length
		n := min(p.Length-within, hi-s)
		in, _ := offset(p.Run[:p.RunAxes], s/p.Length)
		do(s, n, in+within*p.Stride)
		s += n
	}
}
