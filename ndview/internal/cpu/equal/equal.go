// Package equal compares arrays on the host: on the CPU device, and as the host
// implementation of kernels/elementwise/equal.cu.
package equal

import (
	"bytes"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/reduce"
	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

// Plan locates the compared elements of x and y along the axes, the innermost first. In
// has the steps of x, Out those of y. If Constant, y is the value that is repeated in
// Pattern. Kernels take a Plan by value, so it has C's layout.
type Plan struct {
	Elements     int64
	Pattern      [2]uint64
	Constant     int32
	NaNEqual     int32
	Axes         int32
	TypeX, TypeY uint8 // cpu.Type, for Mixed
	_            [2]uint8
	Axis         [reduce.MaxAxes]reduce.Axis
}

// Mode is a way to compare elements.
type Mode struct {
	Name string // in kernel names: "f32"
	Size int64  // bytes per element
	same func(x, y unsafe.Pointer, n int64, nanEqual bool) bool
}

// Mixed compares numbers of the Plan's types, which differ.
var Mixed = Mode{Name: "mixed"}

// Bitwise compares bits, in units of 1, 2, 4, 8 or 16 bytes.
func Bitwise(size int64) Mode { return bitwiseModes[size] }

var bitwiseModes = map[int64]Mode{1: bitwise("1", 1), 2: bitwise("2", 2), 4: bitwise("4", 4), 8: bitwise("8", 8), 16: bitwise("16", 16)}

// Times compares times; NaT is not equal to NaT.
var Times = Mode{"time", 8, chunked(ticks, func(x, y int64, _ bool) bool { return x == y && x != math.MinInt64 })}

// ByValue has the modes of types whose equal values may have different bits, or whose
// equal bits may be unequal.
var ByValue = map[cpu.Type]Mode{
	cpu.Float16:    {"f16", 2, floats(halves(0x7c00), equalHalves(0x7c00))},
	cpu.BFloat16:   {"bf16", 2, floats(halves(0x7f80), equalHalves(0x7f80))},
	cpu.Float32:    {"f32", 4, floats(singles, equalFloats[float32])},
	cpu.Float64:    {"f64", 8, floats(doubles, equalFloats[float64])},
	cpu.Complex64:  {"c64", 8, floats(singles, equalFloats[complex64])},
	cpu.Complex128: {"c128", 16, floats(doubles, equalFloats[complex128])},
}

// Modes has all modes but Mixed, by name.
var Modes = func() map[string]Mode {
	all := map[string]Mode{Times.Name: Times}
	for _, m := range bitwiseModes {
		all[m.Name] = m
	}
	for _, m := range ByValue {
		all[m.Name] = m
	}
	return all
}()

func bitwise(name string, size int64) Mode {
	return Mode{name, size, func(x, y unsafe.Pointer, n int64, _ bool) bool {
		return bytes.Equal(unsafe.Slice((*byte)(x), n*size), unsafe.Slice((*byte)(y), n*size))
	}}
}

// grain is the number of elements that are worth a goroutine; gatherItems is the number
// of strided elements that are gathered at a time.
const (
	grain       = 64 << 10
	gatherItems = 128
)

// EqualArrays reports whether x and y are equal.
func (m Mode) EqualArrays(p *Plan, x, y unsafe.Pointer) bool {
	if m.Name == Mixed.Name {
		return equalMixed(p, x, y)
	}
	return allParts(p, func(lo, hi int64, differ *atomic.Bool) {
		p.eachRow(lo, hi, func(n, atX, atY, stepX, stepY int64) bool {
			return m.row(p, unsafe.Add(x, atX), unsafe.Add(y, atY), n, stepX, stepY) && !differ.Load()
		}, differ)
	})
}

// allParts calls part for ranges of the elements, and reports whether none found a
// difference.
func allParts(p *Plan, part func(lo, hi int64, differ *atomic.Bool)) bool {
	var differ atomic.Bool
	cpu.Parallel(p.Elements, grain, func(lo, hi int64) { part(lo, hi, &differ) })
	return !differ.Load()
}

// eachRow calls do for elements [lo, hi), row by row along the innermost axis. If do
// returns false, it sets differ and returns.
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
		// Long rows are split, so that a difference found elsewhere is noticed soon.
		for first := int64(0); first < n; first += grain {
			if !do(min(n-first, grain), x+first*stepX, y+first*stepY, stepX, stepY) {
				differ.Store(true)
				return
			}
		}
		i += n
	}
}

