//go:build !amd64

package half

// step is of no importance where there are no vectors.
const step = 1

const vectors = false

func widenFloat16(*float32, *uint16, int)         {}
func narrowFloat16(*uint16, *float32, int)        {}
func narrowDoubleFloat16(*uint16, *float64, int)  {}
func widenBFloat16(*float32, *uint16, int)        {}
func narrowBFloat16(*uint16, *float32, int)       {}
func narrowDoubleBFloat16(*uint16, *float64, int) {}
func widenFloat16Double(*float64, *uint16, int)   {}
func widenBFloat16Double(*float64, *uint16, int)  {}
