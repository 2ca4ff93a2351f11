package ndview_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
)

// viewSteps look at arrays in other ways.
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
		run:  func(w *words) (*ndview.NDBuffer, error) { return w.array().Squeeze() },
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
	// A view of a copy, since no other array may come to have NaNs there.
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

// keys are a random index without arrays.
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

// reshaped is another shape of as many elements.
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
