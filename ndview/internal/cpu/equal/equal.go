// Package equal tells whether arrays on the host are equal: for the CPU device, and
// as the twins of kernels/equal.cu.
package equal

import (
	"bytes"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/reduce"
)

// Plan says which elements are compared, x and y: along the axes, the innermost
// first, where In is of x and Out of y. Of a Constant, y is the value in Pattern,
// which repeats it. Kernels take it by value, so it has C's layout.
type Plan struct {
	Elements     int64
	Pattern      [2]uint64
	Constant     int32
	NaNEqual     int32
	Axes         int32
	TypeX, TypeY uint8 // a cpu.Type each, of Mixed
	_            [2]uint8
	Axis         [reduce.MaxAxes]reduce.Axis
}

// Mode is how elements are compared.
type Mode struct {
	Name string // of kernels: "f32"
	Size int64  // bytes of an element
	same func(x, y unsafe.Pointer, n int64, nanEqual bool) bool
}

// Mixed compares numbers of different types, which the Plan says.
var Mixed = Mode{Name: "mixed"}

// ByBits compares bits, in units of so many bytes: 1, 2, 4, 8 or 16.
func ByBits(size int64) Mode { return bits[size] }

var bits = map[int64]Mode{1: byBits("1", 1), 2: byBits("2", 2), 4: byBits("4", 4), 8: byBits("8", 8), 16: byBits("16", 16)}

// Times compares times of which NaT is not equal to NaT.
var Times = Mode{"time", 8, inPieces(ticks, func(x, y int64, _ bool) bool { return x == y && x != math.MinInt64 })}

// ByValue are the types of which equal values may have different bits, or the
// same bits be unequal.
var ByValue = map[cpu.Type]Mode{
	cpu.Float16:    {"f16", 2, floats(halves(0x7c00), sameHalf(0x7c00))},
	cpu.BFloat16:   {"bf16", 2, floats(halves(0x7f80), sameHalf(0x7f80))},
	cpu.Float32:    {"f32", 4, floats(singles, same[float32])},
	cpu.Float64:    {"f64", 8, floats(doubles, same[float64])},
	cpu.Complex64:  {"c64", 8, floats(singles, same[complex64])},
	cpu.Complex128: {"c128", 16, floats(doubles, same[complex128])},
}

// Modes are all modes by name.
var Modes = func() map[string]Mode {
	all := map[string]Mode{Times.Name: Times}
	for _, m := range bits {
		all[m.Name] = m
	}
	for _, m := range ByValue {
		all[m.Name] = m
	}
	return all
}()

func byBits(name string, size int64) Mode {
	return Mode{name, size, func(x, y unsafe.Pointer, n int64, _ bool) bool {
		return bytes.Equal(unsafe.Slice((*byte)(x), n*size), unsafe.Slice((*byte)(y), n*size))
	}}
}

// grain is how many elements are worth a goroutine, and piece how many are brought
// together to be compared.
const (
	grain = 64 << 10
	piece = 128
)

// Arrays tells whether x and y are equal. Of a constant, y is where the pattern
// is.
func (m Mode) Arrays(p *Plan, x, y unsafe.Pointer) bool {
	if m.Name == Mixed.Name {
		return mixed(p, x, y)
	}
	return everywhere(p, func(lo, hi int64, differ *atomic.Bool) {
		p.eachRow(lo, hi, func(n, atX, atY, stepX, stepY int64) bool {
			return m.row(p, unsafe.Add(x, atX), unsafe.Add(y, atY), n, stepX, stepY) && !differ.Load()
		}, differ)
	})
}

// everywhere tells whether none of the parts into which the elements are cut
// finds a difference.
func everywhere(p *Plan, part func(lo, hi int64, differ *atomic.Bool)) bool {
	var differ atomic.Bool
	cpu.Parallel(p.Elements, grain, func(lo, hi int64) { part(lo, hi, &differ) })
	return !differ.Load()
}

// eachRow calls do for elements [lo, hi), a row along the innermost axis after the
// other, until it answers false, and then sets differ.
func (p *Plan) eachRow(lo, hi int64, do func(n, x, y, stepX, stepY int64) bool, differ *atomic.Bool) {
	for i := lo; i < hi; {
		var x, y, stepX, stepY int64
		n, rest := int64(1), i
		for k, axis := range p.Axis[:p.Axes] {
			at := rest % axis.Extent.By
			rest /= axis.Extent.By
			x += at * axis.In
			y += at * axis.Out
			if k == 0 {
				n, stepX, stepY = min(axis.Extent.By-at, hi-i), axis.In, axis.Out
			}
		}
		// In pieces, so that a difference found elsewhere is soon known.
		for first := int64(0); first < n; first += grain {
			if !do(min(n-first, grain), x+first*stepX, y+first*stepY, stepX, stepY) {
				differ.Store(true)
				return
			}
		}
		i += n
	}
}

// Reach is the range of bytes that the elements, of size bytes, touch in x and in
// y, from where the first are. Where types are mixed, they have the sizes.
func (p *Plan) Reach(size int64) (lowX, highX, lowY, highY int64) {
	for _, axis := range p.Axis[:p.Axes] {
		lowX += min((axis.Extent.By-1)*axis.In, 0)
		highX += max((axis.Extent.By-1)*axis.In, 0)
		lowY += min((axis.Extent.By-1)*axis.Out, 0)
		highY += max((axis.Extent.By-1)*axis.Out, 0)
	}
	if size == 0 {
		return lowX, highX + cpu.Type(p.TypeX).Size(), lowY, highY + cpu.Type(p.TypeY).Size()
	}
	return lowX, highX + size, lowY, highY + size
}

// row compares n elements of a row.
func (m Mode) row(p *Plan, x, y unsafe.Pointer, n, stepX, stepY int64) bool {
	if p.Constant == 0 && stepX == m.Size && stepY == m.Size && aligned(x, y, m.Size) {
		return m.same(x, y, n, p.NaNEqual != 0)
	}
	var xs, ys [piece][2]uint64
	if p.Constant != 0 {
		y, stepY = unsafe.Pointer(&p.Pattern), 0
	}
	if stepY == 0 {
		spread(unsafe.Pointer(&ys), y, min(n, piece), 0, m.Size)
	}
	for first := int64(0); first < n; first += piece {
		n := min(n-first, piece)
		from := unsafe.Add(x, first*stepX)
		if stepX != m.Size || !aligned(from, from, m.Size) {
			spread(unsafe.Pointer(&xs), from, n, stepX, m.Size)
			from = unsafe.Pointer(&xs)
		}
		if stepY != 0 {
			spread(unsafe.Pointer(&ys), unsafe.Add(y, first*stepY), n, stepY, m.Size)
		}
		if !m.same(from, unsafe.Pointer(&ys), n, p.NaNEqual != 0) {
			return false
		}
	}
	return true
}

func aligned(x, y unsafe.Pointer, size int64) bool {
	return (uintptr(x)|uintptr(y))&uintptr(min(size, 8)-1) == 0
}

// spread puts elements together that lie step bytes apart.
func spread(to, from unsafe.Pointer, n, step, size int64) {
	if size == 4 && (uintptr(from)|uintptr(step))%4 == 0 {
		out := unsafe.Slice((*uint32)(to), n)
		for i := range out {
			out[i] = *(*uint32)(unsafe.Add(from, int64(i)*step))
		}
		return
	}
	for i := range n {
		copy(unsafe.Slice((*byte)(unsafe.Add(to, i*size)), size), unsafe.Slice((*byte)(unsafe.Add(from, i*step)), size))
	}
}
