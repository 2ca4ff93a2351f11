package ndview_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
)

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
