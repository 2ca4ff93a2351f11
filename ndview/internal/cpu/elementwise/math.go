package elementwise

import (
	"math"
	"math/bits"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

// addMath adds what is computed in float64 whatever the type, so that a float32
// is right to its last bit but one.
func addMath[T float](l *[ops][Types]Loop, t Type) {
	for op, f := range map[Op]func(float64) float64{
		Cbrt: math.Cbrt, Exp: exp, Exp2: math.Exp2, Expm1: math.Expm1,
		Log: logarithm, Log2: logarithm2, Log10: logarithm10, Log1p: math.Log1p,
		Sin: sine, Cos: cosine, Tan: tangent,
		Arcsin: arcsin, Arccos: arccos, Arctan: math.Atan,
		Sinh: sinh, Cosh: cosh, Tanh: math.Tanh,
		Arcsinh: math.Asinh, Arccosh: math.Acosh, Arctanh: math.Atanh,
	} {
		l[op][t] = each1(func(x T) T { return T(f(float64(x))) })
	}
	l[Angle][t] = each1(func(x T) T {
		switch {
		case x != x:
			return x
		case math.Signbit(float64(x)):
			return T(math.Pi)
		}
		return 0
	})
	l[Power][t] = each2(func(x, y T) T { return T(pow(float64(x), float64(y))) })
	l[Arctan2][t] = each2(func(y, x T) T { return T(arctan2(float64(y), float64(x))) })
	l[Hypot][t] = each2(func(x, y T) T { return T(math.Hypot(float64(x), float64(y))) })
	l[Nextafter][t] = each2(nextafter[T])
	if t == Float32 {
		l[NextafterFloat16][t] = each2(func(x, y T) T {
			return T(nextafterHalf(float32(x), float32(y), half.Float32ToFloat16, half.Float16ToFloat32))
		})
		l[NextafterBFloat16][t] = each2(func(x, y T) T {
			return T(nextafterHalf(float32(x), float32(y), half.Float32ToBFloat16, half.BFloat16ToFloat32))
		})
	}
}

// nextafter is y where that equals x, of a zero with its sign.
func nextafter[T float](x, y T) T {
	if x == y {
		return y
	}
	if v, ok := any(x).(float32); ok {
		return T(math.Nextafter32(v, float32(y)))
	}
	return T(math.Nextafter(float64(x), float64(y)))
}

// nextafterHalf is nextafter of floats that are halves, whose bits rise with their size.
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

// Functions that stand in for those of package math which at some edge are infinite, or
// wrong by more than a few units in the last place.

// exp is math.Exp, which on amd64 is infinite from 709.44 on, where the true
// result is finite up to 709.78.
func exp(x float64) float64 {
	if x > 709 && x < 710 {
		const e, rest = math.E, 1.4456468917292502e-16
		t := math.Exp(x - 1)
		return math.FMA(t, e, t*rest)
	}
	return math.Exp(x)
}

// halfExp is half of exp(x), for x of 709 and more.
func halfExp(x float64) float64 {
	if x > 711 {
		return math.Inf(1)
	}
	const half, rest = 3.694528049465325, -8.985569748919574e-17 // of the square of e
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

// arctan2 is math.Atan2, which loses the sign of y where y/x is too small for a float64.
func arctan2(y, x float64) float64 { return math.Copysign(math.Atan2(math.Abs(y), x), y) }

// arccos and arcsin lose nothing near 1, as those of package math do.
func arccos(x float64) float64 { return math.Atan2(math.Sqrt(math.FMA(-x, x, 1)), x) }
func arcsin(x float64) float64 { return math.Atan2(x, math.Sqrt(math.FMA(-x, x, 1))) }

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
