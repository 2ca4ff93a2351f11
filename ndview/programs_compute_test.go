package ndview_test

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
)

// computingSteps are elementwise operations. Their results are exact, or rounded as
// IEEE 754 defines.
var computingSteps = map[string]step{
	"unary": {
		make: func(p *maker) string {
			name, a := p.any()
			return p.unary(a, name)
		},
		run:   func(w *words) (*ndview.NDBuffer, error) { return unaryOperations[w.next()].Of(w.array()) },
		often: 5,
	},
	"part": {
		make: func(p *maker) string {
			name, a := p.such(isComplex)
			if a == nil {
				return ""
			}
			return p.of("real", "imag") + " " + name
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			if w.next() == "real" {
				return ndview.Real.Of(w.array())
			}
			return ndview.Imag.Of(w.array())
		},
		often: 2,
	},
	"power": {
		make: func(p *maker) string {
			name, a := p.such(func(a *ndview.NDBuffer) bool {
				return a.DType().Kind() == ndview.KindInt || a.DType().Kind() == ndview.KindUint
			})
			if a == nil {
				return ""
			}
			return name + " " + p.of("0", "1", "2", "3", "7", "int8:2", "uint16:3")
		},
		run: func(w *words) (*ndview.NDBuffer, error) { return ndview.Power.Of(w.array(), w.operand()) },
	},
	"unary_into": {
		make: func(p *maker) string {
			name, a := p.any()
			out, o := p.such(func(o *ndview.NDBuffer) bool { return p.takes(o, a, a) })
			call := p.unary(a, name)
			if o == nil || call == "" {
				return ""
			}
			return out + " " + call
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			out := w.array()
			return nil, unaryOperations[w.next()].Into(out, w.array())
		},
		often: 3,
	},
	"binary": {
		make: func(p *maker) string {
			call, _, _ := p.binary()
			return call
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			return binaryOperations[w.next()].Of(w.operand(), w.operand())
		},
		often: 10,
	},
	"binary_into": {
		make: func(p *maker) string {
			call, x, y := p.binary()
			out, o := p.such(func(o *ndview.NDBuffer) bool { return p.takes(o, x, y) })
			if o == nil || call == "" {
				return ""
			}
			return out + " " + call
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			out := w.array()
			return nil, binaryOperations[w.next()].Into(out, w.operand(), w.operand())
		},
		often: 6,
	},
	"where": {
		make:  func(p *maker) string { call, _, _ := p.choice(); return call },
		run:   func(w *words) (*ndview.NDBuffer, error) { return ndview.Where(w.array(), w.operand(), w.operand()) },
		often: 2,
	},
	"where_into": {
		make: func(p *maker) string {
			call, x, y := p.choice()
			out, o := p.such(func(o *ndview.NDBuffer) bool { return p.takes(o, x, y) })
			if o == nil || call == "" {
				return ""
			}
			return out + " " + call
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			out := w.array()
			return nil, ndview.WhereInto(out, w.array(), w.operand(), w.operand())
		},
		often: 2,
	},
	"clip": {
		make: func(p *maker) string { call, _ := p.clip(); return call },
		run: func(w *words) (*ndview.NDBuffer, error) {
			return ndview.Clip(w.array(), w.operand(), w.operand())
		},
		often: 2,
	},
	"clip_into": {
		make: func(p *maker) string {
			call, a := p.clip()
			out, o := p.such(func(o *ndview.NDBuffer) bool { return p.takes(o, a, a) })
			if o == nil || call == "" {
				return ""
			}
			return out + " " + call
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			out := w.array()
			return nil, ndview.ClipInto(out, w.array(), w.operand(), w.operand())
		},
	},
}

// inexact are operations whose results for complex numbers differ from NumPy's by units in
// the last place.
var inexact = []string{"divide", "reciprocal", "sqrt", "absolute", "sign"}

func (p *maker) unary(a *ndview.NDBuffer, name string) string {
	op := p.of(sortedKeys(unaryOperations)...)
	switch {
	case slices.Contains(inexact, op) && isComplex(a),
		op == "reciprocal" && !isFloat(a), // NumPy's of an integer 0 is undefined
		op == "sign" && a.DType().IsTime(),
		op == "signbit" && p.hasNaN(a),
		op == "sign" && a.DType() == ndview.BFloat16 && !p.oneZero(a), // ml_dtypes keeps the sign of zero
		op == "square" && isComplex(a) && !p.tame(a):
		return ""
	}
	return op + " " + name
}

