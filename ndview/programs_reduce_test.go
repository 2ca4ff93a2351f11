package ndview_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
)

// reductionSteps reduce and compare arrays.
var reductionSteps = map[string]step{
	"reduce": {
		make: func(p *maker) string { return p.reduction(true) },
		run: func(w *words) (*ndview.NDBuffer, error) {
			r := reductions[w.next()]
			a, o := w.array(), w.options()
			return r.Of(a, o)
		},
		often: 10,
	},
	// Into a strided array in Fortran order.
	"reduce_gaps": {
		make: func(p *maker) string { return p.reduction(false) },
		run: func(w *words) (*ndview.NDBuffer, error) {
			r := reductions[w.next()]
			a, o := w.array(), w.options()
			like, err := r.Of(a, o)
			if err != nil {
				return nil, err
			}
			defer like.Release()
			whole, err := ndview.New(w.m.dev, like.DType(), append([]int64{3}, like.Shape()...), ndview.Options{Order: ndview.OrderF})
			if err != nil {
				return nil, err
			}
			defer whole.Release()
			out, err := whole.Index(ndview.At(1))
			if err != nil {
				return nil, err
			}
			if err := r.Into(out, a, o); err != nil {
				out.Release()
				return nil, err
			}
			return out, nil
		},
		often: 2,
	},
	"reduce_into": {
		make: func(p *maker) string {
			call := p.reduction(false)
			if call == "" {
				return ""
			}
			w := &words{m: p.m, left: strings.Fields(call)}
			r := reductions[w.next()]
			like, err := r.Of(w.array(), w.options())
			if err != nil {
				return ""
			}
			defer like.Release()
			out, o := p.such(func(o *ndview.NDBuffer) bool {
				return o.DType() == like.DType() && slices.Equal(o.Shape(), like.Shape())
			})
			if o == nil {
				return ""
			}
			return out + " " + call
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			out, r := w.array(), reductions[w.next()]
			a, o := w.array(), w.options()
			return nil, r.Into(out, a, o)
		},
		often: 8,
	},
	"all_equal": {
		make: func(p *maker) string {
			x, a := p.any()
			y, b := p.any()
			if p.IntN(3) == 0 {
				y, b = p.of("1", "2", "float32:0.5", "int8:-1", "0"), nil
			}
			if types := p.typeOf(y, b); !p.fits(a, b) || !p.mixes(a.DType(), types) || (a.DType().IsTime() || types.IsTime()) && a.DType().Kind() != types.Kind() {
				return ""
			}
			return x + " " + y + " " + p.flag()
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			equal, err := w.array().AllEqual(w.operand(), w.flag())
			return w.truth(equal, err)
		},
		often: 3,
	},
	"equal": {
		make: func(p *maker) string {
			x, a := p.any()
			y, b := p.any()
			if p.hasNaN(a) || p.hasNaN(b) {
				return ""
			}
			return x + " " + y
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			equal, err := w.array().Equal(w.array())
			return w.truth(equal, err)
		},
	},
}

// truth returns a bool as an array without axes.
func (w *words) truth(v bool, err error) (*ndview.NDBuffer, error) {
	if err != nil {
		return nil, err
	}
	return ndview.Full(w.m.dev, ndview.Bool, v)
}

// options parses axes, whether to keep them, and a dtype or "-".
func (w *words) options() ndview.ReduceOptions {
	o := ndview.ReduceOptions{Axes: w.axes(), KeepDims: w.flag()}
	if w.left[0] == "-" {
		w.next()
		return o
	}
	o.DType = w.dtype()
	return o
}

// reduction returns a reduction with an exact result, or "".
func (p *maker) reduction(typed bool) string {
	name, a := p.any()
	op := p.of(sortedKeys(reductions)...)
	if !p.exact(op, a) {
		return ""
	}
	axes := "-"
	if p.IntN(3) > 0 {
		list := p.Perm(a.NDim())[:p.IntN(a.NDim()+1)]
		for i := range list {
			list[i] -= a.NDim() * p.IntN(2)
		}
		if p.rarely() {
			list = append(list, p.axis(a.NDim()))
		}
		axes = bracketed(list)
	}
	dtype := "-"
	if typed && (op == "sum" || op == "prod") && p.IntN(4) == 0 && !a.DType().IsTime() {
		switch {
		case isComplex(a):
			dtype = "complex128"
		case isFloat(a):
			dtype = "float64"
		default:
			dtype = p.of("int16", "uint8", "int64", "uint32", "float64")
		}
	}
	if op == "prod" && dtype == "float64" && !p.smallProduct(a, 52) { // infinity times 0 depends on the order
		return ""
	}
	return fmt.Sprint(op, " ", name, " ", axes, " ", p.flag(), " ", dtype)
}

// exact reports whether a reduction has the same result in every order. Floats must be
// small multiples of 1/4.
func (p *maker) exact(op string, a *ndview.NDBuffer) bool {
	if op == "min" || op == "max" {
		return p.oneZero(a)
	}
	if op == "mean" && !isFloat(a) && !a.DType().IsTime() {
		return p.every(a, func(x float64) bool { return math.Abs(x) < 1<<32 })
	}
	if a.DType().IsTime() && (op == "sum" || op == "mean") {
		return p.counted(a)
	}
	if !isFloat(a) || op != "sum" && op != "prod" && op != "mean" {
		return true
	}
	bits := map[ndview.DType]float64{ndview.BFloat16: 7, ndview.Float16: 10, ndview.Float32: 23, ndview.Complex64: 23}[a.DType()]
	bits = cmp.Or(bits, 52)
	if op == "prod" {
		return !isComplex(a) && p.smallProduct(a, bits)
	}
	sum, quarters := 0.0, true
	for _, x := range p.reals(a) {
		if x-x != 0 && !isComplex(a) { // infinities and NaNs do not depend on the order
			continue
		}
		quarters = quarters && x*4 == math.Trunc(x*4)
		sum += math.Abs(x)
	}
	if op == "mean" && slices.ContainsFunc(a.Shape(), func(d int64) bool { return d&(d-1) != 0 }) { // not 2^n elements for all axes
		return false
	}
	return quarters && sum*4 < math.Exp2(bits)
}

// smallProduct reports whether numbers are integers whose product has at most bits bits.
func (p *maker) smallProduct(a *ndview.NDBuffer, bits float64) bool {
	logarithm := 0.0
	for _, x := range p.reals(a) {
		if x-x != 0 { // infinities and NaNs do not depend on the order
			continue
		}
		if x != math.Trunc(x) {
			return false
		}
		logarithm += math.Log2(max(math.Abs(x), 1))
	}
	return logarithm < bits
}
