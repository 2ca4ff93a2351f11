package layout

import (
	"fmt"
	"slices"
)

// Infer is a shape for n elements in which one extent may be -1: what the
// others leave. Where they leave more than one choice, or the shape has not n
// elements, the error is ErrShape.
func Infer(shape []int64, n int64) ([]int64, error) {
	out, open := slices.Clone(shape), -1
	for i, d := range shape {
		switch {
		case d < -1:
			return nil, fmt.Errorf("shape %v has a negative extent other than -1: %w", shape, ErrShape)
		case d == -1 && open >= 0:
			return nil, fmt.Errorf("shape %v has more than one extent of -1: %w", shape, ErrShape)
		case d == -1:
			open, out[i] = i, 1
		}
	}
	known, err := Bytes(1, out)
	if err != nil {
		return nil, err
	}
	if open >= 0 && known > 0 && n%known == 0 {
		out[open], known = n/known, n
	} else if open >= 0 {
		known = -1
	}
	if known != n {
		return nil, fmt.Errorf("reshaping %d elements to %v: %w", n, shape, ErrShape)
	}
	return out, nil
}

// Reshape gives r another shape of as many elements, without moving any: the
// elements in C order, or in Fortran order, are the same before and after. It
// answers false where no strides do that, and a copy is due.
func (r Run) Reshape(shape []int64, fortran bool) (Run, bool) {
	out := Run{Offset: r.Offset, Size: r.Size, Shape: shape}
	switch {
	case fortran && IsF(r.Size, r.Shape, r.Strides):
		out.Strides = F(r.Size, shape)
		return out, true
	case !fortran && IsC(r.Size, r.Shape, r.Strides):
		out.Strides = C(r.Size, shape)
		return out, true
	}
	var from, by []int64 // r without axes of extent 1
	for i, d := range r.Shape {
		if d != 1 {
			from, by = append(from, d), append(by, r.Strides[i])
		}
	}
	// Cut both shapes into the smallest groups of axes that hold as many elements.
	// The old axes of a group must be one run, which the new ones then cut anew.
	out.Strides = make([]int64, 0, len(shape))
	for i, j := 0, 0; i < len(from); {
		old, new := i+1, j+1
		for a, b := from[i], shape[j]; a != b; {
			if a < b {
				a *= from[old]
				old++
			} else {
				b *= shape[new]
				new++
			}
		}
		for k := i + 1; k < old; k++ {
			if fortran && by[k] != by[k-1]*from[k-1] || !fortran && by[k-1] != by[k]*from[k] {
				return Run{}, false
			}
		}
		// A gapless array of "elements" as far apart as those along the fastest axis.
		if fortran {
			out.Strides = append(out.Strides, F(by[i], shape[j:new])...)
		} else {
			out.Strides = append(out.Strides, C(by[old-1], shape[j:new])...)
		}
		i, j = old, new
	}
	// Axes of extent 1 at the end.
	last := len(out.Strides) - 1
	stride := out.Strides[last]
	if fortran {
		stride *= shape[last]
	}
	for len(out.Strides) < len(shape) {
		out.Strides = append(out.Strides, stride)
	}
	return out, true
}

// Retype looks at elements of another size, by NumPy's rule: the last axis,
// whose elements then must lie without gaps, is cut anew. It is ErrShape where
// there is none, or its bytes are no multiple of the new size.
func (r Run) Retype(size int64) (Run, error) {
	out := Run{Offset: r.Offset, Size: size, Shape: slices.Clone(r.Shape), Strides: slices.Clone(r.Strides)}
	if size == r.Size {
		return out, nil
	}
	last := len(r.Shape) - 1
	if last < 0 {
		return Run{}, fmt.Errorf("an element of %d bytes as %d bytes: an array without axes keeps its size: %w", r.Size, size, ErrShape)
	}
	extent, stride := r.Shape[last], r.Strides[last]
	if extent != 1 && stride != r.Size && Product(r.Shape) > 0 {
		return Run{}, fmt.Errorf("elements of %d bytes as %d bytes: the last axis has stride %d, not %d: %w",
			r.Size, size, stride, r.Size, ErrShape)
	}
	if size < r.Size && r.Size%size != 0 || size > r.Size && extent*r.Size%size != 0 {
		return Run{}, fmt.Errorf("elements of %d bytes, %d along the last axis, as elements of %d bytes: they do not divide: %w",
			r.Size, extent, size, ErrShape)
	}
	out.Shape[last], out.Strides[last] = extent*r.Size/size, size
	return out, nil
}
