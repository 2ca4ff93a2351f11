package half

// The functions below convert len(src) values; dst is at least as long, and
// may be the same memory only where the elements are of one size.

// Float16sToFloat32s is Float16ToFloat32 of each value.
func Float16sToFloat32s(dst []float32, src []uint16) { each(dst, src, Float16ToFloat32) }

// Float32sToFloat16s is Float32ToFloat16 of each value.
func Float32sToFloat16s(dst []uint16, src []float32) { each(dst, src, Float32ToFloat16) }

// Float64sToFloat16s is Float64ToFloat16 of each value.
func Float64sToFloat16s(dst []uint16, src []float64) { each(dst, src, Float64ToFloat16) }

// BFloat16sToFloat32s is BFloat16ToFloat32 of each value.
func BFloat16sToFloat32s(dst []float32, src []uint16) { each(dst, src, BFloat16ToFloat32) }

// Float32sToBFloat16s is Float32ToBFloat16 of each value.
func Float32sToBFloat16s(dst []uint16, src []float32) { each(dst, src, Float32ToBFloat16) }

// Float64sToBFloat16s is Float64ToBFloat16 of each value.
func Float64sToBFloat16s(dst []uint16, src []float64) { each(dst, src, Float64ToBFloat16) }

func each[T, F any](dst []T, src []F, convert func(F) T) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = convert(v)
	}
}
