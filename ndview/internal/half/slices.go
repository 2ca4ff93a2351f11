package half

import "unsafe"

// The functions below convert len(src) values as their namesakes convert one;
// dst is at least as long, and shares no memory with src. Processors with vectors for it convert several values at a time, so that
// memory sets the pace.

// Float16sToFloat32s is Float16ToFloat32 of each value.
func Float16sToFloat32s(dst []float32, src []uint16) {
	for i := inVectors(dst, src, widenFloat16); i < len(src); i++ {
		dst[i] = Float16ToFloat32(src[i])
	}
}

// Float16sToFloat64s is Float16ToFloat32 of each value, as a float64.
func Float16sToFloat64s(dst []float64, src []uint16) {
	for i := inVectors(dst, src, widenFloat16Double); i < len(src); i++ {
		dst[i] = float64(Float16ToFloat32(src[i]))
	}
}

// Float32sToFloat16s is Float32ToFloat16 of each value.
func Float32sToFloat16s(dst []uint16, src []float32) {
	for i := inVectors(dst, src, narrowFloat16); i < len(src); i++ {
		dst[i] = Float32ToFloat16(src[i])
	}
}

// Float64sToFloat16s is Float64ToFloat16 of each value.
func Float64sToFloat16s(dst []uint16, src []float64) {
	for i := inVectors(dst, src, narrowDoubleFloat16); i < len(src); i++ {
		dst[i] = Float64ToFloat16(src[i])
	}
}

// BFloat16sToFloat32s is BFloat16ToFloat32 of each value.
func BFloat16sToFloat32s(dst []float32, src []uint16) {
	for i := inVectors(dst, src, widenBFloat16); i < len(src); i++ {
		dst[i] = BFloat16ToFloat32(src[i])
	}
}

// BFloat16sToFloat64s is BFloat16ToFloat32 of each value, as a float64.
func BFloat16sToFloat64s(dst []float64, src []uint16) {
	for i := inVectors(dst, src, widenBFloat16Double); i < len(src); i++ {
		dst[i] = float64(BFloat16ToFloat32(src[i]))
	}
}

// Float32sToBFloat16s is Float32ToBFloat16 of each value.
func Float32sToBFloat16s(dst []uint16, src []float32) {
	for i := inVectors(dst, src, narrowBFloat16); i < len(src); i++ {
		dst[i] = Float32ToBFloat16(src[i])
	}
}

// Float64sToBFloat16s is Float64ToBFloat16 of each value.
func Float64sToBFloat16s(dst []uint16, src []float64) {
	for i := inVectors(dst, src, narrowDoubleBFloat16); i < len(src); i++ {
		dst[i] = Float64ToBFloat16(src[i])
	}
}

// inVectors converts as many values as fill vectors, and returns how many.
func inVectors[T, F any](dst []T, src []F, convert func(*T, *F, int)) int {
	dst = dst[:len(src)]
	n := len(src) / step * step
	if !vectors || n == 0 {
		return 0
	}
	convert(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	return n
}
