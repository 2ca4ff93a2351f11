package ndview_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
)

// joinSteps join arrays, cut them, and keep their triangles.
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
			places := []int64{p.Int64N(5) - 1, p.Int64N(a.Shape()[axis] + 2)}
			return fmt.Sprint(name, " ", bracketed(places), " ", axis, " ", p.IntN(3))
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

// several are one to three arrays, alike in their shapes or not, and the first.
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
