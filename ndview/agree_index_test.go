package ndview_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
)

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
			if a.NDim() == 0 || a.Size() == 0 { // where NumPy takes any index
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

// nth is one of several arrays; the others are released.
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

// byIndices does the work with an array and the indices that follow it.
func (w *words) byIndices(do func(a, indices *ndview.NDBuffer) (*ndview.NDBuffer, error)) (*ndview.NDBuffer, error) {
	a := w.array()
	indices, err := w.indices()
	if err != nil {
		return nil, err
	}
	defer indices.Release()
	return do(a, indices)
}

// indices are integers, "[0,-1]" or an array's; the caller releases them.
func (w *words) indices() (*ndview.NDBuffer, error) {
	if w.left[0][0] == 'v' {
		a := w.array()
		a.Retain()
		return a, nil
	}
	values := w.ints()
	return ndview.FromHost(w.m.dev, ndview.Int64, values, int64(len(values)))
}

// indexArray are indices of an axis, of an array that has such or not.
func (p *maker) indexArray(extent int64) string {
	name, _ := p.such(func(a *ndview.NDBuffer) bool {
		kind := a.DType().Kind()
		return (kind == ndview.KindInt || kind == ndview.KindUint) && a.Size() < 300 &&
			(a.DType() != ndview.Uint64 || p.every(a, func(x float64) bool { return x >= 0 })) // NumPy's take no uint64
	})
	if name == "" || p.IntN(3) > 0 {
		return p.indices(extent, p.IntN(6))
	}
	return name
}

// arrayKeys are a random index, with arrays among the keys.
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

// setsOf tells whether values have no more axes than what the keys take: NumPy
// refuses some that have.
func (p *maker) setsOf(a *ndview.NDBuffer, keys string, values *ndview.NDBuffer) bool {
	w := &words{m: p.m, left: strings.Fields(keys)}
	taken, err := a.Get(w.keys()...)
	if err != nil {
		return false
	}
	defer taken.Release()
	return values.NDim() <= taken.NDim()
}
