package elementwise

import "math"

// pow is math.Pow, within a unit or two in the last place for large exponents
// too: the whole part of the exponent is taken by products of twice the
// precision, the rest by logarithms of numbers near 1.
func pow(x, y float64) float64 {
	a := math.Abs(x)
	whole, rest := math.Modf(math.Abs(y))
	switch {
	case !(a > 0) || math.IsInf(a, 0) || math.IsInf(y, 0) || y != y || x < 0 && rest != 0:
		return math.Pow(x, y)
	case whole >= 1<<31:
		return signed(powNear1(a, y), x, y)
	}
	if rest > 0.5 {
		rest, whole = rest-1, whole+1
	}
	m, e := math.Frexp(a)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	result, exponent := twice{1, 0}, 0
	if rest != 0 {
		t := float64(e) * rest
		n := math.Round(t)
		t = (t - n) + math.FMA(float64(e), rest, -t)
		result.high = math.Exp(rest*math.Log(m)) * math.Exp2(t)
		exponent = int(n)
	}
	base, e64 := twice{m, 0}, int64(e)
	for i := int64(whole); i != 0; i >>= 1 {
		if i&1 != 0 {
			result = result.times(base)
			exponent += int(e64)
			result, exponent = result.near1(exponent)
		}
		base = base.times(base)
		if e64 *= 2; max(e64, -e64) > 1<<20 { // beyond every float64
			e64 = min(max(e64, -1<<20), 1<<20)
		}
		var up int
		base, up = base.near1(0)
		e64 += int64(up)
	}
	if y < 0 {
		q := 1 / result.high
		q -= q * (math.FMA(q, result.high, -1) + q*result.low)
		result, exponent = twice{q, 0}, -exponent
	}
	return signed(math.Ldexp(result.high+result.low, exponent), x, y)
}

// signed is the power of x, whose size is given, to a whole number y where x < 0.
func signed(size, x, y float64) float64 {
	if x < 0 && math.Mod(y, 2) != 0 {
		return -size
	}
	return size
}

// powNear1 is a power to a number so large that the result is 0 or infinite unless a is
// near 1: there a few terms of the series are the logarithm, to twice the precision.
func powNear1(a, y float64) float64 {
	d := a - 1 // without rounding, near 1
	if math.Abs(d) > 0x1p-20 {
		return math.Pow(a, y)
	}
	square := d * d
	rest := math.FMA(d, d, -square) // of the square
	high := d - square/2
	low := d - high - square/2 - rest/2 + d*square*(1.0/3-d/4)
	product := high * y
	r := exp(product)
	if math.IsInf(r, 0) {
		return r
	}
	return math.FMA(r, math.FMA(high, y, -product)+low*y, r)
}

// twice is a number as the sum of two, the low one below the last place of the
// high one.
type twice struct{ high, low float64 }

func (x twice) times(y twice) twice {
	p := x.high * y.high
	low := math.FMA(x.high, y.high, -p) + (x.high*y.low + x.low*y.high)
	high := p + low
	return twice{high, low - (high - p)}
}

// near1 takes a power of 2 out of x, whose exponent it adds to e.
func (x twice) near1(e int) (twice, int) {
	_, up := math.Frexp(x.high)
	return twice{math.Ldexp(x.high, -up), math.Ldexp(x.low, -up)}, e + up
}
