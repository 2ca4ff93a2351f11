package ndview_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
)

// newSteps make arrays from values.
var newSteps = map[string]step{
	"new": {
		make: func(p *maker) string {
			shape := make([]int64, p.IntN(4))
			n := int64(1)
			for i := range shape {
				shape[i] = 1 + p.Int64N(6)
				if p.IntN(25) == 0 {
					shape[i] = 0
				}
				n *= shape[i]
			}
			dtype := p.dtype()
			return dtype + " " + bracketed(shape) + " [" + strings.Join(p.values(dtype, n), ",") + "]"
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			dtype, shape := w.dtype(), w.ints()
			return literal(w.m.dev, dtype, shape, w.floats())
		},
		often: 2,
	},
	// Element i is i*k modulo m, plus low.
	"ramp": {
		make: func(p *maker) string {
			shape := [][]int64{{5000}, {1, 4099}, {70, 65}, {65, 3, 21}, {9, 400}, {2500, 2}, {257, 16}, {33000}, {150, 130}}[p.IntN(9)]
			low := p.IntN(4)
			dtype := p.dtype()
			if !strings.HasPrefix(dtype, "uint") {
				low = -low
			}
			return fmt.Sprint(dtype, " ", bracketed(shape), " ", 1+p.IntN(50), " ", 1+p.IntN(9), " ", low)
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			dtype, shape := w.dtype(), w.ints()
			n, k, m, low := int64(1), w.int(), w.int(), w.int()
			for _, d := range shape {
				n *= d
			}
			var values []float64
			for i := range n {
				for range dtype.Size() / max(realSize(dtype), 1) {
					values = append(values, float64(i*k%m+low))
				}
			}
			return literal(w.m.dev, dtype, shape, values)
		},
	},
	"full": {
		make: func(p *maker) string {
			return p.dtype() + " " + p.of("0", "1", "-2", "3.5", "true", "uint8:200", "int64:-1") + " " + bracketed([]int64{p.Int64N(4), 1 + p.Int64N(4)}[p.IntN(2):])
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			dtype, value := w.dtype(), w.operand()
			return ndview.Full(w.m.dev, dtype, value, w.ints()...)
		},
	},
}

// realSize returns the size of an element, or of a part of a complex number.
func realSize(dtype ndview.DType) int64 {
	if dtype.Kind() == ndview.KindComplex {
		return dtype.Size() / 2
	}
	return dtype.Size()
}

// literal returns an array of values, two per complex number. They are converted on the
// CPU.
func literal(dev arrowbuf.Device, dtype ndview.DType, shape []int64, values []float64) (*ndview.NDBuffer, error) {
	var host *ndview.NDBuffer
	var err error
	if n := int64(len(values)); dtype.Kind() == ndview.KindComplex {
		host, err = ndview.FromHost(arrowbuf.CPU(), ndview.Complex128, slice[complex128](ndtest.Raw(values...)), n/2)
	} else {
		host, err = ndview.FromHost(arrowbuf.CPU(), ndview.Float64, values, n)
	}
	if err != nil {
		return nil, err
	}
	defer host.Release()
	cast, err := host.AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
	if err != nil {
		return nil, err
	}
	defer cast.Release()
	data, err := cast.Bytes()
	if err != nil {
		return nil, err
	}
	a, err := ndview.Empty(dev, dtype, shape...)
	if err != nil {
		return nil, err
	}
	if err := a.CopyFromHost(data); err != nil {
		a.Release()
		return nil, err
	}
	return a, nil
}

// values returns n random elements of a dtype.
func (p *maker) values(dtype string, n int64) []string {
	from := []string{"0", "1", "2", "3", "5", "7"}
	switch dtype[0] {
	case 'b':
		if dtype == "bool" {
			from = []string{"0", "1"}
			break
		}
		fallthrough
	case 'f', 'c':
		from = append(from, "0.5", "-0.25", "-1", "-3")
		if p.special {
			from = append(from, "nan", "inf", "-inf")
		}
		if dtype[0] == 'c' {
			n *= 2
		}
	case 'i', 'd', 't':
		from = append(from, "-1", "-2", "-4")
		if dtype[0] != 'i' && p.special {
			from = append(from, "nan") // becomes NaT
		}
	}
	values := make([]string, n)
	for i := range values {
		values[i] = p.of(from...)
	}
	return values
}

