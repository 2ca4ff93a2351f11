package elementwise

import "math"

// Functions of complex numbers that math/cmplx lacks, or has with errors that
// grow near the branch points. kernels/complex_inverse.cuh has the same.

// arcsinParts are the parts of arcsin, and the real part of arccos, of a number
// in the first quadrant: the formulas of Hull, Fairgrieve and Tang, in which
// nothing cancels. They are of a, half of the sum of the distances from 1 and -1.
func arcsinParts(x, y float64) (sine, cosine, im float64) {
	const crossover, huge = 0.6417, 1e15
	if !(x < huge && y < huge) {
		return math.Atan2(x, y), math.Atan2(y, x), math.Log(math.Hypot(x/2, y/2)) + 2*math.Ln2
	}
	r, s := math.Hypot(x+1, y), math.Hypot(x-1, y)
	a := (r + s) / 2
	// What a exceeds 1 and x by.
	var above1, aboveX float64
	if x < 1 {
		above1 = 0.5 * (y*y/(r+(x+1)) + y*(y/(s+(1-x))))
	} else {
		above1 = 0.5 * (y*y/(r+(x+1)) + (s + (x - 1)))
	}
	if x <= 1 {
		aboveX = 0.5 * (y*y/(r+(x+1)) + (s + (1 - x)))
	} else {
		aboveX = 0.5 * y * (y/(r+(x+1)) + y/(s+(x-1)))
	}
	if b := x / a; b <= crossover {
		sine, cosine = math.Asin(b), math.Acos(b)
	} else {
		other := math.Sqrt((a + x) * aboveX)
		sine, cosine = math.Atan2(x, other), math.Atan2(other, x)
	}
	switch {
	case a > 1.5:
		im = math.Log(a + math.Sqrt(a*a-1))
	case x < 1 && y < 1e-8*(1-x): // the square of y may be 0
		im = y / math.Sqrt((1-x)*(1+x))
	default:
		im = math.Log1p(above1 + math.Sqrt(above1*(a+1)))
	}
	return sine, cosine, im
}

func complexArcsin(z complex128) complex128 {
	x, y := real(z), imag(z)
	if x != x || y != y {
		return arcsinNaN(x, y)
	}
	re, _, im := arcsinParts(math.Abs(x), math.Abs(y))
	return complex(math.Copysign(re, x), math.Copysign(im, y))
}

func arcsinNaN(x, y float64) complex128 {
	switch {
	case math.IsInf(x, 0), math.IsInf(y, 0):
		return complex(math.NaN(), math.Copysign(math.Inf(1), y))
	case x == 0 || y == 0:
		return complex(x, y)
	}
	return complex(math.NaN(), math.NaN())
}

func complexArccos(z complex128) complex128 {
	x, y := real(z), imag(z)
	if x != x || y != y {
		w := arcsinNaN(x, y)
		if x == 0 {
			return complex(math.Pi/2, imag(w))
		}
		return complex(math.NaN(), -imag(w))
	}
	_, re, im := arcsinParts(math.Abs(x), math.Abs(y))
	if math.Signbit(x) {
		re = math.Pi - re
	}
	return complex(re, -math.Copysign(im, y))
}

// swapped is i times the conjugate, under which the functions of right angles
// become those of hyperbolas.
func swapped(z complex128) complex128 { return complex(imag(z), real(z)) }

func complexArcsinh(z complex128) complex128 { return swapped(complexArcsin(swapped(z))) }
func complexArctan(z complex128) complex128  { return swapped(complexArctanh(swapped(z))) }

func complexArccosh(z complex128) complex128 {
	w := complexArccos(z)
	return complex(math.Abs(imag(w)), math.Copysign(real(w), imag(z)))
}

func complexArctanh(z complex128) complex128 {
	const huge, tiny = 1e150, 1e-100
	x, y := math.Abs(real(z)), math.Abs(imag(z))
	var re, im float64
	switch {
	case math.IsInf(x, 0) || math.IsInf(y, 0):
		re, im = 0, math.Pi/2
		if y != y {
			im = y
		}
	case x != x || y != y:
		re, im = math.NaN(), math.NaN()
		if x == 0 {
			re = 0
		}
	case x > huge || y > huge:
		h := math.Hypot(x, y)
		re, im = x/h/h, math.Pi/2
	case x == 1 && y < tiny:
		re, im = 0.5*(math.Ln2-logarithm(y)), 0.5*math.Atan2(2*y, 0)
	default:
		re = 0.25 * math.Log1p(4*x/((1-x)*(1-x)+y*y))
		im = 0.5 * math.Atan2(2*y, (1-x)*(1+x)-y*y)
	}
	return complex(math.Copysign(re, real(z)), math.Copysign(im, imag(z)))
}

func complexExpm1(z complex128) complex128 {
	x, y := real(z), imag(z)
	if y == 0 {
		return complex(math.Expm1(x), y)
	}
	sine := math.Sin(y / 2)
	return complex(math.Expm1(x)*math.Cos(y)-2*sine*sine, grown(x, math.Sin(y)))
}

// exp2 multiplies by the logarithm of 2 with more digits than a float64 has,
// where the angle needs them.
func complexExp2(z complex128) complex128 {
	const low = 2.319046813846299558e-17 // ln 2 less its float64
	x, y := real(z), imag(z)
	size, angle := math.Exp2(x), y*math.Ln2
	if y == 0 {
		return complex(size, y)
	}
	rest := math.FMA(y, math.Ln2, -angle) + y*low
	sine, cosine := math.Sincos(angle)
	sineOfRest, cosineOfRest := math.Sincos(rest)
	return complex(size*(cosine*cosineOfRest-sine*sineOfRest), size*(sine*cosineOfRest+cosine*sineOfRest))
}

// log1p is exact to the size of the number also where its square cancels it.
func complexLog1p(z complex128) complex128 {
	x, y := real(z), imag(z)
	if math.Abs(x) < 0.5 && math.Abs(y) < 0.5 {
		return complex(0.5*math.Log1p(x*(2+x)+y*y), arctan2(y, 1+x))
	}
	return complexLog(complex(1+x, y))
}
