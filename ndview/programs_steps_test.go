package ndview_test

import (
	"cmp"
	"fmt"
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

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// moveSteps copy, cast and assign the values of arrays.
var moveSteps = map[string]step{
	"copy": {
		make: func(p *maker) string { name, _ := p.any(); return name + " " + p.of("C", "F", "A", "K") },
		run:  func(w *words) (*ndview.NDBuffer, error) { return w.array().Copy(w.order()) },
	},
	// A copy at an unaligned address.
	"askew": {
		make: func(p *maker) string { name, _ := p.any(); return fmt.Sprint(name, " ", 1+p.IntN(15)) },
		run: func(w *words) (*ndview.NDBuffer, error) {
			a, skip := w.array(), w.int()
			buf, err := w.m.dev.Alloc(a.NBytes() + skip)
			if err != nil {
				return nil, err
			}
			defer buf.Release()
			out, err := ndview.FromBuffer(buf, a.DType(), skip, a.Shape(), nil)
			if err != nil {
				return nil, err
			}
			if err := out.CopyFrom(a); err != nil {
				out.Release()
				return nil, err
			}
			return out, nil
		},
		often: 3,
	},
	"cast": {
		make: func(p *maker) string {
			name, a := p.any()
			dtype := p.dtype()
			if !p.casts(a, numpyType(p.m.t, dtype)) {
				return ""
			}
			return name + " " + dtype + " " + p.of("C", "F", "A", "K") + " " + p.of("unsafe", "unsafe", "unsafe", "same_kind", "safe")
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			a, dtype, order := w.array(), w.dtype(), w.order()
			rule := map[string]ndview.Casting{"unsafe": ndview.CastUnsafe, "same_kind": ndview.CastSameKind, "safe": ndview.CastSafe}[w.next()]
			return a.AsType(dtype, order, rule)
		},
		often: 5,
	},
	"assign": {
		make: func(p *maker) string {
			to, a := p.any()
			from, b := p.operand()
			if !p.casts(b, a.DType()) {
				return ""
			}
			return to + " " + from
		},
		run:   func(w *words) (*ndview.NDBuffer, error) { return nil, w.array().Assign(w.operand()) },
		often: 3,
	},
	"fill": {
		make: func(p *maker) string { name, _ := p.any(); return name + " " + p.number() },
		run:  func(w *words) (*ndview.NDBuffer, error) { return nil, w.array().Fill(w.operand()) },
	},
	// The bytes 1, 2, 3, ... as a pattern in the rows of a where a mask is true.
	"fill_where": {
		make: func(p *maker) string {
			name, a := p.such(func(a *ndview.NDBuffer) bool { return a.NDim() > 0 && !isFloat(a) && a.DType() != ndview.Bool })
			if a == nil {
				return ""
			}
			mask, m := p.such(func(m *ndview.NDBuffer) bool {
				return m.DType() == ndview.Bool && m.NDim() == 1 && m.Size() == a.Shape()[0]
			})
			if m == nil {
				return ""
			}
			return name + " " + mask
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			return nil, w.array().FillWhere(w.array(), 0x0807060504030201)
		},
		often: 4,
	},
	"zero": {
		make: func(p *maker) string { name, _ := p.any(); return name },
		run:  func(w *words) (*ndview.NDBuffer, error) { return nil, w.array().Zero() },
	},
	"swap": {
		make: func(p *maker) string {
			name, a := p.any()
			if p.hasNaN(a) || p.special && isFloat(a) {
				return ""
			}
			return name
		},
		run: func(w *words) (*ndview.NDBuffer, error) { return nil, w.array().ByteSwap() },
	},
	"swapped": {
		make: func(p *maker) string {
			name, a := p.any()
			if p.hasNaN(a) || p.special && isFloat(a) {
				return ""
			}
			return name
		},
		run: func(w *words) (*ndview.NDBuffer, error) { return w.array().ByteSwapped() },
	},
	"pack": {
		make: func(p *maker) string {
			name, a := p.such(isBytes)
			if a == nil {
				return ""
			}
			return fmt.Sprint(name, " ", p.IntN(11))
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			a, offset := w.array(), w.int()
			bits, err := ndview.Zeros(w.m.dev, ndview.Uint8, (a.Size()+offset+7)/8)
			if err != nil {
				return nil, err
			}
			if err := a.PackBits(bits.Buffer(), offset); err != nil {
				bits.Release()
				return nil, err
			}
			return bits, nil
		},
		often: 2,
	},
	"unpack": {
		make: func(p *maker) string {
			name, a := p.such(isBytes)
			if a == nil {
				return ""
			}
			offset := p.Int64N(a.NBytes()*8 + 1)
			return fmt.Sprint(name, " ", offset, " ", p.Int64N(a.NBytes()*8-offset+1), " ", p.flag(), " ", p.of("bool", "uint8"))
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			a, offset, n, invert := w.array(), w.int(), w.int(), w.flag()
			bits, err := w.m.dev.Alloc(a.NBytes())
			if err != nil {
				return nil, err
			}
			defer bits.Release()
			flat, err := ndview.FromBuffer(bits, a.DType(), 0, a.Shape(), nil)
			if err != nil {
				return nil, err
			}
			defer flat.Release()
			if err := flat.CopyFrom(a); err != nil {
				return nil, err
			}
			out, err := ndview.Empty(w.m.dev, w.dtype(), n)
			if err != nil {
				return nil, err
			}
			if err := out.UnpackBits(bits, offset, invert); err != nil {
				out.Release()
				return nil, err
			}
			return out, nil
		},
	},
}

// isBytes reports whether an array can be packed into bits.
func isBytes(a *ndview.NDBuffer) bool {
	return a.IsContiguous() && (a.DType() == ndview.Bool || a.DType() == ndview.Uint8)
}

// joinSteps join and split arrays, and keep their triangles.
var joinSteps = map[string]step{
	"concatenate": {
		make: func(p *maker) string {
			names, a := p.several(true)
			return fmt.Sprint(p.axis(a.NDim()), " ", names)
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			axis := w.axis()
			return ndview.Concatenate(w.arrays(), axis)
		},
		often: 2,
	},
	"concatenate_flat": joining(ndview.ConcatenateFlat),
	"stack": {
		make: func(p *maker) string {
			names, a := p.several(true)
			return fmt.Sprint(p.axis(a.NDim()+1), " ", names)
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			axis := w.axis()
			return ndview.Stack(w.arrays(), axis)
		},
	},
	"v_stack":      joining(ndview.VStack),
	"h_stack":      joining(ndview.HStack),
	"d_stack":      joining(ndview.DStack),
	"column_stack": joining(ndview.ColumnStack),
	"split": {
		make: func(p *maker) string {
			name, a := p.any()
			if a.NDim() == 0 {
				return ""
			}
			n, axis := 1+p.IntN(3), p.IntN(a.NDim())
			return fmt.Sprint(name, " ", n, " ", axis, " ", p.IntN(n))
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			all, err := ndview.Split(w.array(), w.int(), w.axis())
			return nth(all, w.int(), err)
		},
	},
	"array_split": {
		make: func(p *maker) string {
			name, a := p.any()
			if a.NDim() == 0 {
				return ""
			}
			n := 1 + p.IntN(4)
			return fmt.Sprint(name, " ", n, " ", p.axis(a.NDim()), " ", p.IntN(n))
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			all, err := ndview.ArraySplit(w.array(), w.int(), w.axis())
			return nth(all, w.int(), err)
		},
	},
	"split_at": {
		make: func(p *maker) string {
			name, a := p.any()
			if a.NDim() == 0 {
				return ""
			}
			axis := p.IntN(a.NDim())
			bounds := []int64{p.Int64N(5) - 1, p.Int64N(a.Shape()[axis] + 2)}
			return fmt.Sprint(name, " ", bracketed(bounds), " ", axis, " ", p.IntN(3))
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			all, err := ndview.SplitAt(w.array(), w.ints(), w.axis())
			return nth(all, w.int(), err)
		},
	},
	"tril":    triangle((*ndview.NDBuffer).Tril),
	"triu":    triangle((*ndview.NDBuffer).Triu),
	"tril_in": triangle(func(a *ndview.NDBuffer, k int64) (*ndview.NDBuffer, error) { return nil, a.TrilInPlace(k) }),
	"triu_in": triangle(func(a *ndview.NDBuffer, k int64) (*ndview.NDBuffer, error) { return nil, a.TriuInPlace(k) }),
}

func joining(join func([]*ndview.NDBuffer) (*ndview.NDBuffer, error)) step {
	return step{
		make: func(p *maker) string { names, _ := p.several(p.IntN(3) > 0); return names },
		run:  func(w *words) (*ndview.NDBuffer, error) { return join(w.arrays()) },
	}
}

func triangle(keep func(*ndview.NDBuffer, int64) (*ndview.NDBuffer, error)) step {
	return step{
		make: func(p *maker) string {
			name, a := p.such(func(a *ndview.NDBuffer) bool { return a.NDim() > 1 || a.NDim() == 1 && a.Size() < 100 })
			if a == nil || a.NDim() == 1 && p.IntN(3) > 0 {
				return ""
			}
			return fmt.Sprint(name, " ", p.IntN(7)-3)
		},
		run: func(w *words) (*ndview.NDBuffer, error) { return keep(w.array(), w.int()) },
	}
}

// several returns one to three arrays, of the same shape if alike, and the first.
func (p *maker) several(alike bool) (string, *ndview.NDBuffer) {
	name, first := p.any()
	names, types := []string{name}, []ndview.DType{first.DType()}
	for range p.IntN(3) {
		if name, _ := p.such(func(a *ndview.NDBuffer) bool {
			return p.mixes(append(types, a.DType())...) && (!alike || slices.Equal(a.Shape(), first.Shape()))
		}); name != "" {
			names, types = append(names, name), append(types, p.m.arrays[name].DType())
		}
	}
	return strings.Join(names, " "), first
}
