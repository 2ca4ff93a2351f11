package cpu

import "unsafe"

// The loops of castvector_amd64.s, castnarrow_amd64.s, castcomplex_amd64.s and
// castodd_amd64.s.

//go:noescape
func u8to16(dst, src unsafe.Pointer, n int)

//go:noescape
func i8to16(dst, src unsafe.Pointer, n int)

//go:noescape
func u8to32(dst, src unsafe.Pointer, n int)

//go:noescape
func i8to32(dst, src unsafe.Pointer, n int)

//go:noescape
func u16to32(dst, src unsafe.Pointer, n int)

//go:noescape
func i16to32(dst, src unsafe.Pointer, n int)

//go:noescape
func u8to64(dst, src unsafe.Pointer, n int)

//go:noescape
func i8to64(dst, src unsafe.Pointer, n int)

//go:noescape
func u16to64(dst, src unsafe.Pointer, n int)

//go:noescape
func i16to64(dst, src unsafe.Pointer, n int)

//go:noescape
func u32to64(dst, src unsafe.Pointer, n int)

//go:noescape
func i32to64(dst, src unsafe.Pointer, n int)

//go:noescape
func n16to8(dst, src unsafe.Pointer, n int)

//go:noescape
func n32to16(dst, src unsafe.Pointer, n int)

//go:noescape
func n32to8(dst, src unsafe.Pointer, n int)

//go:noescape
func n64to32(dst, src unsafe.Pointer, n int)

//go:noescape
func realDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func truth8(dst, src unsafe.Pointer, n int)

//go:noescape
func truth16(dst, src unsafe.Pointer, n int)

//go:noescape
func truthHalf(dst, src unsafe.Pointer, n int)

//go:noescape
func truth32(dst, src unsafe.Pointer, n int)

//go:noescape
func truth64(dst, src unsafe.Pointer, n int)

//go:noescape
func truthFloat(dst, src unsafe.Pointer, n int)

//go:noescape
func truthDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func truthComplex(dst, src unsafe.Pointer, n int)

//go:noescape
func i32toFloat(dst, src unsafe.Pointer, n int)

//go:noescape
func u32toFloat(dst, src unsafe.Pointer, n int)

//go:noescape
func i32toDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func floatToDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func floatToI32(dst, src unsafe.Pointer, n int)

//go:noescape
func doubleToI32(dst, src unsafe.Pointer, n int)

//go:noescape
func doubleToFloat(dst, src unsafe.Pointer, n int)

//go:noescape
func floatToI64(dst, src unsafe.Pointer, n int)

//go:noescape
func floatToU32(dst, src unsafe.Pointer, n int)

//go:noescape
func doubleToI64(dst, src unsafe.Pointer, n int)

//go:noescape
func doubleToU32(dst, src unsafe.Pointer, n int)

//go:noescape
func doubleToU64(dst, src unsafe.Pointer, n int)

//go:noescape
func floatToU64(dst, src unsafe.Pointer, n int)

//go:noescape
func doubleToComplex(dst, src unsafe.Pointer, n int)

//go:noescape
func truthComplexDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func u8toFloat(dst, src unsafe.Pointer, n int)

//go:noescape
func u8toDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func i8toFloat(dst, src unsafe.Pointer, n int)

//go:noescape
func i8toDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func u16toFloat(dst, src unsafe.Pointer, n int)

//go:noescape
func u16toDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func i16toFloat(dst, src unsafe.Pointer, n int)

//go:noescape
func i16toDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func n64to16(dst, src unsafe.Pointer, n int)

//go:noescape
func n64to8(dst, src unsafe.Pointer, n int)

//go:noescape
func floatTo16(dst, src unsafe.Pointer, n int)

//go:noescape
func floatTo8(dst, src unsafe.Pointer, n int)

//go:noescape
func doubleTo16(dst, src unsafe.Pointer, n int)

//go:noescape
func doubleTo8(dst, src unsafe.Pointer, n int)

//go:noescape
func realTo32(dst, src unsafe.Pointer, n int)

//go:noescape
func realTo16(dst, src unsafe.Pointer, n int)

//go:noescape
func realTo8(dst, src unsafe.Pointer, n int)

//go:noescape
func realDoubleTo32(dst, src unsafe.Pointer, n int)

//go:noescape
func realDoubleTo16(dst, src unsafe.Pointer, n int)

//go:noescape
func realDoubleTo8(dst, src unsafe.Pointer, n int)

//go:noescape
func u8toComplex(dst, src unsafe.Pointer, n int)

//go:noescape
func i8toComplex(dst, src unsafe.Pointer, n int)

//go:noescape
func u16toComplex(dst, src unsafe.Pointer, n int)

//go:noescape
func i16toComplex(dst, src unsafe.Pointer, n int)

//go:noescape
func i32toComplex(dst, src unsafe.Pointer, n int)

//go:noescape
func u8toComplexDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func i8toComplexDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func u16toComplexDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func i16toComplexDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func i32toComplexDouble(dst, src unsafe.Pointer, n int)

//go:noescape
func oddI32toFloat(dst, src unsafe.Pointer, n int)

//go:noescape
func oddU32toFloat(dst, src unsafe.Pointer, n int)
