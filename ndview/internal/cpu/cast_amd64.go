//go:build !noasm

package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// assemblyBlock is the number of elements per block of the assembly.
const assemblyBlock = 32

// withAssembly makes blocks cast whole blocks, and rest the remaining elements.
func withAssembly(rest cast, from, to Type, blocks cast) cast {
	fromSize, toSize := int(from.Size()), int(to.Size())
	return func(dst, src unsafe.Pointer, n int) {
		done := n / assemblyBlock * assemblyBlock
		if done > 0 {
			blocks(dst, src, done/assemblyBlock)
		}
		if done < n {
			rest(unsafe.Add(dst, done*toSize), unsafe.Add(src, done*fromSize), n-done)
		}
	}
}

// addAssembly replaces casts of one step, and those that round to odd, by assembly.
func addAssembly(table *[Types][Types]cast, odd map[Type]cast) {
	if !cpu.X86.HasAVX2 {
		return
	}
	whole := func(from, to Type, blocks cast) { table[from][to] = withAssembly(table[from][to], from, to, blocks) }
	integers := func(from Type, to16, to32, to64 cast) {
		for wide, blocks := range map[Type]cast{Int16: to16, Int32: to32, Int64: to64} {
			if blocks != nil {
				whole(from, wide, blocks)
				whole(from, wide+Uint16-Int16, blocks)
			}
		}
	}
	integers(Int8, i8to16, i8to32, i8to64)
	integers(Uint8, u8to16, u8to32, u8to64)
	integers(Int16, nil, i16to32, i16to64)
	integers(Uint16, nil, u16to32, u16to64)
	integers(Int32, nil, nil, i32to64)
	integers(Uint32, nil, nil, u32to64)
	narrow := func(from Type, to8, to16 cast) {
		for _, to := range []Type{Int8, Uint8} {
			whole(from, to, to8)
		}
		for _, to := range []Type{Int16, Uint16} {
			if to16 != nil {
				whole(from, to, to16)
			}
		}
	}
	for unsigned := range Type(2) {
		narrow(Int16+unsigned, n16to8, nil)
		narrow(Int32+unsigned, n32to8, n32to16)
		narrow(Int64+unsigned, n64to8, n64to16)
		for _, to := range []Type{Int32, Uint32} {
			whole(Int64+unsigned, to, n64to32)
		}
	}
	narrow(Float32, floatTo8, floatTo16)
	narrow(Float64, doubleTo8, doubleTo16)
	for from, blocks := range map[Type]cast{
		Int8: truth8, Uint8: truth8, Int16: truth16, Uint16: truth16, Float16: truthHalf, BFloat16: truthHalf,
		Int32: truth32, Uint32: truth32, Float32: truthFloat,
		Int64: truth64, Uint64: truth64, Float64: truthDouble, Complex64: truthComplex, Complex128: truthComplexDouble,
	} {
		whole(from, Bool, blocks)
	}
	odd[Int32] = withAssembly(odd[Int32], Int32, Float32, oddI32toFloat)
	odd[Uint32] = withAssembly(odd[Uint32], Uint32, Float32, oddU32toFloat)
	whole(Int32, Float32, i32toFloat)
	whole(Int32, Float64, i32toDouble)
	whole(Uint32, Float32, u32toFloat)
	whole(Float32, Int32, floatToI32)
	whole(Float32, Uint32, floatToU32)
	whole(Float32, Int64, floatToI64)
	whole(Float32, Float64, floatToDouble)
	whole(Float64, Int32, doubleToI32)
	whole(Float64, Uint32, doubleToU32)
	whole(Float64, Int64, doubleToI64)
	whole(Float32, Uint64, floatToU64)
	whole(Float64, Uint64, doubleToU64)
	whole(Complex64, Float32, n64to32)
	whole(Complex128, Float64, realDouble)
	whole(Float32, Complex64, u32to64) // the imaginary part is 0
	whole(Float64, Complex128, doubleToComplex)
	whole(Float64, Float32, doubleToFloat)

	for i, from := range []Type{Int8, Uint8, Int16, Uint16} {
		whole(from, Float32, [...]cast{i8toFloat, u8toFloat, i16toFloat, u16toFloat}[i])
		whole(from, Float64, [...]cast{i8toDouble, u8toDouble, i16toDouble, u16toDouble}[i])
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL {
		whole(Float32, Uint32, wideFloatToU32)
		whole(Float32, Int64, wideFloatToI64)
		whole(Float32, Uint64, wideFloatToU64)
		whole(Float64, Uint32, wideDoubleToU32)
		whole(Float64, Int64, wideDoubleToI64)
		whole(Float64, Uint64, wideDoubleToU64)
		whole(Uint32, Float64, wideU32toDouble)
		whole(Int64, Float32, wideI64toFloat)
		whole(Int64, Float64, wideI64toDouble)
		whole(Uint64, Float32, wideU64toFloat)
		whole(Uint64, Float64, wideU64toDouble)
		odd[Int64] = withAssembly(odd[Int64], Int64, Float64, wideOddI64)
		odd[Uint64] = withAssembly(odd[Uint64], Uint64, Float64, wideOddU64)
	}

	// In two steps, the second of which has assembly.
	for _, from := range []Type{Uint32, Int64, Uint64, Float64} {
		table[from][Complex64] = compose(table[from][Float32], table[Float32][Complex64], from, Complex64)
	}
	for _, from := range []Type{Uint32, Int64, Uint64, Float32} {
		table[from][Complex128] = compose(table[from][Float64], table[Float64][Complex128], from, Complex128)
	}
	table[Complex128][Float32] = compose(table[Complex128][Float64], table[Float64][Float32], Complex128, Float32)
	composeRealParts(table)

	for i, from := range []Type{Int8, Uint8, Int16, Uint16, Int32} {
		whole(from, Complex64, [...]cast{i8toComplex, u8toComplex, i16toComplex, u16toComplex, i32toComplex}[i])
		whole(from, Complex128, [...]cast{
			i8toComplexDouble, u8toComplexDouble, i16toComplexDouble, u16toComplexDouble, i32toComplexDouble,
		}[i])
	}
	narrow(Complex64, realTo8, realTo16)
	narrow(Complex128, realDoubleTo8, realDoubleTo16)
	whole(Complex64, Int32, realTo32)
	whole(Complex128, Int32, realDoubleTo32)
}

// The casts of cast_amd64.s, which need AVX2. n is the number of blocks.

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

// The casts of cast_avx512_amd64.s.

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
