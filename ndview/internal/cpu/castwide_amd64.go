package cpu

import "unsafe"

// The loops of castwide_amd64.s.

//go:noescape
func wideDoubleToI64(dst, src unsafe.Pointer, n int)

//go:noescape
func wideFloatToI64(dst, src unsafe.Pointer, n int)

//go:noescape
func wideDoubleToU32(dst, src unsafe.Pointer, n int)

//go:noescape
func wideFloatToU32(dst, src unsafe.Pointer, n int)

//go:noescape
func wideDoubleToU64(dst, src unsafe.Pointer, n int)

//go:noescape
func wideFloatToU64(dst, src unsafe.Pointer, n int)

//go:noescape
func wideI64toDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func wideU64toDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func wideI64toFloat(dst, src unsafe.Pointer, n int)

//go:noescape
func wideU64toFloat(dst, src unsafe.Pointer, n int)

//go:noescape
func wideU32toDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func wideOddI64(dst, src unsafe.Pointer, n int)

//go:noescape
func wideOddU64(dst, src unsafe.Pointer, n int)
