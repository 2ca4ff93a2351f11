package elementwise

import (
	"math"
	"math/bits"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

// addMath adds functions that are computed in float64 for both types, so that float32
// results are within one unit in the last place.
func addMath[T float](l *[ops][Types]Loop, t Type) {
	for op, f := range map[Op]func(float64) float64{
		Cbrt: math.Cbrt, Exp: exp, Exp2: math.Exp2, Expm1: math.Expm1,
		Log: logarithm, Log2: logarithm2, Log10: logarithm10, Log1p: math.Log1p,
		Sin: sine, Cos: cosine, Tan: tangent,
		Arcsin: arcsin, Arccos: arccos, Arctan: math.Atan,
		Sinh: sinh, Cosh: cosh, Tanh: math.Tanh,
		Arcsinh: math.Asinh, Arccosh: math.Acosh, Arctanh: math.Atanh,
	} {
		l[op][t] = unaryLoop(func(x T) T { return T(f(float64(x))) })
	}
	l[Angle][t] = unaryLoop(func(x T) T {
		switch {
		case x != x:
			return x
		case math.Signbit(float64(x)):
			return T(math.Pi)
		}
		return 0
	})
	l[Power][t] = binaryLoop(func(x, y T) T { return T(pow(float64(x), float64(y))) })
	l[Arctan2][t] = binaryLoop(func(y, x T) T { return T(arctan2(float64(y), float64(x))) })
	l[Hypot][t] = binaryLoop(func(x, y T) T { return T(math.Hypot(float64(x), float64(y))) })
	l[Nextafter][t] = binaryLoop(nextafter[T])
	if t == Float32 {
		l[NextafterFloat16][t] = binaryLoop(func(x, y T) T {
			return T(nextafterHalf(float32(x), float32(y), half.Float32ToFloat16, half.Float16ToFloat32))
		})
		l[NextafterBFloat16][t] = binaryLoop(func(x, y T) T {
			return T(nextafterHalf(float32(x), float32(y), half.Float32ToBFloat16, half.BFloat16ToFloat32))
		})
	}
}

// nextafter returns y if x equals y, with y's sign for zeros.
func nextafter[T float](x, y T) T {
	if x == y {
		return y
	}
	if v, ok := any(x).(float32); ok {
		return T(math.Nextafter32(v, float32(y)))
	}
	return T(math.Nextafter(float64(x), float64(y)))
}

// nextafterHalf is nextafter for float32 values that hold 16-bit floats. Their bit
// patterns increase with their magnitude.
func nextafterHalf(x, y float32, narrow func(float32) uint16, widen func(uint16) float32) float32 {
	switch {
	case x != x || y != y:
		return x + y
	case x == y:
		return y
	case x == 0:
		return widen(narrow(float32(math.Copysign(0, float64(y)))) | 1)
	case (x < y) == (x > 0):
		return widen(narrow(x) + 1)
	}
	return widen(narrow(x) - 1)
}

// The functions below replace those of package math that overflow too early, or are off
// by more than a few units in the last place.

// exp replaces math.Exp, which on amd64 is infinite from 709.44 on, although the result
// is finite up to 709.78.
func exp(x float64) float64 {
	if x > 709 && x < 710 {
		const e, rest = math.E, 1.4456468917292502e-16
		t := math.Exp(x - 1)
		return math.FMA(t, e, t*rest)
	}
	return math.Exp(x)
}

// halfExp returns exp(x)/2 for x of at least 709.
func halfExp(x float64) float64 {
	if x > 711 {
		return math.Inf(1)
	}
	const half, rest = 3.694528049465325, -8.985569748919574e-17 // half of e*e, in two parts
	t := math.Exp(x - 2)
	return math.FMA(t, half, t*rest)
}

func sinh(x float64) float64 {
	if math.Abs(x) > 709 {
		return math.Copysign(halfExp(math.Abs(x)), x)
	}
	return math.Sinh(x)
}

func cosh(x float64) float64 {
	if math.Abs(x) > 709 {
		return halfExp(math.Abs(x))
	}
	return math.Cosh(x)
}

// arctan2 replaces math.Atan2, which loses the sign of y if y/x underflows.
func arctan2(y, x float64) float64 { return math.Copysign(math.Atan2(math.Abs(y), x), y) }

// arccos and arcsin are accurate near 1, unlike those of package math.
func arccos(x float64) float64 { return math.Atan2(math.Sqrt(math.FMA(-x, x, 1)), x) }
func arcsin(x float64) float64 { return math.Atan2(x, math.Sqrt(math.FMA(-x, x, 1))) }

// pow is within one or two units in the last place for large exponents too, unlike
// math.Pow. It multiplies in double-double arithmetic for the integral part of the
// exponent, and uses logarithms of numbers near 1 for the rest.
func pow(x, y float64) float64 {
	a := math.Abs(x)
	whole, rest := math.Modf(math.Abs(y))
	switch {
	case !(a > 0) || math.IsInf(a, 0) || math.IsInf(y, 0) || y != y || x < 0 && rest != 0:
		return math.Pow(x, y)
	case whole >= 1<<31:
		return withSign(powNear1(a, y), x, y)
	}
	if rest > 0.5 {
		rest, whole = rest-1, whole+1
	}
	m, e := math.Frexp(a)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	result, exponent := doubleDouble{1, 0}, 0
	if rest != 0 {
		t := float64(float64(e) * rest) // rounded, not fused with what follows
		n := math.Round(t)
		t = (t - n) + math.FMA(float64(e), rest, -t)
		result.high = math.Exp(rest*math.Log(m)) * math.Exp2(t)
		exponent = int(n)
	}
	base, e64 := doubleDouble{m, 0}, int64(e)
	for i := int64(whole); i != 0; i >>= 1 {
		if i&1 != 0 {
			result = result.times(base)
			exponent += int(e64)
			result, exponent = result.near1(exponent)
		}
		base = base.times(base)
		if e64 *= 2; max(e64, -e64) > 1<<20 { // outside the range of float64
			e64 = min(max(e64, -1<<20), 1<<20)
		}
		var up int
		base, up = base.near1(0)
		e64 += int64(up)
	}
	if y < 0 {
		q := 1 / result.high
		q -= q * (math.FMA(q, result.high, -1) + q*result.low)
		result, exponent = doubleDouble{q, 0}, -exponent
	}
	return withSign(math.Ldexp(result.high+result.low, exponent), x, y)
}

// withSign sets the sign of a power of x to an integer y, for x < 0.
func withSign(size, x, y float64) float64 {
	if x < 0 && math.Mod(y, 2) != 0 {
		return -size
	}
	return size
}

// powNear1 computes a power to a huge exponent. It is 0 or infinite unless a is near 1,
// so a few terms of the logarithm's series suffice, in double-double arithmetic.
func powNear1(a, y float64) float64 {
	d := a - 1 // exact near 1
	if math.Abs(d) > 0x1p-20 {
		return math.Pow(a, y)
	}
	square := float64(d * d)        // rounded, not fused with what follows
	rest := math.FMA(d, d, -square) // rounding error of the square
	high := d - square/2
	low := d - high - square/2 - rest/2 + d*square*(1.0/3-d/4)
	product := float64(high * y)
	r := exp(product)
	if math.IsInf(r, 0) {
		return r
	}
	return math.FMA(r, math.FMA(high, y, -product)+low*y, r)
}

// doubleDouble is a number as an unevaluated sum, whose low part is below the last
// place of the high part.
type doubleDouble struct{ high, low float64 }

func (x doubleDouble) times(y doubleDouble) doubleDouble {
	p := float64(x.high * y.high) // the conversion prevents fusing with the sum below
	low := math.FMA(x.high, y.high, -p) + (x.high*y.low + x.low*y.high)
	high := p + low
	return doubleDouble{high, low - (high - p)}
}

// near1 scales x by a power of 2 towards 1, and adds its exponent to e.
func (x doubleDouble) near1(e int) (doubleDouble, int) {
	_, up := math.Frexp(x.high)
	return doubleDouble{math.Ldexp(x.high, -up), math.Ldexp(x.low, -up)}, e + up
}

// The sine, cosine and tangent below have the errors in docs/ufuncs.md for arguments of
// any size. Those of package math lose digits for large arguments near zeros of the
// function.

// pi/2 in three parts, each the rounding error of the previous ones.
const (
	quarter1 = 0x1.921fb54442d18p+0
	quarter2 = 0x1.1a62633145c07p-54
	quarter3 = -0x1.f1976b7ed8fbcp-110
)

// twoOverPi has the bits of 2/pi after the binary point.
var twoOverPi = [...]uint64{
	0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
	0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
	0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
	0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
	0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d,
}

// reduceAngle returns x minus its nearest multiple of pi/2, and that multiple modulo 4.
func reduceAngle(x float64) (r doubleDouble, quarters int) {
	if math.Abs(x) < 1<<30 {
		n := math.RoundToEven(x * (1 / quarter1))
		high := math.FMA(-n, quarter1, x) // exact
		p := float64(n * quarter2)        // the conversion prevents fusing
		r.high = high - p
		r.low = (high - r.high - p) - math.FMA(n, quarter2, -p) - n*quarter3
		return r, int(n) & 3
	}
	return reduceLargeAngle(x)
}

// reduceLargeAngle multiplies x by those digits of 2/pi that contribute less than four
// quarters (Payne-Hanek reduction).
func reduceLargeAngle(x float64) (r doubleDouble, quarters int) {
	b := math.Float64bits(x)
	m, e := b&(1<<52-1)|1<<52, int(b>>52&0x7ff)-1075 // |x| = m * 2^e
	// Bit j of 2/pi has the weight 2^-(j+1). Bits whose product with 2^e is at least 4
	// contribute whole turns.
	skip := max(e-2, 0)
	var f [4]uint64
	for k := range f {
		i, shift := skip/64+k, skip%64
		f[k] = twoOverPi[i] << shift
		if shift > 0 {
			f[k] |= twoOverPi[i+1] >> (64 - shift)
		}
	}
	var p [5]uint64 // m times these digits
	carry := uint64(0)
	for k := 3; k >= 0; k-- {
		high, low := bits.Mul64(f[k], m)
		var c uint64
		p[k+1], c = bits.Add64(low, carry, 0)
		carry = high + c
	}
	p[0] = carry
	if back := 2 - e; back > 0 { // digits before the binary point
		for k := 4; k > 0; k-- {
			p[k] = p[k]>>back | p[k-1]<<(64-back)
		}
	}
	// The first two of the last 256 bits count quarters; the rest is the fraction of a
	// quarter.
	quarters = int(p[1] >> 62)
	high := p[1]<<2 | p[2]>>62
	next := p[2]<<2 | p[3]>>62
	last := p[3]<<2 | p[4]>>62
	negative := high>>63 != 0
	if negative { // round to the next quarter
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
	// The first 53 bits, and the ones after them.
	part := doubleDouble{math.Ldexp(float64(high>>11), -53-zeros), math.Ldexp(float64(high<<53|next>>11), -117-zeros)}
	r = part.times(doubleDouble{quarter1, quarter2})
	if negative {
		r = doubleDouble{-r.high, -r.low}
	}
	if x < 0 {
		r, quarters = doubleDouble{-r.high, -r.low}, -quarters
	}
	return r, quarters & 3
}

func sine(x float64) float64 {
	if !(math.Abs(x) > quarter1/2) || math.IsInf(x, 0) {
		return math.Sin(x)
	}
	r, quarters := reduceAngle(x)
	return r.sine(quarters)
}

func cosine(x float64) float64 {
	if !(math.Abs(x) > quarter1/2) || math.IsInf(x, 0) {
		return math.Cos(x)
	}
	r, quarters := reduceAngle(x)
	return r.sine(quarters + 1)
}

// sine returns the sine of r plus the given number of quarters.
func (x doubleDouble) sine(quarters int) float64 {
	var v float64
	if quarters&1 == 0 {
		v = math.Sin(x.high) + x.low*math.Cos(x.high)
	} else {
		v = math.Cos(x.high) - x.low*math.Sin(x.high)
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
	r, quarters := reduceAngle(x)
	t := nearTangent(r.high)
	t += r.low * (1 + t*t)
	if quarters&1 != 0 {
		return -1 / t
	}
	return t
}

// nearTangent replaces math.Tan, which drops the cubic term near 0.
func nearTangent(x float64) float64 {
	if math.Abs(x) < 1e-5 {
		return x + x*x*x/3
	}
	return math.Tan(x)
}
