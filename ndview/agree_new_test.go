package ndview_test

import (
	"fmt"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// newSteps make arrays of nothing else.
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
