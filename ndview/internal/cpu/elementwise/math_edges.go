package elementwise

import "math"

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
