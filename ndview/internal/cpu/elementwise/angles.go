package elementwise

import (
	"math"
	"math/bits"
)

// Sine, cosine and tangent of float64, within the units of docs/ufuncs.md for
// numbers of any size: those of package math lose digits near the zeros that are
// far out.

// The quarter of a turn in three parts, each what the one before lacks.
const (
	quarter1 = 0x1.921fb54442d18p+0
	quarter2 = 0x1.1a62633145c07p-54
	quarter3 = -0x1.f1976b7ed8fbcp-110
)

// twoOverPi is 2/pi, whose first bit is a half.
var twoOverPi = [...]uint64{
	0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
	0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
	0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
	0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
	0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d,
}

// angle is x less its nearest multiple of a quarter turn, as the sum of two
// numbers, and which of the four multiples that is.
func angle(x float64) (r twice, quarters int) {
	if math.Abs(x) < 1<<30 {
		n := math.RoundToEven(x * (1 / quarter1))
		high := math.FMA(-n, quarter1, x) // exact
		p := float64(n * quarter2)        // rounded, on every processor
		r.high = high - p
		r.low = (high - r.high - p) - math.FMA(n, quarter2, -p) - n*quarter3
		return r, int(n) & 3
	}
	return farAngle(x)
}

// farAngle multiplies the digits of x with those of 2/pi from where the product
// counts turns no more.
func farAngle(x float64) (r twice, quarters int) {
	b := math.Float64bits(x)
	m, e := b&(1<<52-1)|1<<52, int(b>>52&0x7ff)-1075 // |x| = m * 2^e
	// Bit j of 2/pi has the weight 2^-(j+1); where that times 2^e is 4 or more it
	// makes whole turns.
	skip := max(e-2, 0)
	var f [4]uint64
	for k := range f {
		i, shift := skip/64+k, skip%64
		f[k] = twoOverPi[i] << shift
		if shift > 0 {
			f[k] |= twoOverPi[i+1] >> (64 - shift)
		}
	}
	var p [5]uint64 // m times that
	carry := uint64(0)
	for k := 3; k >= 0; k-- {
		high, low := bits.Mul64(f[k], m)
		var c uint64
		p[k+1], c = bits.Add64(low, carry, 0)
		carry = high + c
	}
	p[0] = carry
	if back := 2 - e; back > 0 { // whose weight is below
		for k := 4; k > 0; k-- {
			p[k] = p[k]>>back | p[k-1]<<(64-back)
		}
	}
	// Of the last 256 bits the first two count quarters, and the rest is a part of one.
	quarters = int(p[1] >> 62)
	high := p[1]<<2 | p[2]>>62
	next := p[2]<<2 | p[3]>>62
	last := p[3]<<2 | p[4]>>62
	negative := high>>63 != 0
	if negative { // the next quarter is nearer
		quarters++
		high, next, last = ^high, ^next, ^last
	}
	zeros := bits.LeadingZeros64(high)
	if zeros == 64 {
		high, next, last = next, last, 0
		zeros += bits.LeadingZeros64(high)
	}
	if s := zeros % 64; s > 0 {
		high, next = high<<s|next>>(64-s), next<<s|last>>(64-s)
	}
	// 53 bits, and those after them.
	part := twice{math.Ldexp(float64(high>>11), -53-zeros), math.Ldexp(float64(high<<53|next>>11), -117-zeros)}
	r = part.times(twice{quarter1, quarter2})
	if negative {
		r = twice{-r.high, -r.low}
	}
	if x < 0 {
		r, quarters = twice{-r.high, -r.low}, -quarters
	}
	return r, quarters & 3
}

func sine(x float64) float64 {
	if !(math.Abs(x) > quarter1/2) || math.IsInf(x, 0) {
		return math.Sin(x)
	}
	r, quarters := angle(x)
	return r.sine(quarters)
}

func cosine(x float64) float64 {
	if !(math.Abs(x) > quarter1/2) || math.IsInf(x, 0) {
		return math.Cos(x)
	}
	r, quarters := angle(x)
	return r.sine(quarters + 1)
}

// sine is that of r and so many quarter turns.
func (r twice) sine(quarters int) float64 {
	var v float64
	if quarters&1 == 0 {
		v = math.Sin(r.high) + r.low*math.Cos(r.high)
	} else {
		v = math.Cos(r.high) - r.low*math.Sin(r.high)
	}
	if quarters&2 != 0 {
		return -v
	}
	return v
}

func tangent(x float64) float64 {
	if !(math.Abs(x) > quarter1/2) || math.IsInf(x, 0) {
		return nearTangent(x)
	}
	r, quarters := angle(x)
	t := nearTangent(r.high)
	t += r.low * (1 + t*t)
	if quarters&1 != 0 {
		return -1 / t
	}
	return t
}

// nearTangent is math.Tan, which leaves the cube out near 0.
func nearTangent(x float64) float64 {
	if math.Abs(x) < 1e-5 {
		return x + x*x*x/3
	}
	return math.Tan(x)
}