// binary returns an operation and its operands, or "" if the result may differ.
func (p *maker) binary() (call string, x, y *ndview.NDBuffer) {
	op := p.of(sortedKeys(binaryOperations)...)
	nameX, x := p.operand()
	nameY, y := p.operand()
	if x == nil && y == nil {
		nameX, x = p.any()
	}
	typeX, typeY := p.typeOf(nameX, x), p.typeOf(nameY, y)
	times := typeX.IsTime() || typeY.IsTime()
	brain := typeX == ndview.BFloat16 || typeY == ndview.BFloat16
	complexes := x != nil && isComplex(x) || y != nil && isComplex(y)
	switch {
	case !p.fits(x, y), !p.mixes(typeX, typeY),
		times && (isPlain(nameX) || isPlain(nameY)),        // NumPy multiplies timedeltas by floats
		typeX.IsTime() && typeY.IsTime() && op == "divide", // and divides them
		brain && (isPlain(nameX) || isPlain(nameY)),
		times && strings.HasPrefix(op, "logical_"),
		times && !(p.counted(x) && p.counted(y)),
		complexes && slices.Contains(inexact, op),
		complexes && op == "multiply" && !(p.tame(x) && p.tame(y)),
		slices.Contains([]string{"maximum", "minimum", "fmax", "fmin"}, op) && !(p.oneZero(x) && p.oneZero(y)):
		return "", x, y
	}
	return op + " " + nameX + " " + nameY, x, y
}

// isPlain reports whether a word is a Go float. It takes the type of a bfloat16 array here,
// but not in NumPy, which does not count bfloat16 as a float.
func isPlain(word string) bool { return strings.Contains(word, ".") && !strings.Contains(word, ":") }

// counted reports whether sums of times cannot overflow, which is an error in NumPy.
func (p *maker) counted(a *ndview.NDBuffer) bool {
	return a == nil || isFloat(a) || p.every(a, func(x float64) bool { return x == math.MinInt64 || math.Abs(x) < 1<<24 })
}

func (p *maker) choice() (call string, x, y *ndview.NDBuffer) {
	condition, c := p.any()
	nameX, x := p.operand()
	nameY, y := p.operand()
	typeX, typeY := p.typeOf(nameX, x), p.typeOf(nameY, y)
	brain := typeX == ndview.BFloat16 || typeY == ndview.BFloat16
	if !p.fits(c, x, y) || !p.mixes(typeX, typeY) || brain && (isPlain(nameX) || isPlain(nameY)) {
		return "", x, y
	}
	return condition + " " + nameX + " " + nameY, x, y
}

func (p *maker) clip() (call string, a *ndview.NDBuffer) {
	name, a := p.any()
	low, x := p.operand()
	high, y := p.operand()
	switch p.IntN(6) {
	case 0:
		low, x = "-", nil
	case 1:
		high, y = "-", nil
	}
	types := []ndview.DType{a.DType(), p.typeOf(low, x), p.typeOf(high, y)}
	times := slices.ContainsFunc(types, ndview.DType.IsTime)
	if slices.Contains(types, ndview.BFloat16) && slices.Contains(types, ndview.DType{}) {
		return "", a
	}
	if a.DType() == ndview.Bool && strings.Contains(low+high, "-") { // NumPy is inconsistent on numbers beyond bool
		return "", a
	}
	for _, bound := range []*ndview.NDBuffer{a, x, y} { // the NaN may have other bits in NumPy
		if bound != nil && isComplex(bound) && p.hasNaN(bound) {
			return "", a
		}
	}
	if !p.fits(a, x, y) || !p.mixes(types...) || times && slices.ContainsFunc(types, func(t ndview.DType) bool { return !t.IsTime() }) || !(p.oneZero(a) && p.oneZero(x) && p.oneZero(y)) {
		return "", a
	}
	return name + " " + low + " " + high, a
}

// takes reports whether out suits as the result of operands. Rarely it accepts one that
// does not, for which the step is an error.
func (p *maker) takes(out, x, y *ndview.NDBuffer) bool {
	for _, a := range []*ndview.NDBuffer{x, y} {
		if a != nil && (a.NDim() > out.NDim() || !p.fits(a, out) || !p.casts(a, out.DType())) {
			return p.rarely() && p.fits(a, out) && p.casts(a, out.DType())
		}
	}
	return true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
