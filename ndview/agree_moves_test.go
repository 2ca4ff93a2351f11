package ndview_test

import (
	"fmt"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// moveSteps make arrays and move their values.
var moveSteps = map[string]step{
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
	// Element i is i*k modulo m, and low.
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
	"copy": {
		make: func(p *maker) string { name, _ := p.any(); return name + " " + p.of("C", "F", "A", "K") },
		run:  func(w *words) (*ndview.NDBuffer, error) { return w.array().Copy(w.order()) },
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

// realSize is the size of the real numbers that elements are made of.
func realSize(dtype ndview.DType) int64 {
	if dtype.Kind() == ndview.KindComplex {
		return dtype.Size() / 2
	}
	return dtype.Size()
}

// literal is an array of values, two for each complex number, which are converted
// on the CPU.
func literal(dev arrowbuf.Device, dtype ndview.DType, shape []int64, values []float64) (*ndview.NDBuffer, error) {
	var host *ndview.NDBuffer
	var err error
	if n := int64(len(values)); dtype.Kind() == ndview.KindComplex {
		host, err = ndview.FromHost(arrowbuf.CPU(), ndview.Complex128, slice[complex128](raw(values...)), n/2)
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

// values are n random elements of a dtype.
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
