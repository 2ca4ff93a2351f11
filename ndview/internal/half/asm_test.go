package half

import "testing"

// BenchmarkAssembly is for the functions of asm_amd64.s.
func BenchmarkAssembly(b *testing.B) {
	const n = 4 << 10
	halves, singles, doubles := make([]uint16, n), make([]float32, n), make([]float64, n)
	for i := range n {
		halves[i], singles[i], doubles[i] = uint16(i), float32(i-n/2)/3, float64(i-n/2)/3
	}
	for _, c := range []struct {
		name string
		size int64
		run  func()
	}{
		{"widenFloat16", 6, func() { Float16sToFloat32s(singles, halves) }},
		{"widenFloat16Double", 10, func() { Float16sToFloat64s(doubles, halves) }},
		{"widenBFloat16", 6, func() { BFloat16sToFloat32s(singles, halves) }},
		{"widenBFloat16Double", 10, func() { BFloat16sToFloat64s(doubles, halves) }},
		{"narrowFloat16", 6, func() { Float32sToFloat16s(halves, singles) }},
		{"narrowDoubleFloat16", 10, func() { Float64sToFloat16s(halves, doubles) }},
		{"narrowBFloat16", 6, func() { Float32sToBFloat16s(halves, singles) }},
		{"narrowDoubleBFloat16", 10, func() { Float64sToBFloat16s(halves, doubles) }},
	} {
		for _, asm := range []bool{true, false} {
			b.Run(c.name+map[bool]string{true: "/asm", false: "/go"}[asm], func(b *testing.B) {
				defer func(before bool) { hasVectors = before }(hasVectors)
				if asm && !hasVectors {
					b.Skip("this processor lacks the instructions")
				}
				hasVectors = asm
				b.SetBytes(c.size * n)
				for b.Loop() {
					c.run()
				}
			})
		}
	}
}
