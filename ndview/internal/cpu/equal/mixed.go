package equal

import (
	"sync/atomic"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

// number is a number of any type: an integer exactly, or as what NumPy promotes
// the two to.
type number struct {
	integer             uint64
	negative, isInteger bool
	value               complex128
}

func mixed(p *Plan, x, y unsafe.Pointer) bool {
	typeX, typeY := cpu.Type(p.TypeX), cpu.Type(p.TypeY)
	return everywhere(p, func(lo, hi int64, differ *atomic.Bool) {
		p.eachRow(lo, hi, func(n, atX, atY, stepX, stepY int64) bool {
			for i := range n {
				a, b := load(unsafe.Add(x, atX+i*stepX), typeX), load(unsafe.Add(y, atY+i*stepY), typeY)
				if a.isInteger && b.isInteger {
					if a.integer != b.integer || a.negative != b.negative {
						return false
					}
				} else if !same(a.value, b.value, p.NaNEqual != 0) {
					return false
				}
			}
			return !differ.Load()
		}, differ)
	})
}

func load(at unsafe.Pointer, t cpu.Type) number {
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