// viewSteps make views of arrays.
var viewSteps = map[string]step{
	"show": {
		make: func(p *maker) string { return "" },
		run:  func(w *words) (*ndview.NDBuffer, error) { w.array(); return nil, nil },
	},
	"index": {
		make: func(p *maker) string {
			name, a := p.any()
			return name + p.keys(a.Shape())
		},
		run:   func(w *words) (*ndview.NDBuffer, error) { return w.array().Index(w.keys()...) },
		often: 4,
	},
	"transpose": {
		make: func(p *maker) string {
			name, a := p.any()
			return name + " " + bracketed(p.Perm(a.NDim()))
		},
		run:   func(w *words) (*ndview.NDBuffer, error) { return w.array().Transpose(w.axes()...) },
		often: 3,
	},
	"swap_axes": {
		make: func(p *maker) string {
			name, a := p.any()
			return fmt.Sprint(name, " ", p.axis(a.NDim()), " ", p.axis(a.NDim()))
		},
		run: func(w *words) (*ndview.NDBuffer, error) { return w.array().SwapAxes(w.axis(), w.axis()) },
	},
	"move_axis": {
		make: func(p *maker) string {
			name, a := p.any()
			return fmt.Sprint(name, " ", p.axis(a.NDim()), " ", p.axis(a.NDim()))
		},
		run: func(w *words) (*ndview.NDBuffer, error) { return w.array().MoveAxis(w.axis(), w.axis()) },
	},
	"reshape": {
		make: func(p *maker) string {
			name, a := p.any()
			return name + " " + p.of("C", "F", "A") + " " + bracketed(p.reshaped(a))
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			a := w.array()
			return a.ReshapeOrder(w.order(), w.ints()...)
		},
		often: 2,
	},
	"ravel": {
		make: func(p *maker) string { name, _ := p.any(); return name + " " + p.of("C", "F", "A", "K") },
		run:  func(w *words) (*ndview.NDBuffer, error) { return w.array().Ravel(w.order()) },
	},
	"squeeze": {
		make: func(p *maker) string { name, _ := p.any(); return name },
		run:  func(w *words) (*ndview.NDBuffer, error) { return w.array().SqueezeAll() },
	},
	"expand": {
		make: func(p *maker) string {
			name, a := p.any()
			return fmt.Sprintf("%s [%d]", name, p.axis(a.NDim()+1))
		},
		run: func(w *words) (*ndview.NDBuffer, error) { return w.array().ExpandDims(w.axes()...) },
	},
	"broadcast": {
		make: func(p *maker) string {
			name, a := p.any()
			shape := slices.Clone(a.Shape())
			for i := range shape {
				if shape[i] == 1 || p.rarely() {
					shape[i] = p.Int64N(4)
				}
			}
			if p.IntN(2) == 0 {
				shape = append([]int64{p.Int64N(4)}, shape...)
			}
			return name + " " + bracketed(shape)
		},
		run: func(w *words) (*ndview.NDBuffer, error) { return w.array().BroadcastTo(w.ints()...) },
	},
	"slice": {
		make: func(p *maker) string {
			name, a := p.any()
			if a.NDim() == 0 {
				return ""
			}
			axis := p.IntN(a.NDim())
			start := p.Int64N(a.Shape()[axis] + 1)
			return fmt.Sprint(name, " ", axis, " ", start, " ", start+p.Int64N(a.Shape()[axis]-start+1))
		},
		run: func(w *words) (*ndview.NDBuffer, error) { return w.array().Slice(w.axis(), w.int(), w.int()) },
	},
	"at_least": {
		make: func(p *maker) string { name, _ := p.any(); return fmt.Sprint(name, " ", 1+p.IntN(3)) },
		run: func(w *words) (*ndview.NDBuffer, error) {
			a := w.array()
			return [4]func(*ndview.NDBuffer) (*ndview.NDBuffer, error){1: ndview.AtLeast1D, 2: ndview.AtLeast2D, 3: ndview.AtLeast3D}[w.int()](a)
		},
	},
	"read_only": {
		make: func(p *maker) string { name, _ := p.any(); return name },
		run:  func(w *words) (*ndview.NDBuffer, error) { return w.array().ReadOnly() },
	},
	"view": {
		make: func(p *maker) string {
			name, a := p.such(func(a *ndview.NDBuffer) bool { return !isFloat(a) && a.DType() != ndview.Bool })
			if a == nil {
				return ""
			}
			return name + " " + p.of("int8", "uint8", "int16", "uint32", "int64", "uint64", "datetime64[s]", "timedelta64[25us]")
		},
		run:   func(w *words) (*ndview.NDBuffer, error) { return w.array().View(w.dtype()) },
		often: 2,
	},
	// A view of a copy, so that writing to it puts no NaN into another array.
	"bits": {
		make: func(p *maker) string {
			name, a := p.any()
			if p.special || p.hasNaN(a) {
				return ""
			}
			dtype := p.dtype()
			if dtype == "bool" {
				return ""
			}
			return name + " " + dtype
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			a, err := w.array().Copy(ndview.OrderC)
			if err != nil {
				return nil, err
			}
			defer a.Release()
			return a.View(w.dtype())
		},
		often: 2,
	},
}

