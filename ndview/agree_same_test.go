package ndview_test

import (
	"math"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
)

// What has the same result on every device and in NumPy, so that a random program
// may have it.

// reals are the floats of an array, or its integers as such.
func (p *maker) reals(a *ndview.NDBuffer) []float64 {
	data := elements(p.m.t, a)
	if isFloat(a) {
		return reals(a.DType(), data)
	}
	var out []float64
	for _, n := range counts(a.DType(), data) {
		out = append(out, float64(n))
	}
	return out
}

func isFloat(a *ndview.NDBuffer) bool {
	switch a.DType().Kind() {
	case ndview.KindFloat, ndview.KindBFloat, ndview.KindComplex:
		return true
	}
	return false
}

func isComplex(a *ndview.NDBuffer) bool { return a.DType().Kind() == ndview.KindComplex }

// every tells whether all numbers of an array are so.
func (p *maker) every(a *ndview.NDBuffer, is func(float64) bool) bool {
	return a == nil || !slices.ContainsFunc(p.reals(a), func(x float64) bool { return !is(x) })
}

// hasNaN: the bits of a NaN are not the same everywhere.
func (p *maker) hasNaN(a *ndview.NDBuffer) bool {
	return a != nil && isFloat(a) && !p.every(a, func(x float64) bool { return x == x })
}

// oneZero: of zeros of both signs NumPy takes one as the greater as it comes.
func (p *maker) oneZero(a *ndview.NDBuffer) bool {
	return a == nil || !isFloat(a) || p.every(a, func(x float64) bool { return x != 0 || !math.Signbit(x) })
}

// tame: so few bits that products and their sums are exact.
func (p *maker) tame(a *ndview.NDBuffer) bool {
	return p.every(a, func(x float64) bool { return x*4 == math.Trunc(x*4) && math.Abs(x) < 64 })
}

// casts tells whether values come out the same everywhere: floats that an integer
// does not hold do not with all of NumPy's loops, and ml_dtypes rounds twice.
func (p *maker) casts(a *ndview.NDBuffer, to ndview.DType) bool {
	switch kind := to.Kind(); {
	case a == nil:
		return true
	case a.DType() == ndview.BFloat16 && to.IsTime(), a.DType().IsTime() && to == ndview.BFloat16:
		return false
	case kind == ndview.KindBFloat && a.DType() != to:
		return p.every(a, func(x float64) bool { return math.Abs(x) <= 64 && x*2 == math.Trunc(x*2) })
	case !isFloat(a) || kind == ndview.KindBool || kind == ndview.KindFloat || kind == ndview.KindBFloat || kind == ndview.KindComplex:
		return true
	case kind == ndview.KindUint:
		return p.every(a, func(x float64) bool { return x >= 0 && x < 128 })
	}
	return p.every(a, func(x float64) bool { return math.Abs(x) < 128 })
}

// typeOf is the type of an operand, the zero DType for a plain number.
func (p *maker) typeOf(word string, a *ndview.NDBuffer) ndview.DType {
	if a != nil {
		return a.DType()
	}
	if name, _, strong := strings.Cut(word, ":"); strong {
		return numpyType(p.m.t, name)
	}
	return ndview.DType{}
}

// mixes tells whether operands have types that ndview takes together as NumPy
// does: times and floats do not mix here, nor bfloat16 and what ml_dtypes has no
// common type for, which NumPy's loops take by way of another.
func (p *maker) mixes(types ...ndview.DType) bool {
	times, floats, brain, others := false, false, false, false
	for _, t := range types {
		switch kind := t.Kind(); {
		case t.IsTime():
			times = true
		case kind == ndview.KindBFloat:
			brain, floats = true, true
		case kind == ndview.KindFloat || kind == ndview.KindComplex:
			floats = true
			others = others || t == ndview.Float16
		case t.Size() > 1:
			others = true
		}
	}
	return !(times && floats) && !(brain && others)
}