// ByteBounds returns the ranges of bytes that elements of size bytes occupy in x and in y,
// relative to the first ones. If size is 0, the sizes are those of TypeX and TypeY.
func (p *Plan) ByteBounds(size int64) (lowX, highX, lowY, highY int64) {
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
	var xs, ys [gatherItems][2]uint64
	if p.Constant != 0 {
		y, stepY = unsafe.Pointer(&p.Pattern), 0
	}
	if stepY == 0 {
		gather(unsafe.Pointer(&ys), y, min(n, gatherItems), 0, m.Size)
	}
	for first := int64(0); first < n; first += gatherItems {
		n := min(n-first, gatherItems)
		from := unsafe.Add(x, first*stepX)
		if stepX != m.Size || !aligned(from, from, m.Size) {
			gather(unsafe.Pointer(&xs), from, n, stepX, m.Size)
			from = unsafe.Pointer(&xs)
		}
		if stepY != 0 {
			gather(unsafe.Pointer(&ys), unsafe.Add(y, first*stepY), n, stepY, m.Size)
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

// gather copies elements that are step bytes apart to contiguous memory.
func gather(to, from unsafe.Pointer, n, step, size int64) {
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

func eachEqual[T any](same func(x, y T, nanEqual bool) bool) func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
	return func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
		xs, ys := unsafe.Slice((*T)(x), n), unsafe.Slice((*T)(y), n)
		for i, v := range xs {
			if !same(v, ys[i], nanEqual) {
				return false
			}
		}
		return true
	}
}

// chunkItems is the number of elements that may be compared twice while they are in the
// cache.
const chunkItems = 1024

// prefix returns the number of bytes that it found equal, from the first on, where NaN
// and NaT are unequal: those of all whole blocks, or 0.
type prefix func(x, y unsafe.Pointer, bytes int64) int64

// floats first compares bits if NaNs are equal, as equal bits are then equal values.
func floats[T any](vectors prefix, same func(x, y T, nanEqual bool) bool) func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
	size, strict := int64(unsafe.Sizeof(*(*T)(nil))), chunked(vectors, same)
	return func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
		for first := int64(0); first < n; first += chunkItems {
			n := min(n-first, chunkItems)
			x, y := unsafe.Add(x, first*size), unsafe.Add(y, first*size)
			sameBits := nanEqual && bytes.Equal(unsafe.Slice((*byte)(x), n*size), unsafe.Slice((*byte)(y), n*size))
			if !sameBits && !strict(x, y, n, nanEqual) {
				return false
			}
		}
		return true
	}
}

// chunked compares with assembly, and then one by one what it did not find equal.
func chunked[T any](vectors prefix, same func(x, y T, nanEqual bool) bool) func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
	size, oneByOne := int64(unsafe.Sizeof(*(*T)(nil))), eachEqual(same)
	return func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
		for first := int64(0); first < n; first += chunkItems {
			n := min(n-first, chunkItems)
			x, y := unsafe.Add(x, first*size), unsafe.Add(y, first*size)
			done := vectors(x, y, n*size) / size
			if done < n && !oneByOne(unsafe.Add(x, done*size), unsafe.Add(y, done*size), n-done, nanEqual) {
				return false
			}
		}
		return true
	}
}

func equalFloats[T float32 | float64 | complex64 | complex128](x, y T, nanEqual bool) bool {
	return x == y || nanEqual && x != x && y != y
}

// equalHalves compares 16-bit floats; infinity has the bits of their infinity.
func equalHalves(infinity uint16) func(x, y uint16, nanEqual bool) bool {
	return func(x, y uint16, nanEqual bool) bool {
		switch isNaN := x&0x7fff > infinity; {
		case isNaN || y&0x7fff > infinity:
			return nanEqual && isNaN && y&0x7fff > infinity
		default:
			return x == y || (x|y)&0x7fff == 0
		}
	}
}

// number is a number of any type: an exact integer, or the value to which NumPy
// promotes it.
type number struct {
	integer             uint64
	negative, isInteger bool
	value               complex128
}

func equalMixed(p *Plan, x, y unsafe.Pointer) bool {
	typeX, typeY := cpu.Type(p.TypeX), cpu.Type(p.TypeY)
	return allParts(p, func(lo, hi int64, differ *atomic.Bool) {
		p.eachRow(lo, hi, func(n, atX, atY, stepX, stepY int64) bool {
			for i := range n {
				a, b := loadNumber(unsafe.Add(x, atX+i*stepX), typeX), loadNumber(unsafe.Add(y, atY+i*stepY), typeY)
				if a.isInteger && b.isInteger {
					if a.integer != b.integer || a.negative != b.negative {
						return false
					}
				} else if !equalFloats(a.value, b.value, p.NaNEqual != 0) {
					return false
				}
			}
			return !differ.Load()
		}, differ)
	})
}

func loadNumber(at unsafe.Pointer, t cpu.Type) number {
	switch t {
	case cpu.Bool, cpu.Uint8:
		return integer(*(*uint8)(at))
	case cpu.Int8:
		return integer(*(*int8)(at))
	case cpu.Int16:
		return integer(*(*int16)(at))
	case cpu.Uint16:
		return integer(*(*uint16)(at))
	case cpu.Int32:
		return integer(*(*int32)(at))
	case cpu.Uint32:
		return integer(*(*uint32)(at))
	case cpu.Int64:
		return integer(*(*int64)(at))
	case cpu.Uint64:
		return integer(*(*uint64)(at))
	case cpu.Float16:
		return number{value: complex(float64(half.Float16ToFloat32(*(*uint16)(at))), 0)}
	case cpu.BFloat16:
		return number{value: complex(float64(half.BFloat16ToFloat32(*(*uint16)(at))), 0)}
	case cpu.Float32:
		return number{value: complex(float64(*(*float32)(at)), 0)}
	case cpu.Float64:
		return number{value: complex(*(*float64)(at), 0)}
	case cpu.Complex64:
		return number{value: complex128(*(*complex64)(at))}
	default:
		return number{value: *(*complex128)(at)}
	}
}

func integer[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](v T) number {
	return number{integer: uint64(v), negative: v < 0, isInteger: true, value: complex(float64(v), 0)}
}