// keys returns a random index without arrays.
func (p *maker) keys(shape []int64) string {
	var keys strings.Builder
	ellipsis := p.IntN(4) == 0
	for _, d := range shape {
		switch p.IntN(7) {
		case 0:
			fmt.Fprint(&keys, " ", p.index(d))
		case 1:
			keys.WriteString(" new ::")
		case 2:
			if ellipsis {
				keys.WriteString(" ...")
				ellipsis = false
			}
		default:
			fmt.Fprintf(&keys, " %s:%s:%s", p.bound(d), p.bound(d), p.of("", "", "1", "2", "3", "-1", "-1", "-2"))
		}
	}
	return keys.String()
}

func (p *maker) bound(d int64) string {
	if p.IntN(2) == 0 {
		return ""
	}
	return fmt.Sprint(p.Int64N(2*d+3) - d - 1)
}

// reshaped returns another shape with the same number of elements.
func (p *maker) reshaped(a *ndview.NDBuffer) []int64 {
	shape := slices.Clone(a.Shape())
	for range p.IntN(3) {
		if len(shape) == 0 {
			shape = []int64{1}
		}
		i := p.IntN(len(shape))
		f := 1 + p.Int64N(4)
		switch {
		case p.IntN(2) == 0 && len(shape) > 1:
			j := (i + 1) % len(shape)
			shape[min(i, j)] *= shape[max(i, j)]
			shape = slices.Delete(shape, max(i, j), max(i, j)+1)
		case shape[i]%f == 0:
			shape[i] /= f
			shape = slices.Insert(shape, p.IntN(len(shape)+1), f)
		}
	}
	if len(shape) > 0 && p.IntN(4) == 0 {
		shape[p.IntN(len(shape))] = -1
	}
	return shape
}

// indexSteps get and set elements by keys, indices and masks.
var indexSteps = map[string]step{
	"get": {
		make: func(p *maker) string {
			name, a := p.any()
			return name + p.arrayKeys(a)
		},
		run:   func(w *words) (*ndview.NDBuffer, error) { return w.array().Get(w.keys()...) },
		often: 4,
	},
	"set": {
		make: func(p *maker) string {
			name, a := p.any()
			keys := p.arrayKeys(a)
			from, b := p.operand()
			if !p.casts(b, a.DType()) || b != nil && !p.setsOf(a, keys, b) {
				from = p.number()
			}
			return name + " " + from + keys
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			a, value := w.array(), w.operand()
			return nil, a.Set(value, w.keys()...)
		},
		often: 5,
	},
	"take": {
		make: func(p *maker) string {
			name, a := p.any()
			if a.NDim() == 0 || a.Size() == 0 { // NumPy accepts any index then
				return ""
			}
			axis := p.IntN(a.NDim())
			return fmt.Sprint(name, " ", p.indexArray(a.Shape()[axis]), " ", axis-a.NDim()*p.IntN(2), " ", p.of("raise", "wrap", "clip"))
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			return w.byIndices(func(a, indices *ndview.NDBuffer) (*ndview.NDBuffer, error) {
				return ndview.Take(a, indices, w.axis(), w.mode())
			})
		},
		often: 3,
	},
	"take_flat": {
		make: func(p *maker) string {
			name, a := p.any()
			return fmt.Sprint(name, " ", p.indexArray(a.Size()), " ", p.of("raise", "wrap", "clip"))
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			return w.byIndices(func(a, indices *ndview.NDBuffer) (*ndview.NDBuffer, error) {
				return ndview.TakeFlat(a, indices, w.mode())
			})
		},
	},
	"put": {
		make: func(p *maker) string {
			name, a := p.any()
			from, b := p.operand()
			if !p.casts(b, a.DType()) {
				return ""
			}
			return fmt.Sprint(name, " ", p.indexArray(a.Size()), " ", from, " ", p.of("raise", "wrap", "clip"))
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			return w.byIndices(func(a, indices *ndview.NDBuffer) (*ndview.NDBuffer, error) {
				return nil, ndview.Put(a, indices, w.operand(), w.mode())
			})
		},
		often: 2,
	},
	"compress": {
		make: func(p *maker) string {
			name, a := p.any()
			if a.NDim() == 0 {
				return ""
			}
			axis := p.IntN(a.NDim())
			condition, _ := p.such(func(c *ndview.NDBuffer) bool { return c.NDim() == 1 && c.Size() <= a.Shape()[axis] })
			if condition == "" {
				return ""
			}
			return fmt.Sprint(name, " ", condition, " ", axis-a.NDim()*p.IntN(2))
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			a, condition := w.array(), w.array()
			return ndview.Compress(condition, a, w.axis())
		},
	},
	"compress_flat": {
		make: func(p *maker) string {
			name, a := p.any()
			condition, _ := p.such(func(c *ndview.NDBuffer) bool { return c.NDim() == 1 && c.Size() <= a.Size() })
			if condition == "" {
				return ""
			}
			return name + " " + condition
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			a, condition := w.array(), w.array()
			return ndview.CompressFlat(condition, a)
		},
	},
	"nonzero": {
		make: func(p *maker) string {
			name, a := p.any()
			return fmt.Sprint(name, " ", p.IntN(max(a.NDim(), 1)))
		},
		run: func(w *words) (*ndview.NDBuffer, error) {
			all, err := ndview.NonZero(w.array())
			return nth(all, w.int(), err)
		},
	},
	"arg_where": {
		make: func(p *maker) string { name, _ := p.any(); return name },
		run:  func(w *words) (*ndview.NDBuffer, error) { return ndview.ArgWhere(w.array()) },
	},
}

