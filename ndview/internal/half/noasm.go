//go:build !amd64 || noasm

package half

// vectorItems is not used without assembly.
const vectorItems = 1

var hasVectors bool

func widenFloat16(*float32, *uint16, int)         {}
func narrowFloat16(*uint16, *float32, int)        {}
func narrowDoubleFloat16(*uint16, *float64, int)  {}
func widenBFloat16(*float32, *uint16, int)        {}
func narrowBFloat16(*uint16, *float32, int)       {}
func narrowDoubleBFloat16(*uint16, *float64, int) {}
func widenFloat16Double(*float64, *uint16, int)   {}
func widenBFloat16Double(*float64, *uint16, int)  {}
