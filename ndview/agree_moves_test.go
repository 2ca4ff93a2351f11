package ndview_test

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ndview"
)

// moveSteps move the values of arrays.
var moveSteps = map[string]step{
	"copy": {
		make: func(p *maker) string { name, _ := p.any(); return name + " " + p.of("C", "F", "A", "K") },
		run:  func(w *words) (*ndview.NDBuffer, error) { return w.array().Copy(w.order()) },
	},
	// A copy that begins at any byte.
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
	// Bytes 1, 2, 3, ... of a pattern, in rows of a at which a mask is true.
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

// isBytes: what can be packed into bits.
func isBytes(a *ndview.NDBuffer) bool {
	return a.IsContiguous() && (a.DType() == ndview.Bool || a.DType() == ndview.Uint8)
}