// nth returns one of several arrays and releases the others.
func nth(all []*ndview.NDBuffer, n int64, err error) (*ndview.NDBuffer, error) {
	for i, a := range all {
		if int64(i) != n {
			a.Release()
		}
	}
	if err != nil {
		return nil, err
	}
	return all[n], nil
}

// byIndices calls f with an array and the indices after it.
func (w *words) byIndices(f func(a, indices *ndview.NDBuffer) (*ndview.NDBuffer, error)) (*ndview.NDBuffer, error) {
	a := w.array()
	indices, err := w.indices()
	if err != nil {
		return nil, err
	}
	defer indices.Release()
	return f(a, indices)
}

// indices returns the integers of "[0,-1]" or an array. The caller must release it.
func (w *words) indices() (*ndview.NDBuffer, error) {
	if w.left[0][0] == 'v' {
		a := w.array()
		a.Retain()
		return a, nil
	}
	values := w.ints()
	return ndview.FromHost(w.m.dev, ndview.Int64, values, int64(len(values)))
}

// indexArray returns indices of an axis: a list, or an array that may have such.
func (p *maker) indexArray(extent int64) string {
	name, _ := p.such(func(a *ndview.NDBuffer) bool {
		kind := a.DType().Kind()
		return (kind == ndview.KindInt || kind == ndview.KindUint) && a.Size() < 300 &&
			(a.DType() != ndview.Uint64 || p.every(a, func(x float64) bool { return x >= 0 })) // NumPy rejects uint64
	})
	if name == "" || p.IntN(3) > 0 {
		return p.indices(extent, p.IntN(6))
	}
	return name
}

// arrayKeys returns a random index with arrays among the keys.
func (p *maker) arrayKeys(a *ndview.NDBuffer) string {
	if p.IntN(3) == 0 {
		return p.keys(a.Shape())
	}
	mask, m := p.such(func(m *ndview.NDBuffer) bool {
		return m.DType() == ndview.Bool && m.NDim() > 0 && m.NDim() <= a.NDim() && slices.Equal(m.Shape(), a.Shape()[:m.NDim()])
	})
	if m != nil && p.IntN(2) == 0 {
		return " " + mask + p.keys(a.Shape()[m.NDim():])
	}
	var keys strings.Builder
	n := p.IntN(4)
	for _, d := range a.Shape() {
		switch p.IntN(5) {
		case 0:
			fmt.Fprint(&keys, " ", p.index(d))
		case 1:
			keys.WriteString(" ::")
		case 2:
			fmt.Fprintf(&keys, " %s:%s:%s", p.bound(d), p.bound(d), p.of("1", "2", "-1"))
		default:
			keys.WriteString(" " + p.indices(d, n))
		}
	}
	return keys.String()
}

// setsOf reports whether values have at most as many axes as the elements that keys
// select: NumPy rejects some that have more.
func (p *maker) setsOf(a *ndview.NDBuffer, keys string, values *ndview.NDBuffer) bool {
	w := &words{m: p.m, left: strings.Fields(keys)}
	taken, err := a.Get(w.keys()...)
	if err != nil {
		return false
	}
	defer taken.Release()
	return values.NDim() <= taken.NDim()
}
