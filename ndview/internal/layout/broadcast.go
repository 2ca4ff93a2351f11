package layout

import "fmt"

// Broadcast is the shape that arrays of these shapes take together, by NumPy's
// rule: axes are matched from the last, an absent one counts as 1, and 1 takes
// the extent of the others.
func Broadcast(shapes ...[]int64) ([]int64, error) {
	n := 0
	for _, s := range shapes {
		n = max(n, len(s))
	}
	out := make([]int64, n)
	for i := range out {
		out[i] = 1
	}
	for _, s := range shapes {
		for i, d := range s {
			o := &out[n-len(s)+i]
			switch {
			case d == *o || d == 1:
			case *o == 1:
				*o = d
			default:
				return nil, fmt.Errorf("shapes %v do not broadcast: %w", shapes, ErrShape)
			}
		}
	}
	return out, nil
}

// Stretch gives the strides with which an array of one shape is walked as the
// other, to which it broadcasts: 0 along the axes that it repeats.
func Stretch(shape, strides, to []int64) ([]int64, error) {
	skip := len(to) - len(shape)
	if skip < 0 {
		return nil, fmt.Errorf("shape %v does not broadcast to %v: %w", shape, to, ErrShape)
	}
	out := make([]int64, len(to))
	for i, d := range shape {
		switch {
		case d == to[skip+i]:
			out[skip+i] = strides[i]
		case d != 1:
			return nil, fmt.Errorf("shape %v does not broadcast to %v: %w", shape, to, ErrShape)
		}
	}
	return out, nil
}
