package elementwise

import (
	"unsafe"
)

// The loops of vector_amd64.s.

//go:noescape
func add8(out, x, y unsafe.Pointer, n int)

//go:noescape
func add16(out, x, y unsafe.Pointer, n int)

//go:noescape
func add32(out, x, y unsafe.Pointer, n int)

//go:noescape
func add64(out, x, y unsafe.Pointer, n int)

//go:noescape
func addf32(out, x, y unsafe.Pointer, n int)

//go:noescape
func addf64(out, x, y unsafe.Pointer, n int)

//go:noescape
func sub8(out, x, y unsafe.Pointer, n int)

//go:noescape
func sub16(out, x, y unsafe.Pointer, n int)

//go:noescape
func sub32(out, x, y unsafe.Pointer, n int)

//go:noescape
func sub64(out, x, y unsafe.Pointer, n int)

//go:noescape
func subf32(out, x, y unsafe.Pointer, n int)

//go:noescape
func subf64(out, x, y unsafe.Pointer, n int)

//go:noescape
func mul16(out, x, y unsafe.Pointer, n int)

//go:noescape
func mul32(out, x, y unsafe.Pointer, n int)

//go:noescape
func mulf32(out, x, y unsafe.Pointer, n int)

//go:noescape
func mulf64(out, x, y unsafe.Pointer, n int)

//go:noescape
func divf32(out, x, y unsafe.Pointer, n int)

//go:noescape
func divf64(out, x, y unsafe.Pointer, n int)

//go:noescape
func and64(out, x, y unsafe.Pointer, n int)

//go:noescape
func or64(out, x, y unsafe.Pointer, n int)

//go:noescape
func xor64(out, x, y unsafe.Pointer, n int)

//go:noescape
func max8(out, x, y unsafe.Pointer, n int)

//go:noescape
func max16(out, x, y unsafe.Pointer, n int)

//go:noescape
func max32(out, x, y unsafe.Pointer, n int)

//go:noescape
func maxu8(out, x, y unsafe.Pointer, n int)

//go:noescape
func maxu16(out, x, y unsafe.Pointer, n int)

//go:noescape
func maxu32(out, x, y unsafe.Pointer, n int)

//go:noescape
func min8(out, x, y unsafe.Pointer, n int)

//go:noescape
func min16(out, x, y unsafe.Pointer, n int)

//go:noescape
func min32(out, x, y unsafe.Pointer, n int)

//go:noescape
func minu8(out, x, y unsafe.Pointer, n int)

//go:noescape
func minu16(out, x, y unsafe.Pointer, n int)

//go:noescape
func minu32(out, x, y unsafe.Pointer, n int)

//go:noescape
func mul8(out, x, y unsafe.Pointer, n int)

//go:noescape
func mul64(out, x, y unsafe.Pointer, n int)

//go:noescape
func eq8(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func lt8(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func eq16(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func lt16(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func eq32(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func lt32(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func eq64(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func lt64(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func eqf32(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func ltf32(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func lef32(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func eqf64(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func ltf64(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func lef64(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func where8(out, condition, x, y unsafe.Pointer, n int)

//go:noescape
func where16(out, condition, x, y unsafe.Pointer, n int)

//go:noescape
func where32(out, condition, x, y unsafe.Pointer, n int)

//go:noescape
func where64(out, condition, x, y unsafe.Pointer, n int)
