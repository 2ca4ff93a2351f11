//go:build !noasm

package half

import "golang.org/x/sys/cpu"

// vectorItems is the number of elements per iteration of the assembly.
const vectorItems = 16

// hasVectors reports whether the assembly is used.
var hasVectors = cpu.X86.HasAVX2 && hasF16C()

func hasF16C() bool

//go:noescape
func widenFloat16(dst *float32, src *uint16, n int)

//go:noescape
func narrowFloat16(dst *uint16, src *float32, n int)

//go:noescape
func narrowDoubleFloat16(dst *uint16, src *float64, n int)

//go:noescape
func widenBFloat16(dst *float32, src *uint16, n int)

//go:noescape
func narrowBFloat16(dst *uint16, src *float32, n int)

//go:noescape
func narrowDoubleBFloat16(dst *uint16, src *float64, n int)

//go:noescape
func widenFloat16Double(dst *float64, src *uint16, n int)

//go:noescape
func widenBFloat16Double(dst *float64, src *uint16, n int)
