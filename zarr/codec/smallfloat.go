package codec

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/zarr/element"
)

// smallFloat is the numbers of a float type of at most 8 bits. They are so few that a
// sorted table rounds in every mode, whatever the format.
type smallFloat struct {
	values      []float64 // in ascending order, without infinities and without NaN
	codes       []byte    // the encoding of each
	under, over float64   // where the neighbors beyond the range would be

	nan, negativeZero, infinity, negativeInfinity byte
	hasNaN, hasInfinity                           bool
}

// smallFloats are the float types of at most 8 bits.
var smallFloats = sync.OnceValue(func() map[element.Type]*smallFloat {
	all := map[element.Type]*smallFloat{}
	for _, of := range []element.Type{
		element.Float4E2M1FN, element.Float6E2M3FN, element.Float6E3M2FN, element.Float8E3M4, element.Float8E4M3, element.Float8E4M3FN,
		element.Float8E4M3B11FNUZ, element.Float8E4M3FNUZ, element.Float8E5M2, element.Float8E5M2FNUZ, element.Float8E8M0FNU,
	} {
		all[of] = newSmallFloat(of)
	}
	return all
})

func newSmallFloat(of element.Type) *smallFloat {
	s := &smallFloat{}
	if fill, err := of.ParseFill([]byte(`"NaN"`)); err == nil {
		s.nan, s.hasNaN = fill[0], true
	}
	for code := range 1 << of.NumberBits() {
		x := of.Float64([]byte{byte(code)})
		switch {
		case x != x:
		case math.IsInf(x, 1):
			s.infinity, s.hasInfinity = byte(code), true
		case math.IsInf(x, -1):
			s.negativeInfinity = byte(code)
		case x == 0 && math.Signbit(x):
			s.negativeZero = byte(code)
		default:
			s.codes = append(s.codes, byte(code))
		}
	}
	slices.SortFunc(s.codes, func(a, b byte) int { return cmp.Compare(of.Float64([]byte{a}), of.Float64([]byte{b})) })
	for _, code := range s.codes {
		s.values = append(s.values, of.Float64([]byte{code}))
	}
	n := len(s.values)
	if s.values[0] > 0 { // powers of two
		s.under, s.over = s.values[0]/2, 2*s.values[n-1]
	} else {
		s.over = 2*s.values[n-1] - s.values[n-2]
		s.under = -s.over
	}
	return s
}

// round returns the position of the number that x is rounded to. x is not NaN. Numbers
// beyond the range are rounded as if it had neighbors there; the position is then -1 or
// the number of values.
func (s *smallFloat) round(x float64, mode Rounding) int {
	n := len(s.values)
	i, exact := slices.BinarySearch(s.values, x)
	switch {
	case exact:
		return i
	case x <= s.under:
		return -1
	case x >= s.over:
		return n
	}
	below, above := s.under, s.over
	if i > 0 {
		below = s.values[i-1]
	}
	if i < n {
		above = s.values[i]
	}
	var up bool
	switch mode {
	case TowardsZero:
		up = x < 0
	case TowardsPositive:
		up = true
	case TowardsNegative:
	default:
		up = x-below > above-x
		if x-below == above-x {
			up = x > 0
			if mode != NearestAway && s.values[0] < 0 { // powers of two have no even mantissas
				up = !s.even(i - 1)
			}
		}
	}
	if up {
		return i
	}
	return i - 1
}

// even reports whether the mantissa of a number is even. Position -1 is that of under.
func (s *smallFloat) even(i int) bool {
	if i < 0 {
		return !s.even(0)
	}
	return s.codes[i]&1 == 0
}

// put stores x as element i, rounded. It returns false for a NaN that the type lacks and
// for numbers beyond its range. If clamp is true, these are infinite, or the nearest
// number of types without infinities.
func (s *smallFloat) put(dst []byte, i int, x float64, mode Rounding, clamp bool) bool {
	switch {
	case x != x:
		dst[i] = s.nan
		return s.hasNaN
	case math.IsInf(x, 0) && s.hasInfinity:
		dst[i] = s.infinity
		if x < 0 {
			dst[i] = s.negativeInfinity
		}
		return true
	}
	at, n := s.round(x, mode), len(s.values)
	switch {
	case at >= 0 && at < n:
		dst[i] = s.codes[at]
		if s.values[at] == 0 && math.Signbit(x) {
			dst[i] = s.negativeZero
		}
		return true
	case s.hasInfinity && at < 0:
		dst[i] = s.negativeInfinity
	case s.hasInfinity:
		dst[i] = s.infinity
	case at < 0:
		dst[i] = s.codes[0]
	default:
		dst[i] = s.codes[n-1]
	}
	return clamp
}
