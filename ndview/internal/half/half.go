// Package half converts between Go's floats and the 16-bit formats float16 (IEEE 754
// binary16) and bfloat16 (the upper half of a float32).
//
// Narrowing rounds once, to nearest, ties to even. Numbers that are too large become
// infinite; subnormal numbers are kept. A NaN keeps its sign and the upper bits of its
// payload and becomes quiet, as in conversions by x86 and ARM processors. Widening
// bfloat16 keeps all bits.
package half

import (
	"math"
	"unsafe"
)

const (
	signBit32  = 0x80000000
	infinity32 = 0x7f800000
	infinity16 = 0x7c00
	quiet16    = 0x0200
)

// Float16ToFloat32 is exact.
func Float16ToFloat32(h uint16) float32 {
	sign, magnitude := uint32(h&0x8000)<<16, uint32(h&0x7fff)<<13
	switch {
	case magnitude >= infinity16<<13:
		magnitude |= infinity32
		if magnitude != infinity32 {
			magnitude |= quiet16 << 13
		}
	case magnitude >= 0x0400<<13:
		magnitude += (127 - 15) << 23
	default: // Subnormal: the mantissa counts units of 2^-24.
		magnitude = math.Float32bits(float32(h&0x7fff) * 0x1p-24)
	}
	return math.Float32frombits(sign | magnitude)
}

// Float32ToFloat16 rounds to the nearest float16.
func Float32ToFloat16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign, magnitude := uint16(bits>>16)&0x8000, bits&^signBit32
	switch {
	case magnitude > infinity32:
		return sign | infinity16 | quiet16 | uint16(magnitude>>13)&0x3ff
	case magnitude >= (127+16)<<23:
		return sign | infinity16
	case magnitude < (127-14)<<23:
		// The processor rounds when it adds 0.5, whose last place is that of the
		// result.
		return sign | uint16(math.Float32bits(math.Float32frombits(magnitude)+0.5))
	}
	// Adds half a unit in the last place, minus one bit if that place is even. A carry
	// runs into the exponent, and from the largest exponent to infinity.
	magnitude += 0xfff + magnitude>>13&1
	return sign | uint16((magnitude-(127-15)<<23)>>13)
}

// Float64ToFloat16 rounds to the nearest float16, once.
func Float64ToFloat16(f float64) uint16 { return Float32ToFloat16(roundToOdd(f)) }

// BFloat16ToFloat32 is exact, and keeps the bits of NaNs.
func BFloat16ToFloat32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// Float32ToBFloat16 rounds to the nearest bfloat16.
func Float32ToBFloat16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&^signBit32 > infinity32 {
		return uint16(bits>>16) | 0x0040
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float64ToBFloat16 rounds to the nearest bfloat16, once.
func Float64ToBFloat16(f float64) uint16 { return Float32ToBFloat16(roundToOdd(f)) }

// roundToOdd rounds f to odd: it clears the bits that no 16-bit format needs, and sets
// the last remaining bit if any of them was set. Rounding the result again, to fewer
// bits, gives the result of a single rounding. The result is exact as a float32, down
// to half the smallest bfloat16.
func roundToOdd(f float64) float32 {
	const lost = 1<<40 - 1
	bits := math.Float64bits(f)
	return float32(math.Float64frombits((bits | (bits&lost + lost)) &^ lost))
}

// The functions below convert len(src) values as their namesakes convert one. dst must
// be at least as long, and must not overlap src. They use assembly if the processor
// supports it.

// Float16sToFloat32s is Float16ToFloat32 of each value.
func Float16sToFloat32s(dst []float32, src []uint16) {
	for i := convertVectors(dst, src, widenFloat16); i < len(src); i++ {
		dst[i] = Float16ToFloat32(src[i])
	}
}

// Float16sToFloat64s is Float16ToFloat32 of each value, as a float64.
func Float16sToFloat64s(dst []float64, src []uint16) {
	for i := convertVectors(dst, src, widenFloat16Double); i < len(src); i++ {
		dst[i] = float64(Float16ToFloat32(src[i]))
	}
}

// Float32sToFloat16s is Float32ToFloat16 of each value.
func Float32sToFloat16s(dst []uint16, src []float32) {
	for i := convertVectors(dst, src, narrowFloat16); i < len(src); i++ {
		dst[i] = Float32ToFloat16(src[i])
	}
}

// Float64sToFloat16s is Float64ToFloat16 of each value.
func Float64sToFloat16s(dst []uint16, src []float64) {
	for i := convertVectors(dst, src, narrowDoubleFloat16); i < len(src); i++ {
		dst[i] = Float64ToFloat16(src[i])
	}
}

// BFloat16sToFloat32s is BFloat16ToFloat32 of each value.
func BFloat16sToFloat32s(dst []float32, src []uint16) {
	for i := convertVectors(dst, src, widenBFloat16); i < len(src); i++ {
		dst[i] = BFloat16ToFloat32(src[i])
	}
}

// BFloat16sToFloat64s is BFloat16ToFloat32 of each value, as a float64.
func BFloat16sToFloat64s(dst []float64, src []uint16) {
	for i := convertVectors(dst, src, widenBFloat16Double); i < len(src); i++ {
		dst[i] = float64(BFloat16ToFloat32(src[i]))
	}
}

// Float32sToBFloat16s is Float32ToBFloat16 of each value.
func Float32sToBFloat16s(dst []uint16, src []float32) {
	for i := convertVectors(dst, src, narrowBFloat16); i < len(src); i++ {
		dst[i] = Float32ToBFloat16(src[i])
	}
}

// Float64sToBFloat16s is Float64ToBFloat16 of each value.
func Float64sToBFloat16s(dst []uint16, src []float64) {
	for i := convertVectors(dst, src, narrowDoubleBFloat16); i < len(src); i++ {
		dst[i] = Float64ToBFloat16(src[i])
	}
}

// convertVectors converts as many values as fill vectors, and returns their number.
func convertVectors[T, F any](dst []T, src []F, convert func(*T, *F, int)) int {
	dst = dst[:len(src)]
	n := len(src) / vectorItems * vectorItems
	if !hasVectors || n == 0 {
		return 0
	}
	convert(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	return n
}
